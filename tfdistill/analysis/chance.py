"""Teachers that are fit to teach, and students that are fit to ship."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from tfdistill import errors, tasks
from tfdistill.results import quantities
from tfdistill.tasks.encoded import EncodedExamples

# The least share of the way from chance to a perfect score. Measured: teachers that were never
# fine-tuned score within 0.03 of a majority class of 0.5 to 0.8; a fine-tuned one for MRPC has an
# F1 of 0.85 where chance is 0.81, 0.2 of the way.
_OF_SCALE = 0.5  # R2 for the square of Pearson's correlation, which rescaling would make it
MARGIN = 0.1


def chance_level(task: tasks.TaskSpec, labels: np.ndarray) -> float:
    """The primary metric of an answer that ignores its input.

    Accuracy: the share of the majority class. F1: that of always saying the positive class, or,
    where it is a mean over classes, the majority class. AUC: 0.5. Correlations (Matthews, Pearson,
    Spearman) and entities: 0. Several labels: micro F1 of the best fixed set of labels, macro F1 of
    always saying all of them, exact match of the most frequent set. Answers to questions: that of
    never answering, which is the share of questions without an answer.

    Args:
      task: Names the primary metric.
      labels: As `gold_labels` gives them.
    """
    return task.traits.chance(task, labels)


def gold_labels(encoded: EncodedExamples) -> np.ndarray:
    """The labels of a set, in the order of its examples, or of its tokens where these have them.

    Of windows of questions: bool (questions,), whether a question has no answer.

    Raises:
      DataError: If it has none.
    """
    labels, sources = encoded.labels, encoded.span_sources
    if labels is None:
        raise errors.DataError("evaluation", "labelled examples", "examples without labels")
    if sources is not None:
        return np.array([not question.answers for question in sources.questions])
    return labels


def check_model(
    role: Literal["teacher", "student"],
    metrics: Mapping[str, float | None],
    task: tasks.TaskSpec,
    labels: np.ndarray,
    *,
    allow_weak: bool = False,
    causes: Callable[[], Sequence[str]] = tuple,
    source: Literal["checkpoint", "training", "answers"] = "checkpoint",
) -> None:
    """Refuses a teacher or a student that answers near chance.

    Args:
      role: Which of the two it is.
      metrics: Its development metrics.
      task: Names the primary metric.
      labels: The development labels.
      allow_weak: Accept it all the same.
      causes: Finds what may be the reason, clauses for the message; asked only where it is weak.
      source: Where a teacher's answers come from: weights as they were found, a training on this
        task, or files of answers.

    Raises:
      TeacherError: If the primary metric is below ``chance + MARGIN * (1 - chance)``.
      StudentError: The same of a student.
    """
    fault = _weakness(metrics, task, labels)
    if fault is None or allow_weak:
        return
    reasons = causes()
    what = f"{role}'s {task.primary_metric} on {task.name}"
    if role == "student":
        accepts = (
            "--allow-weak (student.allow_weak in a recipe, allow_weak=True in Python) accepts it."
        )
        raise errors.StudentError(what, *fault, f"{_likely(reasons)} {accepts}")
    remedy = {
        "checkpoint": "Fine-tune it first (`tfdistill finetune`, teacher.finetune in a recipe), "
        "check the order of its labels,",
        "training": "Check that the texts tell what the labels say,",
        "answers": "Check the order of its labels,",
    }[source]
    accepts = (
        "or continue all the same with --set teacher.allow_weak=true (allow_weak=True in Python)."
    )
    likely = _likely(reasons) + " " if reasons else ""
    raise errors.TeacherError(what, *fault, f"{likely}{remedy} {accepts}")


def _likely(causes: Sequence[str]) -> str:
    """The likely causes as a sentence."""
    if not causes:
        return "Train it longer, at another rate, or from another start (student.initialise)."
    return f"Likely: {'; '.join(causes)}."


def _weakness(
    metrics: Mapping[str, float | None], task: tasks.TaskSpec, labels: np.ndarray
) -> tuple[str, str] | None:
    """The expected and the received value where a metric is near chance."""
    value = metrics[task.primary_metric]
    chance = chance_level(task, labels)
    bound = chance + MARGIN * (1 - chance)
    if value is not None and value >= bound:  # NaN is no better than chance
        pearson, r2 = metrics.get("pearson"), metrics.get("r2")
        if pearson is None or r2 is None or r2 >= _OF_SCALE * pearson**2:
            return None
        least, received = quantities.apart(_OF_SCALE * pearson**2, r2)
        return (
            f"answers on the scale of the labels, an R2 of at least {least}",
            f"{received} at a Pearson correlation of {pearson:.3f}",
        )
    least, received = quantities.apart(bound, math.nan if value is None else value)
    received = "no number" if value is None else received
    return f"at least {least} (chance is {chance:.3f})", received
