"""The kind of task with a number for each text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import label_cells, label_kinds
from tfdistill.tasks.kind import register
from tfdistill.tasks.texts import TextKind

if TYPE_CHECKING:
    from tfdistill.tasks.spec import TaskSpec


_LOST = 0.01  # of the range of all numbers, by rounding
_ROUNDINGS = 16  # of float64, between numbers that a program computed in two ways


class Number(TextKind):
    """A number for each text."""

    name = "regression"
    head = "sequence"
    metrics = ("pearson", "spearman", "r2")
    column = "regression"
    nameless = "numbers, no names"
    one_number = True

    def num_labels(self, labels: Sequence[str]) -> int:
        """One output."""
        return 1

    def ordered(self, names: Collection[str]) -> list[str]:
        """None: numbers have no names."""
        return []

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """See `TaskKind.cell`."""
        return str(label)

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; float32 (n,)."""
        return numbers(values, where)

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """No correlation."""
        return 0.0

    def majority(self, spec: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """The mean."""
        return np.array([np.mean(labels)])

    def _rows(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, None] if scores.ndim == 1 else scores

    def _metrics(self, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        import scipy.stats

        predictions = scores[:, 0]
        values = dict.fromkeys(self.metrics, 0.0)
        if np.ptp(gold) > 0:
            values["r2"] = float(1 - np.mean((gold - predictions) ** 2) / np.var(gold))
        if np.ptp(predictions) > 0 and np.ptp(gold) > 0:
            values["pearson"] = float(scipy.stats.pearsonr(predictions, gold).statistic)
            values["spearman"] = float(scipy.stats.spearmanr(predictions, gold).statistic)
        return {name: values[name] for name in spec.metrics}


def numbers(values: Sequence[str], where: Sequence[str]) -> np.ndarray:
    """Reads numbers, float32 (n,); refuses what is none, not finite, or lost by the rounding."""
    cells, _ = label_cells.judge(values, where, "regression")
    read = [label_kinds.number_of(cell) for cell in cells]
    for row, number in enumerate(read):
        if number is None:
            label_cells.check_name(cells[row], where[row])
            raise errors.DataError(where[row], "a finite number", repr(cells[row]))
    exact = np.array(read, np.float64)
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    if not np.isfinite(rounded).all():
        row = int(np.argmin(np.isfinite(rounded)))
        expected = f"a number up to {np.finfo(np.float32).max:.2g}"
        raise errors.DataError(where[row], expected, repr(cells[row]))
    spread = np.ptp(exact) if len(exact) else 0.0
    bad = np.abs(exact - rounded) > _LOST * spread
    # Numbers that differ by the rounding of a computation are meant to be equal.
    if bad.any() and spread > _ROUNDINGS * np.spacing(np.abs(exact).max()):
        row = int(bad.argmax())
        raise errors.DataError(
            where[row],
            f"numbers that float32 holds to {_LOST:g} of their range",
            repr(cells[row]),
            "Subtract their mean, and divide them by their standard deviation.",
        )
    return rounded


register(Number())
