"""The disturbance of a measurement by other programs, and what of it can still be told.

A program that shares a processor takes turns of some milliseconds. An inference that is shorter
often escapes; one that is longer never does, and takes several times as long. So a busy machine
changes not only latencies but their ratio: on two cores with a spinning process on each, 88x on the
clock where the same files have 22.5x. The processor time of one thread changes little (25x): see
tests/test_benchmark/busy.json.

A phone reports no processor time, neither to `benchmark_model` nor to the app. There the spread
in a block shows it: over 1.3 times as long as the shortest of their block take at most 5% of the
samples that were recorded on the quiet machine, and 20 to 56% of those of the busy one. A change
of core or of clock looks the same, so that such a case has a mark and no ratio. What slows whole
blocks shows in the interval.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import stats
from tfdistill.benchmark.statistics.stats import Interval

BUSY_SHARE = 0.1  # of the samples: fewer hardly move a median
RATIO_ERROR = 1.15  # by which caches shared with another program change a ratio of processor times
WITHHELD = "busy machine: no speed-up can be told"
SINGLE = "one repetition cannot tell a difference"

_LOST_SHARE = 0.05  # of the time of a sample, off the processor
_MS_A_PREEMPTION = 20.0  # of several threads: other programs take turns of 3 to 10 ms
SPREAD = 1.3  # times the shortest inference of a block, where no processor time is known

Timed = schema.Measurement | schema.TextMeasurement


def is_busy(rows: Sequence[Timed]) -> bool:
    """Says whether other programs disturbed more than a tenth of the samples, or blocks."""
    samples = [is_disturbed for row in rows for is_disturbed in _disturbed(row)]
    return sum(samples) > BUSY_SHARE * len(samples)


def steady_samples(rows: Sequence[Timed]) -> list[tuple[float, ...]]:
    """Returns the samples of each row of a case that counts, without what other programs took.

    They are as recorded on a quiet machine, without processor times, and with several threads,
    whose processor times do not add up to a latency. Else a disturbed sample counts with its
    processor time.
    """
    if not is_busy(rows) or any(row.threads > 1 for row in rows):
        return [row.samples_ms for row in rows]
    return [
        tuple(
            processor_ms if is_disturbed else sample_ms
            for sample_ms, processor_ms, is_disturbed in zip(
                row.samples_ms, row.processor_ms, _disturbed(row), strict=True
            )
        )
        if row.processor_ms
        else row.samples_ms
        for row in rows
    ]


def steady(rows: Sequence[schema.Measurement]) -> list[schema.Measurement]:
    """Returns the measurements of a case with `steady_samples`."""
    pairs = zip(rows, steady_samples(rows), strict=True)
    return [row.model_copy(update={"samples_ms": samples}) for row, samples in pairs]


def interval_of_ratio(
    interval: Interval | None, sides: Sequence[Sequence[schema.Measurement]]
) -> Interval | None:
    """Widens the interval of a ratio, or withholds it, where the machine was busy.

    It is of medians of `steady` measurements; `sides` are either side's, as recorded. The
    interval reaches 1.15 times as far to either side for processor times; it is None without these,
    and with several threads.
    """
    busy = [row for rows in sides if is_busy(rows) for row in rows]
    if interval is None or not busy:
        return interval
    if any(row.threads > 1 or not row.processor_ms for row in busy):
        return None
    return interval[0] / RATIO_ERROR, interval[1] * RATIO_ERROR


def _disturbed(row: Timed) -> list[bool]:
    """Says of each sample or block whether other programs took a part of its time.

    Nothing is said of texts without processor times: they differ in length.
    """
    if row.threads == 1 and row.processor_ms:
        pairs = zip(row.samples_ms, row.processor_ms, strict=True)
        return [sample_ms - used_ms > _LOST_SHARE * sample_ms > 0 for sample_ms, used_ms in pairs]
    if row.preemptions:
        counts = zip(row.samples_ms, row.preemptions, strict=True)
        return [count * _MS_A_PREEMPTION > sample_ms for sample_ms, count in counts]
    if isinstance(row, schema.TextMeasurement):
        return []
    blocks = stats.blocks_of(row.samples_ms, row.block_runs)
    samples = [ms > SPREAD * min(block) for block in blocks for ms in block]
    return [*samples, *(block.mean_ms > SPREAD * block.min_ms for block in row.blocks)]
