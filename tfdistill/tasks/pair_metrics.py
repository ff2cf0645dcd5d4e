"""Metrics of vectors of texts: similarities of pairs against gold, and retrieval of partners."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors

SIMILARITY = ("spearman", "pearson", "accuracy", "auc")
RETRIEVAL = ("recall_at_1", "recall_at_10", "mrr", "ndcg_at_10")
_CUT = 10
_BLOCK = 1024  # queries of one matrix product
_SIMILAR = 10  # decimals of a cosine that is ranked: those of equal texts differ in the 14th


def cosines(first: Any, second: Any) -> np.ndarray:
    """The cosine of each pair of rows, float64 (n,), 0 where a row has no length.

    The rows are float (n, width), NumPy arrays or sparse matrices.
    """
    first, second = _normalised(first), _normalised(second)
    products = first.multiply(second) if _is_sparse(first) else first * second
    return np.asarray(products.sum(axis=1), np.float64).reshape(-1)


def similarity_scores(
    names: Sequence[str], similarities: np.ndarray, gold: np.ndarray
) -> dict[str, float]:
    """Compares similarities of pairs, float (n,), with gold numbers, by the names of `SIMILARITY`.

    spearman, pearson: correlations; 0 where all similarities or all numbers are the same. For gold
    numbers of two values, the larger one being a match: auc, the area under the ROC curve (the
    share of pairs of a match and another in which the match is more similar, ties counting half);
    accuracy, the share that the best threshold gets right, which is chosen on the same pairs.
    """
    ranked = np.round(similarities, _SIMILAR)
    return {
        name: _similarity(name, similarities if name == "pearson" else ranked, gold)
        for name in names
    }


def _similarity(name: str, similarities: np.ndarray, gold: np.ndarray) -> float:
    import scipy.stats
    import sklearn.metrics

    if name in ("spearman", "pearson"):
        if np.ptp(similarities) == 0 or np.ptp(gold) == 0:
            return 0.0
        correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[name]
        return float(correlation(similarities, gold).statistic)
    values = np.unique(gold)
    if len(values) != 2:
        raise errors.DataError(
            f"labels for the metric {name}",
            "two different numbers, such as 0 and 1",
            f"{len(values)}",
            "For graded similarities choose the metrics spearman and pearson.",
        )
    match = gold == values[1]
    if name == "auc":
        return float(sklearn.metrics.roc_auc_score(match, similarities))
    order = np.argsort(-similarities, kind="stable")
    right = np.concatenate([[0], np.cumsum(np.where(match[order], 1, -1))])
    cuts = np.flatnonzero(np.diff(similarities[order])) + 1  # no threshold parts equal values
    best = int(right[[0, *cuts.tolist(), len(match)]].max())
    return (int((~match).sum()) + best) / len(match)


def retrieval_scores(
    names: Sequence[str], queries: Any, corpus: Any, relevant: Sequence[Sequence[int]]
) -> dict[str, float]:
    """Ranks a corpus by cosine for each query and scores where the relevant texts are.

    With r the ranks of the R relevant texts of a query, from 1, a text counting behind every other
    one of the same similarity: recall_at_k, the share of the R with r <= k; mrr, 1 / the smallest
    r; ndcg_at_10, ``sum over r <= 10 of 1 / log2(1 + r)`` divided by the same of ranks 1 to min(R,
    10). Each is a mean over queries.

    `names` are of `RETRIEVAL`. Queries, (n, width), and corpus, (m, width), are NumPy arrays or
    sparse matrices; `relevant` has for each query the rows that answer it, at least one.
    """
    if len(relevant) != queries.shape[0] or not relevant or not all(map(len, relevant)):
        raise errors.DataError(
            "retrieval", "one or more relevant texts for each of one or more queries", "none"
        )
    queries, corpus = _normalised(queries), _normalised(corpus)
    results: dict[str, list[float]] = {name: [] for name in names}
    for start in range(0, len(relevant), _BLOCK):
        scores = queries[start : start + _BLOCK] @ corpus.T  # (block, m)
        scores = np.round(scores.toarray() if _is_sparse(scores) else scores, _SIMILAR)
        for row, texts in zip(scores, relevant[start : start + _BLOCK], strict=True):
            texts = np.unique(np.asarray(texts, np.int64))
            others = np.delete(row, texts)
            relevant_scores = np.sort(row[texts])[::-1]
            # Behind the others that are as similar, and the relevant ones before it.
            ranks = (others[None] >= relevant_scores[:, None]).sum(axis=1) + np.arange(
                1, len(relevant_scores) + 1
            )
            for name in names:
                results[name].append(_of_query(name, ranks))
    return {name: float(np.mean(values)) for name, values in results.items()}


def _of_query(name: str, ranks: np.ndarray) -> float:
    if name == "mrr":
        return 1.0 / int(ranks.min())
    if name == "ndcg_at_10":
        ideal = np.arange(1, min(len(ranks), _CUT) + 1)
        gained = 1.0 / np.log2(1.0 + ranks[ranks <= _CUT])
        return float(gained.sum() / (1.0 / np.log2(1.0 + ideal)).sum())
    cut = int(name.removeprefix("recall_at_"))
    return float(np.mean(ranks <= cut))


def score_pairs(
    names: Sequence[str], vectors: Any, gold: np.ndarray, keys: Sequence[bytes]
) -> dict[str, float]:
    """Computes the metrics of pairs of texts from the vectors of the texts.

    For retrieval every first text is a query, the second texts are the corpus, each once, and a
    text's partners of gold above 0 answer it. `vectors` are float (2 n, width), a pair in two rows,
    `gold` float (n,); of the 2 n `keys`, equal texts have equal ones.
    """
    first, second = vectors[0::2], vectors[1::2]
    scores: dict[str, float] = {}
    wanted = [name for name in names if name in SIMILARITY]
    if wanted:
        scores |= similarity_scores(wanted, cosines(first, second), gold)
    wanted = [name for name in names if name in RETRIEVAL]
    if wanted:
        if not (gold > 0).any():
            raise errors.DataError("labels for retrieval", "pairs above 0, which match", "none")
        places: dict[bytes, int] = {}
        rows: list[int] = []
        for index, key in enumerate(keys[1::2]):
            if key not in places:
                places[key] = len(places)
                rows.append(index)
        answers: dict[bytes, list[int]] = {}
        query_rows: dict[bytes, int] = {}
        for index in np.flatnonzero(gold > 0):
            query = keys[2 * index]
            query_rows.setdefault(query, int(index))
            answers.setdefault(query, []).append(places[keys[2 * index + 1]])
        queries = first[list(query_rows.values())]
        scores |= retrieval_scores(wanted, queries, second[rows], list(answers.values()))
    return {name: scores[name] for name in names}


def _normalised(rows: Any) -> Any:
    import sklearn.preprocessing

    if not _is_sparse(rows):
        rows = np.asarray(rows, np.float64)
    return sklearn.preprocessing.normalize(rows)


def _is_sparse(rows: Any) -> bool:
    import scipy.sparse

    return scipy.sparse.issparse(rows)
