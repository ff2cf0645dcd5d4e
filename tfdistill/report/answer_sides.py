"""The answers of a run's models to one labelled set, side by side. Pure."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from tfdistill import analysis
from tfdistill.analysis import PairedDifference
from tfdistill.data.answers import LabelledAnswers
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks.spec import TaskSpec

TEACHER, STUDENT, MODEL, FILE, MAJORITY = "teacher", "student", "model", "file", "majority"
DEVELOPMENT, CROSS_VALIDATED, TEST = "development", "cross-validated", "test"


@dataclasses.dataclass(frozen=True, eq=False)
class AnswerSides:
    """The models' answers to the same labelled texts."""

    task: TaskSpec
    gold: np.ndarray
    # "teacher", "student" or "model", "file" -> float (n, num_labels), in this order
    logits: dict[str, np.ndarray]
    texts: tuple[str, ...]  # the texts; empty where they were left out
    # name of a baseline -> its logits
    baselines: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    split: str = DEVELOPMENT  # or one of the other two
    confidence: Confidence | None = None  # of the file: its temperature and promises
    large: np.ndarray | None = None  # gold and large model, see `LabelledAnswers.large`
    _cache: dict[str, np.ndarray] = dataclasses.field(default_factory=dict, repr=False)

    @property
    def subject(self) -> str:
        """The subject of the report: the file, or else the student, or the model itself."""
        return next(name for name in (FILE, STUDENT, MODEL, TEACHER) if name in self.logits)

    @property
    def reference(self) -> str:
        """The reference of the others: the teacher, or else the model of the file."""
        return next(iter(self.logits))

    @functools.cached_property
    def scores(self) -> dict[str, float]:
        """The primary metric of each model and each baseline."""
        task = dataclasses.replace(self.task, metrics=(self.task.primary_metric,))
        return {
            name: task.compute_metrics(logits, self.gold)[task.primary_metric]
            for name, logits in {**self.logits, **self.baselines}.items()
        }

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The comparisons: each model with the reference, the subject with each baseline."""
        pairs = [(self.reference, name) for name in self.logits if name != self.reference]
        return pairs + [(name, self.subject) for name in self.baselines]

    def difference(self, one: str, other: str) -> PairedDifference | None:
        """The difference between the metrics of `one` and `other`; None without either."""
        if one == other or not {one, other} <= {*self.logits, *self.baselines}:
            return None
        logits = (self._logits(one), self._logits(other))
        resampled = None if self._is_accuracy else (self._resampled(one), self._resampled(other))
        return analysis.paired_difference(self.task, self.gold, *logits, resampled=resampled)

    def interval(self, name: str) -> tuple[float, float]:
        """The 95% interval of a model's metric over examples.

        Of accuracy the exact one of Clopper and Pearson, which has a width where all answers are
        right, too; of other metrics the percentiles of 500 resamples.
        """
        if not self._is_accuracy:
            low, high = np.percentile(self._resampled(name), [2.5, 97.5])
            return float(low), float(high)
        right = int((self._logits(name).argmax(axis=1) == self.gold).sum())
        return analysis.share_interval(right, len(self.gold))

    def answers(self, name: str) -> np.ndarray:
        """The class that a model answers, int (n,)."""
        return self.logits[name].argmax(axis=1)

    @property
    def _is_accuracy(self) -> bool:
        return self.task.traits.one_class and self.task.primary_metric == "accuracy"

    def _logits(self, name: str) -> np.ndarray:
        return self.logits[name] if name in self.logits else self.baselines[name]

    def _resampled(self, name: str) -> np.ndarray:
        if name not in self._cache:
            scores = analysis.resampled_scores(self.task, self.gold, self._logits(name))
            self._cache[name] = scores
        return self._cache[name]


def unseen_difference(number: int) -> float:
    """The largest share of changed answers that `number` equal ones do not exclude (95%)."""
    return float(1 - 0.025 ** (1 / number))


def sides(
    teacher: LabelledAnswers | None,
    student: LabelledAnswers | None,
    file: LabelledAnswers | None,
    *,
    baseline: LabelledAnswers | None = None,
    baseline_name: str = "",
    confidence: Confidence | None = None,
    split: str = DEVELOPMENT,
) -> AnswerSides | None:
    """Puts together what can be compared on the development set, or on what stands for it."""
    whole = student or teacher or file
    if whole is None:
        return None
    logits = {}
    texts: tuple[str, ...] = ()
    of_model = {TEACHER: (teacher, "model"), STUDENT: (student, "model")}
    if student is None and teacher is None:
        of_model[MODEL] = (file, "model")
    for name, (answers, key) in {**of_model, FILE: (file, "file")}.items():
        if answers is not None and answers.examples == whole.examples and key in answers.logits:
            logits[name] = answers.logits[key]
            texts = texts or answers.texts
    baselines = {}
    if baseline is not None and baseline.examples == whole.examples:
        baselines[baseline_name] = baseline.logits["model"]
    return AnswerSides(whole.task, whole.gold, logits, texts, baselines, split, confidence)


def of_test_set(
    answers: LabelledAnswers | None, confidence: Confidence | None = None
) -> AnswerSides | None:
    """The answers to the test set, of models and of the majority; None without any."""
    if answers is None:
        return None
    models = [name for name in (TEACHER, STUDENT, FILE) if name in answers.logits]
    logits = {name: answers.logits[name] for name in models}
    baselines = {name: rows for name, rows in answers.logits.items() if name not in models}
    more = answers.texts, baselines, TEST, confidence, answers.large
    return AnswerSides(answers.task, answers.gold, logits, *more)
