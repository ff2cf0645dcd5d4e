"""The slowing down of a device while it was measured: drift, and a level that rose and stayed.

A device that gets hot lowers its clock, and what was fast at first is slow from then on. Noise
looks otherwise: single inferences that take long, bursts that pass, levels that go up and down.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfdistill.benchmark.statistics import stats
from tfdistill.benchmark.statistics.stats import Interval, Repetitions

LEAST_SHIFT = 1.05  # a rise of the level that counts, as a ratio
_NUM_LEVELS = 20
_LEAST_LEVELS = 8
_PER_LEVEL = 5  # samples: two of them may be outliers


@dataclasses.dataclass(frozen=True)
class ShiftEvidence:
    """The least that a rise of the level must show."""

    rise: float  # median after / median before
    separation: float  # share of all pairs (a level before, one after) that rise
    noise_ratio: float  # rise of the log medians / spread around them


SOME = ShiftEvidence(rise=LEAST_SHIFT, separation=0.95, noise_ratio=2.0)
CLEAR = ShiftEvidence(rise=1.1, separation=0.99, noise_ratio=3.0)

_MAD_TO_STD = 1.4826  # of a normal distribution


def levels(samples: Sequence[float]) -> np.ndarray:
    """Reduces the samples of a repetition to the medians of up to 20 stretches of equal length.

    Returns float64 (stretches,), in order of time: each of at least five samples, so that an
    outlier or two in one do not move it; empty for fewer than five samples.
    """
    values = np.asarray(samples, dtype=np.float64)
    count = min(_NUM_LEVELS, len(values) // _PER_LEVEL)
    if not count:
        return values[:0]
    return np.array([np.median(stretch) for stretch in np.array_split(values, count)])


def level_shift(
    values: Sequence[float] | np.ndarray, evidence: ShiftEvidence = SOME
) -> float | None:
    """Looks for a moment after which a repetition is slower to its end, in positive `levels`.

    A split into before and after counts if each side has at least a fifth of the levels (and
    three), and shows the evidence: how much the median rises, how many pairs (a level of either
    side) agree with that, and how large the rise of the log medians is against the spread around
    them (1.4826 x the median absolute deviation). Returns median after / median before of the split
    where the pairs agree best; None where there is none, or with fewer than 8 levels.

    By simulation with 100 samples and the noise of a quiet machine: a false alarm in 2 of 100
    repetitions (none for `CLEAR`), a shift of 20% is found in 98 of 100 (so for `CLEAR`), one of
    10% in 80 or more. Levels that wander by 5% raise false alarms to some 12 of 100.
    """
    logs = np.log(np.asarray(values, dtype=np.float64))
    count = len(logs)
    if count < _LEAST_LEVELS:
        return None
    rises = logs[None, :] > logs[:, None]  # (earlier or later, the other)
    least = max(3, count // 5)
    best, shift = 0.0, None
    for split in range(least, count - least + 1):
        before, after = logs[:split], logs[split:]
        rise = np.median(after) - np.median(before)
        rest = np.concatenate([before - np.median(before), after - np.median(after)])
        noise = _MAD_TO_STD * np.median(np.abs(rest))
        separation = float(rises[:split, split:].mean())
        large = rise >= np.log(evidence.rise) and rise >= evidence.noise_ratio * noise
        if large and separation >= evidence.separation and separation > best:
            best, shift = separation, float(np.exp(rise))
    return shift


def slowed_down(repetitions: Sequence[Sequence[float] | np.ndarray]) -> bool:
    """Says whether a device slowed down in the repetitions of a case, given the `levels` of each.

    That is: more than half of the repetitions show some shift of their level, or one shows a clear
    one. (A device that is hot after the first repetition shows it there alone; asking for a clear
    shift then keeps false alarms to about 1 of 1000 cases on a quiet machine; with one repetition
    they are 2 of 100.)
    """
    some = sum(level_shift(values) is not None for values in repetitions)
    return 2 * some > len(repetitions) or any(
        level_shift(values, CLEAR) is not None for values in repetitions
    )


def drift(
    repetitions: Repetitions, *, seed: int = 0, resamples: int = 1000
) -> tuple[float, Interval] | None:
    """Compares the end of the repetitions with their beginning.

    A window is a third of the blocks of a repetition, or of its samples if it is one block. The
    interval is the hull of a bootstrap (repetitions, and blocks or samples within each window) and
    of Student's: over the logarithms of the repetitions' ratios, or with one repetition over those
    of the blocks' medians in its two windows. Returns median of the last window / median of the
    first, the median over the repetitions, and its 95% interval; None where no repetition has three
    blocks or samples.
    """
    rng = np.random.default_rng(seed)
    log_ratios, drawn = [], []
    medians: list[list[np.ndarray]] = []  # of the blocks of the last and the first window
    for blocks in repetitions:
        parts = [np.asarray(block, dtype=np.float64) for block in blocks]
        if len(parts) == 1:
            parts = list(parts[0][:, None])
        width = len(parts) // 3
        if not width:
            continue
        first, last = parts[:width], parts[-width:]
        medians.append([np.log([np.median(part) for part in ends]) for ends in (last, first)])
        log_ratios.append(
            np.log(np.median(np.concatenate(last)) / np.median(np.concatenate(first)))
        )
        ends = [
            stats.percentiles(window, stats.draw([width], resamples, rng), (50,))[:, 0]
            for window in (first, last)
        ]
        drawn.append(np.log(ends[1] / ends[0]))
    if not log_ratios:
        return None
    logs, table = np.array(log_ratios), np.array(drawn)  # (repetitions,), (repetitions, resamples)
    which = rng.integers(len(logs), size=(resamples, len(logs)))
    taken = table[which, rng.integers(resamples, size=which.shape)]
    interval = stats.middle_of(np.exp(np.median(taken, axis=1)), 0.95)
    if len(logs) > 1:
        student = stats.student_of_mean(logs, 0.95)
    else:
        student = stats.student_of_difference(medians[0][0], medians[0][1], 0.95)
    return float(np.exp(np.median(logs))), stats.hull(interval, student)
