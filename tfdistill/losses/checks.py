"""Checks of options and shapes that losses and distillers share.

Dimensions that are only known when the graph runs (None) fit everything here.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import tensorflow as tf

from tfdistill import errors
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


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Requires one of the named choices."""
    if value not in choices:
        raise errors.ConfigError(
            option, f"one of {', '.join(choices)}", repr(value), errors.nearest(value, choices)
        )


def check_number(option: str, value: Any, *, above: float | None = None) -> None:
    """Requires a finite number above a bound, or of at least 0 without one."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise errors.ConfigError(option, "a number", repr(value))
    number = float(value)
    if not (number >= 0 if above is None else number > above) or number == float("inf"):
        bound = ">= 0" if above is None else f"above {above:g}"
        raise errors.ConfigError(option, f"a finite number {bound}", repr(value))


def check_share(option: str, value: float) -> None:
    """Requires a number from 0 to 1."""
    if not 0 <= value <= 1:
        raise errors.ConfigError(option, "a number from 0 to 1", repr(value))


def checked_layer(option: str, layer: int, num_layers: int) -> int:
    """Reads the number of a layer, which may count from the end."""
    whole = isinstance(layer, Integral) and not isinstance(layer, bool)
    if not whole or not -num_layers <= layer < num_layers:
        raise errors.ConfigError(
            option,
            f"a layer from 0 to {num_layers - 1}, or from the end -1 to {-num_layers}",
            repr(layer),
        )
    return int(layer) % num_layers


def check_equal(what: str, teacher: int, student: int, remedy: str, *, unit: str = "") -> None:
    """Requires a number of the student that equals the teacher's."""
    if teacher != student:
        raise errors.ShapeError(what, f"{teacher} {unit}as in the teacher", student, remedy)
