"""Masked language modelling: the losses against loops, and the trainer's step."""

import math

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, errors, losses, models
from tfdistill.losses import StepInputs, words

LENGTHS = (9, 4, 7, 6)


@pytest.fixture(scope="module")
def student():
    return models.build_masked_lm(toys.SHALLOW_STUDENT, next_sentence=True)


@pytest.fixture(scope="module")
def plain_student():
    return models.build_masked_lm(toys.SHALLOW_STUDENT)


def masked_features(lengths=LENGTHS, *, seed=0, predict_all=False):
    """Features with two labels in each row and, but for `predict_all`, answers at these alone."""
    random = np.random.default_rng(seed)
    features = toys.features(lengths, seed=seed)
    real = features["attention_mask"].numpy()
    labels = np.full(real.shape, -100, np.int32)
    for row, length in enumerate(lengths):
        positions = random.choice(length, 2, replace=False)
        labels[row, positions] = random.integers(1, toys.STUDENT.vocab_size, 2)
    answers = real if predict_all else (labels >= 0).astype(np.int32)
    return {
        **features,
        "mlm_labels": tf.constant(labels),
        "prediction_mask": tf.constant(answers),
        "nsp_labels": tf.constant(random.integers(0, 2, len(lengths)), tf.int32),
    }


def step_inputs(features, weights, *, seed=1):
    random = np.random.default_rng(seed)
    rows = int(tf.reduce_sum(features["prediction_mask"]))
    student = {
        "mlm_logits": tf.constant(random.normal(0, 2, (rows, 30)), tf.float32),
        "nsp_logits": tf.constant(random.normal(0, 2, (len(LENGTHS), 2)), tf.float32),
    }
    weight = tf.constant(weights, tf.float32)
    mask = tf.cast(features["attention_mask"], tf.float32) * weight[:, None]
    return StepInputs({}, student, None, mask, weight, features)


def cross_entropy(logits, label):
    shifted = [float(z) - float(max(logits)) for z in logits]
    return math.log(sum(math.exp(z) for z in shifted)) - shifted[label]


WEIGHTS = (1.0, 0.5, 0.0, 3.0)


@pytest.mark.parametrize("predict_all", [False, True])
def test_the_mlm_loss_and_hits_equal_a_loop(predict_all):
    features = masked_features(predict_all=predict_all)
    batch = step_inputs(features, WEIGHTS)
    labels, answers = features["mlm_labels"].numpy(), features["prediction_mask"].numpy()
    logits = batch.student["mlm_logits"].numpy()
    total = hits = norm = 0.0
    index = 0
    for row in range(labels.shape[0]):
        for position in range(labels.shape[1]):
            if not answers[row, position]:
                continue
            if labels[row, position] >= 0:
                total += WEIGHTS[row] * cross_entropy(logits[index], labels[row, position])
                hits += WEIGHTS[row] * (int(np.argmax(logits[index])) == labels[row, position])
                norm += WEIGHTS[row]
            index += 1
    assert index == len(logits)
    assert norm == 2 * sum(WEIGHTS)
    # Sums of a dozen float32 terms.
    np.testing.assert_allclose(float(losses.mlm_loss(batch)), total / norm, rtol=1e-6)
    values, weights = words.mlm_hits(batch)
    np.testing.assert_allclose(float(tf.reduce_sum(values * weights)), hits, rtol=1e-6)
    np.testing.assert_allclose(float(tf.reduce_sum(weights)), norm, rtol=1e-6)


def test_the_weights_of_the_rows_are_those_of_their_examples():
    batch = step_inputs(masked_features(predict_all=True), WEIGHTS)
    expected = np.repeat(WEIGHTS, LENGTHS)
    np.testing.assert_array_equal(losses.row_weights(batch), expected)


def test_the_nsp_loss_equals_a_loop():
    features = masked_features()
    batch = step_inputs(features, WEIGHTS)
    values = [
        cross_entropy(row, label)
        for row, label in zip(
            batch.student["nsp_logits"].numpy(), features["nsp_labels"].numpy(), strict=True
        )
    ]
    expected = np.average(values, weights=WEIGHTS)
    np.testing.assert_allclose(float(losses.nsp_loss(batch)), expected, rtol=1e-6)


@pytest.mark.parametrize("rows", [0, 3])
def test_without_a_label_the_loss_and_its_gradient_are_zero(rows):
    features = masked_features()
    features["mlm_labels"] = tf.fill(features["mlm_labels"].shape, -100)
    mask = np.zeros(features["input_ids"].shape, np.int32)
    mask[0, :rows] = 1
    features["prediction_mask"] = tf.constant(mask)
    batch = step_inputs(features, (1, 1, 1, 1))
    logits = batch.student["mlm_logits"]
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = losses.mlm_loss(batch)
    assert float(loss) == 0
    np.testing.assert_array_equal(tape.gradient(loss, logits), np.zeros((rows, 30)))


def trainer_of(student, *, weights=None, optimizer=None, seed=0):
    trainer = distillers.MaskedLmTrainer(toys.randomise(student, seed=1), seed=seed)
    trainer.compile(optimizer or keras.optimizers.SGD(0.1), loss_weights=weights, run_eagerly=True)
    return trainer


def logs_of(step, features, sample_weight=None):
    step.__self__.reset_metrics()
    data = features if sample_weight is None else (features, None, sample_weight)
    return {name: float(value) for name, value in step(data).items()}


def test_the_log_holds_the_terms_their_sum_and_the_accuracy(student):
    features = masked_features()
    logs = logs_of(trainer_of(student).test_step, features)
    assert list(logs) == ["loss", "mlm", "nsp", "mlm_accuracy"]
    np.testing.assert_allclose(logs["loss"], logs["mlm"] + logs["nsp"], rtol=1e-6)
    inputs = {name: features[name] for name in student.input_names}
    outputs = student(inputs, training=False)
    labels = features["mlm_labels"].numpy()
    right = labels[labels >= 0]
    losses = [cross_entropy(*pair) for pair in zip(outputs["mlm_logits"].numpy(), right)]  # noqa: B905
    np.testing.assert_allclose(logs["mlm"], np.mean(losses), rtol=1e-5)
    hits = outputs["mlm_logits"].numpy().argmax(axis=1) == right
    np.testing.assert_allclose(logs["mlm_accuracy"], hits.mean(), rtol=1e-6)


def test_the_accuracy_weighs_examples_and_leaves_out_rows_without_a_label(student):
    trainer = trainer_of(student)
    features = masked_features(predict_all=True)
    inputs = {name: features[name] for name in student.input_names}
    answers = np.zeros(features["input_ids"].shape, np.int32)
    real = features["attention_mask"].numpy() > 0
    answers[real] = student(inputs, training=False)["mlm_logits"].numpy().argmax(axis=1)
    right = np.array([[True], [False], [True], [False]])  # examples of which all labels are met
    labels = np.where(right, answers, (answers + 1) % toys.STUDENT.vocab_size)
    masked = features["mlm_labels"].numpy() >= 0
    features["mlm_labels"] = tf.constant(np.where(masked, labels, -100).astype(np.int32))
    logs = logs_of(trainer.test_step, features, tf.constant([1.0, 0.5, 2.0, 3.0]))
    np.testing.assert_allclose(logs["mlm_accuracy"], (1 + 2) / 6.5, rtol=1e-6)


def test_sample_weights_are_honoured(student):
    features = masked_features()
    alone = {name: value[1:2] for name, value in features.items()}
    weighted = logs_of(trainer_of(student).test_step, features, tf.constant([0.0, 2.0, 0.0, 0.0]))
    expected = logs_of(trainer_of(student).test_step, alone)
    for name in expected:
        np.testing.assert_allclose(weighted[name], expected[name], rtol=1e-5)


def test_only_models_with_the_heads_are_taken(plain_student):
    encoder = models.build_encoder(toys.SHALLOW_STUDENT)
    with pytest.raises(errors.ShapeError):
        distillers.MaskedLmTrainer(encoder)
    trainer = distillers.MaskedLmTrainer(plain_student)
    assert trainer.active_terms == ("mlm",)
    with pytest.raises(errors.ShapeError, match="next_sentence=True"):
        trainer.compile("sgd", loss_weights={"nsp": 1.0})


def test_a_batch_without_the_features_says_where_they_come_from():
    features = masked_features()
    for name, source in (
        ("mlm_labels", "Masker"),
        ("prediction_mask", "Masker"),
        ("nsp_labels", "next_sentence=True"),
    ):
        batch = step_inputs(features, WEIGHTS)
        lacking = {key: value for key, value in features.items() if key != name}
        batch = StepInputs({}, batch.student, None, batch.mask, batch.sample_weight, lacking)
        with pytest.raises(errors.ShapeError, match=f"{name} among them.*{source}"):
            (losses.nsp_loss if name == "nsp_labels" else losses.mlm_loss)(batch)
