"""The section of each device: charts with their captions, and tables. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from tfdistill.benchmark import schema
from tfdistill.report import devices, tradeoff
from tfdistill.report import format as fmt
from tfdistill.report.devices import DeviceResults, Timing
from tfdistill.report.document import (
    Definitions,
    Details,
    Legend,
    Picture,
    ReportSection,
    SectionPart,
    part,
)
from tfdistill.report.plot import charts, scatter, timeline
from tfdistill.report.plot.timeline import MOST_LINES, Line
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.sections import device_tables
from tfdistill.results import quantities, tables
from tfdistill.results.tables import Table

_LONG = 18  # rows; a longer table is folded


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the trade-off and the latencies of the run's own device, and each other device."""
    if run.device is not None:
        choices = [
            shown
            for shown in trade_offs(run.device)
            if any(len(table.rows) > 1 for table in shown.tables)
        ]
        if len(choices) == 1:
            choices = [dataclasses.replace(choices[0], title="")]
        parts = (*choices, *measurements(run.device))
        yield ReportSection("latency", f"Size and latency {run.where}", "Latency", parts=parts)
    yield from map(section, run.others)


def section(device: DeviceResults) -> ReportSection:
    """Shows everything that was measured on a device."""
    number = len({file.label for file in device.files})
    counted = quantities.plural(number, "file")
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


def trade_offs(device: DeviceResults) -> list[SectionPart]:
    """Accuracy against latency against size, one part for each task."""
    values = tradeoff.of_device(device)
    return [
        trade_off(device.anchor(f"tradeoff-{i}"), value, several=len(values) > 1)
        for i, value in enumerate(values, start=1)
    ]


def trade_off(key: str, value: tradeoff.TradeOff, *, several: bool = False) -> SectionPart:
    """The two charts and the table of one task."""
    metric = fmt.metric_title(value.metric)
    pictures = []
    for against, word in (("latency", "latency"), ("size", "file size")):
        title = f"{metric} against {word}"
        chart = scatter.accuracy_chart(
            f"{key}-{against}",
            value.points,
            against=against,
            metric=value.metric,
            title=f"{title} on {value.task}",
        )
        caption = f"{value.case}." if against == "latency" else ""
        legend = scatter.legend(value.points)
        pictures.append(Picture(chart, title, caption, legend))
    title = f"{metric}, latency and size" + (f": {value.task}" if several else "")
    table = tradeoff.table(f"{key}-table", value)
    # A chart of one point shows nothing that the table does not.
    shown = tuple(pictures) if len(value.points) > 1 else ()
    return SectionPart(key, title, pictures=shown, tables=(table,))


def measurements(device: DeviceResults) -> list[SectionPart]:
    """Latency, start, answers, failures, conditions: what there is."""
    curve, latency = [by_length(device)], device_tables.latency(device)
    other = device_tables.answers(device)
    missing = device_tables.failures(device)
    drawn = {"latency": curve}
    parts = []
    if _is_long(latency):  # the chart stands above the folded table
        drawn["latency"] = []
        parts += part(device.anchor("curves"), "Latency by length", pictures=curve)
    for name, title, table, folds in (
        ("latency", "Latency", latency, _is_long(latency)),
        ("texts", "Expected time of a text", device_tables.text_times(device), False),
        ("answers", "Answers on the device", other, _is_long(other)),
        ("failures", "Not measured", missing, _is_long(missing)),
        ("start", "Start and memory", device_tables.start(device), True),
        ("text", "From text to answer", device_tables.text(device), True),
        ("state", "Device and conditions", device_tables.conditions(device), True),
    ):
        pictures = drawn.get(name, ())
        parts += part(device.anchor(name), title, table, pictures=pictures, folds=folds)
    return parts


def _is_long(table: Table | None) -> bool:
    return table is not None and len(table.rows) > _LONG


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
        ("Memory", quantities.size(device.memory_bytes) if device.memory_bytes else None),
        ("Build", device.fingerprint),
        ("Device id", device.id),
    ]
    return tuple((name, tables.cut(value)) for name, value in rows if value)


def by_length(device: DeviceResults) -> Picture | None:
    """Latency over the length, on the threads of the common case."""
    if device.common_case is None:
        return None
    _, threads = device.common_case
    curves: dict[str, list[Timing]] = {}
    for timing in sorted(device.timings, key=lambda timing: timing.summary.sequence_length):
        if timing.summary.threads == threads:
            curves.setdefault(timing.label, []).append(timing)
    names = [label for label in device.numbers if label in curves]
    lines = [
        Line(
            label,
            tuple((float(t.summary.sequence_length), t.summary.p50_ms) for t in curves[label]),
            curves[label][0].series,
            intervals=tuple(t.summary.p50_ci_ms for t in curves[label]),
            hollow=tuple(bool(devices.marks(t.summary)) for t in curves[label]),
        )
        for label in names
    ]
    if not any(len(line.points) > 1 for line in lines):
        return None
    caption = f"on {quantities.plural(threads, 'thread')}: medians with their 95% intervals."
    if any(any(line.hollow) for line in lines):
        caption += " Rings: throttled or a busy machine, see the table."
    more = len(lines) - MOST_LINES
    caption += f" {more} more files are in the table." if more > 0 else ""
    short = timeline.short_names(names[:MOST_LINES], device.order)
    drawn = [dataclasses.replace(line, short=short[line.label]) for line in lines[:MOST_LINES]]
    title = f"Latency by length {device.where}"
    chart = timeline.latencies(device.anchor("by-length"), title, drawn)
    return Picture(chart, "Latency by length", caption, _key(device, short))


def _key(device: DeviceResults, short: Mapping[str, str]) -> Legend:
    """The meaning of the numbers at the ends of curves; empty where names are written there."""
    return tuple(
        (charts.legend_mark(device.numbers[name]), f"{written}: {name}")
        for name, written in short.items()
        if written != name
    )
