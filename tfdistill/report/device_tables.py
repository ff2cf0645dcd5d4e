"""The tables of what was measured on one device. Pure."""

from __future__ import annotations

from tfdistill.benchmark import schema
from tfdistill.report import cells, devices
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.devices import Bench, Timing

_MOST_OPERATORS = 12  # kinds of one file; the rest are added up


def latency(bench: Bench) -> Table | None:
    """Every file by length and threads."""
    if not bench.timings:
        return None
    compared = {
        (
            named.label,
            row.candidate,
            row.sequence_length,
            row.threads,
            row.delegate,
            row.affinity,
        ): row
        for named in bench.results
        for row in named.result.comparisons
    }
    baselines = {(n.label, row.baseline) for n in bench.results for row in n.result.comparisons}
    rows = []
    place = None
    for timing in sorted(
        bench.timings, key=lambda t: (t.summary.threads, t.summary.sequence_length)
    ):
        summary, source = timing.summary, timing.file.source.label
        opens = place not in (None, (summary.threads, summary.sequence_length))
        place = (summary.threads, summary.sequence_length)
        row = compared.get(
            (source, summary.model, place[1], place[0], summary.delegate, summary.affinity)
        )
        if row is not None:
            ratio = _speedup(row)
        else:
            ratio = Cell("1×" if (source, summary.model) in baselines else fmt.ABSENT)
        rows.append(
            Row(
                _head(timing),
                (
                    cells.number(summary.sequence_length),
                    cells.number(summary.threads),
                    cells.milliseconds(summary.p50_ms, summary.p50_ci_ms),
                    *map(cells.milliseconds, (summary.p90_ms, summary.p95_ms, summary.p99_ms)),
                    ratio,
                    cells.number(summary.n, "in blocks" if summary.of == "blocks" else ""),
                ),
                opens=opens,
            )
        )
    columns = ("File", "Tokens", "Threads", "p50", "p90", "p95", "p99", "Speed-up", "Samples")
    notes = ["Brackets hold 95% intervals of the median and of the ratio of medians."]
    if len(bench.results) > 1:
        notes.append(
            "A speed-up is given where two files took turns in one measurement. Medians of "
            "different measurements also differ by the day."
        )
    if any(timing.summary.of == "blocks" for timing in bench.timings):
        notes.append(
            "In blocks: the tool gives statistics of each burst of inferences and no single "
            "durations, so the median is that of the blocks and the tails are not known."
        )
    if any(timing.summary.throttled for timing in bench.timings):
        why = "its thermal status was raised, or latency rose and stayed"
        if bench.kind == "host":
            why = "latency rose and stayed, usually because something else ran"
        notes.append(f"Throttled: the device slowed down while this was measured ({why}).")
    caption = f"Latency of one inference {bench.where}"
    made = Table(bench.anchor("latency"), caption, columns, tuple(rows), tuple(notes))
    return cells.without_empty(made)


def start(bench: Bench) -> Table | None:
    """Start and memory of every file, on the fewest threads."""
    if not bench.timings:
        return None
    fewest = min(timing.summary.threads for timing in bench.timings)
    order = {timing.label: i for i, timing in reversed(list(enumerate(bench.timings)))}
    held = sorted(
        (timing for timing in bench.timings if timing.summary.threads == fewest),
        key=lambda timing: (order[timing.label], timing.summary.sequence_length),
    )
    if not any(
        t.summary.init_ms or t.summary.first_inference_ms or t.summary.peak_rss_bytes for t in held
    ):
        return None
    rows = tuple(
        Row(
            _head(timing),
            (
                cells.number(timing.summary.sequence_length),
                cells.milliseconds(timing.summary.cold_start_ms),
                cells.milliseconds(timing.summary.init_ms),
                cells.milliseconds(timing.summary.first_inference_ms),
                cells.size(timing.summary.peak_rss_bytes),
            ),
        )
        for timing in held
    )
    columns = (
        "File",
        "Tokens",
        "Cold start",
        "Opening the file",
        "First inference",
        "Peak memory",
    )
    notes = []
    if any(timing.summary.cold_start_ms for timing in held):
        what = "Python and its imports" if bench.kind == "host" else "whatever the program loads"
        notes.append(
            f"Cold start runs from before the process starts, {what} included, to the first result."
        )
    if any(timing.summary.peak_rss_bytes for timing in held):
        notes.append("Peak memory is that of the whole process.")
    caption = f"Start and memory ({devices.threads(fewest)})"
    made = Table(bench.anchor("start"), caption, columns, rows, tuple(notes))
    return cells.without_empty(made)


def text(bench: Bench) -> Table | None:
    """The tokenizer, and from text to answer."""

    def row(head: str, detail: str, value: schema.Percentiles) -> Row:
        times = (value.p50_ms, value.p90_ms, value.p95_ms, value.p99_ms)
        return Row(Cell(head, detail), (*map(cells.milliseconds, times), cells.number(value.n)))

    rows = []
    for named in bench.results:
        source = named.label if len(bench.results) > 1 else ""
        if named.result.tokenizer is not None:
            rows.append(row("Tokenizer alone", source, named.result.tokenizer))
        labels = {f.model.name: f.label for f in bench.files if f.source is named}
        for value in named.result.end_to_end:
            way = ", ".join(filter(None, (devices.threads(value.threads), bench.way(value, named))))
            rows.append(row(f"Text to answer, {labels.get(value.model, value.model)}", way, value))
    if not rows:
        return None
    note = "Each text runs at the shortest length of the file that holds it."
    columns = ("Step", "p50", "p90", "p95", "p99", "Samples")
    return Table(bench.anchor("text"), "From text to answer", columns, tuple(rows), (note,))


def operators(bench: Bench) -> Table | None:
    """Where the time of one inference goes, the largest share first."""
    rows = []
    sources = []
    for file, part in bench.parts("operators"):
        whole = sum(operator.ms for operator in part.operators)
        if whole <= 0:
            continue
        sources.append(part.source)
        listed = sorted(part.operators, key=lambda operator: -operator.ms)
        shown, rest = listed[:_MOST_OPERATORS], listed[_MOST_OPERATORS:]
        if rest:
            kinds = f"{len(rest)} other kinds"
            more = schema.Operator(
                type=kinds, calls=sum(o.calls for o in rest), ms=sum(o.ms for o in rest)
            )
            shown = [*shown, more]
        for i, operator in enumerate(shown):
            rows.append(
                Row(
                    Cell(file.label, bench.words(part, file.source)),
                    (
                        Cell(operator.type),
                        cells.number(operator.calls),
                        cells.milliseconds(operator.ms),
                        Cell(
                            f"{100 * operator.ms / whole:.1f}%",
                            value=100 * operator.ms / whole,
                            unit="%",
                        ),
                    ),
                    opens=i == 0 and bool(rows),
                )
            )
    if not rows:
        return None
    columns = ("File", "Operator", "Calls", "Time", "Share")
    note = (
        f"Measured by {', '.join(dict.fromkeys(sources))}. To measure each operator takes time "
        "itself: shares can be trusted more than the sum."
    )
    caption = "Operators of one inference"
    return Table(bench.anchor("operators"), caption, columns, tuple(rows), (note,))


def sustained(bench: Bench) -> Table | None:
    """First and last window of every sustained run."""
    rows = []
    for file, part in bench.parts("sustained"):
        if not part.windows:
            continue
        first, last = part.windows[0], part.windows[-1]
        slowest = max(part.windows, key=lambda window: window.p50_ms)
        hottest = max(
            (
                w.conditions.thermal_status
                for w in part.windows
                if w.conditions is not None and w.conditions.thermal_status is not None
            ),
            default=None,
        )
        rows.append(
            Row(
                Cell(file.label, bench.words(part, file.source)),
                (
                    Cell(fmt.duration(last.start_s), value=last.start_s, unit="s"),
                    cells.milliseconds(first.p50_ms),
                    cells.milliseconds(last.p50_ms),
                    cells.milliseconds(slowest.p50_ms),
                    _ratio(last.p50_ms / first.p50_ms),
                    Cell(thermal_words(hottest), value=hottest),
                ),
            )
        )
    if not rows:
        return None
    columns = (
        "File",
        "Last window at",
        "First window",
        "Last window",
        "Slowest window",
        "Last / first",
        "Highest thermal status",
    )
    made = Table(bench.anchor("sustained"), "Runs without pauses", columns, tuple(rows))
    return cells.without_empty(made)


def answers(bench: Bench) -> Table | None:
    """The device's answers against the host's, on the same examples."""
    rows = []
    for file, part in bench.parts("answers"):
        name = primary_metric(file.model) or next(iter(part.metrics), "accuracy")
        rows.append(
            Row(
                Cell(file.label, bench.words(part, file.source)),
                (
                    cells.number(part.num_examples),
                    Cell(fmt.error(part.max_abs_error), value=part.max_abs_error),
                    cells.decibels(part.sqnr_db),
                    cells.share(part.argmax_agreement),
                    cells.metric(name, part.metrics.get(name), fmt.metric_title(name)),
                    cells.metric(name, part.host_metrics.get(name)),
                ),
            )
        )
    if not rows:
        return None
    columns = (
        "File",
        "Examples",
        "Largest error",
        "Signal to noise",
        "Same answer",
        "Metric on the device",
        "On the host",
    )
    caption = "Answers of the device against those of the host to the same examples"
    return Table(bench.anchor("answers"), caption, columns, tuple(rows))


def failures(bench: Bench) -> Table | None:
    """What was not measured, and why."""
    rows = tuple(
        Row(
            Cell(failure.what, named.label if len(bench.results) > 1 else ""),
            (Cell(failure.error),),
        )
        for named in bench.results
        for failure in named.result.failures
    )
    if not rows:
        return None
    return Table(bench.anchor("failures"), "Not measured", ("What", "Why"), rows)


def all_tables(bench: Bench) -> dict[str, Table]:
    """Every table that can be made, by kind."""
    made = {
        "latency": latency(bench),
        "text": text(bench),
        "start": start(bench),
        "operators": operators(bench),
        "sustained": sustained(bench),
        "answers": answers(bench),
        "failures": failures(bench),
    }
    return {key: table for key, table in made.items() if table is not None}


def primary_metric(model: schema.ModelFile) -> str | None:
    """The metric that counts of a file's task, or None where nothing was checked."""
    card = model.manifest
    if card is None or card.parity is None or not card.parity.file_metrics:
        return None
    if card.task is not None and card.task.primary_metric in card.parity.file_metrics:
        return card.task.primary_metric
    names = list(card.parity.file_metrics)
    return "accuracy" if "accuracy" in names else names[0]


def thermal_words(status: int | None) -> str:
    """Names Android's thermal status."""
    names = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
    if status is None:
        return fmt.ABSENT
    return names[status] if 0 <= status < len(names) else str(status)


def _head(timing: Timing) -> Cell:
    throttled = "throttled" if timing.summary.throttled else ""
    return Cell(timing.file.label, ", ".join(filter(None, (timing.way, throttled))))


def _speedup(row: schema.Comparison) -> Cell:
    detail = fmt.interval(*row.speedup_ci)
    if row.faster is None:
        detail = f"{detail} no clear difference"
    return Cell(fmt.ratio(row.speedup), detail, row.speedup, "", row.speedup_ci)


def _ratio(value: float) -> Cell:
    return Cell(fmt.ratio(value), value=value)
