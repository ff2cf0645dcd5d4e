"""From the nearest rows of an index to a label, and whether it is sure: margins and thresholds.

A label's score is the mean of its five nearest rows, or of all if it has fewer. The label of a text
is that with the best score. Its margin is that score minus the best one of another label. An answer
is sure if its margin is above the threshold of its label, and the score of its nearest row not
below the threshold of the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pydantic

from tfdistill.manifest import parts

MAX_ERROR = 0.05  # of the sure answers to rows that were left out
MOST_LABELS = 1000  # index.json names each
_FEWEST = 20  # answers with a label that give it a threshold of its own
_NEAREST = 5  # rows of a label that a text is compared with


class Routes(parts.ManifestPart):
    """The thresholds of an index's sure answers, fitted on its rows, each left out once."""

    thresholds: Mapping[str, float]  # label -> the margin that a sure answer exceeds
    num_rows: int = pydantic.Field(ge=1)  # that were left out, one at a time
    accuracy: float = pydantic.Field(ge=0, le=1)  # the share of them that get their label
    coverage: float = pydantic.Field(ge=0, le=1)  # the share of them that get a sure answer
    error: float | None = pydantic.Field(ge=0, le=1)  # the share of the sure answers that is wrong


class Route(NamedTuple):
    """The label of a text."""

    label: str  # that of the nearest rows
    score: float  # the cosine with the nearest of them, -1 to 1
    margin: float  # by how much its five rows are nearer, on average, than those of any other label
    sure: bool  # whether margin and score are above their thresholds
    row: int  # the nearest row, from 0


def rows_by_label(labels: Sequence[str]) -> dict[str, np.ndarray]:
    """The rows of each label, in the order of their first rows."""
    rows: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return {label: np.array(of_label) for label, of_label in rows.items()}


def score_labels(scores: np.ndarray, rows_of: Mapping[str, np.ndarray]) -> np.ndarray:
    """The mean of the five best scores of each label: (m, n) -> (m, labels).

    A score of -inf, of a row that is left out, does not count; without another one neither does
    the label.
    """
    columns = []
    for rows in rows_of.values():
        best = -np.sort(-scores[:, rows], axis=1)[:, :_NEAREST]
        count = np.isfinite(best).sum(axis=1)
        total = np.where(np.isfinite(best), best, 0.0).sum(axis=1)
        columns.append(np.where(count > 0, total / np.maximum(count, 1), -np.inf))
    return np.stack(columns, axis=1)


def decide(
    scores: np.ndarray, rows_of: Mapping[str, np.ndarray], routes: Routes, least_score: float | None
) -> Route:
    """Finds the label of a text by its scores with each row of an index, float64 (n,).

    For `rows_of` see `rows_by_label`; `least_score` is the threshold of the index.
    """
    means = score_labels(scores[None], rows_of)[0]
    names = list(rows_of)
    nearest = [int(rows[scores[rows].argmax()]) for rows in rows_of.values()]
    best = means.max()
    chosen = min(np.flatnonzero(means == best).tolist(), key=nearest.__getitem__)
    label, row = names[chosen], nearest[chosen]
    score, margin = float(scores[row]), float(best - np.delete(means, chosen).max())
    near = least_score is None or score >= least_score
    return Route(label, score, margin, near and margin > routes.thresholds[label], row)


def fit_routes(
    nearest: np.ndarray,
    margins: np.ndarray,
    labels: np.ndarray,
    names: Sequence[str],
    near: np.ndarray | bool = True,
) -> Routes:
    """Fits the threshold of each label.

    A threshold is the least margin above which at most 5% of the answers are wrong. A label has the
    larger one of its own answers and of all answers. Of fewer than 20 answers its own one is the
    largest margin of a wrong answer.

    `nearest` is the label that the other rows give each row, int (n,), with `margins`; `labels` are
    those that the rows have. `near`, whether the nearest row reaches the threshold of the index,
    decides who is sure, not where the thresholds of the margin are.
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
    sure = near & (margins > limits[nearest])
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
