"""The answers of a run's models side by side. Pure."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from tfdistill import analysis
from tfdistill.data.answers import DevAnswers
from tfdistill.tasks.spec import TaskSpec

TEACHER, STUDENT, MODEL, FILE = "teacher", "student", "model", "file"


@dataclasses.dataclass(frozen=True, eq=False)
class AnswerSides:
    """What up to three models answered to the same labelled texts.

    Attributes:
      task: The task.
      gold: The labels.
      logits: "teacher", "student" or "model", "file" -> float (n, num_labels), in this order.
      texts: The texts; empty where they were left out.
      baselines: Title of a baseline -> its logits.
    """

    task: TaskSpec
    gold: np.ndarray
    logits: dict[str, np.ndarray]
    texts: tuple[str, ...]
    baselines: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The model that the report is about: the student, or else the model itself."""
        return next(name for name in (STUDENT, MODEL, TEACHER) if name in self.logits)

    @functools.cached_property
    def differences(self) -> dict[tuple[str, str], analysis.PairedDifference]:
        """(before, after) -> how they differ: teacher and student, model and file, baselines."""
        pairs = [(TEACHER, STUDENT), (self.subject, FILE)]
        pairs += [(title, self.subject) for title in self.baselines]
        known = {**self.logits, **self.baselines}
        return {
            (one, other): analysis.paired_difference(self.task, self.gold, known[one], known[other])
            for one, other in pairs
            if one in known and other in known
        }

    def answers(self, name: str) -> np.ndarray:
        """The class that a model answers, int (n,)."""
        return self.logits[name].argmax(axis=1)


def sides(
    teacher: DevAnswers | None,
    student: DevAnswers | None,
    file: DevAnswers | None,
    *,
    baseline: DevAnswers | None = None,
    baseline_title: str = "",
) -> AnswerSides | None:
    """Puts together what can be compared.

    Args:
      teacher: Of the run.
      student: The chosen one.
      file: What a file answered, and the model that it was made from.
      baseline: What the best baseline answered.
      baseline_title: Its name for a reader.

    Returns:
      The answers to the student's examples (or the teacher's, or the file's); None without any.
    """
    own = student or teacher or file
    if own is None:
        return None
    found = {}
    texts: tuple[str, ...] = ()
    of_model = {TEACHER: (teacher, "model"), STUDENT: (student, "model")}
    if student is None and teacher is None:
        of_model[MODEL] = (file, "model")
    for name, (given, key) in {**of_model, FILE: (file, "file")}.items():
        if given is not None and given.examples == own.examples and key in given.logits:
            found[name] = given.logits[key]
            texts = texts or given.texts
    beside = {}
    if baseline is not None and baseline.examples == own.examples:
        beside[baseline_title] = baseline.logits["model"]
    return AnswerSides(own.task, own.gold, found, texts, beside)
