"""Teachers that are fit to teach."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tfdistill import errors
from tfdistill.data import tasks

# Above chance by at least this: measured teachers that were never fine-tuned score within
# 0.03 of the majority class, fine-tuned ones 0.2 and more above it.
MARGIN = 0.05


def chance_level(task: tasks.TaskSpec, labels: np.ndarray) -> float:
    """The primary metric of an answer that ignores its input.

    Accuracy: the share of the majority class. F1: that of always saying the positive class, or,
    where it is a mean over classes, the majority class. AUC: 0.5. Correlations (Matthews, Pearson,
    Spearman) and entities: 0. Several labels: micro F1 of the best fixed set of labels, macro F1 of
    always saying all of them, exact match of the most frequent set. Answers to questions: that of
    never answering, which is the share of questions without an answer.

    Args:
      task: Names the primary metric.
      labels: As `evaluation.gold_labels` gives them.

    Returns:
      The metric's value.
    """
    metric = task.primary_metric
    if task.kind == "span":
        return float(np.mean(labels)) if task.spans.unanswerable else 0.0
    if task.kind == "multi_label":
        return _chance_of_several(metric, labels)
    if task.kind == "token":
        labels = labels[labels >= 0]
    if metric == "auc":
        return 0.5
    if metric not in ("accuracy", "f1"):
        return 0.0
    shares = np.bincount(labels, minlength=task.num_labels) / len(labels)
    if metric == "accuracy":
        return float(shares.max())
    if task.positive_label is not None:
        shares, classes = shares[[task.labels.index(task.positive_label)]], 1
    elif task.num_labels == 2:
        shares, classes = shares[[1]], 1
    else:
        classes = task.num_labels
    return float(2 * shares.max() / (1 + shares.max()) / classes)


def _chance_of_several(metric: str, labels: np.ndarray) -> float:
    shares = np.sort(labels.mean(axis=0))[::-1]  # (classes,), the most frequent first
    if metric == "macro_f1":
        return float(np.mean(2 * shares / (1 + shares)))
    if metric == "micro_f1":
        answered = np.arange(1, len(shares) + 1)
        return float(np.max(2 * np.cumsum(shares) / (answered + shares.sum())))
    _, counts = np.unique(labels, axis=0, return_counts=True)
    return float(counts.max() / len(labels))


def check_teacher(
    metrics: Mapping[str, float],
    task: tasks.TaskSpec,
    labels: np.ndarray,
    *,
    allow_weak: bool = False,
) -> None:
    """Refuses a teacher that answers near chance.

    Args:
      metrics: The teacher's development metrics.
      task: Names the primary metric.
      labels: The development labels.
      allow_weak: Accept it all the same.

    Raises:
      TeacherError: If the primary metric is below chance + `MARGIN`.
    """
    value = metrics[task.primary_metric]
    bound = chance_level(task, labels) + MARGIN
    if not value >= bound and not allow_weak:  # NaN is no better than chance
        raise errors.TeacherError(
            f"teacher's {task.primary_metric} on {task.name}",
            f"at least {bound:.3f} (chance is {bound - MARGIN:.3f})",
            f"{value:.3f}",
            "Fine-tune it first (`tfdistill finetune`, teacher.finetune in a recipe), check "
            "the order of its labels, or continue all the same with --set "
            "teacher.allow_weak=true.",
        )
