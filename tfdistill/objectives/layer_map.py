"""Which teacher layer teaches which student layer. Plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from tfdistill.errors import ConfigError, ShapeError, nearest

STRATEGIES = ("uniform", "top", "bottom")


def layer_map(
    teacher_layers: int, student_layers: int, strategy: str | Sequence[int] = "uniform"
) -> tuple[int, ...]:
    """Chooses the teacher layer for each student layer.

    Layers are counted from 0. With N teacher and M student layers, student layer i learns from

    - "uniform": layer ``round((i + 1) N / M) - 1``, halves rounded up: evenly spaced, strictly
      increasing, the last from the last. For ``r = N / M`` whole this is ``i r + r - 1``.
    - "top": layer ``N - M + i``, the last M.
    - "bottom": layer ``i``, the first M.
    - a list: layer ``strategy[i]``, in any order, repeated or not.

    Hidden state 0 (the embeddings) always goes with hidden state 0; state i + 1, the output of
    student layer i, goes with state ``layer_map[i] + 1``.

    Args:
      teacher_layers: N, at least 1.
      student_layers: M, at least 1, at most N unless the map is a list.
      strategy: One of the names above or the list itself.

    Returns:
      M teacher layers.

    Raises:
      ShapeError: A model has no layers, or the student more than its teacher.
      ConfigError: Unknown strategy; a list of the wrong length or with a layer out of range.

    Reference:
      Jiao et al., TinyBERT (2020), section 4.4 and table 4, for uniform, top and bottom with N a
      multiple of M.
    """
    for what, layers in (
        ("teacher layers", teacher_layers),
        ("student layers", student_layers),
    ):
        if layers < 1:
            raise ShapeError(what, "at least 1", layers)
    if not isinstance(strategy, str):
        return _checked_list(teacher_layers, student_layers, list(strategy))
    if strategy not in STRATEGIES:
        raise ConfigError(
            "layer map",
            f"{', '.join(map(repr, STRATEGIES))} or a list of teacher layers",
            repr(strategy),
            nearest(strategy, STRATEGIES),
        )
    if student_layers > teacher_layers:
        raise ShapeError(
            "student layers",
            f"at most the teacher's {teacher_layers}",
            student_layers,
            "Choose a shallower student, or give the map as a list, in which teacher layers"
            " may repeat.",
        )
    if strategy == "top":
        return tuple(range(teacher_layers - student_layers, teacher_layers))
    if strategy == "bottom":
        return tuple(range(student_layers))
    n, m = teacher_layers, student_layers
    return tuple((2 * (i + 1) * n + m) // (2 * m) - 1 for i in range(m))


def describe_layer_map(layers: Sequence[int], teacher_layers: int | None = None) -> str:
    """Writes a layer map for people, with its layers counted from 0.

    Args:
      layers: The teacher layer of each student layer, from `layer_map`.
      teacher_layers: The teacher's number of layers, named in the text when given.

    Returns:
      One line, such as "student layer <- teacher layer: 0 <- 2, 1 <- 5 (2 of 6)".
    """
    pairs = ", ".join(f"{student} <- {teacher}" for student, teacher in enumerate(layers))
    total = "" if teacher_layers is None else f" ({len(set(layers))} of {teacher_layers})"
    return f"student layer <- teacher layer: {pairs}{total}"


def _checked_list(
    teacher_layers: int, student_layers: int, layers: Sequence[Any]
) -> tuple[int, ...]:
    """Checks a map that the user wrote."""
    if len(layers) != student_layers:
        raise ConfigError(
            "layer map",
            f"a teacher layer for each of the {student_layers} student layers",
            f"{len(layers)}: {list(layers)}",
        )
    checked = []
    for student, layer in enumerate(layers):
        whole = isinstance(layer, Integral) and not isinstance(layer, bool)
        if not whole or not 0 <= int(layer) < teacher_layers:
            raise ConfigError(
                f"layer map for student layer {student}",
                f"a teacher layer from 0 to {teacher_layers - 1}",
                repr(layer),
                "Layers are counted from 0.",
            )
        checked.append(int(layer))
    return tuple(checked)
