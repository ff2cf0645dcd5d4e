"""The section of a device: charts with their captions, and tables. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from tfdistill.benchmark import schema, terminal
from tfdistill.report import format as fmt
from tfdistill.report import tradeoff
from tfdistill.report.cells import Table
from tfdistill.report.devices import DeviceResults, Timing
from tfdistill.report.document import (
    Definitions,
    Details,
    Legend,
    Picture,
    ReportSection,
    SectionPart,
)
from tfdistill.report.plot import charts, histogram, scatter, timeline
from tfdistill.report.plot.timeline import MOST_LINES, Line
from tfdistill.report.sections import device_tables

Levels = tuple[tuple[str, float], ...]
_MOST_ROWS = 24  # of distributions
_LONG = 18  # rows; a longer table is folded


def section(device: DeviceResults) -> ReportSection:
    """Shows everything that was measured on a device."""
    number = len({file.label for file in device.files})
    counted = f"{number} file{'s' if number != 1 else ''}"
    if len(device.results) > 1:
        counted += f" in {len(device.results)} results"
    kind = {
        "host": " A host is not a phone.",
        "emulator": " An emulated device shows whether a file runs, not how fast a phone is.",
        "phone": "",
    }[device.kind]
    return ReportSection(
        device.anchor("section"),
        device.title,
        device.device.name,
        f"{counted}, measured {device.where}.{kind}",
        (*trade_offs(device), *measurements(device)),
        details=(Details(f"About {device.device.name}", description(device.device)),),
    )


def trade_offs(
    device: DeviceResults, levels: Mapping[tuple[str, str], Levels] | None = None
) -> list[SectionPart]:
    """Accuracy against latency against size, one part for each task."""
    values = [
        dataclasses.replace(value, levels=(levels or {}).get((value.task, value.metric), ()))
        for value in tradeoff.of_device(device)
    ]
    return [
        trade_off(device.anchor(f"tradeoff-{i}"), value, several=len(values) > 1)
        for i, value in enumerate(values, start=1)
    ]


def trade_off(key: str, value: tradeoff.TradeOff, *, several: bool = False) -> SectionPart:
    """The two charts and the table of one task."""
    metric = fmt.metric_title(value.metric)
    far = [level for level in value.levels if level not in scatter.near(value.points, value.levels)]
    below = ", ".join(f"{name} {fmt.metric(value.metric, height)}" for name, height in far)
    below = f" Below: {below}." if below else ""
    pictures = []
    for against, word in (("latency", "latency"), ("size", "file size")):
        title = f"{metric} against {word}"
        chart = scatter.accuracy_chart(
            f"{key}-{against}",
            value.points,
            against=against,
            metric=value.metric,
            title=f"{title} on {value.task}",
            levels=value.levels,
        )
        caption = f"{value.case}.{below}" if against == "latency" else ""
        legend = scatter.legend(value.points, value.levels)
        pictures.append(Picture(chart, title, caption, legend))
    title = f"{metric}, latency and size" + (f": {value.task}" if several else "")
    table = tradeoff.table(f"{key}-table", value)
    # A chart of one point shows nothing that the table does not.
    shown = tuple(pictures) if len(value.points) > 1 else ()
    return SectionPart(key, title, pictures=shown, tables=(table,))


def measurements(device: DeviceResults) -> list[SectionPart]:
    """Latency, start, operators, sustained runs, answers, failures, conditions: what there is."""

    def part(
        name: str,
        title: str,
        *tables: Table | None,
        pictures: Sequence[Picture | None] = (),
        folds: bool = False,
    ) -> SectionPart:
        shown = tuple(table for table in tables if table is not None)
        return SectionPart(
            device.anchor(f"{name}-part"),
            title,
            pictures=tuple(picture for picture in pictures if picture is not None),
            tables=shown,
            folds=folds or any(len(table.rows) > _LONG for table in shown),
        )

    curves = [by_length(device), by_threads(device)]
    drawn = part("curves", "Latency by length and threads", pictures=curves)
    latency = part("latency", "Latency", device_tables.latency(device))
    parts = [
        drawn if latency.folds else None,
        latency if latency.folds else dataclasses.replace(latency, pictures=drawn.pictures),
        part("texts", "Expected time of a text", device_tables.text_times(device)),
        part(
            "sustained",
            "Sustained speed",
            device_tables.sustained(device),
            pictures=[sustained(device)],
        ),
        part("answers", "Answers on the device", device_tables.answers(device)),
        part("failures", "Not measured", device_tables.failures(device)),
        part("durations", "Durations", pictures=[distribution(device)], folds=True),
        part("start", "Start and memory", device_tables.start(device), folds=True),
        part("text", "From text to answer", device_tables.text(device), folds=True),
        part("operators", "Operators", device_tables.operators(device), folds=True),
        part("state", "Device and conditions", device_tables.conditions(device), folds=True),
    ]
    return [part for part in parts if part is not None and (part.pictures or part.tables)]


def description(device: schema.Device) -> Definitions:
    """Names and values of what is fixed about a device."""
    clocks = sorted({round(value) for value in device.max_frequencies_mhz})
    cores = f"{device.cores_logical or ''}"
    if cores and device.cores_physical not in (None, device.cores_logical):
        cores += f" ({device.cores_physical} physical)"
    rows = [
        ("System on a chip", device.soc),
        ("System", device.os),
        ("Kernel", device.kernel),
        ("Architecture", device.abi),
        ("Cores", cores),
        ("Highest clocks", ", ".join(f"{value:,} MHz" for value in clocks)),
        ("Governor", device.governor),
        ("Instruction sets", ", ".join(device.cpu_flags)),
        ("Memory", fmt.size(device.memory_bytes) if device.memory_bytes else None),
        ("Build", device.fingerprint),
        ("Device id", device.id),
    ]
    return tuple((name, fmt.cut(value)) for name, value in rows if value)


def distribution(device: DeviceResults) -> Picture | None:
    """How the durations at the common case are distributed."""
    rows = [row for t in device.compared_timings() if (row := _distribution_row(t)) is not None]
    if not rows or device.common_case is None:
        return None
    shown = rows[:_MOST_ROWS]
    caption = (
        f"of single inferences at {fmt.case(*device.common_case)}: the taller, the more often; the "
        "stroke is the median, the short ones are those of the repetitions."
    )
    caption += " Each against its own median." if histogram.is_relative(shown) else ""
    caption += _more(len(rows), _MOST_ROWS)
    title = f"Durations {device.where}"
    chart = histogram.distributions(device.anchor("distribution"), title, shown)
    return Picture(chart, "Durations", caption)


def by_length(device: DeviceResults) -> Picture | None:
    """Latency over the length, on the threads of the common case."""
    return _latencies(device, "length", lambda s: s.sequence_length, lambda s: s.threads)


def by_threads(device: DeviceResults) -> Picture | None:
    """Latency over the number of threads, at the length of the common case."""
    return _latencies(device, "threads", lambda s: s.threads, lambda s: s.sequence_length)


def sustained(device: DeviceResults) -> Picture | None:
    """The sustained runs on one time axis."""
    runs = [
        (device.name(file, part), part.windows)
        for file, part in device.parts("sustained")
        if part.windows
    ]
    if not runs:
        return None
    caption = "without pauses: the median of each window"
    tails = any(window.p90_ms for _, windows in runs for window in windows)
    caption += "; thin lines are 90th percentiles." if tails else "."
    caption += _more(len(runs), MOST_LINES)
    runs = runs[:MOST_LINES]
    short = timeline.short_names([name for name, _ in runs], device.order)
    drawn = [(name, short[name], device.numbers[name], windows) for name, windows in runs]
    title = f"Sustained speed {device.where}"
    chart = timeline.sustained(device.anchor("sustained-chart"), title, drawn)
    return Picture(chart, "Speed", caption, _key(device, short))


def _distribution_row(timing: Timing) -> histogram.DistributionRow | None:
    """Samples of the measurements behind a summary; None where the tool gives none."""
    summary = timing.summary
    case = ("model", "sequence_length", "threads", "delegate", "affinity")
    repetitions = tuple(
        measurement.samples_ms
        for measurement in timing.file.source.result.measurements
        if measurement.samples_ms
        and not measurement.left_out
        and all(getattr(measurement, name) == getattr(summary, name) for name in case)
    )
    if not repetitions:
        return None
    written = f"p50 {fmt.milliseconds(summary.p50_ms)}"
    if summary.p95_ms is not None:
        written += f" · p95 {fmt.milliseconds(summary.p95_ms)}"
    if summary.throttled:
        written += " · throttled"
    if summary.busy:
        written += f" · {terminal.BUSY}"
    return histogram.DistributionRow(
        timing.label, written, repetitions, timing.series, summary.p50_ms
    )


def _latencies(
    device: DeviceResults,
    name: str,
    x_of: Callable[[schema.Summary], int],
    fixed_of: Callable[[schema.Summary], int],
) -> Picture | None:
    """Latency over x, the length or the threads; the other is that of the common case."""
    if device.common_case is None:
        return None
    length, threads = device.common_case
    by_length = name == "length"
    curves: dict[str, list[Timing]] = {}
    for timing in sorted(device.timings, key=lambda timing: x_of(timing.summary)):
        if fixed_of(timing.summary) == (threads if by_length else length):
            curves.setdefault(timing.label, []).append(timing)
    names = [label for label in device.numbers if label in curves]
    lines = [
        Line(
            label,
            tuple((float(x_of(t.summary)), t.summary.p50_ms) for t in curves[label]),
            curves[label][0].series,
            intervals=tuple(t.summary.p50_ci_ms for t in curves[label]),
            hollow=tuple(t.summary.throttled for t in curves[label]),
        )
        for label in names
    ]
    if not any(len(line.points) > 1 for line in lines):
        return None
    caption = f"on {fmt.threads(threads)}" if by_length else f"at {length} tokens"
    caption += ": medians with their 95% intervals."
    if any(any(line.hollow) for line in lines):
        caption += " Rings: the device slowed down (throttled)."
    caption += _more(len(lines), MOST_LINES)
    short = timeline.short_names(names[:MOST_LINES], device.order)
    drawn = [dataclasses.replace(line, short=short[line.label]) for line in lines[:MOST_LINES]]
    title = f"Latency by {name} {device.where}"
    x_title = "tokens" if by_length else "threads"
    chart = timeline.latencies(device.anchor(f"by-{name}"), title, drawn, x_title)
    return Picture(chart, f"Latency by {name}", caption, _key(device, short))


def _more(number: int, shown: int) -> str:
    return f" {number - shown} more files are in the table." if number > shown else ""


def _key(device: DeviceResults, short: Mapping[str, str]) -> Legend:
    """The meaning of the numbers at the ends of curves; empty where names are written there."""
    return tuple(
        (charts.legend_mark(device.numbers[name]), f"{written}: {name}")
        for name, written in short.items()
        if written != name
    )
