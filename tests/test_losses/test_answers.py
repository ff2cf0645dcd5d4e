"""Losses of every head against plain NumPy loops over what they are about."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

import harness
from tfdistill import distillers, errors, losses, models
from tfdistill.losses import answers

LENGTHS = (5, 3, 6, 2)
TOKENS, CLASSES = 6, 3
MASK = (np.arange(TOKENS) < np.array(LENGTHS)[:, None]).astype(np.int32)
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0], np.float32)
# The second row of labels is there for tokens 1 and 2 only; padding never has one.
TOKEN_LABELS = np.array(
    [
        [-100, 2, 0, -100, 1, -100],
        [-100, 1, 1, -100, -100, -100],
        [0, -100, 2, 2, -100, 1],
        [-100, 0, -100, -100, -100, -100],
    ],
    np.int32,
)
SPANS = np.array([[1, 3], [0, 0], [5, 5], [1, 1]], np.int32)
SEVERAL = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], np.float32)
ONE = np.array([2, 0, 1, 1], np.int32)
LABELS = {"sequence": ONE, "token": TOKEN_LABELS, "span": SPANS, "multi_label": SEVERAL}
SHAPES = {
    "sequence": (4, CLASSES),
    "multi_label": (4, CLASSES),
    "token": (4, TOKENS, CLASSES),
    "span": (4, TOKENS, 2),
}
# float32 sums of a few numbers against float64.
RELATIVE = 1e-5


def logits_of(head, seed):
    return np.random.default_rng(seed).normal(0, 2, SHAPES[head])


def batch_of(head, student=None, *, weights=WEIGHTS, labels="own"):
    labels = LABELS[head] if isinstance(labels, str) else labels
    return losses.StepInputs(
        teacher={},
        student={} if student is None else {"logits": tf.constant(student, tf.float32)},
        labels=None if labels is None else tf.constant(labels),
        mask=tf.constant(MASK * weights[:, None], tf.float32),
        sample_weight=tf.constant(weights),
        features={"attention_mask": tf.constant(MASK)},
    )


def softmax(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def sigmoid(logit):
    return 1 / (1 + np.exp(-logit))


def distributions(head, teacher, student, t, labelled=True):
    """Yields (row weight, teacher's distribution, student's) of every row that counts, and how
    often it counts within its example."""
    for b, length in enumerate(LENGTHS):
        if head == "sequence":
            yield WEIGHTS[b], softmax(teacher[b] / t), softmax(student[b] / t)
        elif head == "multi_label":
            for c in range(CLASSES):
                p, q = sigmoid(teacher[b, c] / t), sigmoid(student[b, c] / t)
                yield WEIGHTS[b], np.array([p, 1 - p]), np.array([q, 1 - q])
        elif head == "token":
            for token in range(length):
                if not labelled or TOKEN_LABELS[b, token] != -100:
                    yield WEIGHTS[b], softmax(teacher[b, token] / t), softmax(student[b, token] / t)
        else:
            for side in (0, 1):
                p = softmax(teacher[b, :length, side] / t)
                yield WEIGHTS[b], p, softmax(student[b, :length, side] / t)


def mean_of(rows):
    rows = list(rows)
    return sum(w * value for w, value in rows) / sum(w for w, _ in rows)


def cross_entropy(p, q):
    return -(p * np.log(q)).sum()


@pytest.mark.parametrize("head", answers.HEADS)
@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_soft_losses_are_the_formulas(head, temperature):
    teacher, student = logits_of(head, 1), logits_of(head, 2)
    rows = list(distributions(head, teacher, student, temperature))
    crossed = mean_of((w, cross_entropy(p, q)) for w, p, q in rows)
    entropy = mean_of((w, cross_entropy(p, p)) for w, p, q in rows)
    options = {"head": head, "temperature": temperature}
    batch = batch_of(head)
    assert float(answers.soft_loss(teacher, student, batch, **options)) == pytest.approx(
        crossed, rel=RELATIVE
    )
    divergence = answers.soft_loss(
        teacher, student, batch, objective="kl_divergence", scale_by_t2=True, **options
    )
    expected = (crossed - entropy) * temperature**2
    assert float(divergence) == harness.divergences(expected, temperature)
    same = answers.soft_loss(teacher, teacher, batch, objective="kl_divergence", **options)
    assert float(same) == pytest.approx(0.0, abs=1e-6)  # rounding of a few float32 terms


def squares(head, teacher, student):
    """Yields (weight, square) of every number that counts."""
    for b, length in enumerate(LENGTHS):
        if head in ("sequence", "multi_label"):
            yield from ((WEIGHTS[b], x) for x in (teacher[b] - student[b]) ** 2)
        elif head == "token":
            for token in np.flatnonzero(TOKEN_LABELS[b] != -100):
                yield from ((WEIGHTS[b], x) for x in (teacher[b, token] - student[b, token]) ** 2)
        else:
            yield WEIGHTS[b], ((teacher[b, :length] - student[b, :length]) ** 2).mean()


@pytest.mark.parametrize("head", answers.HEADS)
def test_squared_errors_are_the_formulas(head):
    teacher, student = logits_of(head, 1), logits_of(head, 2)
    received = answers.soft_loss(
        teacher, student, batch_of(head), head=head, objective="logit_mse", temperature=9.0
    )
    assert float(received) == pytest.approx(mean_of(squares(head, teacher, student)), rel=RELATIVE)


@pytest.mark.parametrize("head", answers.HEADS)
def test_the_reference_divides_by_the_size_of_the_logits(head):
    teacher, student = logits_of(head, 1), logits_of(head, 2)
    rows = distributions(head, teacher, student, 1.0)
    total = sum(w * cross_entropy(p, q) for w, p, q in rows)
    received = answers.soft_loss(teacher, student, batch_of(head), head=head, reduction="reference")
    assert float(received) == pytest.approx(total / teacher.size, rel=RELATIVE)


def test_without_labels_every_real_token_teaches():
    teacher, student = logits_of("token", 1), logits_of("token", 2)
    rows = distributions("token", teacher, student, 1.0, labelled=False)
    received = answers.soft_loss(teacher, student, batch_of("token", labels=None), head="token")
    expected = mean_of((w, cross_entropy(p, q)) for w, p, q in rows)
    assert float(received) == pytest.approx(expected, rel=RELATIVE)


@pytest.mark.parametrize("head", answers.HEADS)
def test_gold_losses_are_the_formulas(head):
    student = logits_of(head, 2)
    rows = []
    for b, length in enumerate(LENGTHS):
        if head == "sequence":
            rows.append((WEIGHTS[b], -np.log(softmax(student[b])[ONE[b]])))
        elif head == "multi_label":
            for c in range(CLASSES):
                right = sigmoid(student[b, c]) if SEVERAL[b, c] else 1 - sigmoid(student[b, c])
                rows.append((WEIGHTS[b], -np.log(right)))
        elif head == "token":
            for token in np.flatnonzero(TOKEN_LABELS[b] != -100):
                right = softmax(student[b, token])[TOKEN_LABELS[b, token]]
                rows.append((WEIGHTS[b], -np.log(right)))
        else:
            for side in (0, 1):
                right = softmax(student[b, :length, side])[SPANS[b, side]]
                rows.append((WEIGHTS[b], -np.log(right)))
    received = losses.gold_loss(batch_of(head, student), head)
    assert float(received) == pytest.approx(mean_of(rows), rel=RELATIVE)


def losses_of(head, teacher, student):
    batch = batch_of(head, student)
    batch.student["logits"] = student
    yield losses.gold_loss(batch, head)
    for objective in answers.OBJECTIVES:
        yield answers.soft_loss(teacher, student, batch, head=head, objective=objective)


@pytest.mark.parametrize("head", ["token", "span"])
def test_padding_neither_counts_nor_learns(head):
    teacher, student = logits_of(head, 1), logits_of(head, 2)
    other = np.where(MASK[..., None] == 1, student, 1e4)
    odd = np.where(MASK[..., None] == 1, teacher, -1e4)
    for variable, values in ((tf.Variable(student), None), (tf.Variable(other), "noise")):
        with tf.GradientTape(persistent=True) as tape:
            values_of = list(losses_of(head, odd if values else teacher, variable))
        if values is None:
            expected = [float(loss) for loss in values_of]
        assert [float(loss) for loss in values_of] == pytest.approx(expected, rel=RELATIVE)
        for loss in values_of:
            gradient = tape.gradient(loss, variable).numpy()
            assert np.isfinite(gradient).all()
            assert (gradient[MASK == 0] == 0).all()
            assert np.abs(gradient[:3][MASK[:3] == 1]).max() > 1e-3
            assert (gradient[3] == 0).all()  # its sample weight is 0


@pytest.mark.parametrize("head", answers.HEADS)
@pytest.mark.parametrize("size", [1e4, 1e20])
def test_extreme_logits_give_finite_losses_and_gradients(head, size):
    teacher, student = size * logits_of(head, 1), tf.Variable(size * logits_of(head, 2))
    with tf.GradientTape(persistent=True) as tape:
        values_of = list(losses_of(head, teacher, student))
    for loss, objective in zip(values_of, ("gold", *answers.OBJECTIVES), strict=True):
        if size > 1e19 and objective == "logit_mse":
            continue  # its square leaves float32
        assert np.isfinite(loss), objective
        assert np.isfinite(tape.gradient(loss, student)).all(), objective


@pytest.mark.parametrize("head", ["token", "span", "multi_label"])
def test_labels_of_another_head_are_refused(head):
    wrong = ONE if head != "span" else TOKEN_LABELS
    with pytest.raises(errors.ShapeError, match=rf"labels of a {head} head: expected shape"):
        losses.gold_loss(batch_of(head, logits_of(head, 1), labels=wrong), head)


# Whole distillers.


def model_of(head, config, seed):
    build = {
        "sequence": lambda: models.build_classifier(config, CLASSES),
        "multi_label": lambda: models.build_classifier(config, CLASSES),
        "token": lambda: models.build_token_classifier(config, CLASSES),
        "span": lambda: models.build_span_classifier(config),
    }
    return toys.randomise(build[head](), seed)


FEATURES = toys.features(LENGTHS)


@pytest.fixture(scope="module", params=["token", "span", "multi_label"])
def pair(request):
    head = request.param
    return (
        head,
        model_of(head, toys.SHALLOW_TEACHER, 1),
        model_of(head, toys.SHALLOW_STUDENT, 2),
    )


def argument(head):
    return {"head": "multi_label"} if head == "multi_label" else {}


def run_step(distiller, head):
    distiller.compile("sgd", metrics=[metric_of(head)], run_eagerly=True)
    data = (FEATURES, tf.constant(LABELS[head]), tf.constant(WEIGHTS))
    return {name: float(value) for name, value in distiller.test_step(data).items()}


def metric_of(head):
    if head == "multi_label":
        return keras.metrics.BinaryAccuracy(threshold=0.0, name="right")
    return keras.metrics.SparseCategoricalAccuracy(name="right")


def test_a_trainer_learns_the_labels_of_its_head(pair):
    head, _, student = pair
    logs = run_step(distillers.LabelTrainer(student, **argument(head)), head)
    batch = batch_of(head, student(FEATURES, training=False))
    assert logs["label"] == pytest.approx(float(losses.gold_loss(batch, head)), rel=RELATIVE)
    assert 0 <= logs["right"] <= 1


def test_a_prediction_stage_compares_the_answers_of_its_head(pair):
    head, teacher, student = pair
    distiller = distillers.TinyBertDistiller(
        teacher, student, stage="prediction", temperature=2.0, **argument(head)
    )
    logits = teacher(FEATURES, training=False)
    ours = student(FEATURES, training=False)
    expected = answers.soft_loss(logits, ours, batch_of(head), head=head, temperature=2.0)
    assert run_step(distiller, head)["logits"] == pytest.approx(float(expected), rel=RELATIVE)


def test_a_head_that_the_model_does_not_have_is_refused(pair):
    head, teacher, student = pair
    wrong = "token" if head == "span" else "span"
    with pytest.raises(errors.ShapeError, match=f"head '{wrong}': expected a model with"):
        distillers.LabelTrainer(student, head=wrong)
    with pytest.raises(errors.ConfigError):
        distillers.LabelTrainer(student, head="multilabel")
    other = models.build_span_classifier if head != "span" else models.build_encoder
    with pytest.raises(errors.ShapeError):
        distillers.TinyBertDistiller(teacher, other(toys.SHALLOW_STUDENT), stage="prediction")


CLASS_WEIGHTS = np.array([0.5, 2.0, 3.0], np.float32)


def test_class_weights_multiply_the_sample_weights_of_gold_labels():
    logits = logits_of("sequence", 3)
    total = mass = 0.0
    for row, label, weight in zip(logits, ONE, WEIGHTS, strict=True):
        weight = float(weight * CLASS_WEIGHTS[label])
        total += -weight * np.log(softmax(row)[label])
        mass += weight
    batch = batch_of("sequence", logits)
    loss = losses.gold_loss(batch, "sequence", CLASS_WEIGHTS)
    np.testing.assert_allclose(loss, total / mass, rtol=RELATIVE)
    even = losses.gold_loss(batch, "sequence", np.full(3, 4.0, np.float32))
    np.testing.assert_allclose(even, losses.gold_loss(batch, "sequence"), rtol=RELATIVE)


def test_balanced_weights_are_those_of_scikit_learn():
    import sklearn.utils.class_weight

    labels = np.array([0] * 90 + [1] * 7 + [3] * 3)
    weights = losses.balanced_weights(labels, 5)
    classes = np.array([0, 1, 3])
    expected = sklearn.utils.class_weight.compute_class_weight(
        "balanced", classes=classes, y=labels
    )
    np.testing.assert_allclose(weights[classes], expected, rtol=1e-6)
    assert weights[[2, 4]].tolist() == [1.0, 1.0] and weights.dtype == np.float32
    np.testing.assert_allclose(weights[labels].sum(), len(labels), rtol=1e-6)


def test_class_weights_change_the_label_term_alone():
    teacher, student = toys.classifier(toys.TEACHER, seed=1), toys.classifier(toys.STUDENT, seed=2)
    features, labels = toys.features((5, 3, 6, 2)), tf.constant([0, 1, 2, 0])
    values = {}
    for weights in (None, CLASS_WEIGHTS):
        distiller = distillers.LogitDistiller(teacher, student, alpha=0.5)
        distiller.compile(keras.optimizers.SGD(0.0))
        if weights is not None:
            distiller.weigh_classes(weights)
        values[weights is None] = distiller.test_step((features, labels))
    plain, weighted = values[True], values[False]
    soft = [name for name in plain if name not in ("loss", "label")]
    assert soft
    for name in soft:
        np.testing.assert_array_equal(plain[name], weighted[name])
    assert abs(float(plain["label"] - weighted["label"])) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("weights", [[1.0, 2.0], [1.0, 2.0, 0.0], [1.0, 2.0, np.nan]])
def test_unusable_class_weights_are_refused(weights):
    trainer = distillers.LabelTrainer(toys.classifier(toys.STUDENT))
    with pytest.raises(errors.ShapeError, match="3 numbers above 0"):
        trainer.weigh_classes(np.array(weights))
    several = distillers.LabelTrainer(toys.classifier(toys.STUDENT), head="multi_label")
    with pytest.raises(errors.ConfigError, match="one label a text"):
        several.weigh_classes(CLASS_WEIGHTS)
