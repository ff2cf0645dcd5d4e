"""Kinds of tasks over whole texts: one class, any number of them, or a number."""

from __future__ import annotations

import abc
import collections
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import label_cells, label_kinds
from tfdistill.tasks.kind import TaskKind, check_finite, register

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples
    from tfdistill.tasks.spec import TaskSpec

_RARE = 0.1  # rows of the rarest class for one of the most frequent


class TextKind(TaskKind):
    """Each text, or pair of texts, has one row of logits."""

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `metrics.score`."""
        if encoded.labels is None:
            raise errors.DataError("evaluation", "labelled examples", "examples without labels")
        return self.compute_metrics(spec, outputs, encoded.labels)

    def compute_metrics(
        self, spec: TaskSpec, outputs: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """See `metrics.compute_metrics`."""
        scores, gold = np.asarray(outputs, np.float64), np.asarray(labels)
        scores = self._rows(scores)
        expected = (len(gold), spec.num_labels)
        axes = self._label_shape(*expected)
        if not len(gold) or scores.shape != expected or gold.shape != axes:
            shape = f"(n, {spec.num_labels})"
            raise errors.ShapeError(
                f"logits and labels of task {spec.name!r}",
                f"shapes {shape} and {shape if len(axes) > 1 else '(n,)'}, n > 0",
                f"{scores.shape} and {gold.shape}",
            )
        check_finite(scores)
        return self._metrics(spec, scores, gold)

    def _rows(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def _label_shape(self, count: int, width: int) -> tuple[int, ...]:
        del width
        return (count,)

    @abc.abstractmethod
    def _metrics(self, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        """The metrics of scores (n, num_labels), finite float64, by name."""


class Classes(TextKind):
    """One of the names for each text."""

    name = "classification"
    head = "sequence"
    metrics = ("accuracy", "f1", "macro_f1", "matthews", "auc")
    usual_metrics = ("accuracy",)
    layouts = ("table", "folders")
    exclusive = True

    def metrics_for(self, cells: Sequence[str]) -> tuple[str, ...]:
        """Where a class is rare, the mean of all classes' F1 is the first."""
        counts = collections.Counter(cells).values()
        rare = min(counts) < _RARE * max(counts)
        return ("macro_f1", "accuracy") if rare else ("accuracy", "f1")

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """See `TaskKind.cell`."""
        return (spec.label_values or spec.labels)[int(label)]

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; int32 (n,)."""
        return label_indices(spec, values, where)

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """See `TaskKind.chance`."""
        return chance_of_classes(spec, labels)

    def majority(self, spec: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """The log of the class shares."""
        counts = np.bincount(labels, minlength=spec.num_labels)
        return np.log(np.maximum(counts / len(labels), 1e-6))

    def _metrics(self, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        if "auc" in spec.metrics and spec.num_labels != 2:
            raise errors.ShapeError(f"labels of task {spec.name!r}", "two for auc", spec.num_labels)
        return {name: _of_classes(name, spec, scores, gold) for name in spec.metrics}


class SeveralLabels(TextKind):
    """Any number of the names for each text."""

    name = "multi_label"
    head = "multi_label"
    metrics = ("micro_f1", "macro_f1", "exact_match")
    column = "multi_label"
    many_classes = True

    def names_in(self, cell: str, separator: str) -> Sequence[str]:
        """See `TaskKind.names_in`."""
        return label_kinds.names_in(cell, separator)

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """See `TaskKind.cell`."""
        names = spec.label_values or spec.labels
        return spec.label_separator.join(
            name for name, applies in zip(names, label, strict=True) if applies
        )

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; float32 (n, classes) of 0 and 1."""
        index = {value: number for number, value in enumerate(spec.label_values or spec.labels)}
        rows = np.zeros((len(values), len(index)), np.float32)
        cells = label_cells.unpacked(values, where)
        for row, (value, location) in enumerate(zip(cells, where, strict=True)):
            for name in label_kinds.names_in(value, spec.label_separator):
                rows[row, _index(spec, index, name, location)] = 1.0
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
        del spec
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


class Number(TextKind):
    """A number for each text."""

    name = "regression"
    head = "sequence"
    metrics = ("pearson", "spearman")
    column = "regression"
    nameless = "numbers, no names"
    one_number = True

    def num_labels(self, labels: Sequence[str]) -> int:
        """One output."""
        del labels
        return 1

    def ordered(self, names: Collection[str]) -> list[str]:
        """None: numbers have no names."""
        del names
        return []

    def cell(self, spec: TaskSpec, label: np.ndarray) -> str:
        """See `TaskKind.cell`."""
        del spec
        return str(label)

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """See `TaskKind.parse`; float32 (n,)."""
        del spec
        return numbers(values, where)

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """No correlation."""
        del spec, labels
        return 0.0

    def majority(self, spec: TaskSpec, labels: np.ndarray) -> np.ndarray:
        """The mean."""
        del spec
        return np.array([np.mean(labels)])

    def _rows(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, None] if scores.ndim == 1 else scores

    def _metrics(self, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> dict[str, float]:
        import scipy.stats

        predictions = scores[:, 0]
        if np.ptp(predictions) == 0 or np.ptp(gold) == 0:
            return dict.fromkeys(spec.metrics, 0.0)
        correlations = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}
        return {
            name: float(correlations[name](predictions, gold).statistic) for name in spec.metrics
        }


def numbers(values: Sequence[str], where: Sequence[str]) -> np.ndarray:
    """Reads numbers, float32 (n,).

    Raises:
      DataError: If one is none, or not finite; the message names its place.
    """
    cells, _ = label_cells.judge(values, where, "regression")
    return np.array([_number(*item) for item in zip(cells, where, strict=True)], np.float32)


def _number(value: str, where: str) -> float:
    number = label_kinds.number_of(value)
    if number is None:
        label_cells.check_name(value, where)
        raise errors.DataError(where, "a finite number", repr(value))
    return number


def label_indices(spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
    """Reads names of labels, int32 (n,).

    Raises:
      DataError: If one is not a label of the task; the message names its place.
    """
    index = {value: number for number, value in enumerate(spec.label_values or spec.labels)}
    return np.array(
        [_index(spec, index, *item) for item in zip(values, where, strict=True)], np.int32
    )


def _index(spec: TaskSpec, index: dict[str, int], value: str, where: str) -> int:
    if value not in index:
        label_cells.check_name(value, where)
        raise errors.DataError(
            where,
            f"one of {', '.join(map(repr, index))}",
            repr(value),
            f"These are the labels of task {spec.name!r}.",
        )
    return index[value]


def chance_of_classes(spec: TaskSpec, labels: np.ndarray) -> float:
    """The primary metric of always saying the class that suits it best, labels int (n,)."""
    metric = spec.primary_metric
    if metric == "auc":
        return 0.5
    if metric not in ("accuracy", "f1", "macro_f1"):
        return 0.0
    shares = np.bincount(labels, minlength=spec.num_labels) / len(labels)
    if metric == "accuracy":
        return float(shares.max())
    if metric == "macro_f1":
        classes = spec.num_labels
    elif spec.positive_label is not None:
        shares, classes = shares[[spec.labels.index(spec.positive_label)]], 1
    elif spec.num_labels == 2:
        shares, classes = shares[[1]], 1
    else:
        classes = spec.num_labels
    return float(2 * shares.max() / (1 + shares.max()) / classes)


def _of_classes(name: str, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> float:
    import sklearn.metrics

    predictions = scores.argmax(axis=1)
    if name == "accuracy":
        return float(np.mean(predictions == gold))
    if name == "auc":
        positive = _positive(spec)
        return _auc(scores[:, positive] - scores[:, 1 - positive], gold == positive)
    if name in ("f1", "macro_f1"):
        if name == "macro_f1" or (spec.num_labels > 2 and spec.positive_label is None):
            classes, average = list(range(spec.num_labels)), "macro"
        else:
            classes, average = [_positive(spec)], "micro"
        # The micro average over one class is that class's own F1.
        results = sklearn.metrics.precision_recall_fscore_support(
            gold,
            predictions,
            labels=classes,
            average=average,
            zero_division=0.0,  # pyright: ignore
        )
        return float(results[2])
    if np.ptp(predictions) == 0 or np.ptp(gold) == 0:
        return 0.0
    return float(sklearn.metrics.matthews_corrcoef(gold, predictions))


def _positive(spec: TaskSpec) -> int:
    return 1 if spec.positive_label is None else spec.labels.index(spec.positive_label)


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve by the ranks of the positive examples (Mann and Whitney)."""
    import scipy.stats

    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return 0.5
    ranks = scipy.stats.rankdata(scores)  # ties share their mean rank
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


register(Classes())
register(SeveralLabels())
register(Number())
