"""Objectives on the vectors of texts: each vector by itself, or all similarities in a batch.

cos(x, y) is the product of ``x / |x|`` and ``y / |y|``, 0 where one of them has no length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfdistill.errors import ConfigError
from tfdistill.losses import reduction as reductions
from tfdistill.losses.checks import check_rank, check_same_shape, check_weights
from tfdistill.losses.hidden import direction
from tfdistill.losses.reduction import Array

_NOTHING = -1e30  # the logit of what has no chance; finite, so that no gradient is NaN
_AXES = ("batch", "width")
_REMEDY = "Give the student vectors as wide as the teacher's, or a projection to that width."


def vector_mse(
    teacher: Array,
    student: Array,
    *,
    projection: Callable[[Array], tf.Tensor] | None = None,
    sample_weight: Array | None = None,
) -> tf.Tensor:
    """Mean squared error of vectors as they are, over examples and the width.

    With ``p = projection(s)``, example weights `w` and the teacher's width `d`:
    ``sum_b w_b sum_e (p_be - t_be)^2 / (d sum_b w_b)``. Where both have length 1 that is
    ``2 / d`` times `vector_cosine`.

    Args:
      teacher: The teacher's vectors, shape (batch, d), any float type. They receive no gradient.
      student: The student's vectors, shape (batch, d_student).
      projection: Maps the student's vectors to width d, for example a `Dense` layer; None compares
        them as they are.
      sample_weight: Non-negative weights of the examples, shape (batch,); None for equal ones.

    Returns:
      Scalar float32, at least 0, 0 at equality and when all weights are 0.

    Raises:
      ShapeError: The shapes differ, for example by the width.

    Reference:
      Reimers and Gurevych (2020), Making Monolingual Sentence Embeddings Multilingual, equation 1,
      and MSELoss of sentence-transformers, which it equals.
    """
    teacher, student, weights = _prepare(teacher, student, projection, sample_weight)
    values = tf.reduce_mean(tf.math.squared_difference(student, teacher), axis=-1)
    return reductions.weighted_mean(values, weights)


def vector_cosine(
    teacher: Array,
    student: Array,
    *,
    projection: Callable[[Array], tf.Tensor] | None = None,
    sample_weight: Array | None = None,
) -> tf.Tensor:
    """Cosine distance of vectors, over examples: ``sum_b w_b (1 - cos(p_b, t_b)) / sum_b w_b``.

    It is half the squared distance of the two after they are scaled to length 1, summed over the
    width: `patient_mse` times d / 2.

    Args:
      teacher: Shape (batch, d).
      student: Shape (batch, d_student).
      projection: From the student's width to d.
      sample_weight: Shape (batch,), or None.

    Returns:
      Scalar float32, between 0 (same directions) and 2 (opposite ones); 0 when all weights are 0.
      A vector without length has distance 1 and no gradient.

    Raises:
      ShapeError: The shapes differ, for example by the width.
    """
    teacher, student, weights = _prepare(teacher, student, projection, sample_weight)
    cosines = tf.reduce_sum(direction(student) * direction(teacher), axis=-1)
    return reductions.weighted_mean(1.0 - cosines, weights)


def similarity_kl(
    teacher: Array,
    student: Array,
    *,
    temperature: float = 0.05,
    prefixes: Sequence[int] = (),
    sample_weight: Array | None = None,
) -> tf.Tensor:
    """KL divergence of the similarities between the texts of a batch.

    With ``p_ij = softmax over j != i of cos(t_i, t_j) / T`` and q the same for the student:
    ``sum_i w_i sum_j p_ij log(p_ij / q_ij) / sum_i w_i``, a mean over texts. Texts of weight 0 are
    nobody's neighbour. With `prefixes`, which the vectors shall be of use cut to (Matryoshka), it
    is the sum over prefixes k of the same with ``q`` from the first k features of the student.

    The value depends on which texts share a batch, whose parts on several devices are one. The
    widths of teacher and student may differ.

    Args:
      teacher: The teacher's vectors, shape (batch, d), any float type. They receive no gradient.
      student: The student's vectors, shape (batch, d_student).
      temperature: T > 0. 0.05 is the scale 20 that sentence-transformers multiplies cosines with.
      prefixes: Widths, each at most the student's; () for the whole vectors alone.
      sample_weight: Non-negative weights of the texts, shape (batch,); None for equal ones.

    Returns:
      Scalar float32, at least 0, 0 where all similarities agree, for a single text, and when all
      weights are 0.

    Raises:
      ConfigError: A temperature that is not positive, or a prefix that is no width.
      ShapeError: The shapes differ but by the width.

    Reference:
      Fang et al. (2021), SEED, equation 4, where the neighbours are a queue instead of the batch;
      Kusupati et al. (2022), Matryoshka Representation Learning, equation 1, all weights 1.
    """
    if not 0.0 < temperature < float("inf"):
        raise ConfigError("temperature", "a number above 0", temperature)
    teacher, student = reductions.as_constant(teacher), reductions.as_float32(student)
    check_rank("teacher vectors", teacher, _AXES)
    check_rank("student vectors", student, _AXES)
    check_same_shape("batch of vectors", teacher[:, :0], student[:, :0], {})
    weights, teacher, student = map(
        reductions.whole_batch, _weighted(sample_weight, teacher, student)
    )
    log_targets = _log_neighbours(teacher, weights, temperature)
    targets = tf.exp(log_targets)

    def divergence(vectors: tf.Tensor) -> tf.Tensor:
        log_ratio = log_targets - _log_neighbours(vectors, weights, temperature)
        values = tf.reduce_sum(tf.math.multiply_no_nan(log_ratio, targets), axis=-1)  # (batch,)
        return reductions.weighted_mean(values, weights)

    return matryoshka(divergence, student, prefixes) if len(prefixes) else divergence(student)


def label_similarity(
    vectors: Array, labels: Array, *, sample_weight: Array | None = None
) -> tf.Tensor:
    """Squared error of the cosines in a batch: 1 for two texts of one label, 0 for two of others.

    With ``c_ij = cos(v_i, v_j)``, pair weights ``w_ij = w_i w_j`` and the pairs i < j of one label,
    P, and of different ones, N: ``(mean over P of (1 - c_ij)^2 + mean over N of c_ij^2) / 2``, both
    means weighted by w_ij. Both kinds of pairs count alike, however many there are of each; a kind
    that does not occur counts 0.

    The value depends on which texts share a batch, whose parts on several devices are one.

    Args:
      vectors: Shape (batch, d), any float type.
      labels: The class of each text, int (batch,).
      sample_weight: Non-negative weights of the texts, shape (batch,); None for equal ones.

    Returns:
      Scalar float32, at least 0. A vector without length has cosine 0 and no gradient.

    Raises:
      ShapeError: There is not one class for each vector.

    Reference:
      CosineSimilarityLoss of sentence-transformers, with which Tunstall et al. (2022), SetFit,
      train on as many pairs of one label as of two.
    """
    vectors, labels = reductions.as_float32(vectors), tf.convert_to_tensor(labels)
    check_rank("vectors", vectors, _AXES)
    check_rank("labels", labels, _AXES[:1])
    check_same_shape("labels", vectors[:, 0], labels, {})
    weights, _, vectors = _weighted(sample_weight, vectors, vectors)
    weights, labels, vectors = map(reductions.whole_batch, (weights, labels, vectors))
    directions = direction(vectors)
    cosines = tf.matmul(directions, directions, transpose_b=True)
    pairs = weights[:, tf.newaxis] * weights[tf.newaxis]
    # Each pair twice, no text with itself.
    pairs = tf.linalg.set_diag(pairs, tf.zeros_like(weights))
    same = tf.equal(labels[:, tf.newaxis], labels[tf.newaxis])
    alike = reductions.weighted_mean(
        tf.math.squared_difference(1.0, cosines), tf.where(same, pairs, 0.0)
    )
    apart = reductions.weighted_mean(tf.square(cosines), tf.where(same, 0.0, pairs))
    return (alike + apart) / 2.0


def matryoshka(
    objective: Callable[[tf.Tensor], tf.Tensor], vectors: Array, prefixes: Sequence[int]
) -> tf.Tensor:
    """Applies an objective to the first features of vectors: ``sum over k of f(x[:, :k])``.

    Args:
      objective: f; cosines in it scale each prefix to length 1 again.
      vectors: Shape (batch, width).
      prefixes: The widths k.

    Returns:
      Scalar float32.

    Raises:
      ConfigError: There is no prefix, or one is wider than the vectors.

    Reference:
      Kusupati et al. (2022), equation 1 with weights of 1; MatryoshkaLoss of sentence-transformers.
    """
    vectors = reductions.as_float32(vectors)
    width = vectors.shape[-1]
    wrong = [k for k in prefixes if k < 1 or (width is not None and k > width)]
    if wrong or not len(prefixes):
        raise ConfigError("prefixes", f"widths from 1 to {width}", list(prefixes))
    return reductions.total([objective(vectors[:, :k]) for k in prefixes])


def _log_neighbours(vectors: tf.Tensor, weights: tf.Tensor, temperature: float) -> tf.Tensor:
    """The log of each text's distribution over the others, (batch, batch)."""
    directions = direction(vectors)
    scores = tf.matmul(directions, directions, transpose_b=True) / temperature
    others = tf.logical_and(
        weights[tf.newaxis] > 0.0, tf.logical_not(tf.eye(tf.shape(scores)[0], dtype=tf.bool))
    )
    return tf.nn.log_softmax(tf.where(others, scores, _NOTHING))


def _prepare(
    teacher: Array,
    student: Array,
    projection: Callable[[Array], tf.Tensor] | None,
    sample_weight: Array | None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    teacher = reductions.as_constant(teacher)
    student = reductions.as_float32(student if projection is None else projection(student))
    check_rank("teacher vectors", teacher, _AXES)
    check_rank("student vectors", student, _AXES)
    check_same_shape("student vectors", teacher, student, {-1: _REMEDY})
    weights, teacher, student = _weighted(sample_weight, teacher, student)
    return teacher, student, weights


def _weighted(
    sample_weight: Array | None, first: tf.Tensor, second: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The weights, (batch,), and the vectors, 0 where they do not count."""
    if sample_weight is None:
        return tf.ones_like(second[:, 0]), first, second
    weights = reductions.as_constant(sample_weight)
    check_weights("sample_weight", weights, second.shape[:1])
    counts = weights[:, tf.newaxis] > 0.0  # before any root, whose gradient may be NaN
    return weights, tf.where(counts, first, 0.0), tf.where(counts, second, 0.0)
