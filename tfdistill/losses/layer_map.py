"""Layer maps: the teacher layer that each student layer learns from. Plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

from tfdistill.errors import ConfigError, ShapeError, nearest
from tfdistill.losses import checks

STRATEGIES = ("uniform", "top", "bottom")
# The map of all layers whose last pair BERT-PKD leaves out.
_WHOLE_MAPS = {"skip": "uniform", "last": "top"}
PATIENT_STRATEGIES = tuple(_WHOLE_MAPS)


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


def patient_layer_map(
    teacher_layers: int, student_layers: int, strategy: str | Sequence[int] = "skip"
) -> tuple[int, ...]:
    """Chooses the teacher layers whose [CLS] state BERT-PKD compares.

    Layers are counted from 0; entry i is the teacher layer of student layer i. The last layers of
    both are never compared, since their states lead to the logits, which are learnt themselves.
    With N teacher and M student layers, and g as in `layer_map`:

    - "skip": g of "uniform" without its last entry. 12 and 6: 1, 3, 5, 7, 9 (the paper's 2, 4, 6,
      8, 10); 12 and 3: 3, 7.
    - "last": g of "top" without its last entry. 12 and 6: 6, 7, 8, 9, 10 (the paper's 7 to 11).
    - a list: its own entries, for the first ``len(strategy)`` student layers.

    Args:
      teacher_layers: N.
      student_layers: M, at least 2 for a name.
      strategy: "skip", "last", or the list itself.

    Returns:
      M - 1 teacher layers, or as many as the list has.

    Raises:
      ShapeError: The student is deeper than the teacher, or has no layer but the last.
      ConfigError: Unknown strategy; a list that is empty, too long, or with a layer out of range.

    Reference: Sun et al. 2019, BERT-PKD, section 3.2.
    """
    if not isinstance(strategy, str):
        layers = list(strategy)
        if not 1 <= len(layers) <= student_layers:
            raise ConfigError(
                "layer_map",
                f"1 to {student_layers} teacher layers, one for each of the first student layers",
                f"{len(layers)}: {layers}",
            )
        return layer_map(teacher_layers, len(layers), layers)
    checks.check_choice("layer_map", strategy, PATIENT_STRATEGIES)
    whole = layer_map(teacher_layers, student_layers, _WHOLE_MAPS[strategy])
    if student_layers < 2:
        raise ShapeError(
            "student layers",
            "at least 2, since the last one is not compared",
            student_layers,
            "Give layer_map=[<teacher layer>] to compare it all the same.",
        )
    return whole[:-1]


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


def are_pairs(layers: Any) -> bool:
    """Checks whether a list holds pairs of layers rather than teacher layers."""
    return (
        isinstance(layers, Sequence)
        and not isinstance(layers, str)
        and any(isinstance(entry, Sequence) for entry in layers)
    )


def layer_pairs(
    teacher_layers: int, student_layers: int, layers: str | Sequence[Any] = "uniform"
) -> tuple[tuple[int, int], ...]:
    """Reads which layers are compared: (teacher layer, student layer), counted from 0.

    `layers` is a strategy of `layer_map` or `patient_layer_map`; "same" in models of equal depth; a
    teacher layer for each student layer; or the pairs, whose negative layers count from the end.
    """
    if are_pairs(layers):
        return _checked_pairs(layers, teacher_layers, student_layers)
    if layers == "same":
        if teacher_layers != student_layers:
            raise ShapeError(
                "student layers",
                f"{teacher_layers} as in the teacher",
                student_layers,
                "Layers are compared one by one: choose models of equal num_layers, or another "
                "layer map.",
            )
        return tuple((layer, layer) for layer in range(student_layers))
    if layers in PATIENT_STRATEGIES:
        sources = patient_layer_map(teacher_layers, student_layers, layers)
    elif isinstance(layers, (str, Sequence)):
        sources = layer_map(teacher_layers, student_layers, layers)
    else:
        raise ConfigError("layers", "a name, teacher layers, or pairs of layers", repr(layers))
    return tuple((source, layer) for layer, source in enumerate(sources))


def _checked_pairs(
    pairs: Sequence[Any], teacher_layers: int, student_layers: int
) -> tuple[tuple[int, int], ...]:
    if any(not isinstance(pair, Sequence) or len(pair) != 2 for pair in pairs):
        raise ConfigError("layers", "pairs [[teacher layer, student layer], ...]", repr(pairs))
    return tuple(
        (
            checks.checked_layer("layers: teacher layer", source, teacher_layers),
            checks.checked_layer("layers: student layer", layer, student_layers),
        )
        for source, layer in pairs
    )
