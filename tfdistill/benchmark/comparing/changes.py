"""Changes between two results, or between the files of one: a row a case, with intervals.

Files of one result took turns, and their blocks are paired. Two results are runs of different
moments: nothing is paired, and the interval includes the spread over the repetitions of both
(`stats.UnpairedComparison`). How far a device is another one on another day, in no repetition of
either run, no interval knows: measure both files in one run where it matters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from tfdistill import errors
from tfdistill.benchmark import schema, terminal
from tfdistill.benchmark.comparing import matching
from tfdistill.benchmark.statistics import disturbance, stats, summaries
from tfdistill.tasks import KINDS

_VERDICTS = {True: "faster", False: "slower", None: "no difference that these runs can tell"}


@dataclasses.dataclass(frozen=True)
class Change:
    """A case before and after."""

    case: schema.BenchmarkCase  # where; its model is the new file's name
    baseline: str  # name of the old file
    old_p50_ms: float  # median of the old file
    new_p50_ms: float  # median of the new one
    speedup: float  # old / new: above 1 is faster
    # 95% interval; None where the repetitions do not suffice for one
    speedup_ci: schema.Interval | None
    # as `speedup_ci`, so much wider that the intervals of all rows together hold with 95%: each has
    # 1 - 0.05 / rows
    joint_ci: schema.Interval | None
    faster: bool | None  # whether the new file is; None where that is not known
    throttled: bool  # whether either was measured on a device that throttled
    busy: bool  # whether either was measured on a busy machine
    reason: str = ""  # why `faster` is None although the interval may exclude 1; empty otherwise

    @property
    def slowdown(self) -> float:
        """The additional time that the new file takes: 0.05 is 5%."""
        return 1 / self.speedup - 1

    @property
    def slowdown_ci(self) -> schema.Interval | None:
        """95% interval of `slowdown`."""
        if self.speedup_ci is None:
            return None
        return (1 / self.speedup_ci[1] - 1, 1 / self.speedup_ci[0] - 1)

    @property
    def verdict(self) -> str:
        """The conclusion, in words."""
        return self.reason or _VERDICTS[self.faster]


@dataclasses.dataclass(frozen=True)
class FilePair:
    """An old file and the new one that replaces it."""

    old: schema.MeasuredFile
    new: schema.MeasuredFile
    old_metrics: dict[str, float]  # of its task
    new_metrics: dict[str, float]  # of its task
    primary_metric: str | None  # of the new one's task
    # how task, labels or number of examples differ, so that metrics of the one say nothing of the
    # other; empty if they do not
    other_data: str = ""


@dataclasses.dataclass(frozen=True)
class Changes:
    """All that changed."""

    old: schema.Result  # the old result
    new: schema.Result  # the new one; the same one where files of one result are compared
    rows: tuple[Change, ...]  # one for each case that both have
    pairs: tuple[FilePair, ...]  # the files
    only_old: tuple[schema.BenchmarkCase, ...]  # places that only the old files were measured at
    only_new: tuple[schema.BenchmarkCase, ...]  # places that only the new files were measured at
    notes: tuple[str, ...]  # sentences that a reader has to know


def between(old: schema.Result, new: schema.Result) -> Changes:
    """Compares two results of the same device, case by case; `old` is the baseline.

    Raises BenchmarkError if they have no case in common.
    """
    matching.check(old, new)
    pairs = matching.pair_models(old, new)
    before, after = summaries.by_case(old.measurements), summaries.by_case(new.measurements)
    counterparts = {
        case: case.model_copy(update={"model": pairs.get(case.model, "")}) for case in before
    }
    shared = {
        case: counterpart for case, counterpart in counterparts.items() if counterpart in after
    }
    hot = [{summaries.case_of(r) for r in side.summary if r.throttled} for side in (old, new)]
    joint = 1 - 0.05 / max(len(shared), 1)
    rows = [
        _change(
            *(case, counterpart, before[case], after[counterpart], joint),
            throttled=case in hot[0] or counterpart in hot[1],
        )
        for case, counterpart in shared.items()
    ]
    if not rows:
        raise errors.BenchmarkError(
            "cases of the results",
            "a length, number of threads, delegate and affinity that both have",
            f"{_listed(before)} and {_listed(after)}",
            "Measure both with the same options.",
        )
    new_cases = {row.case for row in rows}
    return Changes(
        old=old,
        new=new,
        rows=tuple(rows),
        pairs=_file_pairs(old, new, pairs),
        only_old=tuple(case for case in before if case not in shared),
        only_new=tuple(case for case in after if case not in new_cases),
        notes=tuple(_notes(old, new, pairs, rows)),
    )


def within(result: schema.Result) -> Changes:
    """Compares the files of one result, which took turns, with its baseline: its comparisons."""
    summary = {summaries.case_of(row): row for row in result.summary}
    wide = summaries.comparisons(
        summaries.by_case(result.measurements),
        next((row.baseline for row in result.comparisons), ""),
        confidence=1 - 0.05 / max(len(result.comparisons), 1),
    )
    joint = {row.case: row.speedup_ci for row in wide}
    rows = []
    for row in result.comparisons:
        case = row.case
        counterpart = case.model_copy(update={"model": row.baseline})
        if case not in summary or counterpart not in summary:
            raise errors.BenchmarkError(
                "comparisons",
                "cases that the summary has",
                terminal.describe(case),
                "The result was changed by hand or damaged: measure again.",
            )
        old, new = summary[counterpart], summary[case]
        single = len(new.repetition_p50_ms) == 1
        withheld = disturbance.WITHHELD if row.speedup_ci is None else ""
        rows.append(
            Change(
                case=case,
                baseline=row.baseline,
                old_p50_ms=old.p50_ms,
                new_p50_ms=new.p50_ms,
                speedup=row.speedup,
                speedup_ci=None if single else row.speedup_ci,
                joint_ci=None if single else joint.get(case, row.speedup_ci),
                faster=row.faster,
                throttled=old.throttled or new.throttled,
                busy=row.busy,
                reason=disturbance.SINGLE if single else withheld,
            )
        )
    if not rows:
        raise errors.BenchmarkError(
            "a single result",
            "two or more files that were measured in turns at the same lengths",
            f"{[model.name for model in result.models]}",
            "Name a second result, or measure both files: `tfdistill benchmark OLD NEW`.",
        )
    baseline = rows[0].baseline
    compared = {row.case for row in rows}
    usual = {summaries.without_model(case) for case in compared}
    unpaired = [case for case in summary if summaries.without_model(case) not in usual]
    pairs = tuple(
        pair
        for name in dict.fromkeys(row.case.model for row in rows)
        for pair in _file_pairs(result, result, {baseline: name})
    )
    return Changes(
        old=result,
        new=result,
        rows=tuple(rows),
        pairs=pairs,
        only_old=tuple(case for case in unpaired if case.model == baseline),
        only_new=tuple(case for case in unpaired if case.model != baseline),
        notes=result.notes,
    )


def _change(
    case: schema.BenchmarkCase,
    counterpart: schema.BenchmarkCase,
    old: Sequence[schema.Measurement],
    new: Sequence[schema.Measurement],
    joint: float,
    throttled: bool,
) -> Change:
    before, after = (summaries.repetitions_of(summaries.as_counted(rows)) for rows in (old, new))
    medians = [summaries.pooled_median(side) for side in (before, after)]
    enough = len(before) > 1 and len(after) > 1
    unpaired = stats.compare_unpaired(before, after) if enough else None
    interval, wide = (
        unpaired and disturbance.interval_of_ratio(unpaired.interval(confidence), (old, new))
        for confidence in (0.95, joint)
    )
    reason = disturbance.WITHHELD if enough and interval is None else ""
    return Change(
        case=counterpart,
        baseline=case.model,
        old_p50_ms=medians[0],
        new_p50_ms=medians[1],
        speedup=medians[0] / medians[1],
        speedup_ci=interval,
        joint_ci=wide,
        faster=None if interval is None else stats.is_faster(interval),
        throttled=throttled,
        busy=any(disturbance.is_busy(rows) for rows in (old, new)),
        reason=reason if enough else disturbance.SINGLE,
    )


def _file_pairs(
    old: schema.Result, new: schema.Result, pairs: dict[str, str]
) -> tuple[FilePair, ...]:
    files = [{model.name: model for model in result.models} for result in (old, new)]
    rows = []
    for name, counterpart in pairs.items():
        before, after = files[0][name], files[1][counterpart]
        task = after.manifest.task if after.manifest is not None else None
        metrics = _metrics(old, before)[0], _metrics(new, after)[0]
        primary_metric = task.primary_metric if task is not None else None
        other_data = "; ".join(_other_data((old, before), (new, after)))
        rows.append(FilePair(before, after, *metrics, primary_metric, other_data))
    return tuple(rows)


def _metrics(
    result: schema.Result, model: schema.MeasuredFile
) -> tuple[dict[str, float], int | None]:
    """Metrics and their examples, by the device's answers if scored, else of the export."""
    for row in result.answers:
        if row.model == model.name and row.metrics:
            return dict(row.metrics), row.num_examples
    if model.manifest is None or model.manifest.parity is None:
        return {}, None
    parity, task = model.manifest.parity, model.manifest.task
    number = parity.num_scored
    if number is None and (task is None or KINDS[task.kind].row_a_text):
        number = parity.num_examples  # of an older manifest
    return dict(parity.file_metrics), number


def _other_data(*sides: tuple[schema.Result, schema.MeasuredFile]) -> Iterator[str]:
    """Names what differs between the data of two files' metrics, where both have some."""
    before, after = (_metrics(*side) for side in sides)
    tasks = [model.manifest and model.manifest.task for _, model in sides]
    if not before[0] or not after[0]:
        return
    if tasks[0] is not None and tasks[1] is not None:
        for name in ("name", "labels"):
            values = [getattr(task, name) for task in tasks]
            if values[0] != values[1]:
                words = [v if isinstance(v, str) else f"({', '.join(v)})" for v in values]
                old, new = (errors.shortened(text, 60) for text in words)
                yield f"{'task' if name == 'name' else name} {old} and {new}"
    if before[1] is not None and after[1] is not None and before[1] != after[1]:
        yield f"{before[1]} and {after[1]} examples"


def _notes(
    old: schema.Result, new: schema.Result, pairs: dict[str, str], rows: Sequence[Change]
) -> Iterator[str]:
    differing = matching.differences(old, new)
    if differing:
        yield "Not only the files differ: " + "; ".join(differing) + "."
    before, after = ({m.name: m.sha256 for m in result.models} for result in (old, new))
    same = [name for name, other in pairs.items() if before[name] == after[other]]
    if same:
        yield f"The same file in both results: {', '.join(same)}."
    files = _file_pairs(old, new, pairs)
    for other in dict.fromkeys(pair.other_data for pair in files if pair.other_data):
        names = ", ".join(pair.new.name for pair in files if pair.other_data == other)
        yield f"{names}: metrics of other data ({other})."
    yield from (f"{which}: {note}" for which, r in (("old", old), ("new", new)) for note in r.notes)
    if any(row.speedup_ci is None for row in rows):
        yield "Without 2 or more repetitions in either result no interval is known: measure again."


def _listed(cases: summaries.ByCase) -> list[str]:
    return [terminal.describe(case) for case in list(cases)[:6]]
