"""The papers' table as text, Markdown and CSV. Pure.

Milliseconds of one device never share a column with those of another, and every speed-up is over
the reference on the same device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from tfdistill import quantities
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.render import markdown_table
from tfdistill.tables import table as aligned_table

from . import published
from .published import title
from .table import Latency, PapersTable

_UNSURE = " ?"
_THROTTLED = " ▲"
_SLOWED = "▲: the device throttled, or something else slowed it down."
_ABSENT = Cell(fmt.ABSENT)


def tables(value: PapersTable) -> list[Table]:
    """Builds all tables: speed next to the papers', sizes, latencies, what is published."""
    by_threads = [
        latencies(value, quantization, threads)
        for quantization in value.quantizations
        for threads in value.threads
    ]
    return [speeds(value), sizes(value), *by_threads, published_rows(value)]


def speeds(value: PapersTable) -> Table:
    """Our speed next to each paper's, each with its device, at the longest length."""
    quantization, threads, length = value.quantizations[0], value.threads[0], max(value.lengths)
    listed = {entry.model for entry in value.models}
    used = {row.source for row in value.published if row.model in listed}
    sources = [source for source in value.sources if source.key in used]
    columns = ["Model", "Here: latency", "Here: speed-up"]
    for source in sources:
        if source.unit:
            columns.append(f"{source.device}: {'latency' if source.unit == 'ms' else 'time'}")
        columns.append(f"{source.device}: speed-up")
    rows = []
    here = [value.latency(m.model, quantization, length, threads) for m in value.models]
    for entry, row in zip(value.models, here, strict=True):
        shown = [_milliseconds(row), _speedup(row, value)]
        for source in sources:
            paper_row = published.row_of(source.key, entry.model)
            shown += [_time(paper_row, source)] if source.unit else []
            shown.append(_published_speedup(paper_row))
        rows.append(Row(Cell(title(entry.model)), tuple(shown)))
    notes = [
        f"Here: an inference at {length} tokens in {quantization}, "
        f"{quantities.plural(threads, 'thread')}, on {_device(value)}.",
        *([_SLOWED] if any(row is not None and row.throttled for row in here) else []),
        *(f"{source.device}: {source.conditions} ({_source(source)})." for source in sources),
        "Milliseconds of two devices are not comparable. Every speed-up is over "
        f"{title(value.reference)} on the same device.",
    ]
    caption = "Speed here, and as published on other devices"
    return Table("speeds", caption, tuple(columns), tuple(rows), tuple(notes))


def sizes(value: PapersTable) -> Table:
    """Parameters, operations and file sizes, and what is published of the first two."""
    length = max(value.models[0].flops, default=0)
    columns = (
        "Model",
        "Parameters",
        "Parameters, published",
        f"FLOPs at {length} tokens",
        "FLOPs, published",
        *(f"File, {quantization}" for quantization in value.quantizations),
    )
    by_file = {(file.model, file.quantization): file.size_bytes for file in value.files}
    rows = []
    for entry in value.models:
        paper_rows = published.rows_of(entry.model)
        shown = (
            cells.number(entry.parameters),
            _listed(quantities.count(row.parameters) for row in paper_rows if row.parameters),
            Cell(quantities.flops(entry.flops[length]), value=entry.flops[length]),
            _listed(quantities.flops(row.flops) for row in paper_rows if row.flops),
            *(cells.size(by_file.get((entry.model, q))) for q in value.quantizations),
        )
        rows.append(Row(Cell(title(entry.model)), shown))
    return Table("sizes", "Sizes", columns, tuple(rows), value.notes)


def latencies(value: PapersTable, quantization: str, threads: int) -> Table:
    """Latencies of one quantization on so many threads, at each length."""
    chosen = [
        row for row in value.latencies if (row.quantization, row.threads) == (quantization, threads)
    ]
    over_float32 = quantization != "float32" and any(row.over_float32 for row in chosen)
    columns = ["Model"]
    for length in value.lengths:
        columns += [f"{length} tokens", "Speed-up"]
        columns += ["Over float32"] if over_float32 else []
    rows = []
    for entry in value.models:
        shown = []
        for length in value.lengths:
            row = value.latency(entry.model, quantization, length, threads)
            shown += [_milliseconds(row), _speedup(row, value)]
            shown += [_over_float32(row)] if over_float32 else []
        rows.append(Row(Cell(title(entry.model)), tuple(shown)))
    reference = title(value.reference)
    note = (
        f"Medians of at least {min(row.n for row in chosen)} inferences in "
        f"{min(row.repetitions for row in chosen)} fresh processes each, with 95% intervals; the "
        f"files of a length took turns. Speed-up: over {reference} in {quantization}."
    )
    if over_float32:
        note += f" Over float32: over {reference} in float32, which took its turns among them."
    if any(row.throttled for row in chosen):
        note += f" {_SLOWED}"
    return Table(
        f"latency-{quantization}-{threads}",
        f"Latency on {_device(value)}, {quantization}, {quantities.plural(threads, 'thread')}",
        tuple(columns),
        tuple(rows),
        (note,),
    )


def published_rows(value: PapersTable) -> Table:
    """Everything that is published, row by row, with source and device."""
    listed = {entry.model for entry in value.models}
    rows = []
    for source in value.sources:
        paper_rows = [r for r in value.published if r.source == source.key and r.model in listed]
        for row in paper_rows:
            glue = _ABSENT if row.glue is None else Cell(f"{row.glue:.1f}", source.glue, row.glue)
            shown = (
                Cell(_source(source)),
                Cell(quantities.count(row.parameters), value=row.parameters),
                Cell(quantities.flops(row.flops), value=row.flops),
                Cell(source.device),
                _time(row, source),
                _published_speedup(row),
                glue,
            )
            opens = row is paper_rows[0] and bool(rows)
            rows.append(Row(Cell(title(row.model)), shown, opens=opens))
    columns = ("Model", "Source", "Parameters", "FLOPs", "Device", "Time", "Speed-up", "GLUE")
    notes = (
        "A dash: the paper does not report it. Papers average GLUE over different tasks and sets: "
        "compare scores of one source only.",
    )
    return Table("published", "What the papers published", columns, tuple(rows), notes)


def render_markdown(value: PapersTable) -> str:
    """Writes all tables as Markdown."""
    parts = [f"# {_heading(value)}", *(markdown_table(table) for table in tables(value))]
    return "\n\n".join(parts) + "\n"


def render_text(value: PapersTable) -> str:
    """Writes all tables for a terminal; in place of intervals, marks those that hold 1."""
    parts = [_heading(value)]
    for table in tables(value):
        body = [[_short(cell) for cell in (row.head, *row.cells)] for row in table.rows]
        aligned = (f"  {line}" for line in aligned_table([table.columns, *body]))
        parts += ["", f"{table.caption}:", *aligned, *(f"  {note}" for note in table.notes)]
    parts += ["", f"{_UNSURE.strip()} no difference that this run can tell: the interval holds 1."]
    return "\n".join(parts)


def render_csv(value: PapersTable) -> str:
    """Writes every latency as a line of CSV, with the sizes of its model and file."""
    files = {(file.model, file.quantization): file for file in value.files}
    entries = {entry.model: entry for entry in value.models}
    rows = []
    for row in value.latencies:
        file, entry = files[row.model, row.quantization], entries[row.model]
        shown = (
            Cell(row.quantization),
            *(Cell("", value=n) for n in (row.sequence_length, row.threads, entry.parameters)),
            Cell("", value=entry.flops.get(row.sequence_length)),
            Cell("", value=file.size_bytes, unit="bytes"),
            Cell("", value=row.n),
            Cell("", value=row.p50_ms, unit="ms", interval=row.p50_ci_ms),
            Cell("", value=row.speedup, interval=row.speedup_ci),
            Cell("", value=row.over_float32, interval=row.over_float32_ci),
            Cell("yes" if row.throttled else "no"),
            Cell(value.kind),
            Cell(value.device.name),
        )
        rows.append(Row(Cell(row.model), shown))
    columns = (
        *("Model", "Quantization", "Tokens", "Threads", "Parameters", "FLOPs", "File", "n", "p50"),
        *("Speed-up", "Over float32", "Throttled", "Kind", "Device"),
    )
    return cells.render_csv(Table("table", "Every latency", columns, tuple(rows)))


def _heading(value: PapersTable) -> str:
    toys = "Toys of the papers' models: these figures mean nothing. " if value.scaled_down else ""
    return f"{toys}The papers' models on {_device(value)} ({value.runtime.name})"


def _device(value: PapersTable) -> str:
    kinds = {"host": "the host", "emulator": "the emulated device", "phone": "the phone"}
    return f"{kinds[value.kind]} {value.device.name}"


def _short(cell: Cell) -> str:
    if cell.interval is None:
        return f"{cell.text} ({cell.detail})" if cell.detail else cell.text
    unsure = not cell.unit and cell.interval[0] <= 1 <= cell.interval[1]
    return cell.text + (_UNSURE if unsure else "")


def _milliseconds(row: Latency | None) -> Cell:
    if row is None:
        return _ABSENT
    cell = cells.milliseconds(row.p50_ms, row.p50_ci_ms)
    return dataclasses.replace(cell, text=cell.text + _THROTTLED) if row.throttled else cell


def _speedup(row: Latency | None, value: PapersTable) -> Cell:
    if row is not None and row.model == value.reference:
        return Cell("1×", value=1.0)
    return cells.ratio(row.speedup, row.speedup_ci) if row else _ABSENT


def _over_float32(row: Latency | None) -> Cell:
    return cells.ratio(row.over_float32, row.over_float32_ci) if row else _ABSENT


def _time(row: published.PublishedRow | None, source: published.PaperTable) -> Cell:
    return _ABSENT if row is None or row.time is None else Cell(f"{row.time:g} {source.unit}")


def _published_speedup(row: published.PublishedRow | None) -> Cell:
    factor = row.speedup if row else None
    return Cell(fmt.ABSENT if factor is None else f"{factor:.3g}×", value=factor)


def _source(source: published.PaperTable) -> str:
    return f"{source.paper}, {source.place}"


def _listed(texts: Iterable[str]) -> Cell:
    return Cell(" / ".join(dict.fromkeys(texts)) or fmt.ABSENT)
