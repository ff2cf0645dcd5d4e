"""Many results over time: what each file took on each device, and which changes are no chance."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import io
import json
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, tables
from tfdistill.benchmark import result, schema, terminal
from tfdistill.benchmark.comparing import matching
from tfdistill.benchmark.statistics import stats, summaries

_FALSE_DISCOVERY_RATE = 0.05
_NUM_NAMED = 5  # skipped files that a note names


@dataclasses.dataclass(frozen=True)
class HistoryEntry:
    """One case of one result.

    Attributes:
      created: When, ISO 8601.
      file: The result's file.
      kind: Where.
      backend: What measured.
      device: Name of the device.
      device_id: Identifies it, where known.
      case: File, length, threads, delegate and cores.
      sha256: Of the model file.
      runtime: Its name and version.
      tfdistill_version: What wrote the result.
      p50_ms: Median.
      p50_ci_ms: 95% interval.
      n: Inferences.
      throttled: Whether the device throttled.
      change: Median / that of the entry before of the same device and case, less 1; None for the
        first.
      change_ci: 95% interval of it; None where the repetitions do not suffice.
      p_value: How often such a change would come by chance if this case were the only one.
      beyond_chance: Whether it may be believed among all cases of its result (see `trace`); None
        where there is no interval.
      remarks: What else changed, or marks the figure.
    """

    created: str
    file: str
    kind: schema.Kind
    backend: schema.BackendName
    device: str
    device_id: str | None
    case: schema.BenchmarkCase
    sha256: str
    runtime: str
    tfdistill_version: str
    p50_ms: float
    p50_ci_ms: schema.Interval
    n: int
    throttled: bool
    change: float | None = None
    change_ci: schema.Interval | None = None
    p_value: float | None = None
    beyond_chance: bool | None = None
    remarks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class LatencyHistory:
    """Entries by device, case and time, and what a reader has to know."""

    entries: tuple[HistoryEntry, ...]
    notes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Point:
    moment: datetime.datetime
    origin: schema.Result
    rows: Sequence[schema.Measurement]
    entry: HistoryEntry


def collect(paths: Sequence[files.Path]) -> tuple[list[tuple[str, schema.Result]], list[str]]:
    """Reads results: files that are named, and those found in folders.

    Args:
      paths: Result files, and folders, of which every .json file that is a result is taken.

    Returns:
      (file, result) pairs, no file twice, and notes on what was skipped in folders.

    Raises:
      BenchmarkError: If a named file is no result, or there is none at all.
    """
    found: dict[str, tuple[str, schema.Result]] = {}
    skipped: list[str] = []
    for name in paths:
        path = pathlib.Path(name)
        if not path.is_dir():
            found.setdefault(os.path.realpath(path), (str(path), result.read_result(path)))
            continue
        for file in sorted(path.rglob("*.json")):
            if os.path.realpath(file) in found or not file.is_file():
                continue
            try:
                found[os.path.realpath(file)] = (str(file), result.read_result(file))
            except errors.BenchmarkError:
                skipped.append(str(file.relative_to(path)))
    if not found:
        raise errors.BenchmarkError(
            ", ".join(map(str, paths)),
            f"results of format_version {result.FORMAT_VERSION}",
            f"{terminal.plural(len(skipped), 'other JSON file')}" if skipped else "none",
            "`tfdistill benchmark --out FILE` writes one.",
        )
    return list(found.values()), _skip_notes(skipped)


def trace(
    results: Sequence[tuple[str, schema.Result]], notes: Sequence[str] = ()
) -> LatencyHistory:
    """Sorts results by time, case by case, and compares each with the one before.

    Results form one series if kind, backend, device, file name and settings of the case are the
    same. Two of them are runs of different moments; `stats.UnpairedComparison` has the interval. A
    result brings a change for each of its cases (file, length, threads, ...), and by chance one
    interval in twenty excludes 0. So all changes of a result are judged together, at a rate of
    false discoveries of 5%. Where one file (by its checksum) was measured in several runs, a note
    gives their standard deviation: no change below that means anything.

    Args:
      results: (file, result) pairs.
      notes: To put before those of the history.

    Returns:
      The history.

    Raises:
      BenchmarkError: If a time cannot be read.

    Reference:
      Benjamini and Hochberg 1995, Controlling the False Discovery Rate.
    """
    lines: list[list[_Point]] = []
    for file, value in results:
        for point in _points(file, value):
            line = next((other for other in lines if _same_line(other[0], point)), None)
            if line is None:
                lines.append([point])
            else:
                line.append(point)
    entries: list[HistoryEntry] = []
    spreads: list[str] = []
    for line in sorted(lines, key=lambda points: _order(points[0].entry)):
        line.sort(key=lambda point: (point.moment, point.entry.file))
        for before, after in zip([None, *line], line, strict=False):
            entries.append(after.entry if before is None else _compared(before, after))
        spreads += _spread(line)
    return LatencyHistory(tuple(_judged(entries)), (*notes, *spreads))


def as_dict(found: LatencyHistory) -> dict[str, Any]:
    """Gives a history as a value for JSON."""
    return {
        "format_version": 1,
        "entries": [_flat(entry) for entry in found.entries],
        "notes": list(found.notes),
    }


def format_csv(found: LatencyHistory) -> str:
    """Writes the entries as CSV with a head; intervals have two columns."""
    target = io.StringIO()
    rows = []
    for entry in found.entries:
        row = _flat(entry)
        for name in ("p50_ci_ms", "change_ci"):
            row[f"{name}_low"], row[f"{name}_high"] = row.pop(name) or (None, None)
        rows.append({**row, "remarks": "; ".join(entry.remarks)})
    writer = csv.DictWriter(target, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            name: tables.csv_cell(cell) if isinstance(cell, str) else cell
            for name, cell in row.items()
        }
        for row in rows
    )
    return target.getvalue()


def format_text(found: LatencyHistory) -> str:
    """Shows a history as text: a table for each case on a device."""
    lines: list[str] = []
    groups: dict[tuple[Any, ...], list[HistoryEntry]] = {}
    for entry in found.entries:
        key = (entry.kind, entry.backend, entry.device, entry.device_id, entry.case)
        groups.setdefault(key, []).append(entry)
    for (kind, backend, device, device_id, case), entries in groups.items():
        name = f"{device} ({device_id})" if device_id else device
        lines += [f"{terminal.describe(case)} on {kind} {name}, {backend}"]
        rows = [["created", "file", "p50 ms", "95%", "change", "", "remarks"]]
        for entry in entries:
            change = "" if entry.change is None else f"{entry.change:+.1%}"
            times = [terminal.milliseconds(entry.p50_ms), terminal.interval(entry.p50_ci_ms)]
            remarks = "; ".join(entry.remarks)
            shown = [entry.created, entry.sha256[:8], *times, change, _verdict(entry), remarks]
            rows.append(shown)
        lines += [*tables.table(tables.without_empty(rows), left=2), ""]
    return "\n".join([*lines, *found.notes]).rstrip()


def _points(file: str, value: schema.Result) -> Iterator[_Point]:
    measured = summaries.by_case(value.measurements)
    models = {model.name: model for model in value.models}
    runtime = " ".join(part for part in (value.runtime.name, value.runtime.version) if part)
    for row in value.summary:
        case = summaries.case_of(row)
        if case not in measured or case.model not in models:
            continue
        entry = HistoryEntry(
            created=value.created,
            file=file,
            kind=value.kind,
            backend=value.backend,
            device=value.device.name,
            device_id=value.device.id,
            case=case,
            sha256=models[case.model].sha256,
            runtime=runtime,
            tfdistill_version=value.tfdistill_version,
            p50_ms=row.p50_ms,
            p50_ci_ms=row.p50_ci_ms,
            n=row.n,
            throttled=row.throttled,
            remarks=("throttled",) if row.throttled else (),
        )
        yield _Point(_moment(value.created, file), value, measured[case], entry)


def _moment(created: str, file: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(created.replace("Z", "+00:00"))
    except ValueError as error:
        raise errors.BenchmarkError(
            f"{file}: created", "a time as 2026-01-31T12:00:00+00:00", created
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.timezone.utc)


def _same_line(one: _Point, other: _Point) -> bool:
    same = all(
        getattr(one.entry, name) == getattr(other.entry, name)
        for name in ("case", "kind", "backend")
    )
    return same and matching.other_device(one.origin.device, other.origin.device) is None


def _order(entry: HistoryEntry) -> tuple[Any, ...]:
    case = entry.case
    device = (entry.kind, entry.device, entry.device_id or "", entry.backend)
    setting = (case.sequence_length, case.threads, case.delegate, case.affinity or "")
    return (*device, case.model, *setting)


def _compared(before: _Point, after: _Point) -> HistoryEntry:
    old, new = (summaries.repetitions_of(point.rows) for point in (before, after))
    enough = len(old) > 1 and len(new) > 1
    unpaired = stats.compare_unpaired(old, new) if enough else None
    interval = None if unpaired is None else unpaired.interval()
    remarks = [] if enough else ["one repetition cannot tell a change"]
    if before.entry.sha256 == after.entry.sha256:
        remarks.append("the same file")
    if before.entry.runtime != after.entry.runtime:
        remarks.append(f"{before.entry.runtime} -> {after.entry.runtime}")
    if before.origin.device.os != after.origin.device.os:
        remarks.append(f"{before.origin.device.os} -> {after.origin.device.os}")
    return dataclasses.replace(
        after.entry,
        change=after.entry.p50_ms / before.entry.p50_ms - 1,
        change_ci=None if interval is None else (1 / interval[1] - 1, 1 / interval[0] - 1),
        p_value=None if unpaired is None else unpaired.p_value,
        remarks=(*after.entry.remarks, *remarks),
    )


def _judged(entries: Sequence[HistoryEntry]) -> Iterator[HistoryEntry]:
    """Says of each change whether it may be believed among all those of its result."""
    import scipy.stats  # half a second

    results: dict[str, list[HistoryEntry]] = {}
    for entry in entries:
        if entry.p_value is not None:
            results.setdefault(entry.file, []).append(entry)
    believed: dict[int, bool] = {}
    for changes in results.values():
        adjusted = scipy.stats.false_discovery_control([e.p_value for e in changes], method="bh")
        for entry, value in zip(changes, adjusted, strict=True):
            believed[id(entry)] = bool(value <= _FALSE_DISCOVERY_RATE)
    for entry in entries:
        yield dataclasses.replace(entry, beyond_chance=believed.get(id(entry)))


def _spread(line: Sequence[_Point]) -> Iterator[str]:
    """Gives the standard deviation of runs of one file, where there are several."""
    by_file: dict[str, list[float]] = {}
    for point in line:
        by_file.setdefault(point.entry.sha256, []).append(point.entry.p50_ms)
    logs = [np.log(values) for values in by_file.values() if len(values) > 1]
    if logs:
        squares = sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
        runs = sum(len(values) for values in logs)
        spread = float(np.expm1((squares / (runs - len(logs))) ** 0.5))
        yield (
            f"{terminal.describe(line[0].entry.case)}: {runs} runs of unchanged files have "
            f"a standard deviation of {spread:.1%}."
        )


def _verdict(entry: HistoryEntry) -> str:
    if entry.change is None or entry.beyond_chance is None:
        return ""
    if not entry.beyond_chance:
        by_itself = (
            entry.change_ci is not None and not entry.change_ci[0] <= 0 <= entry.change_ci[1]
        )
        return "within chance of so many cases" if by_itself else "within chance"
    return "SLOWER" if entry.change > 0 else "faster"


def _flat(entry: HistoryEntry) -> dict[str, Any]:
    value = {f.name: getattr(entry, f.name) for f in dataclasses.fields(entry)}
    return json.loads(json.dumps({**value.pop("case").model_dump(), **value}))


def _skip_notes(skipped: Sequence[str]) -> list[str]:
    if not skipped:
        return []
    named = ", ".join(skipped[:_NUM_NAMED])
    more = f" and {len(skipped) - _NUM_NAMED} more" if len(skipped) > _NUM_NAMED else ""
    return [
        f"Skipped, no results of format_version {result.FORMAT_VERSION}: {named}{more}.",
    ]
