"""What quickstart says when it ends: models, verdict, right and wrong answers, what next."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfdistill import errors, manifest, results
from tfdistill.commands import terminal_output
from tfdistill.results import quantities, tables

if TYPE_CHECKING:
    from tfdistill.report import Report

_SAMPLES = "samples"  # the key of their table in a report
_TEXT = 70  # characters of a text


def lines_of(
    metrics: results.RunMetrics, record: results.QuickstartRecord, out: pathlib.Path
) -> list[str]:
    """The lines for a terminal."""
    from tfdistill import report

    collected = report.collect(out)
    page = report.build(collected)
    run, recipe, again = (
        shlex.quote(str(path)) for path in (out, out / "recipe.yaml", f"{out}-again")
    )
    return [
        *_models(metrics, out, "cross-validated" if collected.cross_fitted else "dev"),
        "",
        f"verdict: {terminal_output.plain(page.headline)}",
        *_budget(metrics, record, out),
        *_samples(page),
        "",
        f"file: {out / 'export' / 'model.tflite'}",
        f"report: {out / 'report.html'}",
        f"again: tfdistill run {recipe} --out {again}",
        f'next: tfdistill predict {run} "a text"',
        f"      tfdistill export {run} --android android_demo/demo/src/main/assets",
    ]


def took(record: results.QuickstartRecord) -> str:
    """The estimate beside what the run took."""
    seconds = record.seconds or 0.0
    return f"estimated {record.estimated_seconds / 60:.1f} minutes, took {seconds / 60:.1f}"


def _budget(
    metrics: results.RunMetrics, record: results.QuickstartRecord, out: pathlib.Path
) -> Iterator[str]:
    """Says of each budget whether the run keeps it."""
    size_bytes = manifest.read_manifest(out / "export").model.size_bytes
    _, latencies, _ = _files(metrics, out)
    length = max(length for _, length in latencies)
    latency_ms = latencies["student", length][0]
    minutes = (record.seconds or 0.0) / 60
    on_host = record.device == "host"
    if not on_host:
        measure = (
            f"tfdistill benchmark {shlex.quote(str(out))} --device adb --binary benchmark_model"
        )
        yield f"budget: latency {record.latency_ms:g} ms on the phone, for which run {measure}"
    for name, value, limit, unit in (
        (
            f"latency on this host, {length} tokens",
            latency_ms,
            record.latency_ms if on_host else None,
            "ms",
        ),
        ("size", size_bytes / 1e6, record.size_mb, "MB"),
        ("time", minutes, record.max_minutes, "minutes"),
    ):
        if limit is not None:
            verdict = "within" if value <= limit else "OVER"
            shown, _ = quantities.apart(value, limit)
            yield f"budget: {name} {shown} {unit}, {verdict} {limit:g} {unit}"


def _samples(page: Report) -> Iterator[str]:
    """Three right and three wrong answers with their labels, of kinds whose report has them."""
    for section in page.sections:
        for part in section.parts:
            for table in part.tables:
                if table.key == _SAMPLES:
                    rows = [
                        [
                            terminal_output.plain(errors.shortened(cell.text, _TEXT))
                            for cell in (row.head, *row.cells)
                        ]
                        for row in table.rows
                    ]
                    yield from ("", f"{table.caption}:")
                    yield from tables.table([list(table.columns), *rows], left=len(table.columns))


def _models(metrics: results.RunMetrics, out: pathlib.Path, split: str) -> list[str]:
    """The table of teacher, baselines, student and file; `split` is what development stands for."""
    metric, test = metrics.task.primary_metric, metrics.test_metrics
    sizes, latencies, texts = _files(metrics, out)
    length = max(length for _, length in latencies)
    times = ["a text", f"latency, {length} tokens"]
    rows = [["", f"{metric} ({split})", "(test)", "size", *times]]
    chosen = next(m for m in metrics.models if m.folder == metrics.chosen)
    for model in metrics.models:
        if model.role == "teacher" or model is chosen:
            rows.append(_row(model.role, model.metrics, test.get(model.role, {}), metric))
    for file in metrics.exports:
        if file.name == "teacher":  # in the row of the model
            continue
        name = "file" if file.name == "student" else file.name
        card = manifest.read_manifest((out / file.manifest).parent)
        file_metrics = {} if card.parity is None else card.parity.file_metrics
        rows.append(_row(name, file_metrics, test.get(name, {}), metric))
    for row in rows[1:]:
        of = {"file": "student", "student": ""}.get(row[0], row[0])
        latency = latencies.get((of, length))
        shown = "-" if latency is None else tables.marked(f"{latency[0]:.3g} ms", latency[1])
        row[3:] = [sizes.get(of, "-"), texts.get(of, "-"), shown]
    for baseline in metrics.baselines:
        rows.append(
            [*_row(f"baseline {baseline.name}", baseline.metrics, {}, metric), "-", "-", "-"]
        )
    if not test:
        rows = [[*row[:2], *row[3:]] for row in rows]
    return tables.table(rows)


def _row(
    name: str, dev: Mapping[str, float | None], test: Mapping[str, float | None], metric: str
) -> list[str]:
    shown = [values.get(metric) for values in (dev, test)]
    return [name, *("-" if value is None else f"{value:.4f}" for value in shown)]


def _files(
    metrics: results.RunMetrics, out: pathlib.Path
) -> tuple[dict[str, str], dict[tuple[str, int], tuple[float, bool]], dict[str, str]]:
    """Sizes by file; on the fewest threads latencies, busy or not, by file and length, and texts.

    The last are the expected times of a text.
    """
    from tfdistill import benchmark

    cards = {
        file.name: manifest.read_manifest((out / file.manifest).parent) for file in metrics.exports
    }
    sizes = {name: quantities.size(card.model.size_bytes) for name, card in cards.items()}
    measured = benchmark.read_result(out / "benchmark.json")
    threads = min(row.threads for row in measured.summary)
    latencies = {
        (row.model, row.sequence_length): (row.p50_ms, row.busy)
        for row in measured.summary
        if row.threads == threads
    }
    texts = {
        row.model: tables.marked(f"{row.expected_ms:.3g} ms", row.busy)
        for row in measured.text_times
        if row.threads == threads
    }
    return sizes, latencies, texts
