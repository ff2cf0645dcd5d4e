"""From the nearest rows of an index to a label, and whether it is sure: margins and thresholds.

The label of a text is that of its nearest row. Its margin is the score of that row minus the best
score of a row with another label. An answer is sure if its margin is above the threshold of its
label, and its score not below the threshold of the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pydantic

from tfdistill import manifest_parts

MAX_ERROR = 0.05  # of the sure answers to rows that were left out
MOST_LABELS = 1000  # index.json names each
_FEWEST = 20  # answers with a label that give it a threshold of its own


class Routes(manifest_parts.ManifestPart):
    """When an answer of an index is sure, fitted on its rows, each left out once.

    Attributes:
      thresholds: Label -> the margin that a sure answer exceeds.
      num_rows: Rows that were left out, one at a time.
      accuracy: The share of them whose nearest other row has their label.
      coverage: The share of them that get a sure answer.
      error: The share of the sure answers that is wrong; None without one.
    """

    thresholds: Mapping[str, float]
    num_rows: int = pydantic.Field(ge=1)
    accuracy: float = pydantic.Field(ge=0, le=1)
    coverage: float = pydantic.Field(ge=0, le=1)
    error: float | None = pydantic.Field(ge=0, le=1)


class Route(NamedTuple):
    """The label of a text.

    Attributes:
      label: That of the nearest row.
      score: The cosine with that row, -1 to 1.
      margin: By how much the row is nearer than any row with another label.
      sure: Whether margin and score are above their thresholds.
      row: The row, from 0.
    """

    label: str
    score: float
    margin: float
    sure: bool
    row: int


def decide(
    scores: np.ndarray, labels: Sequence[str], routes: Routes, least_score: float | None
) -> Route:
    """Finds the label of a text by its scores.

    Args:
      scores: float64 (n,), with each row of an index.
      labels: The label of each row.
      routes: The thresholds.
      least_score: The threshold of the index, or None.
    """
    row = int(scores.argmax())
    label, score = labels[row], float(scores[row])
    others = scores[np.array([other != label for other in labels])]
    margin = score - float(others.max())
    near = least_score is None or score >= least_score
    return Route(label, score, margin, near and margin > routes.thresholds[label], row)


def fit_routes(
    nearest: np.ndarray, margins: np.ndarray, labels: np.ndarray, names: Sequence[str]
) -> Routes:
    """Fits the threshold of each label.

    A threshold is the least margin above which at most 5% of the answers are wrong. A label has the
    larger one of its own answers and of all answers. Of fewer than 20 answers its own one is the
    largest margin of a wrong answer.

    Args:
      nearest: int (n,), the label of the nearest other row of each row.
      margins: float (n,), of these answers.
      labels: int (n,), the labels that the rows have.
      names: The labels' names.
    """
    right = nearest == labels
    together = _threshold(margins, right)
    thresholds = {}
    for number, name in enumerate(names):
        answered = nearest == number
        of_label, correct = margins[answered], right[answered]
        wrong = of_label[~correct]
        if len(of_label) >= _FEWEST:
            of_one = _threshold(of_label, correct)
        else:
            of_one = float(wrong.max()) if len(wrong) else together
        thresholds[name] = max(together, of_one)
    limits = np.array([thresholds[name] for name in names])
    sure = margins > limits[nearest]
    return Routes(
        thresholds=thresholds,
        num_rows=len(labels),
        accuracy=float(right.mean()),
        coverage=float(sure.mean()),
        error=float(1 - right[sure].mean()) if sure.any() else None,
    )


def _threshold(margins: np.ndarray, right: np.ndarray) -> float:
    """The least margin above which at most 5% are wrong; 0 if that is so of all answers."""
    order = np.argsort(-margins, kind="stable")
    wrong = np.cumsum(~right[order])
    allowed = np.flatnonzero(wrong <= MAX_ERROR * np.arange(1, len(order) + 1))
    if not len(allowed):
        return float(margins.max())
    last = allowed[-1] + 1
    return float(margins[order[last]]) if last < len(order) else 0.0
