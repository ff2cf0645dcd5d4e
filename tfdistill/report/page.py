"""The report of a run as one self-contained HTML page. Pure."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from tfdistill.report import cells, charts, curves, devices, evidence, story, tables, templates
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
    return templates.render("page.html.j2", _context(facts), all_tables(facts))


def _context(facts: Facts) -> dict[str, Any]:
    results = facts.results
    metrics = results.metrics
    series = facts.series_of()
    bench = facts.bench
    summary = facts.summary()
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
        "tables": tables.all_tables(facts),
        "metric_title": fmt.metric_title(facts.metric),
        "metric_chart": metric_chart(facts),
        "latency_chart": latency_chart(facts),
        "latency_threads": devices.threads(min((c.threads for c in summary), default=1)),
        "where": story.where(facts),
        "is_phone": bench is not None and bench.kind == "phone",
        "trade_offs": trade_offs(facts),
        "blocks": measurements(facts),
        "sections": sections(facts),
        "legend": [
            (tables.variant_title(group), charts.legend_mark(series[group.name]))
            for group in facts.groups
        ],
        "latency_legend": [
            (name, charts.style(number)) for name, number in (bench.series if bench else {}).items()
        ],
        "stages": curves.stages(facts),
        "training": curves.table(facts),
    }


def trade_offs(facts: Facts) -> list[evidence.Block]:
    """Accuracy against latency and size of the run's files, where there are two or more."""
    if facts.bench is None:
        return []
    blocks = evidence.trade_offs(facts.bench)
    return [block for block in blocks if any(len(table.rows) > 1 for table in block.tables)]


def measurements(facts: Facts) -> list[evidence.Block]:
    """What the run's own benchmark holds, without what the chart at the top shows."""
    if facts.bench is None:
        return []
    return [
        *evidence.measurements(facts.bench, with_lengths=False),
        evidence.state(facts.bench),
    ]


def sections(facts: Facts) -> list[evidence.Section]:
    """What the run's files did on other devices, one section for each."""
    return [evidence.section(other) for other in facts.others]


def all_tables(facts: Facts) -> list[cells.Table]:
    """Every table of the page, whole."""
    blocks = [
        *trade_offs(facts),
        *measurements(facts),
        *(block for section in sections(facts) for block in section.blocks),
    ]
    made = tables.all_tables(facts)
    training = curves.table(facts)
    for table in [t for block in blocks for t in (*block.tables, *block.folded)]:
        made.setdefault(table.key, table)
    return [*made.values(), *([training] if training is not None else [])]


def metric_chart(facts: Facts) -> Markup | None:
    """Draws the primary metric of every model."""
    series = facts.series_of()
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
    benchmark, bench = facts.results.benchmark, facts.bench
    if benchmark is None or bench is None or not benchmark.summary:
        return None
    threads = min(cell.threads for cell in facts.summary())
    cells = [cell for cell in facts.summary() if cell.threads == threads]
    way = (threads, cells[0].delegate, cells[0].affinity)
    compared = {
        (row.candidate, row.sequence_length): row
        for row in benchmark.comparisons
        if (row.threads, row.delegate, row.affinity) == way
    }
    groups = []
    for length in sorted({cell.sequence_length for cell in cells}):
        bars = []
        for name, number in bench.series.items():
            cell = next((c for c in cells if (c.model, c.sequence_length) == (name, length)), None)
            if cell is None:
                continue
            row = compared.get((name, length))
            factor = f" · {fmt.ratio(row.speedup)}" if row else ""
            written = fmt.milliseconds(cell.p50_ms) + factor
            bars.append(charts.Bar(name, written, cell.p50_ms, cell.p95_ms, number))
        groups.append((f"{length} tokens", bars))
    title = f"Latency by length, {devices.threads(threads)}, {story.where(facts)}"
    return charts.latency_bars("latency-chart", title, groups)
