"""Statistics of latency samples: percentiles, and bootstrap intervals that respect their origin.

Consecutive inferences are not independent: they share a process and a moment of the machine. So
samples are kept as repetitions (fresh processes) of blocks (short bursts that alternate between
the models), and the bootstrap resamples repetitions first and whole blocks within them.

A few repetitions are few to resample: three that happen to lie on one side of the truth, one time
in four, would give an interval beside it. Hence every interval here is the hull of the bootstrap's
and of Student's over the repetitions, which knows how little three values say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import special

from tfdistill import errors

Repetitions = Sequence[Sequence[Sequence[float]]]  # repetition -> block -> samples
Interval = tuple[float, float]
Draw = list[tuple[int, np.ndarray]]  # repetition and the indices of its blocks


def summarize(samples: Sequence[float]) -> dict[str, Any]:
    """Describes samples by order statistics and moments.

    Percentiles interpolate linearly between the two nearest order statistics (NumPy's default);
    the standard deviation divides by n - 1.

    Args:
      samples: Durations in milliseconds, at least one.

    Returns:
      `n` and p50_ms, p90_ms, p95_ms, p99_ms, min_ms, max_ms, mean_ms, std_ms; std_ms is 0 for one
      sample.

    Raises:
      BenchmarkError: If there is no sample, or one is not finite.
    """
    values = np.asarray(samples, dtype=np.float64)  # (n,)
    if values.size == 0 or not np.isfinite(values).all():
        received = "none" if values.size == 0 else "NaN or infinity among them"
        raise errors.BenchmarkError(
            errors.explain("latency samples", "at least one finite duration", received)
        )
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


def blocks_of(samples: Sequence[float], block_runs: int) -> list[list[float]]:
    """Cuts samples into consecutive blocks of `block_runs`; the last may be shorter."""
    return [list(samples[i : i + block_runs]) for i in range(0, len(samples), block_runs)]


def median_ci(
    repetitions: Repetitions, *, seed: int = 0, confidence: float = 0.95, resamples: int = 1000
) -> Interval:
    """Estimates an interval for the median.

    Hull of two: (1) a two-level percentile bootstrap, in which each resample draws as many
    repetitions as there are, with replacement, then within each as many blocks as it has, with
    replacement, and takes the median of all their samples; (2) with two or more repetitions,
    exp(m +- t s / sqrt(R)) with mean m and standard deviation s of the log medians of the R
    repetitions and Student's t of R - 1 degrees of freedom.

    Args:
      repetitions: Positive samples in milliseconds, as repetition -> block -> samples.
      seed: Seed of the resampling.
      confidence: Nominal coverage.
      resamples: Number of resamples.

    Returns:
      (low, high) in milliseconds.

    Raises:
      BenchmarkError: If there is no repetition, or one has no block.
    """
    samples = _arrays(repetitions)

    def median(draw: Draw) -> float:
        return float(np.median(_take(samples, draw)))

    shape = [len(blocks) for blocks in repetitions]
    return _interval(shape, median, seed, confidence, resamples)


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
    interval is the hull of two, as in `median_ci`, here of the ratio.

    Args:
      baseline: Samples of the baseline, as repetition -> block -> samples.
      candidate: Samples of the candidate, with as many repetitions and blocks.
      seed: Seed of the resampling.
      confidence: Nominal coverage.
      resamples: Number of resamples.

    Returns:
      (low, high); above 1 means that the candidate is faster.

    Raises:
      BenchmarkError: If the two were not measured in the same rounds, or not at all.
    """
    shape = [len(blocks) for blocks in baseline]
    other = [len(blocks) for blocks in candidate]
    if shape != other:
        raise errors.BenchmarkError(
            errors.explain("rounds of the two models", f"{shape} blocks per repetition", other)
        )

    old, new = _arrays(baseline), _arrays(candidate)

    def ratio(draw: Draw) -> float:
        return float(np.median(_take(old, draw)) / np.median(_take(new, draw)))

    return _interval(shape, ratio, seed, confidence, resamples)


def is_faster(speedup_interval: Interval) -> bool | None:
    """Says whether the candidate is faster: True or False where the interval says so, else None."""
    low, high = speedup_interval
    if low > 1.0:
        return True
    return False if high < 1.0 else None


def _interval(
    shape: Sequence[int],
    statistic: Callable[[Draw], float],
    seed: int,
    confidence: float,
    resamples: int,
) -> Interval:
    """Hull of the bootstrap's and Student's interval; `shape` counts blocks per repetition."""
    if not shape or min(shape) == 0:
        raise errors.BenchmarkError(
            errors.explain("repetitions", "at least one block in each", list(shape))
        )
    rng = np.random.default_rng(seed)
    values = np.empty(resamples)
    for i in range(resamples):
        drawn = rng.integers(len(shape), size=len(shape))
        values[i] = statistic([(int(r), rng.integers(shape[r], size=shape[r])) for r in drawn])
    tail = (1 - confidence) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    if len(shape) > 1:
        logs = np.log([statistic([(r, np.arange(blocks))]) for r, blocks in enumerate(shape)])
        reach = special.stdtrit(len(shape) - 1, 1 - tail) * logs.std(ddof=1) / len(shape) ** 0.5
        low = min(low, np.exp(logs.mean() - reach))
        high = max(high, np.exp(logs.mean() + reach))
    return float(low), float(high)


def _arrays(repetitions: Repetitions) -> list[list[np.ndarray]]:
    return [[np.asarray(block, dtype=np.float64) for block in blocks] for blocks in repetitions]


def _take(repetitions: list[list[np.ndarray]], draw: Draw) -> np.ndarray:
    return np.concatenate([repetitions[r][b] for r, blocks in draw for b in blocks])
