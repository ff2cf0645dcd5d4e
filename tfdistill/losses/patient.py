"""The patient objective of BERT-PKD: the direction of the [CLS] state, layer by layer."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from tfdistill.losses import reduction as reductions
from tfdistill.losses.hidden import direction
from tfdistill.losses.reduction import Array
from tfdistill.losses.shapes import check_rank, check_same_shape, check_weights


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
    reductions.check_reduction(reduction, ("batch", "reference"))
    if projection is not None:
        student = projection(student)
    teacher = reductions.as_constant(teacher)  # (batch, width)
    student = reductions.as_float32(student)
    check_rank("teacher [CLS] states", teacher, ("batch", "width"))
    check_rank("student [CLS] states", student, ("batch", "width"))
    remedy = (
        "Choose a student as wide as its teacher, or give projection=keras.layers.Dense(<teacher"
        " width>)."
        if projection is None
        else "The projection must give the teacher's width."
    )
    check_same_shape("student [CLS] states", teacher, student, {-1: remedy})
    weights = None
    if sample_weight is not None:
        weights = reductions.as_constant(sample_weight)  # (batch,)
        check_weights("sample_weight", weights, teacher.shape[:1])
        # What does not count is replaced before the square roots, whose gradient may be NaN.
        counts = weights[:, None] > 0.0
        teacher, student = tf.where(counts, teacher, 0.0), tf.where(counts, student, 0.0)
    error = tf.math.squared_difference(direction(student), direction(teacher))
    values = tf.reduce_mean(error, axis=-1)  # (batch,)
    return reductions.mean(values, weights, reduction)
