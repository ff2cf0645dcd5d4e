"""The report as one self-contained HTML page. Pure, apart from reading its own template."""

from __future__ import annotations

import importlib.resources
import re
from typing import Any

import jinja2
from markupsafe import Markup

from tfdistill import _version
from tfdistill.report import charts, curves, story, tables
from tfdistill.report import format as fmt
from tfdistill.report.facts import Facts
from tfdistill.report.results import RunResults


def render_html(results: RunResults) -> str:
    """Writes the report as a page that needs nothing else: no request leaves it, no script runs.

    Args:
      results: What a run folder holds.

    Returns:
      The page; it is well-formed XML too.
    """
    facts = Facts(results)
    folder = importlib.resources.files("tfdistill.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    style = Markup((folder / "style.css").read_text(encoding="utf-8"))
    page = template.render(_context(facts), style=style, version=_version.__version__)
    return re.sub(r"[^\S\n]+\n", "\n", _without_controls(page)).rstrip() + "\n"


def _context(facts: Facts) -> dict[str, Any]:
    results = facts.results
    metrics = results.metrics
    made = tables.all_tables(facts)
    series = curves.series_of(facts)
    return {
        "name": results.name,
        "task": metrics.task.name if metrics else "",
        "created": metrics.created if metrics else None,
        "synthetic": bool(metrics and metrics.synthetic_data),
        "headline": story.headline(facts),
        "figures": story.figures(facts),
        "limits": story.limits(facts),
        "missing": results.missing,
        "circumstances": story.circumstances(facts),
        "recipe": results.recipe,
        "tables": made,
        "metric_title": fmt.metric_title(facts.metric),
        "metric_chart": metric_chart(facts),
        "latency_chart": latency_chart(facts),
        "latency_threads": tables.threads(_fewest_threads(facts)),
        "legend": [
            (tables.variant_title(group), charts.legend_mark(series[group.name]))
            for group in facts.groups
        ],
        "latency_legend": [
            (name, charts.style(number)) for name, number in _measured_series(facts).items()
        ],
        "stages": curves.stages(facts),
        "training": curves.table(facts),
    }


def metric_chart(facts: Facts) -> Markup | None:
    """Draws the primary metric of every model."""
    series = curves.series_of(facts)
    rows = [
        charts.Dots(
            tables.variant_title(group).removeprefix("Student: "),
            fmt.mean_and_spread(facts.metric, group.mean(facts.metric), group.spread(facts.metric)),
            tuple(group.values(facts.metric)),
            series[group.name],
        )
        for group in facts.groups
        if group.values(facts.metric)
    ]
    if len(rows) < 2:
        return None
    title = f"{fmt.metric_title(facts.metric)} on the development set"

    def show(value: float) -> str:
        return fmt.metric_tick(facts.metric, value)

    return charts.metric_dots("metric-chart", title, rows, show, most=1.0)


def latency_chart(facts: Facts) -> Markup | None:
    """Draws p50 (bars) and p95 (lines) by length, on the fewest threads measured."""
    benchmark = facts.results.benchmark
    if benchmark is None or not benchmark.summary:
        return None
    threads = _fewest_threads(facts)
    series = _measured_series(facts)
    compared = {
        (row.candidate, row.sequence_length): row
        for row in benchmark.comparisons
        if row.threads == threads
    }
    cells = [cell for cell in benchmark.summary if cell.threads == threads]
    groups = []
    for length in sorted({cell.sequence_length for cell in cells}):
        bars = []
        for name in series:
            cell = next((c for c in cells if (c.model, c.sequence_length) == (name, length)), None)
            if cell is None:
                continue
            row = compared.get((name, length))
            factor = f" · {fmt.ratio(row.speedup)}" if row else ""
            written = fmt.milliseconds(cell.p50_ms) + factor
            bars.append(charts.Bar(name, written, cell.p50_ms, cell.p95_ms, series[name]))
        groups.append((f"{length} tokens", bars))
    title = f"Latency by length, {tables.threads(threads)}, this host"
    return charts.latency_bars("latency-chart", title, groups)


def _fewest_threads(facts: Facts) -> int:
    cells = facts.results.benchmark.summary if facts.results.benchmark else ()
    return min((cell.threads for cell in cells), default=1)


def _measured_series(facts: Facts) -> dict[str, int]:
    """The series number of every measured file: that of its variant where it has one."""
    benchmark = facts.results.benchmark
    if benchmark is None:
        return {}
    series = curves.series_of(facts)
    known = {
        facts.measured_name(facts.export_of(group)): series[group.name] for group in facts.groups
    }
    free = max([0, *series.values()]) + 1
    numbers = {}
    for measured in benchmark.models:
        if measured.name in known:
            numbers[measured.name] = known[measured.name]
        else:
            numbers[measured.name] = free
            free += 1
    return numbers


def _without_controls(text: str) -> str:
    """Replaces control characters, which no page may hold, by a visible sign."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]", "\ufffd", text)
