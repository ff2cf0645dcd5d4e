"""Objectives on attention scores: TinyBERT's squared error, MobileBERT's distributions."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.reduction import Array

REFERENCE_MASK_VALUE = -1e4
REFERENCE_THRESHOLD = -1e2
REMEDIES = {
    1: (
        "Scores can only be compared head by head: give the student the teacher's number of heads,"
        " or learn MiniLM relations instead, which regroup both sides into a common number of"
        " relation heads."
    )
}


def attention_score_mse(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Mean squared error of attention scores before the softmax.

    With scores `t`, `s`, token weights `w`, `B` examples, `h` heads and `L` tokens:

    - "tokens": ``sum_bkij w_bij (s_bkij - t_bkij)^2 / (h sum_bij w_bij)``, a mean over the pairs
      of real tokens and all heads. The weight of a pair is the geometric mean of its tokens'
      weights, ``w_bij = sqrt(w_bi w_bj)``: 1 for two real tokens, 0 as soon as one is padding,
      and the sample weight when the mask carries one.
    - "reference": ``sum_bkij w_b (s'_bkij - t'_bkij)^2 / (B h L L)``, the published reduction.
      Both sides first get -1e4 added where the *key* is padding, then every entry <= -1e2
      (padding keys, but also a real score that low) becomes 0. Padding queries count, and so do
      padding keys, as zeros. The key is padding where its mask is 0; ``w_b`` is the largest
      weight of the example's tokens, thus 1 for a binary mask; the divisor ignores weights.

    Args:
      teacher: Scores ``q k^T / sqrt(d_head)`` without mask, shape (batch, heads, tokens, tokens),
        any float type. It receives no gradient.
      student: The student's scores, same shape.
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens).
      reduction: "tokens" or "reference".

    Returns:
      Scalar float32, at least 0, 0 at equality and when no token is real. One layer; the sum
      over layers is the caller's.

    Raises:
      ShapeError: The shapes differ, for example by the number of heads.
      ConfigError: Unknown reduction.

    Reference:
      Jiao et al., TinyBERT (2020), equation 7, which leaves the treatment of padding open.
    """
    teacher, student, mask = _prepare(teacher, student, mask, reduction)
    if reduction == "reference":
        return _reference(teacher, student, mask)
    root = tf.sqrt(mask)
    root_of_root = tf.sqrt(root)  # the root of a pair's weight is a product of these
    root_weights = root_of_root[:, None, :, None] * root_of_root[:, None, None, :]
    heads = tf.cast(tf.shape(teacher)[1], tf.float32)
    pairs = tf.reduce_sum(tf.square(tf.reduce_sum(root, axis=1)))
    total = reductions.weighted_square_sum(student - teacher, root_weights)
    return reductions.divided(total, heads * pairs)


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
    return reductions.mean(tf.reduce_sum(surprise, axis=-1), weights, reduction)


def attention_kl_divergence(
    teacher: Array, student: Array, mask: Array, *, reduction: str = "tokens"
) -> tf.Tensor:
    """Kullback-Leibler divergence of the student's attention from the teacher's.

    `attention_cross_entropy` with ``D_bki = sum_j p_bkij (log p_bkij - log q_bkij)`` instead
    of ``H_bki``: it is less by the teacher's entropy, 0 at equality, and has the same gradient.

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
    return reductions.mean(tf.reduce_sum(terms, axis=-1), weights, reduction)


def _reference(teacher: tf.Tensor, student: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The "reference" reduction of `attention_score_mse`."""
    additive = tf.where(mask > 0.0, 0.0, REFERENCE_MASK_VALUE)[:, None, None, :]

    def without_low(scores: tf.Tensor) -> tf.Tensor:
        masked = scores + additive  # not in place: a student's scores may be a variable
        return tf.where(masked <= REFERENCE_THRESHOLD, 0.0, masked)

    root_weights = tf.sqrt(reductions.example_weights(mask))[:, None, None, None]
    total = reductions.weighted_square_sum(
        without_low(student) - without_low(teacher), root_weights
    )
    return reductions.divided(total, tf.cast(tf.size(teacher), tf.float32))


def _prepare(
    teacher: Array, student: Array, mask: Array, reduction: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    checks.check_choice("reduction", reduction, ("tokens", "reference"))
    return checks.prepare("attention scores", checks.SCORES, teacher, student, mask, REMEDIES)


def _prepare_scores(
    teacher: Array, student: Array, mask: Array, reduction: str
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Checks scores; returns log-probabilities over real keys and the queries' weights.

    Returns (batch, heads, tokens, tokens), (batch, 1, tokens).
    """
    teacher, student, mask = _prepare(teacher, student, mask, reduction)
    weights = reductions.token_weights(mask, reduction)
    counts = weights[:, None, :, None] > 0.0
    real = mask[:, None, None, :] > 0.0

    def log_probabilities(scores: tf.Tensor) -> tf.Tensor:
        scores = tf.where(counts, scores, 0.0)
        return tf.nn.log_softmax(tf.where(real, scores, tf.float32.min))

    return log_probabilities(teacher), log_probabilities(student), weights[:, None, :]
