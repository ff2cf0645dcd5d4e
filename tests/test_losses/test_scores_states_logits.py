"""Scores, states and logits beyond what every objective promises."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
from distiller_checks import log_softmax

from tfdistill import losses

random = np.random.default_rng(3)
MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


# Scores of attention.


def test_minus_infinity_at_padding_keys_of_float16_scores_is_ignored():
    # An additive mask of -1e9 is -inf in float16, and inf - inf is NaN.
    teacher, student = (normal(1, 2, 3, 3).astype(np.float16) for _ in range(2))
    clean = float(losses.attention_score_mse(teacher, student, [[1, 1, 0]]))
    teacher[..., 2] = student[..., 2] = -np.inf
    assert float(losses.attention_score_mse(teacher, student, [[1, 1, 0]])) == clean


def published_reduction(teacher, student, mask):
    """The published formula on whole arrays, as the facts state it."""
    additive = (1.0 - mask)[:, None, None, :] * -1e4
    teacher, student = teacher + additive, student + additive
    teacher = np.where(teacher <= -1e2, 0.0, teacher)
    student = np.where(student <= -1e2, 0.0, student)
    return np.mean((student - teacher) ** 2)


def test_reference_is_the_published_reduction():
    teacher, student = 40 * normal(3, 4, 6, 6), 40 * normal(3, 4, 6, 6)
    assert (teacher <= -1e2).any(), "the threshold must bite on real scores too"
    mask = np.array([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]], np.float32)
    np.testing.assert_allclose(
        float(losses.attention_score_mse(teacher, student, mask, reduction="reference")),
        published_reduction(teacher, student, mask),
        rtol=1e-5,
    )


def test_reference_zeroes_a_score_of_exactly_minus_100():
    teacher = np.full((1, 1, 1, 1), -100.0)
    below = losses.attention_score_mse(teacher, [[[[2.0]]]], [[1]], reduction="reference")
    above = losses.attention_score_mse(teacher + 1, [[[[2.0]]]], [[1]], reduction="reference")
    assert (float(below), float(above)) == (4.0, 101.0**2)


def test_reference_gives_no_gradient_to_padding_keys():
    student = tf.constant(normal(1, 2, 3, 3))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = losses.attention_score_mse(
            normal(1, 2, 3, 3), student, [[1, 1, 0]], reduction="reference"
        )
    gradient = tape.gradient(value, student).numpy()
    np.testing.assert_array_equal(gradient[..., 2], 0.0)
    assert (gradient[..., 2, :2] != 0.0).all()


# States.


def test_projection_maps_the_student_not_the_teacher():
    teacher, student = normal(2, 4, 6), normal(2, 4, 3)
    projection = keras.layers.Dense(6, bias_initializer="ones")
    value = losses.hidden_state_mse(teacher, student, MASK, projection=projection)
    kernel, bias = projection.get_weights()
    error = student.astype(np.float64) @ kernel + bias - teacher
    np.testing.assert_allclose(float(value), np.mean(error[MASK == 1] ** 2), rtol=1e-5)


@pytest.mark.parametrize("reduction", ["tokens", "reference"])
def test_projection_learns_and_is_learnt_through(reduction):
    projection = keras.layers.Dense(6)
    student = tf.constant(normal(2, 4, 3))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = losses.hidden_state_mse(
            normal(2, 4, 6), student, MASK, projection=projection, reduction=reduction
        )
    for gradient in tape.gradient(value, [student, *projection.trainable_variables]):
        assert float(tf.reduce_max(tf.abs(gradient))) > 1e-3


def test_cosine_ignores_length_and_spans_zero_to_two():
    teacher = normal(2, 4, 6)
    for factor, expected in ((1e-25, 0.0), (3.0, 0.0), (1e25, 0.0), (-1e25, 2.0)):
        value = float(losses.cosine_distance(teacher, np.float32(factor) * teacher, MASK))
        np.testing.assert_allclose(value, expected, atol=1e-6)


def test_cosine_of_a_zero_state_is_zero_without_gradient():
    student = tf.zeros((2, 4, 6))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = losses.cosine_distance(normal(2, 4, 6), student, MASK)
    assert float(value) == 1.0
    np.testing.assert_array_equal(tape.gradient(value, student).numpy(), 0.0)


# Logits.


def test_thirty_thousand_classes_are_not_clipped():
    # Probabilities near 1e-12: clipping at 1e-7 gives another number.
    teacher, student = 6 * normal(2, 30_522), 6 * normal(2, 30_522)
    log_p, log_q = log_softmax(teacher.astype(np.float64)), log_softmax(student.astype(np.float64))
    expected = np.mean(np.sum(np.exp(log_p) * (log_p - log_q), axis=-1))
    np.testing.assert_allclose(float(losses.kl_divergence(teacher, student)), expected, rtol=1e-5)
    expected = -np.mean(np.sum(np.exp(log_p) * log_q, axis=-1))
    np.testing.assert_allclose(
        float(losses.soft_cross_entropy(teacher, student)), expected, rtol=1e-5
    )


@pytest.mark.parametrize("objective", [losses.soft_cross_entropy, losses.kl_divergence])
def test_classes_switched_off_with_minus_infinity_on_both_sides_count_nothing(objective):
    teacher, student = 3 * normal(3, 4), 3 * normal(3, 4)
    expected = float(objective(teacher[:, :3], student[:, :3]))
    teacher[:, 3] = student[:, 3] = -np.inf
    np.testing.assert_allclose(float(objective(teacher, student)), expected, rtol=1e-6)
