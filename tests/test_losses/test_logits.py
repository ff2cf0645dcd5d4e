"""The objectives on logits beyond what every objective promises."""

import numpy as np
import pytest
import tensorflow as tf

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import kl_divergence, logit_mse, soft_cross_entropy

random = np.random.default_rng(5)
OBJECTIVES = [soft_cross_entropy, kl_divergence, logit_mse]
SOFT = [soft_cross_entropy, kl_divergence]


def logits(*shape):
    return (3 * random.standard_normal(shape)).astype(np.float32)


def log_softmax(z):
    z = z.astype(np.float64)
    z = z - z.max(axis=-1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def test_reference_is_the_mean_over_batch_and_classes_and_divides_both_sides_by_t():
    teacher, student = logits(6, 4), logits(6, 4)
    published = np.mean(-np.exp(log_softmax(teacher / 2)) * log_softmax(student / 2))
    value = soft_cross_entropy(teacher, student, temperature=2.0, reduction="reference")
    np.testing.assert_allclose(float(value), published, rtol=1e-5)
    batch = soft_cross_entropy(teacher, student, temperature=2.0)
    np.testing.assert_allclose(float(batch), 4 * published, rtol=1e-5)


def test_cross_entropy_is_divergence_plus_the_teachers_entropy():
    teacher, student = logits(6, 4), logits(6, 4)
    entropy = -np.mean(np.sum(np.exp(log_softmax(teacher)) * log_softmax(teacher), axis=-1))
    cross_entropy = float(soft_cross_entropy(teacher, student))
    np.testing.assert_allclose(
        cross_entropy, float(kl_divergence(teacher, student)) + entropy, rtol=1e-5
    )


def test_both_soft_objectives_have_the_same_gradient():
    teacher = logits(6, 4)
    student = tf.constant(logits(6, 4))
    gradients = []
    for objective in SOFT:
        with tf.GradientTape() as tape:
            tape.watch(student)
            value = objective(teacher, student, temperature=2.0)
        gradients.append(tape.gradient(value, student).numpy())
    np.testing.assert_allclose(*gradients, atol=1e-7)


def test_t_squared_keeps_the_size_of_the_gradient():
    # For small logits the gradient is (z_s - z_t) / (C T^2) at any T.
    teacher, student = 0.01 * logits(6, 4), tf.constant(0.01 * logits(6, 4))
    norms = []
    for temperature in (1.0, 8.0):
        with tf.GradientTape() as tape:
            tape.watch(student)
            value = kl_divergence(teacher, student, temperature=temperature, scale_by_t2=True)
        norms.append(float(tf.norm(tape.gradient(value, student))))
    np.testing.assert_allclose(norms[0], norms[1], rtol=0.05)


def test_thirty_thousand_classes_are_not_clipped():
    # Probabilities near 1e-12: clipping at 1e-7 gives another number.
    teacher, student = 2 * logits(2, 30_522), 2 * logits(2, 30_522)
    log_p, log_q = log_softmax(teacher), log_softmax(student)
    expected = np.mean(np.sum(np.exp(log_p) * (log_p - log_q), axis=-1))
    np.testing.assert_allclose(float(kl_divergence(teacher, student)), expected, rtol=1e-5)
    expected = -np.mean(np.sum(np.exp(log_p) * log_q, axis=-1))
    np.testing.assert_allclose(float(soft_cross_entropy(teacher, student)), expected, rtol=1e-5)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_token_logits_take_the_mask_as_their_weights(objective):
    teacher, student = logits(2, 3, 4), logits(2, 3, 4)
    mask = np.array([[1, 1, 1], [1, 0, 0]])
    real = mask == 1
    np.testing.assert_allclose(
        float(objective(teacher, student, sample_weight=mask)),
        float(objective(teacher[real], student[real])),
        rtol=1e-6,
    )


@pytest.mark.parametrize("objective", SOFT)
def test_classes_switched_off_with_minus_infinity_on_both_sides_count_nothing(
    objective,
):
    teacher, student = logits(3, 4), logits(3, 4)
    expected = float(objective(teacher[:, :3], student[:, :3]))
    teacher[:, 3] = student[:, 3] = -np.inf
    np.testing.assert_allclose(float(objective(teacher, student)), expected, rtol=1e-6)


@pytest.mark.parametrize("objective", SOFT)
def test_a_single_class_has_no_soft_targets(objective):
    with pytest.raises(ShapeError, match=r"at least 2 classes, received 1.*logit_mse"):
        objective(logits(3, 1), logits(3, 1))


def test_logit_mse_serves_a_regression():
    assert float(logit_mse([[1.0], [2.0]], [[3.0], [2.0]])) == 2.0


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("teacher", "student", "weight", "message"),
    [
        ((3, 4), (3, 2), (3,), "number of labels"),
        ((3, 4), (1, 4), (3,), "same batch"),
        ((3,), (3,), (), r"expected shape \(batch, classes\)"),
        ((3, 4), (3, 4), (3, 1), "sample_weight: expected one weight"),
        ((3, 4), (3, 4), (1,), "sample_weight: expected one weight"),
    ],
)
def test_shapes_that_would_broadcast_are_refused(objective, teacher, student, weight, message):
    with pytest.raises(ShapeError, match=message):
        objective(logits(*teacher), logits(*student), sample_weight=np.ones(weight))


@pytest.mark.parametrize("objective", SOFT)
@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_not_positive_is_refused(objective, temperature):
    with pytest.raises(ConfigError, match="temperature: expected a number above 0"):
        objective(logits(3, 4), logits(3, 4), temperature=temperature)
