"""What quickstart says when it ends: models, verdict, right and wrong answers, what next."""

from __future__ import annotations

import pathlib
import shlex
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tfdistill import errors, manifest, results
from tfdistill.commands import base
from tfdistill.results import quantities, tables

if TYPE_CHECKING:
    from tfdistill.benchmark import schema
    from tfdistill.report import Report

_SHOWN = ("samples", "entities")  # the keys of tables of a report
_TEXT = 70  # characters of a text


def lines_of(
    metrics: results.RunMetrics, record: results.QuickstartRecord, out: pathlib.Path
) -> list[str]:
    """The lines for a terminal."""
    from tfdistill import benchmark, report

    collected = report.collect(out)
    page = report.build(collected)
    cards = {
        file.name: manifest.read_manifest((out / file.manifest).parent) for file in metrics.exports
    }
    measured = benchmark.read_result(out / "benchmark.json")
    threads = min(row.threads for row in measured.summary)
    summary = [row for row in measured.summary if row.threads == threads]
    length = max(row.sequence_length for row in summary)
    latencies = {row.model: row for row in summary if row.sequence_length == length}
    texts = {row.model: row for row in measured.text_times if row.threads == threads}
    run, recipe, again = (
        shlex.quote(str(path)) for path in (out, out / "recipe.yaml", f"{out}-again")
    )
    split = "cross-validated" if collected.cross_fitted else "dev"
    return [
        *tables.table(_models(metrics, split, cards, latencies, texts)),
        *(["", *metrics.vocabulary.lines] if metrics.vocabulary else []),
        "",
        f"verdict: {base.plain(page.headline)}",
        *_budget(record, out, latencies["student"], cards["student"].model.size_bytes),
        *_samples(page),
        "",
        f"file: {out / 'export' / 'model.tflite'}",
        f"report: {out / 'report.html'}",
        f"again: tfdistill run {recipe} --out {again}",
        f'next: tfdistill predict {run} "a text"',
        f"      tfdistill export {run} --android app/src/main/assets",
    ]


def _budget(
    record: results.QuickstartRecord, out: pathlib.Path, student: schema.Summary, size_bytes: int
) -> Iterator[str]:
    minutes = (record.seconds or 0.0) / 60
    on_host = record.device == "host"
    if not on_host:
        measure = (
            f"tfdistill benchmark {shlex.quote(str(out))} --device adb --binary benchmark_model"
        )
        yield f"budget: latency {record.latency_ms:g} ms on the phone, for which run {measure}"
    for name, value, limit, unit in (
        (
            f"latency on this host, {student.sequence_length} tokens",
            student.p50_ms,
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
    """Three right and three wrong answers with their labels, or counts of entities."""
    parts = (part for section in page.sections for part in section.parts)
    for table in (table for part in parts for table in part.tables if table.key in _SHOWN):
        rows = [
            [base.plain(errors.shortened(cell.text, _TEXT)) for cell in (row.head, *row.cells)]
            for row in table.rows
        ]
        yield from ("", f"{table.caption}:")
        yield from tables.table([list(table.columns), *rows], left=len(table.columns))


def _models(
    metrics: results.RunMetrics,
    split: str,
    cards: Mapping[str, manifest.Manifest],
    latencies: Mapping[str, schema.Summary],
    texts: Mapping[str, schema.TextTime],
) -> list[list[str]]:
    """The table of teacher, student, files and baselines.

    `split` is what development stands for; the others are by file, the latencies of one length.
    """
    metric, test = metrics.task.primary_metric, metrics.test_metrics
    length = next(iter(latencies.values())).sequence_length

    def row(name: str, dev: Mapping[str, float | None], file: str = "") -> list[str]:
        shown = [values.get(metric) for values in (dev, test.get(name, {}))]
        scores = ["-" if value is None else f"{value:.4f}" for value in shown]
        size = quantities.size(cards[file].model.size_bytes) if file in cards else "-"
        text, latency = texts.get(file), latencies.get(file)
        return [
            name,
            *scores,
            size,
            "-" if text is None else tables.marked(f"{text.expected_ms:.3g} ms", text.busy),
            "-" if latency is None else tables.marked(f"{latency.p50_ms:.3g} ms", latency.busy),
        ]

    rows = [["", f"{metric} ({split})", "(test)", "size", "a text", f"latency, {length} tokens"]]
    for model in metrics.models:
        if model.role == "teacher":
            rows.append(row("teacher", model.metrics, "teacher"))
        elif model.folder == metrics.chosen:
            rows.append(row(model.role, model.metrics))
    for name, card in cards.items():
        if name != "teacher":  # in the row of the model
            scored = {} if card.parity is None else card.parity.file_metrics
            rows.append(row("file" if name == "student" else name, scored, name))
    for baseline in metrics.baselines:
        rows.append(row(f"baseline {baseline.name}", baseline.metrics))
    return rows if test else [[*cells[:2], *cells[3:]] for cells in rows]
