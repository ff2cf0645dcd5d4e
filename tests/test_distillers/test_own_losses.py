"""A loss of one's own: one class with one method, beside any other and in every way to train."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys
from distiller_checks import evaluated

from tfdistill import distillers, errors, losses, methods, models

TEACHER, STUDENT = toys.TEACHER, toys.STUDENT
FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
WEIGHTS = tf.constant([1.0, 0.0, 3.0, 0.5])


class CentredMSE(losses.Loss):
    """Compares logits up to a constant."""

    def call(self, teacher, student):
        centred = [z - tf.reduce_mean(z, axis=-1, keepdims=True) for z in (teacher, student)]
        return tf.reduce_mean(tf.math.squared_difference(*centred), axis=-1)


class Norms(losses.LayerLoss):
    """Compares the lengths of states, token by token."""

    def call(self, teacher, student):
        return tf.abs(tf.norm(teacher, axis=-1) - tf.norm(student, axis=-1))


def test_values_of_examples_and_tokens_are_weighed_means(teacher, student):
    users_losses = {"centred": CentredMSE(), "norms": Norms(layers=[[2, 0]], weight=0.5)}
    values = evaluated(
        distillers.Distiller(teacher, student, users_losses), FEATURES, LABELS, WEIGHTS
    )
    z_t, z_s = (model(FEATURES).numpy() for model in (teacher, student))
    total = count = 0.0
    for t, s, weight in zip(z_t, z_s, WEIGHTS.numpy(), strict=True):
        centred = (t - t.mean()) - (s - s.mean())
        total += weight * float((centred**2).mean())
        count += weight
    assert values["centred"] == pytest.approx(total / count, rel=1e-5)
    h_t = models.taps(teacher)(FEATURES)["hidden_states"][2].numpy()
    h_s = models.taps(student)(FEATURES)["hidden_states"][0].numpy()
    mask = FEATURES["attention_mask"].numpy() * WEIGHTS.numpy()[:, None]
    lengths = np.abs(np.linalg.norm(h_t, axis=-1) - np.linalg.norm(h_s, axis=-1))
    assert values["norms"] == pytest.approx((lengths * mask).sum() / mask.sum(), rel=1e-5)
    assert values["loss"] == pytest.approx(values["centred"] + 0.5 * values["norms"], rel=1e-5)


@pytest.mark.slow
def test_it_mixes_with_the_losses_of_a_method_and_learns(teacher, student):
    mixed = {**methods.tinybert("intermediate"), "centred": CentredMSE(), **methods.labels()}
    distiller = distillers.Distiller(teacher, student, mixed)
    distiller.compile(keras.optimizers.Adam(0.01))
    data = tf.data.Dataset.from_tensors((FEATURES, LABELS, WEIGHTS)).repeat(8)
    first = distiller.fit(data.take(1), verbose=0).history
    last = distiller.fit(data, verbose=0).history
    assert set(first) == {"loss", "attention", "embedding", "hidden", "centred", "label"}
    assert last["loss"][0] < first["loss"][0]


def test_a_distiller_works_on_copies(teacher, student, built):
    shared = methods.tinybert("intermediate")
    one = distillers.Distiller(teacher, student, shared)
    wide = built(toys.STUDENT.replace(hidden_size=12))
    two = distillers.Distiller(teacher, wide, shared)
    assert [layer.kernel.shape[0] for layer in (one.projections[0], two.projections[0])] == [8, 12]
    assert not shared["hidden"].projections


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [pytest.param("float32", marks=pytest.mark.thorough), "mixed_bfloat16"]
)
def test_it_trains_in_other_precisions_and_with_accumulation(teacher, student, policy):
    student = models.with_policy(student, policy)
    distiller = distillers.Distiller(teacher, student, {"centred": CentredMSE()})
    distiller.compile(keras.optimizers.SGD(0.1), gradient_accumulation=2)
    before = [array.copy() for array in student.get_weights()]
    data = tf.data.Dataset.from_tensors((FEATURES, LABELS))
    distiller.fit(data, verbose=0)
    toys.check_equal(before, student.get_weights())
    distiller.fit(data, verbose=0)
    assert any((a != b).any() for a, b in zip(before, student.get_weights(), strict=True))


class Shapeless(losses.Loss):
    def call(self, teacher, student):
        return tf.reduce_mean(tf.math.squared_difference(teacher, student))


class TooMany(losses.Loss):
    def call(self, teacher, student):
        return tf.concat([teacher[:, 0], student[:, 0]], axis=0)


class NotFinite(losses.Loss):
    def call(self, teacher, student):
        return tf.math.log(-tf.reduce_sum(tf.square(teacher - student), axis=-1))


class Padded(losses.LayerLoss):
    """Averages over all tokens, padding included."""

    def call(self, teacher, student):
        return tf.reduce_mean(tf.norm(teacher, axis=-1) - tf.norm(student, axis=-1), axis=1)


class WithDense(losses.Loss):
    """Maps the student's logits by a layer of its own, which no distiller trains."""

    def __init__(self, **options):
        super().__init__()
        self.dense = keras.layers.Dense(toys.NUM_LABELS, name="mapping", **options)

    def call(self, teacher, student):
        return tf.reduce_mean(tf.math.squared_difference(teacher, self.dense(student)), axis=-1)


class WithDenses(losses.Loss):
    """Has the layer in a list."""

    def __init__(self):
        super().__init__()
        self.denses = [keras.layers.Dense(toys.NUM_LABELS, name="mapping")]

    def call(self, teacher, student):
        mapped = self.denses[0](student)
        return tf.reduce_mean(tf.math.squared_difference(teacher, mapped), axis=-1)


class Disagreement(losses.Loss):
    """Counts, which has no gradient."""

    def call(self, teacher, student):
        return tf.cast(tf.argmax(teacher, axis=-1) != tf.argmax(student, axis=-1), tf.float32)


class OfNumPy(losses.Loss):
    def call(self, teacher, student):
        return np.square(np.asarray(teacher) - np.asarray(student)).mean(axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "fact"),
    [
        (WithDense(), "received mapping/bias:0, mapping/kernel:0, which would not be trained"),
        (WithDenses(), "received mapping/bias:0, mapping/kernel:0, which would not be trained"),
        (Disagreement(), "a gradient for the student on the first batch, received one without"),
        (OfNumPy(), "a gradient for the student on the first batch, received one without"),
        (Shapeless(), r"\(batch,\), or for each token"),
        (TooMany(), "as many values as examples"),
        (NotFinite(), "a finite number"),
        (Padded(layers=[[2, 0]]), "however far the batch is padded"),
    ],
)
def test_a_loss_that_makes_no_sense_is_refused_before_the_first_step(teacher, student, loss, fact):
    distiller = distillers.Distiller(teacher, student, {"mine": loss, **methods.labels()})
    distiller.compile("sgd")
    before = [array.copy() for array in student.get_weights()]
    with pytest.raises((errors.TfdistillError, tf.errors.InvalidArgumentError), match=fact):
        distiller.fit(tf.data.Dataset.from_tensors((FEATURES, LABELS)), verbose=0)
    toys.check_equal(before, student.get_weights())


class Doubled(losses.Loss):
    """In float64."""

    def compute(self, batch):
        values = [
            tf.cast(outputs["logits"], tf.float64) for outputs in (batch.teacher, batch.student)
        ]
        return tf.reduce_mean(tf.math.squared_difference(*values))


class FixedMaps(losses.Loss):
    """Fixed layers in a list and in a model, and the teacher's layers run once more."""

    def __init__(self, teacher):
        super().__init__()
        fixed = keras.layers.Dense(toys.NUM_LABELS, trainable=False)
        self.maps = [fixed, keras.Sequential([keras.layers.Dense(3, trainable=False)])]
        self.classifier = teacher.get_layer("classifier")

    def call(self, teacher, student):
        for layer in self.maps:
            teacher, student = layer(teacher), layer(student)
        again = self.classifier(tf.pad(student, [[0, 0], [0, toys.TEACHER.hidden_size - 3]]))
        values = tf.math.squared_difference(teacher, student) + tf.square(again)
        return tf.reduce_mean(values, axis=-1)


def test_fixed_layers_and_other_types_are_taken_and_what_is_off_is_not_judged(teacher, student):
    frozen = student.get_layer("word_embeddings")
    frozen.trainable = False
    users_losses = {
        "fixed": WithDense(trainable=False),
        "maps": FixedMaps(teacher),
        "double": Doubled(),
    }
    off = Disagreement(weight=0.0)
    off.tap = None
    distiller = distillers.Distiller(teacher, student, {**users_losses, "off": off})
    distiller.compile("sgd", run_eagerly=True)
    before = [array.copy() for array in student.get_weights()]
    distiller.fit(tf.data.Dataset.from_tensors((FEATURES, LABELS)), verbose=0)
    assert any((a != b).any() for a, b in zip(before, student.get_weights(), strict=True))


class LabelledTokens(losses.Loss):
    """Means over the tokens that have a label, as the labels alone say."""

    tap = None

    def compute(self, batch):
        counts = tf.cast(tf.not_equal(batch.labels, -100), tf.float32)  # (batch, tokens)
        rows = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.maximum(batch.labels, 0), batch.student["logits"]
        )
        return tf.reduce_sum(rows * counts) / tf.reduce_sum(counts)


class Ends(losses.Loss):
    """The logits at the first and the last token of an answer."""

    tap = None

    def compute(self, batch):
        rows = tf.transpose(batch.student["logits"], [0, 2, 1])  # (batch, 2, tokens)
        ends = tf.gather(rows, batch.labels, axis=2, batch_dims=2)
        return tf.reduce_mean(tf.square(ends))


class Summed(losses.Loss):
    """Sums over all tokens, padding included."""

    def call(self, teacher, student):
        return tf.reduce_sum(tf.square(student), axis=[1, 2])


TAGS = [[1, -100, 2, -100, -100, -100], [0, 1, -100, -100, -100, -100], [2] * 6, [-100, 0] * 3]
SPANS = [[1, 3], [0, 2], [5, 5], [2, 3]]
OF_TOKENS = [
    (lambda config: models.build_token_classifier(config, 3), TAGS, LabelledTokens()),
    (models.build_span_classifier, SPANS, Ends()),
]


@pytest.mark.parametrize(("build", "labels", "loss"), OF_TOKENS, ids=["tags", "spans"])
def test_losses_of_tokens_are_judged_with_answers_that_came_along(build, labels, loss):
    teacher = toys.randomise(build(toys.SHALLOW_TEACHER), seed=1)
    features = {**FEATURES, "teacher_logits": teacher(FEATURES)}
    data = tf.data.Dataset.from_tensors((features, tf.constant(labels)))
    student = toys.randomise(build(toys.SHALLOW_STUDENT), seed=2)
    distiller = distillers.Distiller(teacher, student, {"one": loss, "centred": CentredMSE()})
    distiller.compile("sgd", run_eagerly=True)
    before = [array.copy() for array in student.get_weights()]
    distiller.fit(data, verbose=0)
    assert any((a != b).any() for a, b in zip(before, student.get_weights(), strict=True))
    distiller = distillers.Distiller(teacher, student, {"one": loss, "sum": Summed()})
    distiller.compile("sgd", run_eagerly=True)
    with pytest.raises(errors.ConfigError, match=r"'sum'.*however far the batch is padded"):
        distiller.fit(data, verbose=0)


def test_layers_cannot_be_compared_with_answers_alone(student):
    def answer(features):
        return tf.zeros((4, 3))

    with pytest.raises(errors.ShapeError):
        distillers.Distiller(answer, student, {"norms": Norms()})


@pytest.mark.parametrize(
    "users_losses", [{}, None, [CentredMSE()], {"x": CentredMSE}, {"loss": CentredMSE()}]
)
def test_losses_are_a_dict_of_named_objects(teacher, student, users_losses):
    with pytest.raises(errors.ConfigError, match="loss"):
        distillers.Distiller(teacher, student, users_losses)


def test_a_recipe_names_it_by_its_import_path(teacher, student, tmp_path, monkeypatch):
    (tmp_path / "my_losses.py").write_text(
        "import tensorflow as tf\nfrom tfdistill import losses\n\n"
        "class Absolute(losses.Loss):\n"
        "    def __init__(self, power=1.0):\n"
        "        super().__init__()\n"
        "        self.power = power\n\n"
        "    def call(self, teacher, student):\n"
        "        return tf.reduce_mean(tf.abs(teacher - student) ** self.power, axis=-1)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    described = {"mine": {"loss": "my_losses:Absolute", "power": 2.0, "weight": 3}}
    (loss,) = losses.build_losses(described).values()
    assert (type(loss).__name__, loss.power, loss.weight) == ("Absolute", 2.0, 3.0)
    squares = losses.build_losses({"squares": {"loss": "LogitMSE"}})
    values = evaluated(
        distillers.Distiller(teacher, student, {"mine": loss, **squares}), FEATURES, LABELS
    )
    assert values["mine"] == pytest.approx(values["squares"], rel=1e-5)
    assert losses.build_losses(described, import_classes=False) == {}
    with pytest.raises(errors.ConfigError, match="Did you mean 'power'"):
        losses.build_losses({"mine": {"loss": "my_losses:Absolute", "powr": 2.0}})


class Misspelt(losses.Loss):
    tap = "hiden_states"


@pytest.mark.parametrize(
    ("make", "fact"),
    [
        (lambda t, s: (t, s, Misspelt()), "Did you mean 'hidden_states'"),
        (lambda t, s: (None, s, CentredMSE()), "teacher: expected one with the output 'logits'"),
        (lambda t, s: (None, s, losses.KLDivergence()), "expected a teacher, received none"),
        (lambda t, s: (None, s, losses.HiddenStateMSE()), "layers to compare, received none"),
        (
            lambda t, s: (t, models.build_encoder(toys.STUDENT), CentredMSE()),
            "student: expected one with the output 'logits'",
        ),
        (lambda t, s: (t, s, CentredMSE(weight=-1.0)), "weight of loss 'mine'"),
        (lambda t, s: (t, s, CentredMSE(weight=float("nan"))), "weight of loss 'mine'"),
    ],
)
def test_what_the_models_do_not_give_is_refused_before_training(teacher, student, make, fact):
    *pair, loss = make(teacher, student)
    with pytest.raises(errors.TfdistillError, match=fact):
        distillers.Distiller(*pair, {"mine": loss}).compile("sgd")
