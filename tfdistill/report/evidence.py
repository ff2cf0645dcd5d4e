"""All that is shown of one device: charts with their captions, and tables. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from markupsafe import Markup

from tfdistill.benchmark import schema
from tfdistill.report import (
    charts,
    conditions,
    device_tables,
    devices,
    lines,
    operators,
    scatter,
    spread,
    tradeoff,
)
from tfdistill.report import format as fmt
from tfdistill.report.cells import Table
from tfdistill.report.devices import Bench, Timing

_MOST_ROWS = 24  # of distributions
_MOST_BARS = 6  # charts of operators
_LONG = 18  # rows; a longer table is folded


@dataclasses.dataclass(frozen=True)
class Picture:
    """A chart, what it shows (the subject, then the rest), and the meaning of its marks."""

    subject: str
    caption: str
    chart: Markup
    legend: tuple[tuple[Markup, str], ...] = ()


@dataclasses.dataclass(frozen=True)
class Block:
    """A part of a device's section.

    Attributes:
      key: Anchor.
      title: Its heading.
      intro: A sentence or none.
      pictures: Its charts.
      tables: Its tables.
      folded: Tables that a reader opens.
    """

    key: str
    title: str
    intro: str = ""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()


@dataclasses.dataclass(frozen=True)
class Section:
    """All of a device, or of a sweep.

    Attributes:
      key: Anchor.
      title: Its heading.
      short: Its name in the list of sections.
      intro: What it is, a sentence.
      blocks: Its parts.
      facts: Names and values of what the device is.
    """

    key: str
    title: str
    short: str
    intro: str
    blocks: tuple[Block, ...]
    facts: tuple[tuple[str, str], ...] = ()


def section(bench: Bench) -> Section:
    """Shows everything that was measured on a device.

    Args:
      bench: The device and its results.

    Returns:
      Its section.
    """
    number = len({file.label for file in bench.files})
    said = f"{number} file{'s' if number != 1 else ''}"
    if len(bench.results) > 1:
        said += f" in {len(bench.results)} results"
    intro = f"{said}, measured {bench.where}."
    intro += {
        "host": " A host is not a phone: there, other cores, clocks and heat decide.",
        "emulator": " An emulated device tells whether a file runs, not how fast a phone is.",
        "phone": "",
    }[bench.kind]
    blocks = [*trade_offs(bench), *measurements(bench), state(bench)]
    return Section(
        bench.anchor("section"),
        bench.title,
        bench.device.name,
        intro,
        tuple(blocks),
        tuple(conditions.facts(bench)),
    )


def trade_offs(bench: Bench) -> list[Block]:
    """Accuracy against latency against size, one block for each task."""
    found = tradeoff.of_bench(bench)
    return [
        trade_off(bench.anchor(f"tradeoff-{i + 1}"), value, several=len(found) > 1)
        for i, value in enumerate(found)
    ]


def trade_off(key: str, value: tradeoff.TradeOff, *, several: bool = False) -> Block:
    """The two charts and the table of one task."""
    metric = fmt.metric_title(value.metric)
    marks = tuple(scatter.legend(value.points, value.front))
    pictures = [
        Picture(
            f"{metric} against {word}",
            f"on {value.task}" + (f", {value.place}." if against == "latency" else "."),
            scatter.accuracy_chart(
                f"{key}-{against}",
                value.points,
                value.front,
                against=against,
                metric=value.metric,
                title=f"{metric} against {word} on {value.task}",
            ),
            marks,
        )
        for against, word in (("latency", "latency"), ("size", "file size"))
    ]
    title = f"{metric}, latency and size" + (f": {value.task}" if several else "")
    made = tradeoff.table(f"{key}-table", value)
    return Block(key, title, tradeoff.sentence(value), tuple(pictures), (made,))


def measurements(bench: Bench, *, with_lengths: bool = True) -> list[Block]:
    """Latency, operators, sustained runs, answers and failures, as far as there are any."""
    tables = device_tables.all_tables(bench)
    latency = [tables[key] for key in ("latency", "text", "start") if key in tables]
    long = [table for table in latency if len(table.rows) > _LONG]
    drawn = (distribution(bench), by_length(bench) if with_lengths else None, by_threads(bench))
    pictures = [picture for picture in drawn if picture is not None]
    blocks = [
        Block(
            bench.anchor("latency-block"),
            "Latency",
            "",
            tuple(pictures),
            tuple(table for table in latency if table not in long),
            tuple(long),
        ),
        Block(
            bench.anchor("operators-block"),
            "Operators",
            "",
            tuple(operator_bars(bench)),
            (),
            tuple(tables[key] for key in ("operators",) if key in tables),
        ),
        Block(
            bench.anchor("sustained-block"),
            "Sustained speed",
            "",
            tuple(p for p in (sustained(bench),) if p),
            tuple(tables[key] for key in ("sustained",) if key in tables),
        ),
    ]
    for key, title in (("answers", "Answers on the device"), ("failures", "Not measured")):
        if key in tables:
            blocks.append(Block(bench.anchor(f"{key}-block"), title, tables=(tables[key],)))
    return [block for block in blocks if block.pictures or block.tables or block.folded]


def state(bench: Bench) -> Block:
    """The device's state around each result."""
    table = conditions.conditions(bench)
    return Block(bench.anchor("state"), "Device and conditions", tables=(table,))


def distribution(bench: Bench) -> Picture | None:
    """How the durations at the common place are spread."""
    rows = [row for timing in bench.here() if (row := _row(timing)) is not None]
    if not rows or bench.place is None:
        return None
    length, number = bench.place
    caption = f"of single inferences at {length} tokens, {devices.threads(number)}."
    if any(row.repetitions for row in rows):
        caption += (
            " The taller, the more often; the upright stroke is the median, the short ones below "
            "are those of the repetitions."
        )
    if any(row.blocks for row in rows):
        caption += (
            " Where the tool gives no single durations, a line is a burst of inferences from the "
            "shortest to the longest, its dot their median or mean."
        )
    if spread.is_relative(rows[:_MOST_ROWS]):
        caption += " Each against its own median."
    if len(rows) > _MOST_ROWS:
        caption += f" {len(rows) - _MOST_ROWS} more files are in the table."
    title = f"Durations {bench.where}"
    chart = spread.distributions(bench.anchor("spread"), title, rows[:_MOST_ROWS])
    return Picture("Durations", caption, chart)


def by_length(bench: Bench) -> Picture | None:
    """Latency over the length, on the threads of the common place."""
    if bench.place is None:
        return None
    threads = bench.place[1]
    found = _lines(bench, lambda s: s.sequence_length, lambda s: s.threads == threads)
    return _drawn(bench, "length", found, f"on {devices.threads(threads)}", "tokens")


def by_threads(bench: Bench) -> Picture | None:
    """Latency over the number of threads, at the length of the common place."""
    if bench.place is None:
        return None
    length = bench.place[0]
    found = _lines(bench, lambda s: s.threads, lambda s: s.sequence_length == length)
    return _drawn(bench, "threads", found, f"at {length} tokens", "threads")


def operator_bars(bench: Bench) -> list[Picture]:
    """A chart of operators for each file at the common place, the first ones only."""
    found = []
    parts = bench.parts("operators")
    here = [
        (file, part) for file, part in parts if (part.sequence_length, part.threads) == bench.place
    ]
    for i, (file, part) in enumerate(here or parts):
        title = f"Operators of {file.label}"
        series = bench.numbers[bench.name(file, part)]
        chart = operators.bars(bench.anchor(f"operators-{i}"), title, part, series)
        if chart is not None:
            caption = f"where the time goes, {bench.words(part, file.source)}."
            found.append(Picture(file.label, caption, chart))
    return found[:_MOST_BARS]


def sustained(bench: Bench) -> Picture | None:
    """The sustained runs on one time axis."""
    runs = [
        (bench.name(file, part), part.windows)
        for file, part in bench.parts("sustained")
        if part.windows
    ]
    if not runs:
        return None
    caption = "without pauses: the median of each stretch"
    tails = any(window.p90_ms for _, windows in runs for window in windows)
    caption += "; thin lines are 90th percentiles." if tails else "."
    if len(runs) > lines.MOST_LINES:
        caption += f" {len(runs) - lines.MOST_LINES} more files are in the table."
    runs = runs[: lines.MOST_LINES]
    short = lines.short_names([name for name, _ in runs], bench.order)
    drawn = [(name, short[name], bench.numbers[name], windows) for name, windows in runs]
    title = f"Sustained speed {bench.where}"
    chart = lines.sustained(bench.anchor("sustained-chart"), title, drawn)
    return Picture("Speed", caption, chart, _key(bench, short))


def _row(timing: Timing) -> spread.Row | None:
    """Samples, or blocks, of the measurements behind a summary."""
    summary = timing.summary
    place = ("model", "sequence_length", "threads", "delegate", "affinity")
    rows = [
        row
        for row in timing.file.source.result.measurements
        if not row.left_out and all(getattr(row, k) == getattr(summary, k) for k in place)
    ]
    repetitions = tuple(row.samples_ms for row in rows if row.samples_ms)
    blocks = () if repetitions else tuple(block for row in rows for block in row.blocks)
    if not repetitions and not blocks:
        return None
    written = f"p50 {fmt.milliseconds(summary.p50_ms)}"
    if summary.p95_ms is not None:
        written += f" · p95 {fmt.milliseconds(summary.p95_ms)}"
    if summary.throttled:
        written += " · throttled"
    return spread.Row(
        timing.label,
        written,
        repetitions,
        blocks,
        timing.series,
        summary.p50_ms,
    )


def _lines(bench: Bench, x_of, holds) -> list[lines.Line]:
    """Curves of the files by x, where `holds`; the name of a curve is that of its file."""
    curves: dict[str, list[Timing]] = {}
    for timing in bench.timings:
        if holds(timing.summary):
            curves.setdefault(timing.label, []).append(timing)
    found = []
    for label, timings in curves.items():
        summaries: list[schema.Summary] = sorted((t.summary for t in timings), key=x_of)
        found.append(
            lines.Line(
                label,
                "",
                tuple((float(x_of(s)), s.p50_ms) for s in summaries),
                tuple(s.p50_ci_ms for s in summaries),
                timings[0].series,
                tuple(s.throttled for s in summaries),
            )
        )
    return found


def _drawn(
    bench: Bench, name: str, found: list[lines.Line], where: str, x_title: str
) -> Picture | None:
    if not any(len(line.points) > 1 for line in found):
        return None
    caption = f"{where}: medians with their 95% intervals."
    if any(any(line.hollow) for line in found):
        caption += " Rings: the device slowed down meanwhile (throttled)."
    if len(found) > lines.MOST_LINES:
        caption += f" {len(found) - lines.MOST_LINES} more files are in the table."
    title = f"Latency by {name} {bench.where}"
    found = found[: lines.MOST_LINES]
    short = lines.short_names([line.label for line in found], bench.order)
    drawn = [dataclasses.replace(line, short=short[line.label]) for line in found]
    chart = lines.latencies(bench.anchor(f"by-{name}"), title, drawn, x_title)
    return Picture(f"Latency by {name}", caption, chart, _key(bench, short))


def _key(bench: Bench, short: Mapping[str, str]) -> tuple[tuple[Markup, str], ...]:
    """What the numbers at the ends of curves stand for; nothing where names stand there."""
    return tuple(
        (charts.legend_mark(bench.numbers[name]), f"{written}: {name}")
        for name, written in short.items()
        if written != name
    )
