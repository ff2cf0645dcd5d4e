"""Word tables in two factors: one table in a file of transformers, two of ours.

A factorised table is saved as the product, which every BERT reads, and split again when loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tfdistill import models

WORDS = "embeddings.word_embeddings.weight"
PROJECTION = "embeddings.embedding_transformation.weight"
_UNSEEN = 0.05  # occurrences of a word that no text has


def is_factorised(config: models.EncoderConfig) -> bool:
    """Checks whether a model's word table has two factors; files of some families hold both."""
    both = config.family in ("electra", "mobilebert")
    return config.embedding_size is not None and not both


def split(
    table: np.ndarray, size: int, counts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Factorises a table by its leading singular vectors.

    With V (d, e) the right singular vectors of the largest singular values: ``E V`` and ``V^T``,
    the nearest product of that rank, ``min |E - A B|^2``; E itself where its rank is no more. With
    the occurrences ``c_w`` of the words, ``min sum_w (c_w + 0.05) |e_w - a_w B|^2``: words that
    texts use keep their vectors best, and the others their part in the same directions.

    Reference: Eckart and Young 1936; Lan et al. 2020, ALBERT, section 3.1, for the shape.

    Shapes: `table` (rows, d), `counts` (rows,); returns (rows, e), (e, d).
    """
    table = np.asarray(table, np.float64)
    weighted = table if counts is None else table * (counts + _UNSEEN)[:, None]
    _, vectors = np.linalg.eigh(table.T @ weighted)  # ascending
    leading = vectors[:, ::-1][:, :size]
    return (table @ leading).astype(np.float32), leading.T.astype(np.float32)


def merged(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Replaces both factors among the tensors of a checkpoint by their product."""
    words, projection = tensors[WORDS], tensors[PROJECTION]  # (rows, e), (d, e)
    table = np.asarray(words, np.float64) @ np.asarray(projection, np.float64).T
    rest = {key: value for key, value in tensors.items() if key != PROJECTION}
    return {**rest, WORDS: table.astype(np.float32)}


def factorised(tensors: Mapping[str, np.ndarray], size: int) -> dict[str, np.ndarray]:
    """Replaces the word table among the tensors of a checkpoint by its two factors."""
    if WORDS not in tensors:  # an incomplete checkpoint, which the check of all keys names
        return dict(tensors)
    words, projection = split(tensors[WORDS], size)
    return {**tensors, WORDS: words, PROJECTION: np.ascontiguousarray(projection.T)}
