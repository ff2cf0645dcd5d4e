"""Multipliers of the learning rate: what they multiply, what they freeze, what is refused."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, errors, training

FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
MULTIPLIERS = [("layer_0_query", 3.0), ("layer_0_*", 0.3), ("*embeddings*", 0.0)]
EPSILON = 1e-6


@pytest.fixture
def trainer(student):
    def make(optimizer, multipliers=None, **options):
        distiller = distillers.LabelTrainer(student)
        options = {"run_eagerly": True, **options}
        distiller.compile(optimizer, lr_multipliers=multipliers, **options)
        return distiller

    return make


def rate_of(variable):
    layer = variable.name.split("/")[0]
    if layer == "layer_0_query":
        return 3.0
    return 0.3 if layer.startswith("layer_0_") else 0.0 if "embeddings" in layer else 1.0


def gradients(student):
    """The gradient of each variable, in float64."""
    with tf.GradientTape() as tape:
        logits = student(FEATURES, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, logits)
        loss = tf.reduce_mean(losses)
    values = tape.gradient(loss, student.trainable_variables)
    return [tf.convert_to_tensor(gradient).numpy().astype(np.float64) for gradient in values]


def decays(name):
    return not ("layer_norm" in name or "bias" in name)


def adamw_step(name, weights, gradient, rate, decay=0.1):
    """The first step of AdamW: the corrected moments are the gradient and its square."""
    m, v = 0.1 * gradient, 0.001 * gradient**2
    decayed = weights - rate * decay * weights if decays(name) else weights
    return decayed - rate * np.sqrt(0.001) / 0.1 * m / (np.sqrt(v) + EPSILON)


def lamb_step(name, weights, gradient, rate, decay=0.1):
    update = gradient / (np.abs(gradient) + EPSILON)
    if not decays(name):
        return weights - rate * update
    update = update + decay * weights
    return weights - rate * np.linalg.norm(weights) / np.linalg.norm(update) * update


@pytest.mark.parametrize(
    ("build", "step"), [(training.adamw, adamw_step), (training.lamb, lamb_step)]
)
def test_a_rate_multiplies_the_learning_rate_of_its_layer(trainer, student, build, step):
    distiller = trainer(build(0.01, weight_decay=0.1, clip="none"), MULTIPLIERS)
    before = [variable.numpy() for variable in student.trainable_variables]
    slope = gradients(student)
    distiller.train_step((FEATURES, LABELS))
    rates = set()
    for variable, old, gradient in zip(student.trainable_variables, before, slope, strict=True):
        rate = rate_of(variable)
        rates.add(rate)
        if rate == 0:
            np.testing.assert_array_equal(variable.numpy(), old, err_msg=variable.name)
            continue
        expected = step(variable.name, old.astype(np.float64), gradient, rate * 0.01)
        # Weights of size 1 keep steps of 1e-3 to 4 digits; gradients near epsilon to as many.
        np.testing.assert_allclose(variable, expected, rtol=0, atol=2e-6, err_msg=variable.name)
        unscaled = step(variable.name, old.astype(np.float64), gradient, 0.01)
        differs = np.abs(unscaled - expected).max() > 1e-4
        assert differs or rate == 1 or "key/bias" in variable.name  # which has no gradient
    assert rates == {0.0, 0.3, 1.0, 3.0}


def test_in_a_graph_that_is_traced_once_the_rates_are_the_same(trainer, student, monkeypatch):
    before = student.get_weights()
    values, calls, step = [], [], distillers.Distiller.train_step
    monkeypatch.setattr(
        distillers.Distiller, "train_step", lambda *arguments: calls.append(1) or step(*arguments)
    )
    for eagerly in (True, False):
        student.set_weights(before)
        distiller = trainer(training.adamw(0.05), MULTIPLIERS, run_eagerly=eagerly)
        data = tf.data.Dataset.from_tensors((FEATURES, LABELS)).repeat(3)
        distiller.fit(data, verbose=0)
        values.append(student.get_weights())
    for eager, traced in zip(*values, strict=True):
        # Three steps of float32, in which Adam enlarges what rounds differently.
        np.testing.assert_allclose(traced, eager, rtol=1e-4, atol=5e-5)
    assert len(calls) == 3 + 1  # the optimizer's moments are no reason to trace again


@pytest.mark.parametrize("clip", ["per_tensor", "global"])
def test_the_rows_of_words_are_learnt_as_a_dense_gradient_would(
    trainer, student, monkeypatch, clip
):
    """Of tokens that occur twice, too."""
    start = student.get_weights()
    texts = [toys.features(lengths, seed=seed) for seed, lengths in enumerate([(5, 3), (2, 6)])]
    table = student.get_layer("word_embeddings").weights[0]
    learnt = []
    for by_row in (True, False):
        monkeypatch.setattr(training.optimizers._AdamW, "takes_rows", by_row)
        student.set_weights(start)
        optimizer = training.adamw(0.02, clip=clip, clip_norm=0.05)
        distiller = trainer(optimizer)
        for _ in range(2):
            for features in texts:
                distiller.train_step((features, LABELS[:2]))
        learnt.append(student.get_weights())
        if by_row:
            reached = optimizer.get_slot(table, "reached").numpy()
            ids = np.concatenate([features["input_ids"].numpy().ravel() for features in texts])
            assert np.flatnonzero(reached).tolist() == sorted({*ids.tolist()})
            assert len({*ids.tolist()}) < np.count_nonzero(ids)
    for rows, dense in zip(*learnt, strict=True):
        np.testing.assert_allclose(rows, dense, rtol=1e-4, atol=1e-5)
    assert (learnt[0][0] != start[0]).any()


def test_rate_zero_keeps_every_bit_also_from_decay(trainer, student):
    distiller = trainer(training.adamw(0.5, weight_decay=0.5), [("layer_0_*", 1.0), ("*", 0.0)])
    before = [variable.numpy() for variable in student.variables]
    for _ in range(3):
        distiller.train_step((FEATURES, LABELS))
    for variable, old in zip(student.variables, before, strict=True):
        same = bool((variable.numpy() == old).all())
        assert same != variable.name.startswith("layer_0_"), variable.name


def test_frozen_layers_do_not_count_in_the_global_norm(trainer, student):
    norms = {
        variable.name: np.linalg.norm(gradient)
        for variable, gradient in zip(student.trainable_variables, gradients(student), strict=True)
    }
    learnt = {name: norm for name, norm in norms.items() if name.startswith("classifier")}
    clip = 0.5 * np.linalg.norm(list(learnt.values()))
    assert clip < 0.4 * np.linalg.norm(list(norms.values()))
    before = student.get_layer("classifier").get_weights()
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=clip)
    trainer(optimizer, [("classifier", 1.0), ("*", 0.0)]).train_step((FEATURES, LABELS))
    after = student.get_layer("classifier").get_weights()
    moved = [np.linalg.norm(a - b) for a, b in zip(after, before, strict=True)]
    assert np.linalg.norm(moved) == pytest.approx(clip, rel=1e-4)


def test_multipliers_and_accumulated_gradients_combine(trainer, student):
    before = student.get_weights()
    values = []
    for options, batches in (({}, 1), ({"gradient_accumulation": 2}, 2)):
        student.set_weights(before)
        distiller = trainer(training.lamb(0.05), MULTIPLIERS, **options)
        for _ in range(batches):
            distiller.train_step((FEATURES, LABELS))
        values.append(student.get_weights())
    for one, two in zip(*values, strict=True):
        np.testing.assert_allclose(two, one, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("multipliers", "message"),
    [
        ([("layer_7_*", 1.0)], "patterns that match a trainable layer"),
        ([("classifier_0", 1.0)], "Did you mean 'classifier'?"),
        ([("layer_0_intermediate_activation", 1.0)], "trainable layer"),
        ([("layer_0_*", -1.0)], "a finite number >= 0"),
        ([("layer_0_*", float("nan"))], "a finite number >= 0"),
        ([("*", 0.0)], "at least one trainable variable"),
    ],
)
def test_multipliers_that_match_nothing_are_refused(trainer, multipliers, message):
    with pytest.raises(errors.ConfigError) as caught:
        trainer("sgd", multipliers)
    assert message in str(caught.value)
