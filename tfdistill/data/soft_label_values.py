"""The numbers of soft labels: logits of ensembles, of probabilities and of labels; vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.tasks import KINDS
from tfdistill.tasks.answer_cells import text_of
from tfdistill.tasks.spec import TaskSpec

# Of a class that a teacher excludes: what a softmax in float32 can tell from 0 next to 1.
LEAST_PROBABILITY = 1e-7
_OFF_ONE = 0.02 + 1e-9  # of the sum of probabilities: they are often rounded to two digits
_SAME = 0.02  # between probabilities of one text that occurs twice; batches and float16 differ less
_LARGEST = 1e30  # of a number, so that no temperature makes float32 overflow
_LENGTHS = (1e-12, 1e15)  # of vectors: float32 holds their squares and divides by them
_UNIT = 1e-3  # from 1, the length of a normalised vector in float16


def combine(
    soft_labels: Sequence[np.ndarray], kind: str, temperatures: Sequence[float] = ()
) -> np.ndarray:
    """The logits of an ensemble: ``log(mean over k of softmax(z_k / T_k))``.

    Several labels at once have ``logit(mean over k of sigmoid(z_k / T_k))``, numbers the mean. Of
    one teacher with T = 1 they are its logits, bit for bit.

    Shapes: `soft_labels` (n, labels); returns (n, labels).
    """
    divisors = np.ones(len(soft_labels)) if not temperatures else np.asarray(temperatures)
    if KINDS[kind].one_number:
        return np.asarray(np.mean(np.stack(soft_labels), axis=0, dtype=np.float64), np.float32)
    if len(soft_labels) == 1:
        return (soft_labels[0] / np.float32(divisors[0])).astype(np.float32)
    scaled = [to_probabilities(z / t, kind) for z, t in zip(soft_labels, divisors, strict=True)]
    return to_logits(np.mean(scaled, axis=0), kind)


def to_logits(probabilities: np.ndarray, kind: str) -> np.ndarray:
    """Logits whose softmax (of several labels: sigmoid) is `probabilities`, float32.

    ``log p`` (``log p - log(1 - p)``), no probability below `LEAST_PROBABILITY`.
    """
    least = LEAST_PROBABILITY
    if KINDS[kind].many_classes:
        return scipy.special.logit(np.clip(probabilities, least, 1 - least)).astype(np.float32)
    return np.log(np.maximum(probabilities, least)).astype(np.float32)


def to_probabilities(logits: np.ndarray, kind: str) -> np.ndarray:
    """Softmax over the last axis, of several labels sigmoid, in float64."""
    exact = np.asarray(logits, np.float64)
    if KINDS[kind].many_classes:
        return scipy.special.expit(exact)
    return scipy.special.softmax(exact, -1)


def of_gold(labels: np.ndarray, spec: TaskSpec) -> np.ndarray:
    """Gold labels as logits that are certain, float32 (n, labels); of a regression the number."""
    if spec.traits.one_number:
        return np.asarray(labels, np.float32).reshape(-1, 1)
    sure = labels if spec.traits.many_classes else np.eye(spec.num_labels)[labels]
    return to_logits(sure, spec.kind)


def columns_of(
    holds: str, cells: Mapping[str, Sequence[Any]], place: Callable[[int], str]
) -> dict[str, Sequence[Any]]:
    """The columns ``<holds>.LABEL`` by label, and objects LABEL: VALUE of the column `holds`.

    A label that is not in an object has the probability 0 there, and no logit; a row without an
    object has None. `place` calls a row in messages.
    """
    start, objects = f"{holds}.", cells.get(holds, ())
    columns = {n.removeprefix(start): c for n, c in cells.items() if n.startswith(start)}
    for row, value in enumerate(objects):
        if text_of(value) and not isinstance(value, dict):
            raise errors.DataError(place(row), f"{holds}: an object, LABEL: VALUE", repr(value))
    absent = 0.0 if holds == "probabilities" else None
    objects = [value if isinstance(value, dict) else None for value in objects]  # blank cells
    for name in dict.fromkeys(name for value in objects for name in value or ()):
        read = [value.get(name) if value else None for value in objects]
        columns[name] = [
            absent if number is None and value else number
            for number, value in zip(read, objects, strict=True)
        ]
    return columns


def are_alike(first: np.ndarray, second: np.ndarray, kind: str) -> bool:
    """Whether two soft labels of one text, (units, width), are the same but for rounding."""
    if KINDS[kind].vectors:
        return bool(np.linalg.norm(first - second) <= _SAME * np.linalg.norm(first))
    if not KINDS[kind].one_number:
        first, second = to_probabilities(first, kind), to_probabilities(second, kind)
    return np.allclose(first, second, rtol=_SAME, atol=_SAME)


def numbers(cells: Sequence[Any], place: Callable[[int], str], name: str) -> np.ndarray:
    """The numbers of a column, float64 (n,); raises DataError if one is none, or not finite."""
    try:
        column = np.asarray(cells, np.float64)
    except (TypeError, ValueError, OverflowError):
        column = np.empty(())
    if column.ndim != 1:  # a cell holds no number, or several
        column = np.array([_number(cell) for cell in cells])
    bad = np.flatnonzero(~(np.abs(column) <= _LARGEST))  # NaN, too
    if len(bad):
        received = repr(cells[bad[0]])
        raise errors.DataError(f"{place(int(bad[0]))}, {name!r}", "a finite number", received)
    return column


def _number(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def checked_logits(table: np.ndarray, place: Callable[[int], str], kind: str) -> np.ndarray:
    """Logits, (n, labels): not probabilities under their name, whose softmax is nearly flat."""
    shares = (table >= 0) & (table <= 1)
    several = KINDS[kind].many_classes
    if not several:
        shares &= np.abs(table.sum(axis=1, keepdims=True) - 1) <= _OFF_ONE
    # As logits of several labels they would mean that each label applies to every text.
    if len(table) >= (20 if several else 2) and shares.all():
        raise errors.DataError(
            f"{place(0)}, logits",
            "logits, numbers of any size",
            f"{table[0].tolist()}: probabilities, as in all {len(table)} rows",
            "Name the columns probabilities.LABEL.",
        )
    return table


def checked_probabilities(table: np.ndarray, place: Callable[[int], str], kind: str) -> np.ndarray:
    """Probabilities, (n, labels), scaled to the sum 1; of several labels at most 1."""
    outside = np.flatnonzero(((table < 0) | (table > 1 + _OFF_ONE)).any(axis=1))
    if len(outside):
        row = int(outside[0])
        raise errors.DataError(place(row), "probabilities from 0 to 1", table[row].tolist())
    if KINDS[kind].many_classes:
        return np.minimum(table, 1.0)
    totals = table.sum(axis=1)
    off = np.flatnonzero(np.abs(totals - 1) > _OFF_ONE)
    if len(off):
        raise errors.DataError(
            place(int(off[0])),
            "probabilities that sum to 1",
            f"{totals[off[0]]:.4g}, in {len(off)} row(s)",
            "Columns logits.LABEL may hold any numbers.",
        )
    return table / totals[:, None]


def vectors(cells: Sequence[Any], place: Callable[[int], str], name: str) -> np.ndarray:
    """The vectors of a column, float32 (n, width)."""
    rows: list[np.ndarray] = []
    for row, cell in enumerate(cells):
        where = place(row)
        if not isinstance(cell, (list, tuple)) or not cell:
            raise errors.DataError(
                f"{where}, {name!r}", "a list of numbers (.jsonl, .parquet)", repr(cell)
            )
        rows.append(numbers(cell, lambda _, where=where: where, name).astype(np.float32))
        if len(rows[-1]) != len(rows[0]):
            raise errors.DataError(
                f"{where}, {name!r}",
                f"{len(rows[0])} numbers, the width of the first vector",
                f"{len(rows[-1])}",
                "Vectors of several widths are those of several models: keep one of them.",
            )
    table = np.stack(rows)
    lengths = _lengths(table)
    outside = np.flatnonzero((lengths < _LENGTHS[0]) | (lengths > _LENGTHS[1]))
    if len(outside):
        row = int(outside[0])
        raise errors.DataError(
            f"{place(row)}, {name!r}",
            f"a vector whose length is from {_LENGTHS[0]:g} to {_LENGTHS[1]:g}",
            f"{lengths[row]:g}",
            "A vector without length has no direction: leave out texts that have none.",
        )
    return table


def are_normalised(table: np.ndarray) -> bool:
    """Whether all vectors, (n, width), have length 1, rounded."""
    return bool(np.all(np.abs(_lengths(table) - 1) <= _UNIT))


def _lengths(table: np.ndarray) -> np.ndarray:
    return np.linalg.norm(table.astype(np.float64), axis=1)
