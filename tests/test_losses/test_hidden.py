"""The hidden-state objectives beyond what every objective promises."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import cosine_distance, hidden_state_mse

random = np.random.default_rng(4)


def states(*shape):
    return random.standard_normal(shape).astype(np.float32)


MASK = np.array([[1, 1, 1, 1], [1, 1, 0, 0]], np.int32)


def test_projection_maps_the_student_not_the_teacher():
    teacher, student = states(2, 4, 6), states(2, 4, 3)
    projection = keras.layers.Dense(6, bias_initializer="ones")
    value = hidden_state_mse(teacher, student, MASK, projection=projection)
    kernel, bias = projection.get_weights()
    error = student.astype(np.float64) @ kernel + bias - teacher
    np.testing.assert_allclose(float(value), np.mean(error[MASK == 1] ** 2), rtol=1e-5)


@pytest.mark.parametrize("reduction", ["tokens", "reference"])
def test_projection_learns_and_is_learnt_through(reduction):
    projection = keras.layers.Dense(6)
    student = tf.constant(states(2, 4, 3))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = hidden_state_mse(
            states(2, 4, 6), student, MASK, projection=projection, reduction=reduction
        )
    for gradient in tape.gradient(value, [student, *projection.trainable_variables]):
        assert float(tf.reduce_max(tf.abs(gradient))) > 1e-3


def test_projection_under_mixed_precision_still_compares_in_float32():
    teacher = states(2, 4, 6)
    projection = keras.layers.Dense(6, dtype=keras.mixed_precision.Policy("mixed_bfloat16"))
    student = tf.cast(states(2, 4, 3), tf.bfloat16)
    value = hidden_state_mse(teacher, student, MASK, projection=projection)
    projected = tf.cast(projection(student), tf.float32).numpy().astype(np.float64)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(
        float(value), np.mean((projected - teacher)[MASK == 1] ** 2), rtol=1e-5
    )


def test_reference_is_the_plain_mean_in_which_padding_counts():
    teacher, student = states(2, 4, 6), states(2, 4, 6)
    plain = np.mean((student.astype(np.float64) - teacher) ** 2)
    real_only = np.mean((student.astype(np.float64) - teacher)[MASK == 1] ** 2)
    value = float(hidden_state_mse(teacher, student, MASK, reduction="reference"))
    np.testing.assert_allclose(value, plain, rtol=1e-5)
    assert abs(plain - real_only) > 1e-2


def test_reference_divides_weighted_examples_by_the_whole_size():
    teacher, student = states(2, 4, 6), states(2, 4, 6)
    weights = MASK * np.array([[0.5], [0.0]], np.float32)
    expected = 0.5 * np.sum((student[0].astype(np.float64) - teacher[0]) ** 2) / teacher.size
    value = float(hidden_state_mse(teacher, student, weights, reduction="reference"))
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parametrize("objective", [hidden_state_mse, cosine_distance])
@pytest.mark.parametrize(
    ("teacher", "student", "mask", "message"),
    [
        ((2, 4, 6), (2, 1, 6), (2, 4), "same length"),
        ((2, 4, 6), (1, 4, 6), (2, 4), "same batch"),
        ((2, 6), (2, 6), (2, 4), r"expected shape \(batch, tokens, width\)"),
        ((2, 4, 6), (2, 4, 6), (2, 4, 1), "mask: expected one weight"),
        ((2, 4, 6), (2, 4, 6), (1, 4), "mask: expected one weight"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(objective, teacher, student, mask, message):
    with pytest.raises(ShapeError, match=message):
        objective(states(*teacher), states(*student), np.ones(mask))


def test_unknown_reduction_is_refused():
    with pytest.raises(ConfigError):
        hidden_state_mse(states(2, 4, 6), states(2, 4, 6), MASK, reduction="mean")


def test_cosine_ignores_length_and_spans_zero_to_two():
    teacher = states(2, 4, 6)
    for factor, expected in ((1e-25, 0.0), (3.0, 0.0), (1e25, 0.0), (-1e25, 2.0)):
        value = float(cosine_distance(teacher, np.float32(factor) * teacher, MASK))
        np.testing.assert_allclose(value, expected, atol=1e-6)


def test_cosine_of_a_zero_state_is_zero_without_gradient():
    student = tf.zeros((2, 4, 6))
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = cosine_distance(states(2, 4, 6), student, MASK)
    assert float(value) == 1.0
    np.testing.assert_array_equal(tape.gradient(value, student).numpy(), 0.0)
