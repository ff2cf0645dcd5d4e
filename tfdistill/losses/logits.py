"""Objectives on logits: soft targets, the true divergence, and the squared error."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.checks import check_same_shape, check_weights
from tfdistill.losses.reduction import Array

REMEDIES = {
    -1: "Build the student with the teacher's number of labels, in the same order.",
    0: "Teacher and student must see the same batch.",
}


def soft_cross_entropy(
    teacher_logits: Array,
    student_logits: Array,
    *,
    temperature: float = 1.0,
    reduction: str = "batch",
    sample_weight: Array | None = None,
    scale_by_t2: bool = False,
) -> tf.Tensor:
    """Cross entropy of the student against the teacher's soft targets.

    With ``p = softmax(z_t / T)``, ``q = softmax(z_s / T)``, example weights `w`, `B` examples and
    `C` classes, and ``H_b = -sum_c p_bc log q_bc``:

    - "batch": ``sum_b w_b H_b / sum_b w_b``, the mean over examples.
    - "reference": ``sum_b w_b H_b / (B C)``, the published reduction: a mean over examples and
      classes, 1/C of the above.

    The minimum over students is the mean entropy of `p`, not 0; see `kl_divergence`.

    Args:
      teacher_logits: Shape (batch, classes), any float type; more leading axes, such as
        (batch, tokens, classes), count as examples. They receive no gradient.
      student_logits: The student's logits, same shape.
      temperature: T > 0, divides both sides.
      reduction: "batch" or "reference".
      sample_weight: Non-negative weights, the logits' shape without classes; None for equal ones.
      scale_by_t2: Multiplies by T^2, so that gradients keep their size as T grows.

    Returns:
      Scalar float32; 0 when all weights are 0.

    Raises:
      ShapeError: The shapes differ, or there is a single class.
      ConfigError: Unknown reduction, or a temperature that is not positive.

    Reference:
      Jiao et al., TinyBERT (2020), equation 10; Hinton et al. (2015), section 2, for T^2.
    """
    teacher, student, weights = _prepare(teacher_logits, student_logits, sample_weight, reduction)
    _check_classes(teacher)
    _check_temperature(temperature)
    targets = tf.nn.softmax(teacher / temperature)
    surprise = -tf.nn.log_softmax(student / temperature)
    # A class of probability 0 counts 0 even where its surprise is infinite.
    values = tf.reduce_sum(tf.math.multiply_no_nan(surprise, targets), axis=-1)
    value = _reduce(values, weights, reduction, teacher)
    return value * temperature**2 if scale_by_t2 else value


def kl_divergence(
    teacher_logits: Array,
    student_logits: Array,
    *,
    temperature: float = 1.0,
    reduction: str = "batch",
    sample_weight: Array | None = None,
    scale_by_t2: bool = False,
) -> tf.Tensor:
    """Kullback-Leibler divergence from the student's to the teacher's distribution.

    With ``p = softmax(z_t / T)``, ``q = softmax(z_s / T)``, example weights `w`, `B` examples and
    `C` classes, and ``D_b = sum_c p_bc (log p_bc - log q_bc)``:

    - "batch": ``sum_b w_b D_b / sum_b w_b``, the mean over examples.
    - "reference": ``sum_b w_b D_b / (B C)``, a mean over examples and classes.

    Both logarithms come from log_softmax, so nothing is clipped, with 30,000 classes either.
    Its gradient is that of `soft_cross_entropy`.

    Args:
      teacher_logits: Shape (batch, classes), any float type; more leading axes, such as
        (batch, tokens, classes), count as examples. They receive no gradient.
      student_logits: The student's logits, same shape.
      temperature: T > 0, divides both sides.
      reduction: "batch" or "reference".
      sample_weight: Non-negative weights, the logits' shape without classes; None for equal ones.
      scale_by_t2: Multiplies by T^2, so that gradients keep their size as T grows.

    Returns:
      Scalar float32, at least 0 up to rounding, 0 at equality and when all weights are 0.

    Raises:
      ShapeError: The shapes differ, or there is a single class.
      ConfigError: Unknown reduction, or a temperature that is not positive.

    Reference:
      Hinton et al. (2015), section 2; Sanh et al., DistilBERT (2019), with T = 2 and T^2.
    """
    teacher, student, weights = _prepare(teacher_logits, student_logits, sample_weight, reduction)
    _check_classes(teacher)
    _check_temperature(temperature)
    log_targets = tf.nn.log_softmax(teacher / temperature)
    log_ratio = log_targets - tf.nn.log_softmax(student / temperature)
    values = tf.reduce_sum(tf.math.multiply_no_nan(log_ratio, tf.exp(log_targets)), axis=-1)
    value = _reduce(values, weights, reduction, teacher)
    return value * temperature**2 if scale_by_t2 else value


def logit_mse(
    teacher_logits: Array,
    student_logits: Array,
    *,
    reduction: str = "batch",
    sample_weight: Array | None = None,
) -> tf.Tensor:
    """Mean squared error of logits, over examples and classes.

    With example weights `w`, `B` examples and `C` classes, and
    ``E_b = sum_c (z_s_bc - z_t_bc)^2 / C``:

    - "batch": ``sum_b w_b E_b / sum_b w_b``.
    - "reference": ``sum_b w_b E_b / B``; the same number unless weights are given.

    Args:
      teacher_logits: Shape (batch, classes), any float type, with one class for a regression;
        more leading axes count as examples. They receive no gradient.
      student_logits: The student's logits, same shape.
      reduction: "batch" or "reference".
      sample_weight: Non-negative weights, the logits' shape without classes; None for equal ones.

    Returns:
      Scalar float32, at least 0, 0 at equality and when all weights are 0.

    Raises:
      ShapeError: The shapes differ.
      ConfigError: Unknown reduction.

    Reference:
      Tang et al. (2019), equation 4, which sums over classes where this averages.
    """
    teacher, student, weights = _prepare(teacher_logits, student_logits, sample_weight, reduction)
    values = tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)
    return reductions.mean(values, weights, reduction)


def _reduce(
    values: tf.Tensor, weights: tf.Tensor | None, reduction: str, logits: tf.Tensor
) -> tf.Tensor:
    """Reduces one value per example; "reference" divides by the classes as well."""
    value = reductions.mean(values, weights, reduction)
    if reduction == "reference":
        return value / tf.cast(tf.shape(logits)[-1], tf.float32)
    return value


def _prepare(
    teacher_logits: Array,
    student_logits: Array,
    sample_weight: Array | None,
    reduction: str,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
    """Casts to float32, stops the gradients that must not flow and checks the shapes."""
    checks.check_choice("reduction", reduction, ("batch", "reference"))
    teacher = reductions.as_constant(teacher_logits)  # (batch, classes)
    student = reductions.as_float32(student_logits)
    for what, logits in (("teacher logits", teacher), ("student logits", student)):
        if logits.shape.rank is not None and logits.shape.rank < 2:
            raise ShapeError(what, "shape (batch, classes)", f"shape {logits.shape}")
    check_same_shape("student logits", teacher, student, REMEDIES)
    if sample_weight is None:
        return teacher, student, None
    weights = reductions.as_constant(sample_weight)  # (batch,)
    check_weights("sample_weight", weights, teacher.shape[:-1])
    # Logits that do not count are replaced before the softmax, which could turn them into NaN.
    counts = tf.expand_dims(weights, -1) > 0.0  # (batch, 1)
    return tf.where(counts, teacher, 0.0), tf.where(counts, student, 0.0), weights


def _check_classes(logits: tf.Tensor) -> None:
    """Refuses a single class, whose softmax is always 1."""
    if logits.shape[-1] == 1:
        raise ShapeError(
            "teacher logits",
            "at least 2 classes",
            f"1 (shape {logits.shape})",
            "A regression has no soft targets: use logit_mse.",
        )


def _check_temperature(temperature: float) -> None:
    """Refuses a temperature that is zero, negative or not a number; a tensor passes."""
    if not tf.is_tensor(temperature) and not 0.0 < temperature < float("inf"):
        raise ConfigError("temperature", "a number above 0", temperature)
