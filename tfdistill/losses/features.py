"""MobileBERT's objectives on feature maps: the normalised states, and their statistics."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.reduction import Array

NORM_EPSILON = 1e-12
WIDTH_REMEDY = (
    "Feature maps are compared as they are: give the student the teacher's width between blocks,"
    " or use hidden_state_mse with a projection."
)


def feature_map_mse(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Mean squared error of feature maps, each normalised without parameters.

    With ``LN0(x) = (x - mean(x)) / sqrt(var(x) + 1e-12)`` over the width, states `t`, `s`, token
    weights `w`, `B` examples, `L` tokens and width `d`:

    - "tokens": ``sum_ble w_bl (LN0(s)_ble - LN0(t)_ble)^2 / (d sum_bl w_bl)``, a mean over real
      tokens and the width.
    - "reference": ``sum_ble w_b (LN0(s)_ble - LN0(t)_ble)^2 / (B L d)``, the published reduction,
      in which padding counts like a word. ``w_b`` is the largest weight of the example's tokens;
      the divisor ignores weights.

    Args:
      teacher: States, shape (batch, tokens, d), any float type. It receives no gradient.
      student: The student's states, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference".

    Returns:
      Scalar float32 between 0 and 4, 0 at equality (also up to a shift and a positive scale of
      each token's state) and when no token is real. One layer, without the published factor 100.

    Raises:
      ShapeError: The shapes differ, for example by the width.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., MobileBERT (2020), section 3.4, feature map transfer. The published TF2 code
      normalises with an epsilon of 1e-3, which mutes states of small variance.
    """
    teacher, student, weights = _prepare_states(teacher, student, mask, reduction)
    difference = _normalised(student) - _normalised(teacher)
    return reductions.mean(tf.reduce_mean(tf.square(difference), axis=-1), weights, reduction)


def feature_mean_mse(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Mean squared error of the means of feature maps over their width.

    With ``mu = mean_e x_ble`` of each token:

    - "tokens": ``sum_bl w_bl (mu_s_bl - mu_t_bl)^2 / sum_bl w_bl``, a mean over real tokens.
    - "reference": ``sum_bl w_b (mu_s_bl - mu_t_bl)^2 / (B L)``, padding counts like a word.

    Args:
      teacher: States, shape (batch, tokens, width), any float type. It receives no gradient.
      student: The student's states, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference", as in `feature_map_mse`.

    Returns:
      Scalar float32, at least 0, 0 where the means agree and when no token is real. One layer,
      without the published factor 5000.

    Raises:
      ShapeError: The shapes differ, for example by the width.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., MobileBERT (2020), section 3.4: the statistics of feature maps. The published
      TF1 code compares each layer with the statistics of all teacher layers; this compares one
      layer with one.
    """
    teacher, student, weights = _prepare_states(teacher, student, mask, reduction)
    student_means, teacher_means = (
        tf.reduce_mean(states, axis=-1) for states in (student, teacher)
    )
    return reductions.mean(
        tf.math.squared_difference(student_means, teacher_means), weights, reduction
    )


def feature_variance_mae(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Mean absolute error of the variances of feature maps over their width.

    With ``v = mean_e (x_ble - mu_bl)^2`` of each token:

    - "tokens": ``sum_bl w_bl |v_s_bl - v_t_bl| / sum_bl w_bl``, a mean over real tokens.
    - "reference": ``sum_bl w_b |v_s_bl - v_t_bl| / (B L)``, padding counts like a word.

    Args:
      teacher: States, shape (batch, tokens, width), any float type. It receives no gradient.
      student: The student's states, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference", as in `feature_map_mse`.

    Returns:
      Scalar float32, at least 0, 0 where the variances agree and when no token is real. Its
      gradient at equality is 0. One layer, without the published factor 5.

    Raises:
      ShapeError: The shapes differ, for example by the width.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., MobileBERT (2020), section 3.4; the absolute value is the published code's.
    """
    teacher, student, weights = _prepare_states(teacher, student, mask, reduction)
    difference = _centred(student)[1] - _centred(teacher)[1]
    return reductions.mean(tf.abs(tf.squeeze(difference, axis=-1)), weights, reduction)


def _centred(states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns states less their mean, (batch, tokens, width), and the variance, with width 1."""
    centred = states - tf.reduce_mean(states, axis=-1, keepdims=True)
    return centred, tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)


def _normalised(states: tf.Tensor) -> tf.Tensor:
    """LN0: layer normalisation without parameters."""
    centred, variance = _centred(states)
    return centred * tf.math.rsqrt(variance + NORM_EPSILON)


def _prepare_states(
    teacher: Array, student: Array, mask: Array, reduction: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Checks states and sets those that do not count to 0; returns the tokens' weights too."""
    checks.check_choice("reduction", reduction, ("tokens", "reference"))
    remedies = {-1: WIDTH_REMEDY}
    teacher, student, mask = checks.prepare(
        "feature maps", checks.STATES, teacher, student, mask, remedies
    )
    weights = reductions.token_weights(mask, reduction)
    # Before any arithmetic, whose gradient could turn what padding holds into NaN.
    counts = weights[:, :, None] > 0.0
    return tf.where(counts, teacher, 0.0), tf.where(counts, student, 0.0), weights
