"""Checks of the static shapes that enter an objective.

Dimensions that are only known when the graph runs (None) fit everything here.
"""

from __future__ import annotations

import tensorflow as tf

from tfdistill.errors import ShapeError
from tfdistill.losses import reduction as reductions
from tfdistill.losses.reduction import Array

STATES = ("batch", "tokens", "width")
SCORES = ("batch", "heads", "tokens", "tokens")
_BATCH_REMEDY = "Teacher and student must see the same batch."
_LENGTH_REMEDY = "Pad teacher and student to the same length."


def prepare(
    what: str,
    axes: tuple[str, ...],
    teacher: Array,
    student: Array,
    mask: Array,
    remedies: dict[int, str],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Checks the tensors of an objective on tokens, which nothing is broadcast to fit.

    Shapes: `mask` (batch, tokens).
    """
    teacher, mask = reductions.as_constant(teacher), reductions.as_constant(mask)
    student = reductions.as_float32(student)
    check_rank(f"teacher {what}", teacher, axes)
    check_rank(f"student {what}", student, axes)
    tokens = axes.index("tokens")
    remedies = {**remedies, 0: _BATCH_REMEDY, tokens: _LENGTH_REMEDY}
    check_same_shape(f"student {what}", teacher, student, remedies)
    leading = teacher.shape[:1].concatenate(teacher.shape[tokens : tokens + 1])
    check_weights("mask", mask, leading)
    return teacher, student, mask


def check_rank(what: str, tensor: tf.Tensor, axes: tuple[str, ...]) -> None:
    """Requires one dimension for each named axis; an unknown rank passes."""
    rank = tensor.shape.rank
    if rank is not None and rank != len(axes):
        raise ShapeError(what, f"shape ({', '.join(axes)})", f"shape {tensor.shape}")


def check_same_shape(
    what: str, teacher: tf.Tensor, student: tf.Tensor, remedies: dict[int, str]
) -> None:
    """Requires equal shapes; nothing is broadcast."""
    if teacher.shape.is_compatible_with(student.shape):
        return
    remedy = _BATCH_REMEDY
    if teacher.shape.rank == student.shape.rank:
        for axis, text in remedies.items():
            expected, received = teacher.shape[axis], student.shape[axis]
            if None not in (expected, received) and expected != received:
                remedy = text
                break
    raise ShapeError(what, f"the teacher's shape {teacher.shape}", f"shape {student.shape}", remedy)


def check_weights(what: str, weights: tf.Tensor, leading: tf.TensorShape) -> None:
    """Requires weights of a shape, one for each weighted value; nothing is broadcast."""
    if not leading.is_compatible_with(weights.shape):
        raise ShapeError(
            what,
            f"one weight for each value, shape {leading}",
            f"shape {weights.shape}",
            "Additive masks such as (batch, 1, 1, tokens) are not accepted.",
        )
