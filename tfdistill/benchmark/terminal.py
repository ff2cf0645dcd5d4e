"""A benchmark result as text for a terminal."""

from __future__ import annotations

import itertools
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence

from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import summaries

_KINDS = {
    "host": "host, no phone: {}",
    "emulator": "emulated phone, no real one: {}",
    "phone": "phone: {}",
}
_NUM_OPERATORS = 5
_GAP = "  "  # between the columns of a table
_NARROWEST = 16  # no column becomes narrower than this, or than its longest word if that is shorter


def format_text(result: schema.Result) -> str:
    """Shows a result as text: where it was measured, a row a place, what may be said about it.

    Intervals are of 95%. Columns that say the same in every row of an ordinary result (delegate
    xnnpack, no affinity) are left out, and so are those that nothing is known for.
    """
    lines = [origin(result)]
    if result.summary:
        lines += ["", *_places(result.summary)]
    for part in (_comparisons, _texts, _sustained, _answers, _operators, _failures):
        found = list(part(result))
        lines += ["", *found] if found else []
    return "\n".join([*lines, *([""] if result.notes else []), *result.notes])


def origin(result: schema.Result) -> str:
    """Names the kind of result, the device and the runtime: a host never looks like a phone."""
    device, runtime = result.device, result.runtime
    parts = [device.name, device.soc, device.os]
    named = ", ".join(dict.fromkeys(part for part in parts if part))
    by = " ".join(part for part in (runtime.name, runtime.version) if part)
    return f"{_KINDS[result.kind].format(named)}; measured by {by} on {result.created}"


def describe(place: schema.Place, *, model: bool = True) -> str:
    """Says a place in words; the delegate and the affinity where they are not the usual ones."""
    named = f"{place.model} at " if model else ""
    return f"{named}{place.sequence_length} tokens, {_way(place)}"


def _way(row: schema.Place | schema.EndToEnd) -> str:
    delegate = f", {row.delegate}" if row.delegate != "xnnpack" else ""
    affinity = f", on cores {row.affinity}" if row.affinity else ""
    return plural(row.threads, "thread") + delegate + affinity


def plural(count: int, noun: str) -> str:
    """Says a number of things: "1 thread", "2 threads"."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def milliseconds(value: float | None) -> str:
    """Writes a duration with three or more digits that mean something; "-" for None."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def interval(bounds: schema.Interval | None) -> str:
    """Writes an interval of durations."""
    return "" if bounds is None else f"[{milliseconds(bounds[0])}, {milliseconds(bounds[1])}]"


def table(
    rows: Sequence[Sequence[str]], *, left: int = 1, indent: int = 0, width: int | None = None
) -> list[str]:
    """Aligns rows under a head, and wraps cells at words where the terminal is too narrow.

    Args:
      rows: The head, then the rows, of equally many cells.
      left: How many of the first columns are aligned to the left; the others go to the right.
      indent: Spaces before each line.
      width: Characters of a line; by default those of the terminal, or no limit where standard
        output is no terminal.

    Returns:
      The lines: head, rule, rows. They are longer than `width` only where words are.
    """
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is not None:
        widths = _shrunk(columns, widths, width - indent - len(_GAP) * (len(widths) - 1))
    lines = [[_GAP.join("-" * wide for wide in widths)]]
    for row in rows:
        cells = [
            textwrap.wrap(cell, wide, break_on_hyphens=False) if len(cell) > wide else [cell]
            for cell, wide in zip(row, widths, strict=True)
        ]
        lines.append([_aligned(parts, widths, left) for parts in itertools.zip_longest(*cells)])
    rule, head, *body = lines
    return [" " * indent + line for part in (head, rule, *body) for line in part]


def _aligned(cells: Sequence[str | None], widths: Sequence[int], left: int) -> str:
    padded = [
        (cell or "").ljust(wide) if i < left else (cell or "").rjust(wide)
        for i, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(padded).rstrip()


def _shrunk(columns: Sequence[Sequence[str]], widths: list[int], room: int) -> list[int]:
    """Narrows the widest columns until all fit into `room`, or none can become narrower."""
    words = [[word for cell in column for word in cell.split()] for column in columns]
    least = [min(max(map(len, own), default=1), _NARROWEST) for own in words]
    widths = list(widths)
    while sum(widths) > room:
        wider = [(wide, i) for i, wide in enumerate(widths) if wide > least[i]]
        if not wider:
            break
        widths[max(wider)[1]] -= 1
    return widths


def without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Drops the columns of a table that say nothing ("" or "-") in every row below the head."""
    kept = [i for i in range(len(rows[0])) if any(row[i] not in ("", "-") for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def way_columns(rows: Sequence[schema.Place]) -> list[list[str]]:
    """Gives length, threads, delegate and affinity as columns, the usual of the latter empty."""
    usual = all(row.delegate == "xnnpack" and row.affinity is None for row in rows)
    found = [["length", "threads", "delegate", "affinity"]]
    for row in rows:
        way = ["", ""] if usual else [row.delegate, row.affinity or "-"]
        found.append([str(row.sequence_length), str(row.threads), *way])
    return found


def _places(summary: Sequence[schema.Summary]) -> list[str]:
    rows = [["n", "p50 ms", "95%", "p90", "p99", "first", "cold", "peak MB", "remarks"]]
    for row in summary:
        tails = [milliseconds(value) for value in (row.p90_ms, row.p99_ms)]
        start = [milliseconds(value) for value in (row.first_inference_ms, row.cold_start_ms)]
        peak = "-" if row.peak_rss_bytes is None else f"{row.peak_rss_bytes / 1e6:.0f}"
        shown = [str(row.n), milliseconds(row.p50_ms), interval(row.p50_ci_ms), *tails]
        rows.append([*shown, *start, peak, _remark(row)])
    names = [["model"], *([row.model] for row in summary)]
    columns = zip(names, way_columns(summary), rows, strict=True)
    return table(without_empty([[*a, *b, *c] for a, b, c in columns]))


def _remark(row: schema.Summary) -> str:
    if row.throttled:
        return "throttled" if row.drift is None else f"throttled, drift {row.drift:.2f}"
    if row.drift_ci is not None and not row.drift_ci[0] <= 1 <= row.drift_ci[1]:
        return f"drift {row.drift:.2f}"
    return ""


def _comparisons(result: schema.Result) -> Iterator[str]:
    words = {True: "faster", False: "slower", None: "no difference that this run can tell"}
    single = {summaries.place_of(r) for r in result.summary if len(r.repetition_p50_ms) == 1}
    for row in result.comparisons:
        place = schema.Place(
            model=row.candidate,
            **row.model_dump(include={"sequence_length", "threads", "delegate", "affinity"}),
        )
        verdict = words[row.faster]
        if row.faster is None and place in single:
            verdict = "one repetition cannot tell a difference"
        low, high = row.speedup_ci
        yield (
            f"{row.candidate} against {row.baseline} at {describe(place, model=False)}: "
            f"{row.speedup:.2f}x [{low:.2f}, {high:.2f}] ({verdict})"
        )


def _texts(result: schema.Result) -> Iterator[str]:
    if result.tokenizer is not None:
        yield f"tokenizer: p50 {milliseconds(result.tokenizer.p50_ms)} ms a text"
    for row in result.end_to_end:
        yield (f"{row.model} from text to answer, {_way(row)}: p50 {milliseconds(row.p50_ms)} ms")


def _sustained(result: schema.Result) -> Iterator[str]:
    for row in result.sustained:
        if row.windows:
            first, last = row.windows[0], row.windows[-1]
            yield (
                f"{describe(row)}, without pauses: p50 {milliseconds(first.p50_ms)} ms at first, "
                f"{milliseconds(last.p50_ms)} ms after {last.start_s:.0f} s "
                f"({last.p50_ms / first.p50_ms:.2f}x)"
            )


def _answers(result: schema.Result) -> Iterator[str]:
    for row in result.answers:
        words = [f"largest difference {row.max_abs_error:.2g}"]
        if row.argmax_agreement is not None:
            words.append(f"agreement {row.argmax_agreement:.4f}")
        for name, value in row.metrics.items():
            host = row.host_metrics.get(name)
            words.append(f"{name} {value:.4f}" + ("" if host is None else f" (host {host:.4f})"))
        yield (
            f"{describe(row)}: answers against the host's on {row.num_examples} examples: "
            + ", ".join(words)
        )


def _operators(result: schema.Result) -> Iterator[str]:
    for row in result.operators:
        total = sum(operator.ms for operator in row.operators)
        if total > 0:
            shares = ", ".join(
                f"{operator.type} {operator.ms / total:.0%}"
                for operator in row.operators[:_NUM_OPERATORS]
            )
            yield f"{describe(row)}, operators ({row.source}): {shares}"


def _failures(result: schema.Result) -> Iterator[str]:
    for failure in result.failures:
        yield f"NOT MEASURED: {failure.what}: {failure.error}"
