"""A classifier's right and wrong answers: confusion, scores of each class, changed answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import sklearn.metrics

from tfdistill import errors


@dataclasses.dataclass(frozen=True)
class ClassScores:
    """The scores of one class.

    Attributes:
      label: Its name.
      precision: Right answers of this class / answers of this class; 0 without answers.
      recall: Right answers of this class / examples of it; 0 without examples.
      f1: ``2 P R / (P + R)``, 0 where both are 0.
      num_examples: Its examples.
    """

    label: str
    precision: float
    recall: float
    f1: float
    num_examples: int


def confusion_matrix(gold: np.ndarray, answers: np.ndarray, num_labels: int) -> np.ndarray:
    """Counts examples by label and answer.

    Args:
      gold: int (n,).
      answers: int (n,).
      num_labels: C.

    Returns:
      int (C, C): row = label, column = answer.
    """
    return sklearn.metrics.confusion_matrix(gold, answers, labels=np.arange(num_labels))


def class_scores(
    gold: np.ndarray, answers: np.ndarray, labels: Sequence[str]
) -> tuple[ClassScores, ...]:
    """Precision, recall and F1 of every class.

    Args:
      gold: int (n,).
      answers: int (n,).
      labels: C names.

    Returns:
      C scores, in the order of `labels`.
    """
    columns = sklearn.metrics.precision_recall_fscore_support(
        gold,
        answers,
        labels=np.arange(len(labels)),
        zero_division=0.0,  # pyright: ignore
    )
    return tuple(
        ClassScores(label, float(p), float(r), float(f), int(n))
        for label, p, r, f, n in zip(labels, *columns, strict=True)
    )


def changed_examples(
    gold: np.ndarray, before: np.ndarray, after: np.ndarray, *, logits: np.ndarray | None = None
) -> np.ndarray:
    """The examples that one model answers rightly and the next one wrongly.

    Args:
      gold: int (n,).
      before: int (n,), answers of the first model: the teacher, or the student before export.
      after: int (n,), answers of the second one.
      logits: float (n, C) of the second one; the examples come in the order of the margin by which
        it is wrong, the largest first. None: in their own order.

    Returns:
      Indices, int (k,).

    Raises:
      ShapeError: If the shapes differ.
    """
    if not gold.shape == before.shape == after.shape:
        raise errors.ShapeError(
            "answers of two models", f"shape {gold.shape}", f"{before.shape}, {after.shape}"
        )
    lost = np.flatnonzero((before == gold) & (after != gold))
    if logits is None:
        return lost
    margin = logits[lost, after[lost]] - logits[lost, gold[lost]]
    return lost[np.argsort(-margin, kind="stable")]
