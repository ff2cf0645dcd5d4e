"""From labels as files spell them to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.data import layouts

if TYPE_CHECKING:
    from tfdistill.data.spec import TaskSpec


def parse(spec: TaskSpec, values: Sequence[str], places: Sequence[str]) -> np.ndarray:
    """Reads labels.

    Args:
      spec: The task, with its label names.
      values: n labels as the file spells them.
      places: Where each stands, for messages.

    Returns:
      int32 (n,) class indices; float32 (n,) for a regression; float32 (n, classes) of 0 and 1 for
      several labels.

    Raises:
      DataError: If a number is not finite or a label is not one of the task's.
    """
    if spec.regression:
        return np.array([_number(*item) for item in zip(values, places, strict=True)], np.float32)
    index = {value: place for place, value in enumerate(spec.label_values or spec.labels)}
    if spec.kind != "multi_label":
        return np.array(
            [_index(spec, index, *item) for item in zip(values, places, strict=True)], np.int32
        )
    rows = np.zeros((len(values), len(index)), np.float32)
    for row, (value, where) in enumerate(zip(values, places, strict=True)):
        for name in layouts.names_in(value, spec.label_separator):
            rows[row, _index(spec, index, name, where)] = 1.0
    return rows


def _number(value: str, where: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise errors.DataError(where, "a finite number", repr(value))
    return number


def _index(spec: TaskSpec, index: dict[str, int], value: str, where: str) -> int:
    if value not in index:
        raise errors.DataError(
            where,
            f"one of {', '.join(map(repr, index))}",
            repr(value),
            f"These are the labels of task {spec.name!r}.",
        )
    return index[value]
