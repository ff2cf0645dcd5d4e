"""The tables of what was measured on one device. Pure."""

from __future__ import annotations

import dataclasses

from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import disturbance
from tfdistill.report import cells, devices
from tfdistill.report import format as fmt
from tfdistill.report.devices import DeviceResults, Timing
from tfdistill.results import quantities, tables
from tfdistill.results.tables import Cell, Line, Row, Table, row


def latency(device: DeviceResults) -> Table | None:
    """Every file by length and threads."""
    compared = {
        (named.label, comparison.candidate, *_case(comparison)): comparison
        for named in device.results
        for comparison in named.result.comparisons
    }
    baselines = {(n.label, row.baseline) for n in device.results for row in n.result.comparisons}
    rows: list[Row] = []
    previous = None
    for timing in sorted(
        device.timings, key=lambda t: (t.summary.threads, t.summary.sequence_length)
    ):
        summary, source = timing.summary, timing.file.source.label
        case = (summary.threads, summary.sequence_length)
        comparison = compared.get((source, summary.model, *_case(summary)))
        is_baseline = comparison is None and (source, summary.model) in baselines
        line = {
            "File": _head(timing),
            "Tokens": cells.number(summary.sequence_length),
            "Threads": cells.number(summary.threads),
            "p50": cells.milliseconds(summary.p50_ms, summary.p50_ci_ms),
            **_tails(summary),
            "Speed-up": _speedup(comparison) if comparison else "1×" if is_baseline else fmt.ABSENT,
            "Samples": cells.number(summary.n, "in blocks" if summary.of == "blocks" else ""),
        }
        rows.append(row(line, opens=previous not in (None, case)))
        previous = case
    why = "its thermal status was raised, or latency rose and stayed high"
    if device.kind == "host":
        why = "latency rose and stayed high, usually because something else ran"
    summaries = [timing.summary for timing in device.timings]
    remarks = {
        "Brackets: 95% intervals of the median and of the ratio of medians.": True,
        "A speed-up is given where two files took turns in one measurement; medians of different "
        "measurements also differ from day to day.": len(device.results) > 1,
        "In blocks: the tool reports no single durations, so the median is that of bursts of "
        "inferences and the tails are not known.": any(s.of == "blocks" for s in summaries),
        f"Throttled: the device slowed down while this was measured ({why}).": any(
            s.throttled for s in summaries
        ),
        "Busy machine: other programs disturbed more than a tenth of the inferences.": any(
            s.busy for s in summaries
        ),
    }
    notes = [remark for remark, holds in remarks.items() if holds]
    caption = f"One inference {device.where}"
    return tables.of_rows(device.anchor("latency"), caption, rows, notes, drop_empty=True)


def text_times(device: DeviceResults) -> Table | None:
    """The expected time of a text by file and threads."""
    rows = []
    for named in device.results:
        labels = {file.model.name: file.label for file in device.files if file.source is named}
        for value in named.result.text_times:
            busy = tables.BUSY if value.busy else ""
            detail = ", ".join(filter(None, (device.configuration(value, named), busy)))
            line = {
                "File": Cell(labels.get(value.model, value.model), detail),
                "Threads": cells.number(value.threads),
                "A text": cells.milliseconds(value.expected_ms),
                "Texts": cells.number(value.num_texts),
            }
            rows.append(line)
    notes = (
        "The mean over the development texts of each file, each at the shortest length of the file "
        "that holds it.",
    )
    return tables.of_rows(device.anchor("texts"), "Expected time of a text", rows, notes)


def start(device: DeviceResults) -> Table | None:
    """Start and memory of every file, on the fewest threads."""
    fewest = min((timing.summary.threads for timing in device.timings), default=1)
    order = {timing.label: i for i, timing in reversed(list(enumerate(device.timings)))}
    timings = sorted(
        (timing for timing in device.timings if timing.summary.threads == fewest),
        key=lambda timing: (order[timing.label], timing.summary.sequence_length),
    )
    summaries = [timing.summary for timing in timings]
    if not any(s.init_ms or s.first_inference_ms or s.peak_rss_bytes for s in summaries):
        return None
    rows = [
        {
            "File": _head(timing),
            "Tokens": cells.number(summary.sequence_length),
            "Cold start": cells.milliseconds(summary.cold_start_ms),
            "Opening the file": cells.milliseconds(summary.init_ms),
            "First inference": cells.milliseconds(summary.first_inference_ms),
            "Peak memory": cells.size(summary.peak_rss_bytes),
        }
        for timing, summary in zip(timings, summaries, strict=True)
    ]
    notes = []
    if any(summary.cold_start_ms for summary in summaries):
        what = "Python and its imports" if device.kind == "host" else "whatever the program loads"
        notes.append(
            f"Cold start runs from before the process starts, {what} included, to the first result."
        )
    if any(summary.peak_rss_bytes for summary in summaries):
        notes.append("Peak memory is that of the whole process.")
    caption = f"Start and memory ({quantities.plural(fewest, 'thread')})"
    return tables.of_rows(device.anchor("start"), caption, rows, notes, drop_empty=True)


def text(device: DeviceResults) -> Table | None:
    """The tokenizer, and from text to answer."""

    def timed(head: str, detail: str, value: schema.Percentiles) -> Line:
        p50, samples = cells.milliseconds(value.p50_ms), cells.number(value.n)
        return {"Step": Cell(head, detail), "p50": p50, **_tails(value), "Samples": samples}

    rows = []
    for named in device.results:
        source = named.label if len(device.results) > 1 else ""
        if named.result.tokenizer is not None:
            rows.append(timed("Tokenizer alone", source, named.result.tokenizer))
        labels = {file.model.name: file.label for file in device.files if file.source is named}
        for value in named.result.end_to_end:
            words = quantities.plural(value.threads, "thread"), device.configuration(value, named)
            head = f"{value.text.capitalize()} to answer, {labels.get(value.model, value.model)}"
            rows.append(timed(head, ", ".join(filter(None, words)), value))
    notes = ("Each text runs at the shortest length of the file that fits it.",)
    return tables.of_rows(device.anchor("text"), "From text to answer", rows, notes)


def answers(device: DeviceResults) -> Table | None:
    """The device's answers against the host's, on the same examples."""
    rows = []
    for file, part in device.answers():
        name = devices.primary_metric(file.model) or next(iter(part.metrics), "accuracy")
        value, title = part.metrics.get(name), fmt.metric_title(name)
        line = {
            "File": Cell(file.label, device.describe(part, file.source)),
            "Examples": cells.number(part.num_examples),
            "Largest error": Cell(fmt.error(part.max_abs_error), value=part.max_abs_error),
            "Signal to noise": cells.decibels(part.sqnr_db),
            "Agreement": cells.share(part.argmax_agreement),
            "Metric on the device": cells.metric(name, value, title),
            "On the host": cells.metric(name, part.host_metrics.get(name)),
        }
        rows.append(line)
    caption = "Answers of the device against those of the host to the same examples"
    return tables.of_rows(device.anchor("answers"), caption, rows)


def failures(device: DeviceResults) -> Table | None:
    """The measurements that failed, and why."""
    several = len(device.results) > 1
    rows = [
        {"What": Cell(failure.what, named.label if several else ""), "Why": failure.error}
        for named in device.results
        for failure in named.result.failures
    ]
    return tables.of_rows(device.anchor("failures"), "Not measured", rows)


def conditions(device: DeviceResults) -> Table | None:
    """The runtime of each result, and the device's state before and after."""
    rows: list[Row] = []
    for named in device.results:
        result = named.result
        runtime = " ".join(filter(None, (result.runtime.name, result.runtime.version)))
        adopted = tables.cut(str(result.settings.get("adopted", "")), 40)
        backend = ", ".join(filter(None, (result.backend, adopted)))
        for when, state in (("before", result.before), ("after", result.after)):
            if when == "after" and state is None:
                continue
            line = {
                "Result": Cell(tables.cut(named.label, 80), when),
                "Time": (state.time if state else result.created)[:19].replace("T", " "),
                "Runtime": Cell(tables.cut(runtime, 80), backend),
                "Thermal status": devices.thermal_words(state.thermal_status if state else None),
                **_state(state),
            }
            rows.append(row(line, opens=when == "before" and bool(rows)))
    caption = "The state of the device before and after"
    return tables.of_rows(device.anchor("conditions"), caption, rows, drop_empty=True)


def _case(part: schema.BenchmarkCase | schema.Comparison) -> tuple[int, int, str, str | None]:
    return part.sequence_length, part.threads, part.delegate, part.affinity


def _head(timing: Timing) -> Cell:
    words = timing.configuration, devices.marks(timing.summary)
    return Cell(timing.file.label, ", ".join(filter(None, words)))


def _speedup(comparison: schema.Comparison) -> Cell:
    if comparison.speedup_ci is None:
        return Cell(fmt.ABSENT, tables.BUSY)
    cell = cells.ratio(comparison.speedup, comparison.speedup_ci)
    if comparison.faster is not None:
        return cell
    equal = comparison.speedup_ci[0] <= 1 <= comparison.speedup_ci[1]
    why = "no clear difference" if equal else disturbance.SINGLE
    return dataclasses.replace(cell, detail=f"{cell.detail} {why}")


def _tails(value: schema.Percentiles) -> dict[str, Cell]:
    tails = {"p90": value.p90_ms, "p95": value.p95_ms, "p99": value.p99_ms}
    return {title: cells.milliseconds(tail) for title, tail in tails.items()}


def _state(state: schema.Conditions | None) -> dict[str, Cell]:
    """The hottest sensor, the battery and the load average."""
    sensor = battery = load = Cell(fmt.ABSENT)
    if state is not None and state.temperatures_c:
        name, value = max(state.temperatures_c.items(), key=lambda item: item[1])
        sensor = Cell(f"{value:.1f}", tables.cut(name, 40), value, "°C")
    if state is not None and state.battery_percent is not None:
        warmth = state.battery_temperature_c
        parts = [] if warmth is None else [f"{warmth:.1f} °C"]
        if state.charging is not None:
            parts.append("charging" if state.charging else "not charging")
        percent = state.battery_percent
        battery = Cell(f"{percent:.0f}%", ", ".join(parts), percent)
    if state is not None and state.load_average is not None:
        load = Cell(f"{state.load_average:.2f}", value=state.load_average)
    return {"Hottest sensor": sensor, "Battery": battery, "Load average": load}
