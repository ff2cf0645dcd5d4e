"""Checks of options and shapes that losses and distillers share."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from tfdistill import errors


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
