"""The step of every distiller: who runs, how often, in which mode, and what counts how much."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, errors, models

FEATURES = toys.features((5, 3, 6, 4))
LABELS = toys.labels(4)
# Two ways of adding the same few hundred float32 numbers.
ROUNDING = {"rtol": 2e-5, "atol": 2e-6}


def same_weights(model, before):
    return all((a == b).all() for a, b in zip(model.get_weights(), before, strict=True))


def halves(features, labels, *weights):
    """Examples 0 and 1, then 2 and 3."""
    whole = (features, labels, *weights)
    first = tf.nest.map_structure(lambda rows: rows[:2], whole)
    return [first, tf.nest.map_structure(lambda rows: rows[2:], whole)]


# The teacher.


def test_the_teacher_is_the_same_bit_for_bit_after_a_fit(tinybert, teacher, student):
    distiller = tinybert("intermediate", optimizer=keras.optimizers.Adam(0.1))
    teacher_before, student_before = teacher.get_weights(), student.get_weights()
    data = tf.data.Dataset.from_tensors((FEATURES, LABELS)).repeat(2)
    distiller.fit(data, verbose=0)
    assert same_weights(teacher, teacher_before)
    assert not same_weights(student, student_before)
    assert teacher.trainable  # the caller's model is not frozen behind its back either
    ours = {variable.ref() for variable in teacher.variables}
    assert not ours & {variable.ref() for variable in distiller.variables}
    checkpoint = tf.train.Checkpoint(model=distiller)
    tracked = {id(x) for x in tf.train.TrackableView(checkpoint).descendants()}
    assert id(teacher.layers[-1]) not in tracked


# The student.


def test_evaluate_is_without_dropout_and_repeats_itself(built, student):
    noisy = built(toys.SHALLOW_STUDENT.replace(dropout=0.5, attention_dropout=0.5))
    noisy.set_weights(student.get_weights())
    data = tf.data.Dataset.from_tensors((FEATURES, LABELS))

    def evaluated(model):
        trainer = distillers.LabelTrainer(model)
        trainer.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
        first = trainer.evaluate(data, verbose=0)
        trainer.train_step((FEATURES, LABELS))
        assert trainer.evaluate(data, verbose=0) == first
        return first[0] if isinstance(first, list) else first

    assert evaluated(noisy) == evaluated(student)


def test_dropout_is_on_in_training_and_follows_the_step(built, logs, student):
    noisy = built(toys.SHALLOW_STUDENT.replace(dropout=0.5, attention_dropout=0.5))
    noisy.set_weights(student.get_weights())

    def step_losses():
        trainer = distillers.LabelTrainer(noisy)
        trainer.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
        return [logs(trainer.train_step, FEATURES, LABELS)["loss"] for _ in range(3)]

    first = step_losses()
    assert len(set(first)) == 3  # every step has masks of its own
    assert step_losses() == first  # and the same step the same ones


def test_a_distiller_predicts_with_its_student(tinybert, student):
    answer = tinybert("prediction").predict(FEATURES, verbose=0)
    np.testing.assert_allclose(answer, student(FEATURES, training=False), rtol=1e-5)


# Losses and their weights.


def test_one_loss_weight_is_honoured(tinybert, logs, student):
    """keras.distillation turned a single weight into 1 without a word."""
    before = student.get_weights()
    plain = logs(tinybert("prediction").train_step, FEATURES, LABELS)
    moved = [new - old for new, old in zip(student.get_weights(), before, strict=True)]
    student.set_weights(before)
    halved = logs(tinybert("prediction", loss_weights=0.5).train_step, FEATURES, LABELS)
    assert halved["loss"] == pytest.approx(plain["loss"] / 2, rel=1e-6)
    for old, new, whole in zip(before, student.get_weights(), moved, strict=True):
        np.testing.assert_allclose(new - old, whole / 2, **ROUNDING)


# Sample weights.


def trainers(tinybert, student):
    yield "label", lambda: _compiled(distillers.LabelTrainer(student))
    yield "intermediate", lambda: tinybert("intermediate")


def _compiled(distiller):
    distiller.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return distiller


def stepped(make, student, before, *data):
    """The logs and the student's weights after one step from `before`."""
    student.set_weights(before)
    distiller = make()
    results = {name: float(value) for name, value in distiller.train_step(data).items()}
    return results, student.get_weights()


def check_equal(first, second):
    assert first[0] == pytest.approx(second[0], rel=2e-5)
    toys.check_equal(first[1], second[1], **ROUNDING)


@pytest.mark.slow
def test_an_example_of_weight_zero_does_not_matter(tinybert, student):
    """keras.distillation ignored sample weights."""
    before = student.get_weights()
    weights = tf.constant([1.0, 2.0, 0.0, 1.0])
    other = toys.features((5, 3, 6, 4), seed=9)
    swapped = {
        name: tf.concat([rows[:2], other[name][2:3], rows[3:]], axis=0)
        for name, rows in FEATURES.items()
    }
    labels = tf.concat([LABELS[:2], (LABELS[2:3] + 1) % 3, LABELS[3:]], axis=0)
    for name, make in trainers(tinybert, student):
        weighted = stepped(make, student, before, FEATURES, LABELS, weights)
        check_equal(weighted, stepped(make, student, before, swapped, labels, weights))
        unweighted = stepped(make, student, before, FEATURES, LABELS)
        assert weighted[0]["loss"] != pytest.approx(unweighted[0]["loss"], rel=1e-3), name


def test_weight_two_is_the_example_twice(tinybert, student):
    before = student.get_weights()
    weights = tf.constant([1.0, 2.0, 1.0, 1.0])
    twice = [0, 1, 1, 2, 3]
    repeated = {name: tf.gather(rows, twice) for name, rows in FEATURES.items()}
    for _, make in trainers(tinybert, student):
        weighted = stepped(make, student, before, FEATURES, LABELS, weights)
        copies = stepped(make, student, before, repeated, tf.gather(LABELS, twice))
        check_equal(weighted, copies)


def test_sample_weights_may_be_a_column_but_no_table(student, logs):
    """Broadcast over the losses of the examples, a column would make a sum of their mean."""
    trainer = _compiled(distillers.LabelTrainer(student))
    weights = tf.constant([1.0, 2.0, 0.0, 1.0])
    expected = logs(trainer.test_step, FEATURES, LABELS, weights)
    assert logs(trainer.test_step, FEATURES, LABELS, weights[:, None]) == expected
    of_tokens = weights[:, None] * tf.ones(FEATURES["input_ids"].shape)
    for wrong in (of_tokens, tf.constant(2.0)):
        with pytest.raises(errors.ShapeError, match="one number an example"):
            trainer.test_step((FEATURES, LABELS, wrong))


def test_metrics_over_batches_of_different_size_are_means_over_examples(student, logs):
    trainer = _compiled(distillers.LabelTrainer(student))
    weights = tf.constant([1.0, 0.0, 3.0, 1.0])
    whole = logs(trainer.test_step, FEATURES, LABELS, weights)
    trainer.reset_metrics()
    for part in halves(FEATURES, LABELS, weights):
        result = trainer.test_step(part)
    assert {k: float(v) for k, v in result.items()} == pytest.approx(whole, rel=1e-5)


def test_metrics_of_tokens_count_those_with_a_label(logs):
    student = toys.randomise(models.build_token_classifier(toys.SHALLOW_STUDENT, 3), seed=2)
    answers = student(FEATURES).numpy().argmax(axis=-1).astype(np.int32)
    labels = np.full(answers.shape, -100, np.int32)
    labels[:, 0] = answers[:, 0]
    labels[:, 1] = (answers[:, 1] + 1) % 3
    trainer = distillers.LabelTrainer(student)
    trainer.compile("sgd", metrics=["accuracy"], weighted_metrics=["accuracy"], run_eagerly=True)
    weights = tf.constant([1.0, 0.0, 3.0, 1.0])
    values = logs(trainer.test_step, FEATURES, tf.constant(labels))
    assert (values["accuracy"], values["weighted_accuracy"]) == pytest.approx((0.5, 0.5))
    labels[2, 1] = answers[2, 1]
    values = logs(trainer.test_step, FEATURES, tf.constant(labels), weights)
    assert values["accuracy"] == pytest.approx((1 + 2 * 3 + 1) / (2 * 5))


# Gradients and optimizers.


def updates(distiller, variables, *data):
    before = [variable.numpy() for variable in variables]
    distiller.train_step(data)
    return [old - new.numpy() for old, new in zip(before, variables, strict=True)]


def test_clipping_sees_the_whole_gradient_of_an_embedding(student):
    """A token that occurs often: the norm of its summed rows, not of its rows one by one."""
    often = {**FEATURES, "input_ids": tf.ones_like(FEATURES["input_ids"])}
    trainer = distillers.LabelTrainer(student)
    variables = student.trainable_variables
    before = student.get_weights()
    trainer.compile(keras.optimizers.SGD(1.0))
    gradients = updates(trainer, variables, often, LABELS)
    norms = [np.linalg.norm(gradient) for gradient in gradients]
    clip = 0.3 * norms[0]  # the word embeddings
    assert min(norms) < clip < max(norms)
    student.set_weights(before)
    trainer.compile(keras.optimizers.SGD(1.0, clipnorm=clip))
    clipped = updates(trainer, variables, often, LABELS)
    for gradient, norm, update in zip(gradients, norms, clipped, strict=True):
        np.testing.assert_allclose(update, gradient * min(1, clip / max(norm, 1e-9)), **ROUNDING)


def test_mixed_precision_trains_with_the_gradient_of_float32(student):
    half = models.with_policy(student, "mixed_float16")
    moved = []
    for model in (student, half):
        trainer = distillers.LabelTrainer(model)
        optimizer = keras.optimizers.SGD(1.0)
        if model is half:
            optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
        trainer.compile(optimizer)
        moved.append(
            np.concatenate([u.ravel() for u in updates(trainer, model.weights, FEATURES, LABELS)])
        )
    cosine = moved[0] @ moved[1] / np.linalg.norm(moved[0]) / np.linalg.norm(moved[1])
    # float16 keeps 11 bits; a first scale of 2^15 that were left in would blow up the length.
    assert cosine > 0.999
    assert np.linalg.norm(moved[1]) == pytest.approx(np.linalg.norm(moved[0]), rel=0.01)


# What is refused.


@pytest.fixture(scope="module")
def untrained(built):
    return distillers.TinyBertDistiller(built(toys.SHALLOW_TEACHER), built(toys.SHALLOW_STUDENT))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "mse"}, "compile(loss=...): expected no loss, received mse"),
        ({"loss_weights": {"atention": 1}}, "Did you mean 'attention'?"),
        ({"loss_weights": {"logits": 1}}, "'logits'"),
        ({"loss_weights": {"hidden": -1}}, "loss_weights['hidden']: expected a finite number >= 0"),
        ({"loss_weights": {"hidden": float("nan")}}, "a finite number >= 0, received nan"),
        ({"loss_weights": float("inf")}, "a finite number >= 0, received inf"),
        ({"loss_weights": 0}, "at least one term above 0"),
        ({"loss_weights": {"attention": 0, "embedding": 0, "hidden": 0}}, "at least one term"),
    ],
)
def test_compile_refuses(untrained, options, message):
    with pytest.raises(errors.ConfigError) as caught:
        untrained.compile("sgd", **options)
    assert message in str(caught.value)


def test_an_optimizer_that_averages_weights_is_refused(untrained):
    """Keras would ask it for the averages of the pooler, which no loss reaches."""
    optimizer = keras.optimizers.Adam(use_ema=True)
    for chosen in (optimizer, keras.mixed_precision.LossScaleOptimizer(optimizer)):
        with pytest.raises(errors.ConfigError, match="expected use_ema=False"):
            untrained.compile(chosen)


def test_a_missing_input_and_missing_labels_are_named(student, logs):
    trainer = _compiled(distillers.LabelTrainer(student))
    some = {name: rows for name, rows in FEATURES.items() if name != "input_ids"}
    with pytest.raises(errors.ShapeError, match="input_ids"):
        logs(trainer.test_step, some, LABELS)
    with pytest.raises(errors.ShapeError, match=r"expected \(features, labels\)"):
        logs(trainer.test_step, FEATURES)
