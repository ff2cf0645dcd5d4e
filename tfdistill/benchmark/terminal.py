"""A benchmark result as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import disturbance, summaries
from tfdistill.results import quantities, tables
from tfdistill.results.tables import BUSY, marked

_KINDS = {
    "host": "host, no phone: {}",
    "emulator": "emulated phone, no real one: {}",
    "phone": "phone: {}",
}


def format_text(result: schema.Result) -> str:
    """Shows a result as text: where it was measured, a row a case, what may be concluded.

    Intervals are of 95%. Columns that are the same in every row of an ordinary result (delegate
    xnnpack, no affinity) are left out, and so are those that nothing is known for.
    """
    lines = [origin(result)]
    if result.summary:
        lines += ["", *_cases(result.summary)]
    for part in (_text_times, _comparisons, _texts, _answers):
        part_lines = list(part(result))
        lines += ["", *part_lines] if part_lines else []
    failures = [f"NOT MEASURED: {failure.what}: {failure.error}" for failure in result.failures]
    lines += ["", *failures] if failures else []
    return "\n".join([*lines, *([""] if result.notes else []), *result.notes])


def origin(result: schema.Result) -> str:
    """Names the kind of result, the device and the runtime: a host never looks like a phone."""
    device, runtime = result.device, result.runtime
    parts = [device.name, device.soc, device.os]
    named = ", ".join(dict.fromkeys(part for part in parts if part))
    by = " ".join(part for part in (runtime.name, runtime.version) if part)
    return f"{_KINDS[result.kind].format(named)}; measured by {by} on {result.created}"


def describe(case: schema.BenchmarkCase, *, model: bool = True) -> str:
    """Names a case in words; the delegate and the affinity where they are not the usual ones."""
    named = f"{case.model} at " if model else ""
    return f"{named}{case.sequence_length} tokens, {setting(case)}"


def setting(row: schema.BenchmarkCase | schema.EndToEnd | schema.TextTime) -> str:
    """Names threads, and delegate and cores where they are not the usual ones."""
    delegate = f", {row.delegate}" if row.delegate != "xnnpack" else ""
    affinity = f", on cores {row.affinity}" if row.affinity else ""
    return quantities.plural(row.threads, "thread") + delegate + affinity


def milliseconds(value: float | None) -> str:
    """Writes a duration with three or more digits that mean something; "-" for None."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"


def interval(bounds: schema.Interval | None) -> str:
    """Writes an interval of durations."""
    return "" if bounds is None else f"[{milliseconds(bounds[0])}, {milliseconds(bounds[1])}]"


def setting_cells(
    case: schema.BenchmarkCase, among: Sequence[schema.BenchmarkCase]
) -> dict[str, str]:
    """Gives length, threads, delegate and affinity by title; "-" where all have the usual ones."""
    usual = all(other.delegate == "xnnpack" and other.affinity is None for other in among)
    return {
        "length": str(case.sequence_length),
        "threads": str(case.threads),
        "delegate": "-" if usual else case.delegate,
        "affinity": case.affinity or "-",
    }


def _cases(summary: Sequence[schema.Summary]) -> list[str]:
    rows = []
    for case in summary:
        remarks = [BUSY] * case.busy + ["throttled"] * case.throttled
        drifted = case.drift_ci is not None and not case.drift_ci[0] <= 1 <= case.drift_ci[1]
        if case.drift is not None and (case.throttled or drifted):
            remarks.append(f"drift {case.drift:.2f}")
        row = {
            "model": case.model,
            **setting_cells(case, summary),
            "n": str(case.n),
            "p50 ms": milliseconds(case.p50_ms),
            "95%": interval(case.p50_ci_ms),
            "p90": milliseconds(case.p90_ms),
            "p99": milliseconds(case.p99_ms),
            "first": milliseconds(case.first_inference_ms),
            "cold": milliseconds(case.cold_start_ms),
            "peak MB": quantities.megabytes(case.peak_rss_bytes, absent="-"),
            "remarks": ", ".join(remarks),
        }
        rows.append(row)
    return tables.lines(rows)


def _text_times(result: schema.Result) -> Iterator[str]:
    for row in result.text_times:
        mark = f" ({BUSY})" if row.busy else ""
        yield (
            f"{row.model}, {setting(row)}: a text takes {milliseconds(row.expected_ms)} ms, the "
            f"mean over {row.num_texts} development texts{mark}"
        )


def _comparisons(result: schema.Result) -> Iterator[str]:
    words = {True: "faster", False: "slower", None: "no difference that this run can tell"}
    single = {summaries.case_of(r) for r in result.summary if len(r.repetition_p50_ms) == 1}
    for row in result.comparisons:
        case = row.case
        verdict = words[row.faster]
        if row.faster is None and case in single:
            verdict = disturbance.SINGLE
        files = f"{row.candidate} against {row.baseline} at {describe(case, model=False)}"
        if row.speedup_ci is None:
            yield f"{files}: {disturbance.WITHHELD}"
            continue
        low, high = row.speedup_ci
        mark = f", {BUSY}" if row.busy else ""
        yield f"{files}: {row.speedup:.2f}x [{low:.2f}, {high:.2f}] ({verdict}{mark})"


def _texts(result: schema.Result) -> Iterator[str]:
    if result.tokenizer is not None:
        figure = f"{milliseconds(result.tokenizer.p50_ms)} ms a text"
        yield f"tokenizer: p50 {marked(figure, result.tokenizer.busy)}"
    for row in result.end_to_end:
        figure = marked(f"{milliseconds(row.p50_ms)} ms", row.busy)
        yield f"{row.model} from {row.text} to answer, {setting(row)}: p50 {figure}"


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
