"""The report of a run. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from tfdistill import config, errors, reading, safe_paths
from tfdistill.report import format as fmt
from tfdistill.report.document import (
    Definitions,
    Details,
    Picture,
    Report,
    ReportSection,
    SectionPart,
)
from tfdistill.report.plot import charts, timeline
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.run_results import RunResults, StageHistory
from tfdistill.report.sections import answers, parity, quality, verdict
from tfdistill.report.sections import device as device_section

_NO_LOSS_TERM = ("epoch", "step", "loss", "learning_rate", "seconds", "examples_per_second")


def build(results: RunResults) -> Report:
    """Computes everything that the report of a run shows.

    Args:
      results: The contents of the run folder.

    Returns:
      The report.
    """
    run = RunAnalysis(results)
    metrics = results.metrics
    tags = ()
    if metrics is not None:
        tags = (f"task {metrics.task.name}", *([metrics.created[:10]] if metrics.created else []))
    answered = () if run.sides is None else (answers.section(run.sides),)
    sections = (*_models(run), *answered, *_latency(run), *_training(run), *_parity(run))
    return Report(
        name=results.name,
        headline=verdict.headline(run),
        tags=tags,
        synthetic=bool(metrics and metrics.synthetic_data),
        figures=tuple(verdict.key_figures(run)),
        missing=results.missing,
        overview=tuple(filter(None, (metric_chart(run), latency_chart(run)))),
        sections=sections,
        limits=tuple(verdict.limits(run)),
        environment=tuple(_environment(run)),
    )


def metric_chart(run: RunAnalysis) -> Picture | None:
    """Draws the primary metric of every model."""
    rows = [
        charts.Dots(
            quality.variant_title(group).removeprefix("Student: "),
            fmt.mean_and_spread(run.metric, group.mean(run.metric), group.deviation(run.metric)),
            tuple(group.values(run.metric)),
            run.series[group.name],
        )
        for group in run.groups
        if group.values(run.metric)
    ]
    best = run.best_baseline
    value = best.metrics.get(run.metric) if best else None
    if best is not None and value is not None:
        free = max(run.series.values(), default=0) + 1
        title = fmt.baseline_title(best.name)
        rows.append(charts.Dots(title, fmt.metric(run.metric, value), (value,), free))
    if len(rows) < 2:
        return None
    metric = fmt.metric_title(run.metric)
    title = f"{metric} on the development set"
    chart = charts.metric_dots(
        "metric-chart", title, rows, lambda value: fmt.metric_tick(run.metric, value), most=1.0
    )
    caption = (
        "on the development set. A mark is a seed, an upright bar the mean, the dashed line the "
        "teacher." + (" The last row is the best baseline." if best is not None else "")
    )
    return Picture(chart, metric, caption)


def latency_chart(run: RunAnalysis) -> Picture | None:
    """Draws p50 (bars) and p95 (lines) by length, on the fewest threads measured."""
    benchmark, device = run.results.benchmark, run.device
    if benchmark is None or device is None or not run.summary:
        return None
    threads = min(row.threads for row in run.summary)
    measured = {
        (row.sequence_length, row.model): row for row in run.summary if row.threads == threads
    }
    usual = run.summary[0]
    speedups = {
        (row.sequence_length, row.candidate): f" · {fmt.ratio(row.speedup)}"
        for row in benchmark.comparisons
        if (row.threads, row.delegate, row.affinity) == (threads, usual.delegate, usual.affinity)
    }
    groups = []
    for length in sorted({length for length, _ in measured}):
        bars = [
            charts.Bar(
                name,
                fmt.milliseconds(row.p50_ms) + speedups.get((length, name), ""),
                row.p50_ms,
                series,
                row.p95_ms,
            )
            for name, series in device.series.items()
            if (row := measured.get((length, name))) is not None
        ]
        groups.append((f"{length} tokens", bars))
    title = f"Latency by length, {fmt.threads(threads)}, {run.where}"
    caption = (
        f"by length, one inference, {fmt.threads(threads)}. Bars are medians, thin lines reach to "
        "the 95th percentile."
    )
    caption += "" if device.kind == "phone" else " Not a phone."
    chart = charts.bars("latency-chart", title, groups)
    return Picture(chart, f"Latency {run.where}", caption)


def _models(run: RunAnalysis) -> Iterator[ReportSection]:
    models, seeds = quality.models(run), quality.seeds(run)
    formats = quality.formats(run)
    if models is not None:
        shown = tuple(t for t in (models, quality.test_set(run), formats) if t is not None)
        part = SectionPart("models-part", tables=shown, folded=(seeds,) if seeds else ())
        yield ReportSection("models", "Models", "Models", parts=(part,))


def _latency(run: RunAnalysis) -> Iterator[ReportSection]:
    """The trade-off, the latencies of the run's own device, and each other device."""
    device = run.device
    if device is not None:
        parts = [
            part
            for part in device_section.trade_offs(device, run.levels)
            if any(len(table.rows) > 1 for table in part.tables)
        ]
        if len(parts) == 1:
            parts = [dataclasses.replace(parts[0], title="")]
        if parts:
            title = "Accuracy, latency and size"
            yield ReportSection("tradeoff", title, "Trade-off", parts=tuple(parts))
        first, *rest = [
            *device_section.measurements(device, with_lengths=False),
            device_section.conditions(device),
        ]
        parts = [dataclasses.replace(first, title=""), *rest]
        yield ReportSection("latency", f"Latency {run.where}", "Latency", parts=tuple(parts))
    yield from map(device_section.section, run.others)


def _training(run: RunAnalysis) -> Iterator[ReportSection]:
    stages = _by_stage(run)
    parts = []
    for number, (stage, histories) in enumerate(stages.items()):
        panels = tuple(map(Picture, _panels(run, f"curve-{number}", histories)))
        if panels:
            parts.append(SectionPart(f"stage-{number}", stage, pictures=panels, small=True))
    table = quality.training(run, stages)
    if table is not None:
        legend = tuple(
            (charts.legend_mark(run.series[group.name]), quality.variant_title(group))
            for group in run.groups
        )
        parts.append(SectionPart("training-part", folded=(table,)))
        yield ReportSection("training", "Training", "Training", parts=tuple(parts), legend=legend)


def _parity(run: RunAnalysis) -> Iterator[ReportSection]:
    tables = tuple(filter(None, (parity.parity(run), parity.accelerators(run))))
    if tables:
        part = SectionPart("parity-part", tables=tables)
        intro = "A file is exported only after a check: it and its model received the same inputs."
        yield ReportSection("parity", "Parity of the files", "Parity", intro, (part,))


def _by_stage(run: RunAnalysis) -> dict[str, list[StageHistory]]:
    """Histories by stage, in the order of training; a teacher's own is a stage of its own."""
    teachers = {group.name for group in run.groups if group.role == "teacher"}
    chains = sorted((g.stages for g in run.groups if g.role == "student"), key=len, reverse=True)
    found: dict[str, list[StageHistory]] = {stage: [] for chain in chains for stage in chain}
    for history in run.results.histories:
        title = "teacher" if history.model in teachers else history.stage
        found.setdefault(title, []).append(history)
    return {stage: histories for stage, histories in found.items() if histories}


def _panels(run: RunAnalysis, key: str, histories: list[StageHistory]) -> Iterator[charts.Markup]:
    """Draws the loss of a stage, its terms where there are several, the dev metric."""
    columns = list(dict.fromkeys(name for h in histories for name in h.columns))
    terms = [n for n in columns if n not in _NO_LOSS_TERM and not n.startswith("val_")]
    metric = f"val_{run.metric}"
    shown = ["loss", *(terms if len(terms) > 1 else []), *(n for n in columns if n == metric)]
    for number, column in enumerate(shown):
        lines = [
            timeline.Line(history.label, points, run.series.get(history.model, 0))
            for history in histories
            if (points := history.points(column))
        ]
        if not any(len(line.points) > 1 for line in lines):
            continue  # a chart of single points shows nothing that the table does not
        panel = f"{key}-{number}"
        if column == metric:
            title = f"{fmt.metric_title(run.metric)}, development set"
            yield timeline.curve_panel(
                panel, title, lines, show=lambda v: fmt.metric_tick(run.metric, v), most=1.0
            )
        else:
            title = "Loss" if column == "loss" else f"{column.replace('_', ' ').capitalize()} loss"
            yield timeline.curve_panel(panel, title, lines, show=timeline.loss)


def _environment(run: RunAnalysis) -> Iterator[Details]:
    """Yields what the results depend on: the run, the measurement, the recipe."""
    results = run.results
    metrics, benchmark, found = results.metrics, results.benchmark, results.environment or {}
    rows: list[tuple[str, object]] = []
    if metrics is not None:
        rows += [
            ("Task", metrics.task.name),
            ("Labels", ", ".join(metrics.task.labels)),
            ("Exported student", metrics.chosen),
            ("Finished", metrics.created),
        ]
    packages = found.get("packages")
    rows += [
        ("Command", safe_paths.without_folders(_words(found.get("command"), " "))),
        ("Version", _words([found.get("tfdistill_version"), found.get("commit")])),
        ("Machine", _words([found.get(n) for n in ("platform", "machine", "cores", "devices")])),
        ("Python", found.get("python")),
        ("Packages", _pairs(packages) if isinstance(packages, dict) else packages),
    ]
    if any(value for _, value in rows):
        yield Details("Run and software", _shown(rows))
    if benchmark is not None:
        rows = [
            ("Measured", benchmark.created),
            ("Command", safe_paths.without_folders(_words(benchmark.command, " "))),
            ("Device", benchmark.device.name),
            *device_section.description(benchmark.device),
            ("Runtime", _pairs(benchmark.runtime.model_dump())),
            ("Settings", _pairs(benchmark.settings)),
        ]
        yield Details("Measurement", _shown(rows))
    if results.recipe:
        yield Details(
            "The recipe, without defaults", text=safe_paths.without_folders(_short(results.recipe))
        )


def _short(recipe: str) -> str:
    try:
        return config.without_defaults(config.parse_recipe(reading.parse_yaml(recipe, "recipe")))
    except errors.ConfigError:  # of another version: as it is
        return recipe


def _shown(rows: Sequence[tuple[str, object]]) -> Definitions:
    return tuple((name, fmt.cut(str(value))) for name, value in rows if value)


def _words(values: object, separator: str = ", ") -> str:
    """Joins values, also those of lists in them; None and empty ones are left out."""
    if isinstance(values, list | tuple):
        return separator.join(filter(None, (_words(value) for value in values)))
    if isinstance(values, dict):
        return _pairs(values)
    return "" if values is None else str(values)


def _pairs(values: Mapping[str, object]) -> str:
    """Names and values in one line; what is None, empty or off is left out."""
    found = {name.replace("_", " "): _words(value) for name, value in values.items()}
    return ", ".join(f"{name} {text}" for name, text in found.items() if text not in ("", "False"))
