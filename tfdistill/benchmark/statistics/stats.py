"""Statistics of latency samples: percentiles, and bootstrap intervals that respect their origin.

Consecutive inferences are not independent: they share a process and a moment of the machine. So
samples are kept as repetitions (fresh processes) of blocks (short bursts that alternate between
the models), and the bootstrap resamples repetitions first and whole blocks within them.

A few repetitions are few to resample: three that happen to be on one side of the truth, one time
in four, would give an interval that misses it. Hence every interval here is the hull of the
bootstrap's and of Student's over the repetitions, which accounts for how few values there are.

A resample is never written out. It is how often each block takes part; with all samples sorted
once, the cumulated counts give any order statistic of the resample.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from tfdistill import errors

Repetitions = Sequence[Sequence[Sequence[float]]]  # repetition -> block -> samples
Interval = tuple[float, float]
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


def summarize(samples: Sequence[float]) -> dict[str, Any]:
    """Describes durations in ms by order statistics and moments: `n`, p50_ms to std_ms.

    Percentiles interpolate linearly between the two nearest order statistics (NumPy's default); the
    standard deviation divides by n - 1 and is 0 for one sample. Refuses none, NaN and infinity.
    """
    values = np.asarray(samples, dtype=np.float64)  # (n,)
    if values.size == 0 or not np.isfinite(values).all():
        received = "none" if values.size == 0 else "NaN or infinity among them"
        raise errors.BenchmarkError("latency samples", "at least one finite duration", received)
    p50, p90, p95, p99 = np.percentile(values, [50, 90, 95, 99])
    return {
        "n": int(values.size),
        "p50_ms": float(p50),
        "p90_ms": float(p90),
        "p95_ms": float(p95),
        "p99_ms": float(p99),
        "min_ms": float(values.min()),
        "max_ms": float(values.max()),
        "mean_ms": float(values.mean()),
        "std_ms": float(values.std(ddof=1)) if values.size > 1 else 0.0,
    }


def blocks_of(samples: Sequence[float], block_runs: int | None) -> list[list[float]]:
    """Cuts samples into consecutive blocks of `block_runs`, the last may be shorter; else one."""
    size = block_runs if block_runs and block_runs > 0 else max(len(samples), 1)
    return [list(samples[i : i + size]) for i in range(0, len(samples), size)]


def count_outliers(repetitions: Repetitions) -> int:
    """Counts samples beyond 3 interquartile ranges above the upper quartile of their repetition."""
    count = 0
    for blocks in repetitions:
        values = np.concatenate([np.asarray(block, dtype=np.float64) for block in blocks])
        lower, upper = np.percentile(values, [25, 75])
        count += int((values > upper + 3 * (upper - lower)).sum())
    return count


def percentile_cis(
    repetitions: Repetitions,
    percents: Sequence[float],
    *,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 1000,
) -> list[Interval]:
    """Estimates an interval in milliseconds for each of some percentiles, such as (50, 99).

    Hull of two: (1) a two-level percentile bootstrap, in which each resample draws as many
    repetitions as there are, with replacement, then within each as many blocks as it has, with
    replacement, and takes the percentile of all their samples; (2) with two or more repetitions,
    exp(m +- t s / sqrt(R)) with mean m and standard deviation s of the logarithms of the R
    repetitions' own percentiles and Student's t of R - 1 degrees of freedom. `confidence` is the
    nominal coverage.
    """
    shape = _shape(repetitions)
    blocks = _flat(repetitions)
    counts = draw(shape, resamples, np.random.default_rng(seed))
    values = percentiles(blocks, counts, percents)  # (resamples, percents)
    logs = np.log([np.percentile(np.concatenate(_flat([r])), percents) for r in repetitions])
    return [
        hull(middle_of(values[:, i], confidence), student_of_mean(logs[:, i], confidence))
        for i in range(len(percents))
    ]


def speedup_ci(
    baseline: Repetitions,
    candidate: Repetitions,
    *,
    seed: int = 0,
    confidence: float = 0.95,
    resamples: int = 1000,
) -> Interval:
    """Estimates an interval for median(baseline) / median(candidate), pairing blocks in time.

    Block b of repetition r of both models was measured in the same round, so both are drawn
    together: what slowed the machine in that round slows both and cancels in the ratio. The
    interval is the hull of two, as in `percentile_cis`, here of the ratio; above 1 means that the
    candidate is faster. Refuses two that were not measured in the same rounds.
    """
    shape = _shape(baseline)
    other = [len(blocks) for blocks in candidate]
    if shape != other:
        raise errors.BenchmarkError(
            "rounds of the two models", f"{shape} blocks per repetition", other
        )
    counts = draw(shape, resamples, np.random.default_rng(seed))
    old, new = (percentiles(_flat(side), counts, (50,))[:, 0] for side in (baseline, candidate))
    logs = _log_medians(baseline) - _log_medians(candidate)
    return hull(middle_of(old / new, confidence), student_of_mean(logs, confidence))


@dataclasses.dataclass(frozen=True)
class UnpairedComparison:
    """median(baseline) / median(candidate) of two separate runs, and how well it is known.

    Nothing is paired: the repetitions of either run were fresh processes at other moments, and how
    much they differ within a run is the only sign of how much two runs differ by chance.
    """

    # of resamples of the two-level bootstrap of `percentile_cis`, each side drawn by itself; of
    # shape (resamples,)
    ratios: np.ndarray
    # log medians of the repetitions of the baseline, and of the candidate
    logs: tuple[np.ndarray, np.ndarray]

    def interval(self, confidence: float = 0.95) -> Interval:
        """Estimates an interval of the ratio; above 1 means that the candidate is faster.

        Hull of two: (1) what leaves as many of `ratios` below it as above it; (2)
        exp(d +- t s sqrt(1/R + 1/Q)) with the difference d of the mean log medians of R and Q
        repetitions, their pooled standard deviation s, and Student's t of R + Q - 2 degrees of
        freedom.
        """
        student = student_of_difference(*self.logs, confidence)
        return hull(middle_of(self.ratios, confidence), student)


def compare_unpaired(
    baseline: Repetitions, candidate: Repetitions, *, seed: int = 0, resamples: int = 1000
) -> UnpairedComparison | None:
    """Compares the medians of two separate runs, which may have other repetitions and blocks.

    None with one repetition in each, which does not show the spread from one process to the next.
    """
    rng = np.random.default_rng(seed)
    old, new = (
        percentiles(_flat(side), draw(_shape(side), resamples, rng), (50,))
        for side in (baseline, candidate)
    )
    if len(baseline) + len(candidate) < 3:
        return None
    return UnpairedComparison((old / new)[:, 0], (_log_medians(baseline), _log_medians(candidate)))


def is_faster(speedup_interval: Interval) -> bool | None:
    """Returns whether the candidate is faster.

    None where the interval includes 1, or the whole of it is within 1% of 1: clocks of processors
    change by more.
    """
    low, high = speedup_interval
    if low > 1.0:
        return True if high >= 1.01 else None
    return False if high < 1.0 and low <= 0.99 else None


def _shape(repetitions: Repetitions) -> list[int]:
    shape = [len(blocks) for blocks in repetitions]
    if not shape or min(shape) == 0:
        raise errors.BenchmarkError("repetitions", "at least one block in each", shape)
    return shape


def _flat(repetitions: Repetitions) -> list[np.ndarray]:
    return [np.asarray(block, dtype=np.float64) for blocks in repetitions for block in blocks]


def _log_medians(repetitions: Repetitions) -> np.ndarray:
    return np.log([np.median(np.concatenate(_flat([blocks]))) for blocks in repetitions])


def middle_of(values: np.ndarray, confidence: float) -> Interval:
    """Returns the interval that leaves as much of the values below it as above it."""
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def student_of_mean(logs: np.ndarray, confidence: float) -> Interval | None:
    """Student's interval of the mean of logarithms, as ratios; None for fewer than two."""
    if len(logs) < 2:
        return None
    quantile = float(special.stdtrit(len(logs) - 1, (1 + confidence) / 2))
    reach = quantile * logs.std(ddof=1) / len(logs) ** 0.5
    return float(np.exp(logs.mean() - reach)), float(np.exp(logs.mean() + reach))


def student_of_difference(
    logs: np.ndarray, others: np.ndarray, confidence: float
) -> Interval | None:
    """Student's interval of mean(logs) - mean(others), as ratios, with their pooled variance.

    None for fewer than three values together.
    """
    freedom = len(logs) + len(others) - 2
    if freedom < 1:
        return None
    squares = sum(float(((side - side.mean()) ** 2).sum()) for side in (logs, others))
    error = (squares / freedom * (1 / len(logs) + 1 / len(others))) ** 0.5
    reach = float(special.stdtrit(freedom, (1 + confidence) / 2)) * error
    middle = float(logs.mean() - others.mean())
    return float(np.exp(middle - reach)), float(np.exp(middle + reach))


def hull(one: Interval, other: Interval | None) -> Interval:
    """The smallest interval that holds both."""
    return one if other is None else (float(min(one[0], other[0])), float(max(one[1], other[1])))
