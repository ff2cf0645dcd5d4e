"""The patient objective: what is true of every objective, and what is true of it alone."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

import harness
from tfdistill.losses import patient_mse

random = np.random.default_rng(12)


def states(*shape):
    return random.standard_normal(shape).astype(np.float32)


WEIGHTS = np.array([1, 0.5, 0, 2, 1.5], np.float32)
BATCH = (states(5, 4), states(5, 4), WEIGHTS)


def loop(reference):
    def run(teacher, student, weights):
        total = 0.0
        for b in range(len(weights)):
            t, s = teacher[b].astype(np.float64), student[b].astype(np.float64)
            t_length, s_length = float(t @ t) ** 0.5, float(s @ s) ** 0.5
            for e in range(len(t)):
                error = float(s[e]) / s_length - float(t[e]) / t_length
                total += float(weights[b]) * error**2 / len(t)
        return total / (len(weights) if reference else float(weights.sum()))

    return run


def batch_mean(teacher, student, weights):
    return patient_mse(teacher, student, sample_weight=weights)


def size_mean(teacher, student, weights):
    return patient_mse(teacher, student, sample_weight=weights, reduction="reference")


CASES = [
    harness.ObjectiveCase(
        "batch", batch_mean, loop(False), BATCH, harness.more_examples, lambda weights: weights
    ),
    harness.ObjectiveCase(
        "reference",
        size_mean,
        loop(True),
        BATCH,
        harness.more_examples,
        lambda weights: np.ones(len(weights)),
        size_is_divisor=True,
    ),
]


@harness.every_check(CASES)
def test_it_is_an_objective(case, check):
    check(case)


def test_a_state_of_length_zero_has_no_gradient():
    student = tf.zeros((5, 4))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = patient_mse(BATCH[0], student)
    assert float(value) == pytest.approx(1 / 4)
    np.testing.assert_array_equal(tape.gradient(value, student), 0.0)


def test_a_projection_maps_the_student_and_is_learnt():
    teacher, student = states(5, 6), tf.constant(states(5, 4))
    projection = keras.layers.Dense(6, bias_initializer="ones")
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = patient_mse(teacher, student, projection=projection)
    kernel, bias = projection.get_weights()
    expected = loop(True)(teacher, student.numpy() @ kernel + bias, np.ones(5))
    np.testing.assert_allclose(float(value), expected, rtol=1e-5)
    for gradient in tape.gradient(value, [student, *projection.trainable_variables]):
        assert float(tf.reduce_max(tf.abs(gradient))) > 1e-3
