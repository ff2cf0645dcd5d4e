"""The relations of MiniLM: how alike the tokens of a sentence are to one another."""

from __future__ import annotations

import tensorflow as tf

from tfdistill.errors import ConfigError, ShapeError
from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.checks import STATES, check_rank, check_weights
from tfdistill.losses.reduction import Array


def relation_kl(
    teacher: Array,
    student: Array,
    mask: Array,
    *,
    num_relation_heads: int,
    reduction: str = "tokens",
) -> tf.Tensor:
    """Kullback-Leibler divergence from the student's to the teacher's token relations.

    The vectors of a layer (its queries, its keys or its values, attention heads side by side) are
    cut anew into `h` relation heads, which are ``d_t / h`` wide in the teacher and ``d_s / h`` in
    the student. The relation of token i is ``softmax_j(x_ki . x_kj / sqrt(width / h))`` over the
    real tokens j of its sentence, p in the teacher and q in the student. Widths and numbers of
    attention heads may differ. With token weights `w`, `B` examples of `n_b` real tokens and
    ``D_bki = sum_j p_bkij (log p_bkij - log q_bkij)``:

    - "tokens": ``sum_bki w_bi D_bki / (h sum_bi w_bi)``, a mean over relation heads and the real
      tokens i of the batch.
    - "reference": ``sum_b w_b / B sum_ki D_bki / (h n_b)``, the paper's formula: a mean over the
      tokens of each sentence, then over sentences, so that a short one counts as much as a long
      one. ``w_b`` is the largest weight of the sentence's tokens, thus 1 for a binary mask; the
      divisor ignores weights.

    Args:
      teacher: Queries, keys or values, shape (batch, tokens, d_t), any float type. They receive
        no gradient.
      student: The same of the student, shape (batch, tokens, d_s).
      mask: 0 at padding, 1 or a non-negative weight at real tokens, shape (batch, tokens). As
        keys all real tokens count alike.
      num_relation_heads: h, a divisor of both widths.
      reduction: "tokens" or "reference".

    Returns:
      Scalar float32, at least 0 up to rounding, 0 at equality (also at equality up to a rotation
      of each relation head) and when no token is real. One relation of one layer.

    Raises:
      ShapeError: The shapes differ other than by the width, or h divides one of them not.
      ConfigError: Unknown reduction, or h is no positive integer.

    Reference:
      Wang et al., MiniLMv2 (2021), equations 5 to 8, for a batch with padding.
    """
    checks.check_choice("reduction", reduction, ("tokens", "reference"))
    teacher = reductions.as_constant(teacher)  # (batch, tokens, d_t)
    student = reductions.as_float32(student)  # (batch, tokens, d_s)
    mask = reductions.as_constant(mask)  # (batch, tokens)
    check_rank("teacher relation vectors", teacher, STATES)
    check_rank("student relation vectors", student, STATES)
    if not teacher.shape[:2].is_compatible_with(student.shape[:2]):
        raise ShapeError(
            "student relation vectors",
            f"the teacher's batch and tokens {teacher.shape[:2]}",
            f"{student.shape[:2]}",
            "Teacher and student must see the same batch, padded to the same length.",
        )
    check_weights("mask", mask, teacher.shape[:2])
    check_relation_heads(num_relation_heads, teacher.shape[-1], student.shape[-1])
    real = mask > 0.0
    log_p = _log_relations(teacher, real, num_relation_heads)  # (batch, heads, tokens, tokens)
    log_q = _log_relations(student, real, num_relation_heads)
    # A token of probability 0, such as padding, counts 0 for any student.
    divergence = tf.reduce_sum(tf.math.multiply_no_nan(log_p - log_q, tf.exp(log_p)), axis=-1)
    divergence = tf.reduce_mean(divergence, axis=1)  # (batch, tokens)
    if reduction == "tokens":
        return reductions.weighted_mean(divergence, mask)
    counts = tf.cast(real, tf.float32)
    totals = tf.reduce_sum(tf.math.multiply_no_nan(divergence, counts), axis=1)
    means = tf.math.divide_no_nan(totals, tf.reduce_sum(counts, axis=1))  # (batch,)
    return reductions.reference_mean(means, reductions.example_weights(mask))


def check_relation_heads(
    num_relation_heads: int, teacher_width: int | None, student_width: int | None
) -> None:
    """Requires a number of relation heads into which both widths can be cut."""
    whole = isinstance(num_relation_heads, int) and not isinstance(num_relation_heads, bool)
    if not whole or num_relation_heads < 1:
        raise ConfigError(
            "num_relation_heads", "an integer of at least 1", repr(num_relation_heads)
        )
    widths = [width for width in (teacher_width, student_width) if width is not None]
    if any(width % num_relation_heads for width in widths):
        fitting = common_divisors(*widths)
        raise ShapeError(
            "num_relation_heads",
            f"a divisor of the widths {' and '.join(map(str, widths))}",
            num_relation_heads,
            f"Fitting: {', '.join(map(str, fitting))}.",
        )


def common_divisors(*widths: int) -> tuple[int, ...]:
    """Lists, ascending, the numbers of heads into which every width can be cut."""
    return tuple(
        count for count in range(1, min(widths) + 1) if not any(width % count for width in widths)
    )


def _log_relations(vectors: tf.Tensor, real: tf.Tensor, num_heads: int) -> tf.Tensor:
    """Log probabilities of each token's relation to the real tokens of its sentence."""
    # Padding is replaced before the products, which would spread its infinities.
    vectors = tf.where(real[:, :, None], vectors, 0.0)
    shape = tf.shape(vectors)
    head_width = shape[2] // num_heads
    heads = tf.reshape(vectors, (shape[0], shape[1], num_heads, head_width))
    heads = tf.transpose(heads, (0, 2, 1, 3))  # (batch, heads, tokens, head width)
    scaled = heads * tf.math.rsqrt(tf.cast(head_width, tf.float32))
    scores = tf.matmul(scaled, heads, transpose_b=True)  # (batch, heads, tokens, tokens)
    scores = tf.where(real[:, None, None, :], scores, tf.float32.min)
    return tf.nn.log_softmax(scores)
