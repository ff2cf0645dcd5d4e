"""Checks of the static shapes that enter an objective.

Dimensions that are only known when the graph runs (None) fit everything here.
"""

from __future__ import annotations

import tensorflow as tf

from tfdistill.errors import ShapeError, explain


def check_rank(what: str, tensor: tf.Tensor, axes: tuple[str, ...]) -> None:
    """Requires one dimension for each named axis.

    Args:
      what: Name of the tensor, for the message.
      tensor: Any tensor; an unknown rank passes.
      axes: Names of the axes, such as ``("batch", "tokens")``.

    Raises:
      ShapeError: The tensor has another rank.
    """
    rank = tensor.shape.rank
    if rank is not None and rank != len(axes):
        raise ShapeError(explain(what, f"shape ({', '.join(axes)})", f"shape {tensor.shape}"))


def check_same_shape(
    what: str, teacher: tf.Tensor, student: tf.Tensor, remedies: dict[int, str]
) -> None:
    """Requires equal shapes; nothing is broadcast.

    Args:
      what: Name of the compared quantity, for the message.
      teacher: The teacher's tensor, which sets the expected shape.
      student: The student's tensor.
      remedies: What to do about a difference, by axis (negative axes count from the end); the
        first axis in this dict that differs decides.

    Raises:
      ShapeError: The shapes differ.
    """
    if teacher.shape.is_compatible_with(student.shape):
        return
    remedy = "Teacher and student must see the same batch."
    if teacher.shape.rank == student.shape.rank:
        for axis, text in remedies.items():
            expected, received = teacher.shape[axis], student.shape[axis]
            if None not in (expected, received) and expected != received:
                remedy = text
                break
    raise ShapeError(
        explain(
            what,
            f"the teacher's shape {teacher.shape}",
            f"shape {student.shape}",
            remedy,
        )
    )


def check_weights(what: str, weights: tf.Tensor, leading: tf.TensorShape) -> None:
    """Requires one weight for each weighted value; nothing is broadcast.

    Args:
      what: Name of the weights, for the message ("mask" or "sample_weight").
      weights: The weights.
      leading: The shape that they must have.

    Raises:
      ShapeError: The shapes differ.
    """
    if not leading.is_compatible_with(weights.shape):
        raise ShapeError(
            explain(
                what,
                f"one weight for each value, shape {leading}",
                f"shape {weights.shape}",
                "Additive masks such as (batch, 1, 1, tokens) are not accepted.",
            )
        )
