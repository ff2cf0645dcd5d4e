"""Tasks over whole texts: one class a text, any number of labels, or a number."""

from __future__ import annotations

import abc
import collections
import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import label_cells, label_kinds
from tfdistill.tasks.kind import TaskKind, check_finite, register
from tfdistill.tasks.table_files import LIST_MARK

if TYPE_CHECKING:
    from tfdistill.tasks.encoded import EncodedExamples
    from tfdistill.tasks.spec import TaskSpec

_RARE = 0.1  # rows of the rarest class for one of the most frequent
_LOST = 0.01  # of the range of all numbers, by rounding
_ROUNDINGS = 16  # of float64, between numbers that a program computed in two ways


class TextKind(TaskKind):
    """Each text, or pair of texts, has one row of logits."""

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `TaskSpec.score`."""
        if encoded.labels is None:
            raise errors.DataError("evaluation", "labelled examples", "examples without labels")
        return self.compute_metrics(spec, outputs, encoded.labels)

    def compute_metrics(
        self, spec: TaskSpec, outputs: np.ndarray, labels: np.ndarray
    ) -> dict[str, float]:
        """See `TaskSpec.compute_metrics`."""
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
    exclusive = gives_probabilities = True

    def metrics_for(self, cells: Sequence[str]) -> tuple[str, ...]:
        """The default metrics; where a class is rare, the mean of all classes' F1 is the first.

        Of two classes it is the F1 of the rarer one, of equally frequent ones the second.
        """
        counts = collections.Counter(cells)
        rarest = min(self.ordered(counts)[::-1], key=lambda name: counts[name])
        if counts[rarest] < _RARE * max(counts.values()):
            return ("macro_f1", "accuracy")
        return ("accuracy", f"f1:{rarest}" if len(counts) == 2 else "f1")

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


def label_indices(spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
    """Reads names of labels, int32 (n,), all of the task."""
    values = [label_kinds.out_of_list(value) for value in values]
    spelled = spec.label_values or spec.labels
    if not set(spelled).issuperset(values) and set(spec.labels).issuperset(values):
        spelled = spec.labels  # as Parquet files of a Dataset name them
    index = {value: number for number, value in enumerate(spelled)}
    indices = np.fromiter((index.get(value, -1) for value in values), np.int32, len(values))
    unknown = np.flatnonzero(indices < 0)
    if len(unknown):
        first = int(unknown[0])
        raise no_label(spec, index, values[first], where[first])
    return indices


def no_label(spec: TaskSpec, index: dict[str, int], value: str, where: str) -> errors.DataError:
    """The fault of a name that is not among the labels; raises what `check_name` finds."""
    if value.endswith(LIST_MARK):
        received = f"the list {', '.join(label_kinds.names_in(value, ''))!r}"
        raise errors.DataError(
            where, "one label", received, "For several labels a text add kind='multi_label'."
        )
    label_cells.check_name(value, where)
    return errors.DataError(
        where,
        f"one of {', '.join(map(repr, index))}",
        repr(value),
        f"These are the labels of task {spec.name!r}.",
    )


def chance_of_classes(spec: TaskSpec, labels: np.ndarray) -> float:
    """The primary metric of always saying the class that suits it best, labels int (n,)."""
    metric, _, label = spec.primary_metric.partition(":")
    if metric == "auc":
        return 0.5
    if metric not in ("accuracy", "f1", "macro_f1"):
        return 0.0
    shares = np.bincount(labels, minlength=spec.num_labels) / len(labels)
    if metric == "accuracy":
        return float(shares.max())
    if metric == "macro_f1":
        classes = spec.num_labels
    elif label or spec.positive_label is not None or spec.num_labels == 2:
        shares, classes = shares[[_positive(spec, label)]], 1
    else:
        classes = spec.num_labels
    return float(2 * shares.max() / (1 + shares.max()) / classes)


def _of_classes(name: str, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> float:
    predictions = scores.argmax(axis=1)
    name, _, label = name.partition(":")
    if name == "accuracy":
        return float(np.mean(predictions == gold))
    if name == "auc":
        positive = _positive(spec)
        return _auc(scores[:, positive] - scores[:, 1 - positive], gold == positive)
    if name in ("f1", "macro_f1"):
        of_classes = _f1_of_classes(predictions, gold.astype(np.int64), spec.num_labels)
        one = label or spec.positive_label or spec.num_labels == 2
        if name == "macro_f1" or not one:
            return float(of_classes.mean())
        return float(of_classes[_positive(spec, label)])
    if np.ptp(predictions) == 0 or np.ptp(gold) == 0:
        return 0.0
    import sklearn.metrics

    return float(sklearn.metrics.matthews_corrcoef(gold, predictions))


def _f1_of_classes(predictions: np.ndarray, gold: np.ndarray, count: int) -> np.ndarray:
    """F1 of each class, ``2 hits / (predicted + true)``, 0 where it is in neither; (count,).

    A report takes it of thousands of resamples: scikit-learn needs 15 ms for one.
    """
    hits = np.bincount(gold[predictions == gold], minlength=count)
    total = np.bincount(gold, minlength=count) + np.bincount(predictions, minlength=count)
    return 2.0 * hits / np.maximum(total, 1)


def _positive(spec: TaskSpec, label: str = "") -> int:
    label = label or spec.positive_label or ""
    return spec.labels.index(label) if label else 1


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve by the ranks of the positive examples (Mann and Whitney)."""
    import scipy.stats

    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return 0.5
    ranks = scipy.stats.rankdata(scores)  # ties share their mean rank
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))


for _kind in (Classes(), SeveralLabels(), Number()):
    register(_kind)
