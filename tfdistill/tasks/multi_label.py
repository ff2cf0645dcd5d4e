"""The kind of task with any number of labels for each text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill.tasks import label_cells, label_kinds
from tfdistill.tasks.kind import register
from tfdistill.tasks.texts import TextKind, no_label

if TYPE_CHECKING:
    from tfdistill.tasks.spec import TaskSpec


class SeveralLabels(TextKind):
    """Any number of the names for each text."""

    name = "multi_label"
    head = "multi_label"
    metrics = ("micro_f1", "macro_f1", "exact_match")
    column = "multi_label"
    many_classes = gives_probabilities = True

    def names_in(self, cell: str, separator: str) -> Sequence[str]:
        """See `TaskKind.names_in`."""
        return label_kinds.names_in(cell, separator)

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """See `TaskKind.cell`; a list where a name holds the separator, which would split it."""
        names = spec.label_values or spec.labels
        applying = [name for name, applies in zip(names, label, strict=True) if applies]
        if any(spec.label_separator in name for name in names):
            return json.dumps(applying, ensure_ascii=False)
        return spec.label_separator.join(applying)

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; float32 (n, classes) of 0 and 1."""
        index = {value: number for number, value in enumerate(spec.label_values or spec.labels)}
        rows = np.zeros((len(values), len(index)), np.float32)
        cells = label_cells.unpacked(values, where)
        for row, value in enumerate(cells):
            for name in label_kinds.names_in(value, spec.label_separator):
                if name not in index:
                    raise no_label(spec, index, name, where[row])
                rows[row, index[name]] = 1.0
        return rows

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """See `TaskKind.chance`."""
        shares = np.sort(labels.mean(axis=0))[::-1]  # (classes,), the most frequent first
        if spec.primary_metric == "macro_f1":
            return float(np.mean(2 * shares / (1 + shares)))
        if spec.primary_metric == "micro_f1":
            answered = np.arange(1, len(shares) + 1)
            return float(np.max(2 * np.cumsum(shares) / (answered + shares.sum())))
        _, counts = np.unique(labels, axis=0, return_counts=True)
        return float(counts.max() / len(labels))

    def majority(self, spec: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """The log odds of each label's share."""
        shares = np.clip(labels.mean(axis=0), 1e-6, 1 - 1e-6)  # (classes,)
        return np.log(shares / (1 - shares))

    def _label_shape(self, count: int, width: int) -> tuple[int, ...]:
        return (count, width)

    def _metrics(self, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        answers, applies = scores > 0, gold > 0
        right = (answers & applies).sum(axis=0)  # (classes,)
        total = answers.sum(axis=0) + applies.sum(axis=0)
        values = {
            "micro_f1": float(2 * right.sum() / max(total.sum(), 1)),
            "macro_f1": float(np.mean(2 * right / np.maximum(total, 1))),
            "exact_match": float((answers == applies).all(axis=1).mean()),
        }
        return {name: values[name] for name in spec.metrics}


register(SeveralLabels())
