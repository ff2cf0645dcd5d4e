"""The attention objective of TinyBERT."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.objectives import reduction as reductions
from tfdistill.objectives.reduction import Array
from tfdistill.objectives.shapes import check_rank, check_same_shape, check_weights

AXES = ("batch", "heads", "tokens", "tokens")
REFERENCE_MASK_VALUE = -1e4
REFERENCE_THRESHOLD = -1e2
REMEDIES = {
    1: (
        "Scores can only be compared head by head: give the student the teacher's number of heads,"
        " or learn MiniLM relations instead, which regroup both sides into a common number of"
        " relation heads."
    ),
    0: "Teacher and student must see the same batch.",
    2: "Pad teacher and student to the same length.",
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
    reductions.check_reduction(reduction, ("tokens", "reference"))
    teacher = reductions.as_constant(teacher)  # (batch, heads, tokens, tokens)
    student = reductions.as_float32(student)
    mask = reductions.as_constant(mask)  # (batch, tokens)
    check_rank("teacher attention scores", teacher, AXES)
    check_rank("student attention scores", student, AXES)
    check_same_shape("student attention scores", teacher, student, REMEDIES)
    check_weights("mask", mask, teacher.shape[:1].concatenate(teacher.shape[-1:]))
    if reduction == "reference":
        return _reference(teacher, student, mask)
    root = tf.sqrt(mask)
    root_of_root = tf.sqrt(root)  # the root of a pair's weight is a product of these
    root_weights = root_of_root[:, None, :, None] * root_of_root[:, None, None, :]
    heads = tf.cast(tf.shape(teacher)[1], tf.float32)
    pairs = tf.reduce_sum(tf.square(tf.reduce_sum(root, axis=1)))
    total = reductions.weighted_square_sum(student - teacher, root_weights)
    return reductions.divided(total, heads * pairs)


def _reference(teacher: tf.Tensor, student: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """The "reference" reduction of `attention_score_mse`."""
    additive = tf.where(mask > 0.0, 0.0, REFERENCE_MASK_VALUE)[:, None, None, :]

    def without_low(scores: tf.Tensor) -> tf.Tensor:
        scores += additive
        return tf.where(scores <= REFERENCE_THRESHOLD, 0.0, scores)

    root_weights = tf.sqrt(reductions.example_weights(mask))[:, None, None, None]
    total = reductions.weighted_square_sum(
        without_low(student) - without_low(teacher), root_weights
    )
    return reductions.divided(total, tf.cast(tf.size(teacher), tf.float32))
