"""How an index searches: int8 vectors against the file's own, and how unrelated texts score."""

from __future__ import annotations

import statistics

import numpy as np

from tfdistill.data import routes, text_index
from tfdistill.data.routes import Routes
from tfdistill.data.text_index import Checks, Scores, Spread

_NUM_QUERIES = 1000  # rows that the checks search for
_BLOCK = 32
_NEAREST = 10
_SAME = 1e-6  # of a cosine: sums in float32 have another order
_ANSWERED = 0.05  # share of unrelated questions that get an answer all the same
_LEAST_TEXTS = 20  # of a threshold
_SEED = 1  # of the choice of rows


def measure(
    vectors: np.ndarray, int8: np.ndarray, groups: np.ndarray
) -> tuple[Checks | None, Scores]:
    """Searches for up to 1,000 rows among all others, by float and by int8 vectors.

    `vectors` are the file's, (n, model_width), `int8` their first features, (n, width); `groups`,
    (n,), are the same where rows have the same answer. Returns how both compare, and how rows of
    other answers score; None where there are no others.
    """
    count, width = int8.shape
    if count == 1:
        return None, Scores(others=None, nearest_other=None, nearest_same=None)
    random = np.random.default_rng(_SEED)
    chosen = _drawn(random, count)
    unit = _normalised(vectors[:, :width])
    whole = _normalised(vectors) if width < vectors.shape[1] else None
    recalls, whole_recalls, errors_of = [], [], []
    others, nearest_other, nearest_same = [], [], []
    for start in range(0, len(chosen), _BLOCK):
        queries = chosen[start : start + _BLOCK]
        itself = np.arange(len(queries)), queries
        scores = text_index.scores_of(int8[queries], int8)
        exact = unit[queries] @ unit.T
        errors_of.append(np.abs(scores - exact).max())
        scores[itself] = exact[itself] = -np.inf
        recalls.append(_recall(scores, exact))
        if whole is not None:
            exact = whole[queries] @ whole.T
            exact[itself] = -np.inf
            whole_recalls.append(_recall(scores, exact))
        same = groups[queries][:, None] == groups
        nearest_same.append(np.where(same, scores, -np.inf).max(axis=1))
        scores[same] = -np.inf
        nearest_other.append(scores.max(axis=1))
        others.append(scores[:, random.integers(0, count, min(count, _NUM_QUERIES))].ravel())
    checks = Checks(
        num_queries=len(chosen),
        recall_at_10=float(np.concatenate(recalls).mean()),
        whole_recall_at_10=float(np.concatenate(whole_recalls).mean()) if whole_recalls else None,
        mean_cosine_error=float(np.mean(1 - (unit * _normalised(int8)).sum(axis=1, dtype=float))),
        max_score_error=float(max(errors_of)),
    )
    return checks, Scores(
        others=_spread(others),
        nearest_other=_spread(nearest_other),
        nearest_same=_spread(nearest_same),
    )


def fit_routes(
    int8: np.ndarray, answers: list[str] | None, least_score: float | None = None
) -> Routes | None:
    """Fits when a label is sure, on up to 1,000 rows that are searched for among all others.

    `int8` are the rows, (n, width), `answers` those of each, `least_score` is the threshold of the
    index. None where answers are no labels: without two different ones, with an empty one, with
    fewer than two rows for each on average, or with more than 1,000.
    """
    rows_of = routes.rows_by_label(answers or ())
    if not 2 <= len(rows_of) <= min(routes.MOST_LABELS, len(int8) // 2) or "" in rows_of:
        return None
    labels = np.empty(len(int8), np.int64)
    for number, rows in enumerate(rows_of.values()):
        labels[rows] = number
    # Without its only row nothing knows a label.
    shared = np.flatnonzero(np.bincount(labels)[labels] > 1)
    chosen = shared[_drawn(np.random.default_rng(_SEED), len(shared))]
    nearest, margins, near = [], [], []
    for start in range(0, len(chosen), _BLOCK):
        queries = chosen[start : start + _BLOCK]
        scores = text_index.scores_of(int8[queries], int8)
        scores[np.arange(len(queries)), queries] = -np.inf
        means = routes.score_labels(scores, rows_of)
        ordered = np.sort(means, axis=1)
        nearest.append(means.argmax(axis=1))
        margins.append(ordered[:, -1] - ordered[:, -2])
        of_label = np.where(labels == nearest[-1][:, None], scores, -np.inf)
        near.append(of_label.max(axis=1) >= (-np.inf if least_score is None else least_score))
    return routes.fit_routes(
        np.concatenate(nearest),
        np.concatenate(margins),
        labels[chosen],
        list(rows_of),
        np.concatenate(near),
    )


def threshold_of(others: Spread | None, count: int) -> float | None:
    """The score that the best of `count` unrelated texts exceeds in 5% of the cases, at most 1.

    Scores of two texts are taken as normally distributed above their median, with the width that
    their 95th percentile shows: ``p50 + z (p95 - p50) / 1.645``, where a normal variable is above z
    with probability 0.05 / count. Most pairs of an index are unrelated; those that are related
    widen the upper half, so that the threshold is rather too high. Fewer than 20 texts show
    nothing: None.
    """
    if others is None or count < _LEAST_TEXTS:
        return None
    normal = statistics.NormalDist()
    z = -normal.inv_cdf(_ANSWERED / count)
    spread = (others.p95 - others.p50) / normal.inv_cdf(0.95)
    return round(min(1.0, others.p50 + z * spread), 4)


def _drawn(random: np.random.Generator, count: int) -> np.ndarray:
    """The rows that are searched for, rising."""
    return np.sort(random.choice(count, min(count, _NUM_QUERIES), replace=False))


def _normalised(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _recall(scores: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """The share of the best by `scores` that are among the best by `exact`, for each query."""
    count = min(_NEAREST, scores.shape[1] - 1)
    least = -np.partition(-exact, count - 1, axis=1)[:, count - 1 : count] - _SAME
    nearest = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    return (np.take_along_axis(exact, nearest, axis=1) >= least).mean(axis=1)


def _spread(parts: list[np.ndarray]) -> Spread | None:
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, middle, high = (round(float(x), 4) for x in np.percentile(values, (5, 50, 95)))
    return Spread(p05=low, p50=middle, p95=high)
