"""Objectives on hidden states: TinyBERT's squared error, DistilBERT's cosine, BERT-PKD's [CLS]."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.reduction import Array


def hidden_state_mse(
    teacher: Array,
    student: Array,
    mask: Array,
    *,
    projection: Callable[[Array], tf.Tensor] | None = None,
    reduction: str = "tokens",
) -> tf.Tensor:
    """Mean squared error of hidden states, the student's being projected to the teacher's width.

    With states `t` and ``p = projection(s)``, token weights `w`, `B` examples, `L` tokens and the
    teacher's width `d`:

    - "tokens": ``sum_ble w_bl (p_ble - t_ble)^2 / (d sum_bl w_bl)``, a mean over real tokens and
      the width.
    - "reference": ``sum_ble w_b (p_ble - t_ble)^2 / (B L d)``, the published reduction, in which
      padding counts like a word. ``w_b`` is the largest weight of the example's tokens, thus 1
      for a binary mask; the divisor ignores weights.

    Args:
      teacher: States, shape (batch, tokens, d), any float type. It receives no gradient.
      student: The student's states, shape (batch, tokens, d_student).
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      projection: Maps the student's states to width d, usually a `Dense` layer with bias, which
        learns with the student. None compares the states as they are.
      reduction: "tokens" or "reference".

    Returns:
      Scalar float32, at least 0, 0 at equality and when no token is real. One layer; the sum
      over layers is the caller's.

    Raises:
      ShapeError: The shapes differ, for example by the width.
      ConfigError: Unknown reduction.

    Reference:
      Jiao et al., TinyBERT (2020), equations 8 and 9; the paper's projection has no bias, the
      published code's has one.
    """
    checks.check_choice("reduction", reduction, ("tokens", "reference"))
    if projection is not None:
        student = projection(student)
    remedy = (
        "Give projection=keras.layers.Dense(<teacher width>)."
        if projection is None
        else "The projection must give the teacher's width."
    )
    teacher, student, mask = _prepare(teacher, student, mask, remedy)
    difference = student - teacher
    if reduction == "reference":
        root_weights = tf.sqrt(reductions.example_weights(mask))[:, None, None]
        total = reductions.weighted_square_sum(difference, root_weights)
        return reductions.divided(total, tf.cast(tf.size(teacher), tf.float32))
    width = tf.cast(tf.shape(teacher)[-1], tf.float32)
    total = reductions.weighted_square_sum(difference, tf.sqrt(mask)[:, :, None])
    return reductions.divided(total, width * tf.reduce_sum(mask))


def cosine_distance(teacher: Array, student: Array, mask: Array) -> tf.Tensor:
    """One minus the cosine of the angle between hidden states, averaged over real tokens.

    ``sum_bl w_bl (1 - cos(t_bl, s_bl)) / sum_bl w_bl`` with token weights `w`. The published
    code selects the real tokens before it averages, which is the same number.

    Args:
      teacher: States, shape (batch, tokens, width), any float type. It receives no gradient.
      student: The student's states, same shape: equal widths, no projection.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).

    Returns:
      Scalar float32 between 0 (same directions, to rounding) and 2 (opposite ones). A state of
      length zero has cosine 0, distance 1 and no gradient. 0 when no token is real.

    Raises:
      ShapeError: The shapes differ, for example by the width.

    Reference:
      Sanh et al., DistilBERT (2019), section 3, applied to the last hidden states.
    """
    remedy = (
        "The cosine needs equal widths: choose a student as wide as its teacher,"
        " or hidden_state_mse with a projection."
    )
    teacher, student, mask = _prepare(teacher, student, mask, remedy)
    real = mask[:, :, None] > 0.0
    # Padding is replaced before the square roots, whose gradient it could turn into NaN.
    teacher = direction(tf.where(real, teacher, 0.0))
    student = direction(tf.where(real, student, 0.0))
    cosine = tf.reduce_sum(teacher * student, axis=-1)  # (batch, tokens)
    return reductions.weighted_mean(1.0 - cosine, mask)


def patient_mse(
    teacher: Array,
    student: Array,
    *,
    projection: Callable[[Array], tf.Tensor] | None = None,
    reduction: str = "batch",
    sample_weight: Array | None = None,
) -> tf.Tensor:
    """Mean squared error of states that are first scaled to length 1.

    With ``u = t / |t|`` and ``v = p / |p|``, ``p = projection(s)``, example weights `w`, `B`
    examples, the teacher's width `d` and ``E_b = sum_e (v_be - u_be)^2 / d``, which is
    ``2 (1 - cos(p_b, t_b)) / d``:

    - "batch": ``sum_b w_b E_b / sum_b w_b``, a mean over examples and the width.
    - "reference": ``sum_b w_b E_b / B``; the same number unless weights are given.

    Args:
      teacher: States of [CLS] after one layer, shape (batch, d), any float type. They receive no
        gradient.
      student: The student's states, shape (batch, d_student).
      projection: Maps the student's states to width d, for example a `Dense` layer. None compares
        the states as they are, as published.
      reduction: "batch" or "reference".
      sample_weight: Non-negative weights of the examples, shape (batch,); None for equal ones.

    Returns:
      Scalar float32, between 0 (same directions) and 4 / d (opposite ones). A state of length
      zero stays zero and has no gradient. 0 when all weights are 0. One layer.

    Raises:
      ShapeError: The shapes differ, for example by the width.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., BERT-PKD (2019), equation 7, which sums over layers, examples and the width; the
      published code takes the mean over all three.
    """
    checks.check_choice("reduction", reduction, ("batch", "reference"))
    if projection is not None:
        student = projection(student)
    teacher = reductions.as_constant(teacher)  # (batch, width)
    student = reductions.as_float32(student)
    checks.check_rank("teacher [CLS] states", teacher, ("batch", "width"))
    checks.check_rank("student [CLS] states", student, ("batch", "width"))
    remedy = (
        "Choose a student as wide as its teacher, or give projection=keras.layers.Dense(<teacher"
        " width>)."
        if projection is None
        else "The projection must give the teacher's width."
    )
    checks.check_same_shape("student [CLS] states", teacher, student, {-1: remedy})
    weights = None
    if sample_weight is not None:
        weights = reductions.as_constant(sample_weight)  # (batch,)
        checks.check_weights("sample_weight", weights, teacher.shape[:1])
        # What does not count is replaced before the square roots, whose gradient may be NaN.
        counts = weights[:, None] > 0.0
        teacher, student = tf.where(counts, teacher, 0.0), tf.where(counts, student, 0.0)
    error = tf.math.squared_difference(direction(student), direction(teacher))
    values = tf.reduce_mean(error, axis=-1)  # (batch,)
    return reductions.mean(values, weights, reduction)


def direction(states: tf.Tensor) -> tf.Tensor:
    """Scales vectors, (..., width), to length 1 without overflow or underflow; zero stays zero."""
    largest = tf.reduce_max(tf.abs(states), axis=-1, keepdims=True)
    # A direction does not depend on the scale, so no gradient is lost here.
    states = tf.math.divide_no_nan(states, tf.stop_gradient(largest))
    return tf.math.l2_normalize(states, axis=-1)


def _prepare(
    teacher: Array, student: Array, mask: Array, width_remedy: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    remedies = {-1: width_remedy}
    return checks.prepare("hidden states", checks.STATES, teacher, student, mask, remedies)
