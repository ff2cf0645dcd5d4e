"""The objectives of MobileBERT: feature maps, their statistics, and attention distributions."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.objectives import attention, hidden
from tfdistill.objectives import reduction as reductions
from tfdistill.objectives.reduction import Array
from tfdistill.objectives.shapes import check_rank, check_same_shape, check_weights

NORM_EPSILON = 1e-12
REDUCTIONS = ("tokens", "reference")
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
    return _reduce(tf.reduce_mean(tf.square(difference), axis=-1), weights, reduction)


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
    ours, theirs = (tf.reduce_mean(states, axis=-1) for states in (student, teacher))
    return _reduce(tf.math.squared_difference(ours, theirs), weights, reduction)


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
    return _reduce(tf.abs(tf.squeeze(difference, axis=-1)), weights, reduction)


def attention_cross_entropy(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Cross entropy of the student's attention distributions against the teacher's.

    With scores `t`, `s`, ``p_bki = softmax_j t_bkij`` and ``q_bki = softmax_j s_bkij`` over the
    real keys j, token weights `w`, `B` examples, `h` heads, `L` tokens and
    ``H_bki = -sum_j p_bkij log q_bkij``:

    - "tokens": ``sum_bki w_bi H_bki / (h sum_bi w_bi)``, a mean over heads and real queries.
    - "reference": ``sum_bki w_b H_bki / (B h L)``, the published mean, in which padding queries
      count. ``w_b`` is the largest weight of the example's tokens; the divisor ignores weights.

    A key is real where its weight is above 0; how heavy it is does not matter. The minimum over
    students is the teacher's mean entropy, not 0; see `attention_kl_divergence`.

    Args:
      teacher: Scores ``q k^T / sqrt(d_head)`` before the softmax and without mask, shape
        (batch, heads, tokens, tokens), any float type. It receives no gradient.
      student: The student's scores, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference".

    Returns:
      Scalar float32, 0 when no token is real. One layer.

    Raises:
      ShapeError: The shapes differ, for example by the number of heads.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., MobileBERT (2020), section 3.4, attention transfer, in the published code's
      form. The published TF2 code passes probabilities through a second softmax.
    """
    log_teacher, log_student, weights = _prepare_scores(teacher, student, mask, reduction)
    # A key of probability 0 counts 0 even where its surprise is infinite.
    surprise = tf.math.multiply_no_nan(-log_student, tf.exp(log_teacher))
    return _reduce(tf.reduce_sum(surprise, axis=-1), weights, reduction)


def attention_kl_divergence(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Kullback-Leibler divergence of the student's attention from the teacher's.

    `attention_cross_entropy` with ``D_bki = sum_j p_bkij (log p_bkij - log q_bkij)`` in the place
    of ``H_bki``: less the teacher's entropy, so that equality gives 0, with the same gradient.

    Args:
      teacher: Scores ``q k^T / sqrt(d_head)`` before the softmax and without mask, shape
        (batch, heads, tokens, tokens), any float type. It receives no gradient.
      student: The student's scores, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference", as in `attention_cross_entropy`.

    Returns:
      Scalar float32, at least 0 up to rounding, 0 at equality and when no token is real.

    Raises:
      ShapeError: The shapes differ, for example by the number of heads.
      ConfigError: Unknown reduction.

    Reference:
      Sun et al., MobileBERT (2020), section 3.4, attention transfer as the paper writes it.
    """
    log_teacher, log_student, weights = _prepare_scores(teacher, student, mask, reduction)
    terms = tf.math.multiply_no_nan(log_teacher - log_student, tf.exp(log_teacher))
    return _reduce(tf.reduce_sum(terms, axis=-1), weights, reduction)


def _centred(states: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns states less their mean, (batch, tokens, width), and the variance, with width 1."""
    centred = states - tf.reduce_mean(states, axis=-1, keepdims=True)
    return centred, tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)


def _normalised(states: tf.Tensor) -> tf.Tensor:
    """LN0: layer normalisation without parameters."""
    centred, variance = _centred(states)
    return centred * tf.math.rsqrt(variance + NORM_EPSILON)


def _reduce(values: tf.Tensor, weights: tf.Tensor, reduction: str) -> tf.Tensor:
    """Averages values by their weights, which broadcast; "reference" divides by the size."""
    weights = tf.broadcast_to(weights, tf.shape(values))
    if reduction == "reference":
        return reductions.reference_mean(values, weights)
    return reductions.weighted_mean(values, weights)


def _token_weights(mask: tf.Tensor, reduction: str) -> tf.Tensor:
    """How much each token counts, (batch, tokens); in "reference" as much as its example."""
    if reduction == "reference":
        return tf.ones_like(mask) * reductions.example_weights(mask)[:, None]
    return mask


def _prepare_states(
    teacher: Array, student: Array, mask: Array, reduction: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Checks states and sets those that do not count to 0; returns the tokens' weights too."""
    reductions.check_reduction(reduction, REDUCTIONS)
    teacher = reductions.as_constant(teacher)  # (batch, tokens, width)
    student = reductions.as_float32(student)
    mask = reductions.as_constant(mask)  # (batch, tokens)
    check_rank("teacher feature maps", teacher, hidden.AXES)
    check_rank("student feature maps", student, hidden.AXES)
    remedies = {-1: WIDTH_REMEDY, 1: "Pad teacher and student to the same length."}
    check_same_shape("student feature maps", teacher, student, remedies)
    check_weights("mask", mask, teacher.shape[:2])
    weights = _token_weights(mask, reduction)
    # Before any arithmetic, whose gradient could turn what padding holds into NaN.
    counts = weights[:, :, None] > 0.0
    return tf.where(counts, teacher, 0.0), tf.where(counts, student, 0.0), weights


def _prepare_scores(
    teacher: Array, student: Array, mask: Array, reduction: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Checks scores; returns log-probabilities over real keys and the queries' weights.

    Returns:
      Teacher and student, (batch, heads, tokens, tokens); weights, (batch, 1, tokens).
    """
    reductions.check_reduction(reduction, REDUCTIONS)
    teacher = reductions.as_constant(teacher)  # (batch, heads, tokens, tokens)
    student = reductions.as_float32(student)
    mask = reductions.as_constant(mask)  # (batch, tokens)
    check_rank("teacher attention scores", teacher, attention.AXES)
    check_rank("student attention scores", student, attention.AXES)
    check_same_shape("student attention scores", teacher, student, attention.REMEDIES)
    check_weights("mask", mask, teacher.shape[:1].concatenate(teacher.shape[-1:]))
    weights = _token_weights(mask, reduction)
    counts = weights[:, None, :, None] > 0.0
    real = mask[:, None, None, :] > 0.0

    def log_probabilities(scores: tf.Tensor) -> tf.Tensor:
        scores = tf.where(counts, scores, 0.0)
        return tf.nn.log_softmax(tf.where(real, scores, tf.float32.min))

    return log_probabilities(teacher), log_probabilities(student), weights[:, None, :]
