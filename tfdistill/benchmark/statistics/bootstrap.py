"""The two-level bootstrap: resamples of repetitions, and of whole blocks within them, as counts.

A resample is never written out. It is how often each block takes part; with all samples sorted
once, the cumulated counts give any order statistic of the resample.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CELLS = 4_000_000  # of the table of cumulated counts: 32 MB


def draw(shape: Sequence[int], resamples: int, rng: np.random.Generator) -> np.ndarray:
    """Draws resamples of repetitions of blocks; `shape` has the blocks of each repetition.

    Each resample draws as many repetitions as there are, with replacement, then for each of those
    as many blocks as it has, with replacement. Returns int64 (resamples, sum(shape)): how often
    each block takes part, the blocks of the first repetition first.
    """
    counts = np.asarray(shape)  # (repetitions,)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    drawn = rng.integers(len(counts), size=(resamples, len(counts)))
    widest = int(counts.max())
    inside = rng.random((resamples, len(counts), widest)) * counts[drawn][..., None]
    blocks = starts[drawn][..., None] + inside.astype(np.int64)  # (resamples, repetitions, widest)
    taken = np.arange(widest) < counts[drawn][..., None]
    total = int(counts.sum())
    rows = np.broadcast_to(np.arange(resamples)[:, None, None], blocks.shape)
    flat = (rows * total + blocks)[taken]
    return np.bincount(flat, minlength=resamples * total).reshape(resamples, total)


def percentiles(
    blocks: Sequence[np.ndarray], counts: np.ndarray, percents: Sequence[float]
) -> np.ndarray:
    """Computes percentiles of each resample, interpolated linearly as NumPy does.

    `blocks` are the samples of each block, `counts` (resamples, blocks) how often it takes part.
    Returns float64 (resamples, percents).
    """
    samples = np.concatenate(blocks)  # (n,)
    order = np.argsort(samples, kind="stable")
    samples = samples[order]
    block_of = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])[order]
    estimates = np.empty((len(counts), len(percents)))
    step = max(1, _CELLS // len(samples))
    for first in range(0, len(counts), step):
        cumulated = np.cumsum(counts[first : first + step][:, block_of], axis=1)  # (step, n)
        height = (cumulated[:, -1:] - 1) * (np.asarray(percents) / 100)  # (step, percents)
        below = np.floor(height).astype(np.int64)
        above = np.minimum(below + 1, cumulated[:, -1:] - 1)
        # One search for all rows: each is lifted above the one before, so that all are in order.
        rows = np.arange(len(cumulated))[:, None]
        lift = rows * (int(cumulated[:, -1].max()) + 1)
        line = (cumulated + lift).ravel()
        low, high = (
            samples[np.searchsorted(line, at + lift, side="right") - rows * len(samples)]
            for at in (below, above)
        )
        estimates[first : first + step] = low + (high - low) * (height - below)
    return estimates
