"""From measurements to a summary of each case: percentiles, start, drift, who is faster.

Pure: everything here follows from the measurements of one result. Those that were left out, and
those without any inference, do not take part.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import disturbance, drift, stats
from tfdistill.manifest import lengths

# Of a start there is one value a repetition; the summary gives their median.
_START = (
    "process_start_ms",
    "init_ms",
    "first_inference_ms",
    "cold_start_ms",
    "baseline_rss_bytes",
    "peak_rss_bytes",
)

ByCase = dict[schema.BenchmarkCase, list[schema.Measurement]]


def case_of(row: schema.BenchmarkCase) -> schema.BenchmarkCase:
    """Returns the case that a figure is about, without the figure."""
    return schema.BenchmarkCase(
        **{name: getattr(row, name) for name in schema.BenchmarkCase.model_fields}
    )


def without_model(case: schema.BenchmarkCase) -> schema.BenchmarkCase:
    """Returns the case with no model named: what files that are compared have in common."""
    return case.model_copy(update={"model": ""})


def by_case(measurements: Iterable[schema.Measurement]) -> ByCase:
    """Gathers the measurements that count by their case, in order of appearance.

    Refuses durations, and numbers of inferences of a block, that are not above 0.
    """
    cases: ByCase = {}
    for row in measurements:
        if row.left_out or not (row.samples_ms or row.blocks):
            continue
        values = [*row.samples_ms]
        for block in row.blocks:
            values += [block.min_ms, block.mean_ms, _level(block), block.n]
        if not min(values) > 0:
            raise errors.BenchmarkError(
                f"durations of {row.model} at {row.sequence_length} tokens",
                "more than 0 ms",
                min(values),
                "The clock did not advance: measure again.",
            )
        cases.setdefault(case_of(row), []).append(row)
    return cases


def as_counted(rows: Sequence[schema.Measurement]) -> Sequence[schema.Measurement]:
    """Returns the measurements of a case without what other programs took (see `disturbance`)."""
    return disturbance.steady(rows) if disturbance.is_busy(rows) else rows


def repetitions_of(rows: Sequence[schema.Measurement]) -> stats.Repetitions:
    """Gives repetition -> block -> durations in milliseconds.

    Where one repetition has blocks without single durations, a block of any of them is one value:
    its median, or its mean where that is all that is known.
    """
    if all(row.samples_ms for row in rows):
        return [stats.blocks_of(row.samples_ms, row.block_runs) for row in rows]
    repetitions = []
    for row in rows:
        if row.samples_ms:
            repetitions.append(
                [
                    [statistics.median(block)]
                    for block in stats.blocks_of(row.samples_ms, row.block_runs)
                ]
            )
        else:
            repetitions.append([[_level(block)] for block in row.blocks])
    return repetitions


def summary(
    case: schema.BenchmarkCase, rows: Sequence[schema.Measurement], *, seed: int = 0
) -> schema.Summary:
    """Describes all repetitions of a case that count, at least one, together."""
    busy, rows = disturbance.is_busy(rows), as_counted(rows)
    repetitions = repetitions_of(rows)
    start: dict[str, Any] = {}
    for name in _START:
        values = [getattr(row, name) for row in rows if getattr(row, name) is not None]
        start[name] = statistics.median(values) if values else None
    coverages = [row.coverage for row in rows if row.coverage is not None]
    single = all(row.samples_ms for row in rows)
    percents = (50, 90, 95, 99) if single else (50,)
    intervals = stats.percentile_cis(repetitions, percents, seed=seed)
    drifted = drift.drift(repetitions, seed=seed)
    return schema.Summary(
        **case.model_dump(),
        **percentiles(rows),
        busy=busy,
        **{f"p{q}_ci_ms": ci for q, ci in zip(percents, intervals, strict=True)},
        repetition_p50_ms=tuple(float(np.median(np.concatenate(r))) for r in repetitions),
        outliers=stats.count_outliers(repetitions) if single else 0,
        drift=drifted[0] if drifted else None,
        drift_ci=drifted[1] if drifted else None,
        throttled=(drifted is not None and drifted[1][0] > drift.LEAST_SHIFT) or throttled(rows),
        **start,
        coverage=coverages[-1] if coverages else None,
    )


def throttled(rows: Sequence[schema.Measurement]) -> bool:
    """Says whether a device throttled during repetitions, or slowed down for another reason.

    That is: Android's thermal status was not 0 before or after one of them, Linux counted that a
    core slowed down for heat meanwhile, or the level rose and stayed (`drift.slowed_down`).
    """
    if any(at is not None and at.thermal_status for row in rows for at in (row.before, row.after)):
        return True
    if any(counted_throttling(row.before, row.after) for row in rows):
        return True
    return drift.slowed_down(
        [
            drift.levels(row.samples_ms) if row.samples_ms else [_level(b) for b in row.blocks]
            for row in rows
        ]
    )


def counted_throttling(before: schema.Conditions | None, after: schema.Conditions | None) -> bool:
    """Says whether Linux counted between two moments that a core slowed down for heat."""
    counts = [None if at is None else at.throttle_count for at in (before, after)]
    return counts[0] is not None and counts[1] is not None and counts[1] > counts[0]


def comparisons(
    cases: ByCase, baseline: str, *, seed: int = 0, confidence: float = 0.95
) -> tuple[schema.Comparison, ...]:
    """Compares every other file with the baseline at the same length, threads and delegate.

    `cases` are of one result: the blocks of its files took turns. Returns one row a case of another
    file, where the baseline was measured in the same rounds. One repetition does not show how much
    two processes of one file differ: `faster` is None.
    """
    rows = []
    for case, sides in compared(cases, baseline):
        old, new = (repetitions_of(as_counted(rows)) for rows in sides)
        interval = disturbance.interval_of_ratio(
            stats.speedup_ci(old, new, seed=seed, confidence=confidence), sides
        )
        rows.append(
            schema.Comparison(
                baseline=baseline,
                candidate=case.model,
                **case.model_dump(exclude={"model"}),
                speedup=speedup(sides),
                speedup_ci=interval,
                faster=stats.is_faster(interval) if interval and len(old) > 1 else None,
                busy=any(disturbance.is_busy(rows) for rows in sides),
            )
        )
    return tuple(rows)


def compared(
    cases: ByCase, baseline: str
) -> Iterator[tuple[schema.BenchmarkCase, list[list[schema.Measurement]]]]:
    """Yields each case of another file, with the rows of the baseline and its own, in rounds."""
    for case, measured in cases.items():
        reference = cases.get(case.model_copy(update={"model": baseline}))
        if case.model == baseline or reference is None:
            continue
        shared = {r.repetition for r in reference} & {r.repetition for r in measured}
        sides = [
            sorted((row for row in rows if row.repetition in shared), key=lambda r: r.repetition)
            for rows in (reference, measured)
        ]
        old, new = (repetitions_of(as_counted(rows)) for rows in sides)
        # Where one of the two was cut short, there are no rounds to pair.
        if shared and [len(blocks) for blocks in old] == [len(blocks) for blocks in new]:
            yield case, sides


def speedup(sides: Sequence[Sequence[schema.Measurement]]) -> float:
    """The median of the baseline over the candidate's."""
    old, new = (pooled_median(repetitions_of(as_counted(rows))) for rows in sides)
    return old / new


def text_times(
    files: Iterable[schema.MeasuredFile], summary: Iterable[schema.Summary]
) -> tuple[schema.TextTime, ...]:
    """The expected time of a text of each file whose texts are known, by threads and the like."""
    rows: dict[tuple[Any, ...], list[schema.Summary]] = {}
    for row in summary:
        rows.setdefault((row.model, row.threads, row.delegate, row.affinity), []).append(row)
    manifests = {file.name: file.manifest for file in files}
    times = []
    for (model, threads, delegate, affinity), cases in rows.items():
        manifest = manifests.get(model)
        texts = None if manifest is None else manifest.text_lengths
        if manifest is None or not texts:
            continue
        of_file = [entry.sequence_length for entry in manifest.signatures.values()]
        medians = {row.sequence_length: row.p50_ms for row in cases}
        expected_ms = lengths.expected_time(medians, texts, of_file)
        if expected_ms is not None:
            times.append(
                schema.TextTime(
                    model=model,
                    threads=threads,
                    delegate=delegate,
                    affinity=affinity,
                    num_texts=sum(texts.values()),
                    expected_ms=expected_ms,
                    busy=any(row.busy for row in cases),
                )
            )
    return tuple(times)


def tokenizer(texts: Sequence[schema.TextMeasurement]) -> schema.Percentiles | None:
    """Describes the tokenizer's times of the examples' texts; None without any."""
    texts = [row for row in texts if row.words is None]
    samples = [sample for row in texts for sample in row.tokenizer_ms]
    if not samples:
        return None
    return schema.Percentiles(**stats.summarize(samples), busy=disturbance.is_busy(texts))


def end_to_end(texts: Sequence[schema.TextMeasurement]) -> tuple[schema.EndToEnd, ...]:
    """Describes the time from text to answer by model, threads, delegate, cores and words."""
    gathered: dict[tuple[Any, ...], list[schema.TextMeasurement]] = {}
    names = ("model", "threads", "delegate", "affinity", "words", "tokens")
    for row in texts:
        if row.samples_ms:
            gathered.setdefault(tuple(getattr(row, n) for n in names), []).append(row)
    return tuple(
        schema.EndToEnd(
            **dict(zip(names, key, strict=True)),
            **stats.summarize([s for samples in disturbance.steady_samples(rows) for s in samples]),
            busy=disturbance.is_busy(rows),
        )
        for key, rows in gathered.items()
    )


def _level(block: schema.Block) -> float:
    return block.mean_ms if block.median_ms is None else block.median_ms


def pooled_median(repetitions: stats.Repetitions) -> float:
    """The median of all samples together."""
    return float(np.median([v for blocks in repetitions for block in blocks for v in block]))


def percentiles(rows: Sequence[schema.Measurement]) -> dict[str, Any]:
    """The order statistics and moments of the repetitions of a case, as they count."""
    if all(row.samples_ms for row in rows):
        return stats.summarize([sample for row in rows for sample in row.samples_ms])
    blocks = [block for row in rows for block in (row.blocks or _as_blocks(row))]
    n = sum(block.n for block in blocks)
    mean = sum(block.n * block.mean_ms for block in blocks) / n
    return {
        "of": "blocks",
        "n": n,
        "p50_ms": statistics.median(_level(block) for block in blocks),
        "min_ms": min(block.min_ms for block in blocks),
        "max_ms": max(block.max_ms for block in blocks),
        "mean_ms": mean,
        "std_ms": _pooled_std(blocks, n, mean),
    }


def _as_blocks(row: schema.Measurement) -> list[schema.Block]:
    """Describes blocks of samples as a tool without single durations would."""
    return [
        schema.Block(
            n=len(block),
            mean_ms=statistics.fmean(block),
            min_ms=min(block),
            max_ms=max(block),
            std_ms=statistics.stdev(block) if len(block) > 1 else 0.0,
            median_ms=statistics.median(block),
        )
        for block in stats.blocks_of(row.samples_ms, row.block_runs)
    ]


def _pooled_std(blocks: Sequence[schema.Block], n: int, mean: float) -> float | None:
    """Standard deviation of all inferences, from each block's around its own mean."""
    if n < 2:
        return 0.0
    inside = 0.0
    for block in blocks:
        if block.std_ms is None:
            return None
        inside += (block.n - 1) * block.std_ms**2
    between = sum(block.n * (block.mean_ms - mean) ** 2 for block in blocks)
    return float(np.sqrt((inside + between) / (n - 1)))
