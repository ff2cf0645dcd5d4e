"""The training of the models: curves and a table. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from tfdistill.report import format as fmt
from tfdistill.report.document import Picture, ReportSection, SectionPart, part
from tfdistill.report.plot import charts, timeline
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.run_results import StageHistory
from tfdistill.report.sections.quality import variant_title
from tfdistill.results import tables
from tfdistill.results.tables import Cell, Table

_NO_LOSS_TERM = ("epoch", "step", "loss", "learning_rate", "seconds", "examples_per_second")


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the folded section of training."""
    stages = _by_stage(run)
    parts = []
    for number, (stage, histories) in enumerate(stages.items()):
        panels = tuple(map(Picture, _panels(run, f"curve-{number}", histories)))
        if panels:
            parts.append(SectionPart(f"stage-{number}", stage, pictures=panels, small=True))
    table = _table(run, stages)
    if table is not None:
        legend = tuple(
            (charts.legend_mark(run.series[group.name]), variant_title(group))
            for group in run.groups
        )
        parts += part("training", "", table)
        yield ReportSection(
            "training", "Training", "Training", parts=tuple(parts), legend=legend, folds=True
        )


def _table(run: RunAnalysis, stages: dict[str, list[StageHistory]]) -> Table | None:
    """Start and end of every training curve."""
    rows = []
    for stage, histories in stages.items():
        for history in histories:
            losses, dev = history.values("loss"), history.values(f"val_{run.metric}")
            speeds, epochs = history.values("examples_per_second"), history.values("epoch")
            best = fmt.metric(run.metric, max(dev) if dev else None)
            line = {
                "Stage": Cell(stage, history.label),
                "Epochs": f"{epochs[-1]:g}" if epochs else fmt.ABSENT,
                "First loss": timeline.loss(losses[0]) if losses else fmt.ABSENT,
                "Last loss": timeline.loss(losses[-1]) if losses else fmt.ABSENT,
                f"Best {fmt.metric_words(run.metric)}": best,
                "Examples per second": f"{statistics.fmean(speeds):,.0f}" if speeds else fmt.ABSENT,
            }
            rows.append(line)
    caption = "Training by stage; losses of different stages are different quantities"
    return tables.of_rows("training", caption, rows)


def _by_stage(run: RunAnalysis) -> dict[str, list[StageHistory]]:
    """Histories by stage, in the order of training; a teacher's own is a stage of its own."""
    teachers = {group.name for group in run.groups if group.role == "teacher"}
    chains = sorted((g.stages for g in run.groups if g.role == "student"), key=len, reverse=True)
    by_stage: dict[str, list[StageHistory]] = {stage: [] for chain in chains for stage in chain}
    for history in run.results.histories:
        title = "teacher" if history.model in teachers else history.stage
        by_stage.setdefault(title, []).append(history)
    return {stage: histories for stage, histories in by_stage.items() if histories}


def _panels(run: RunAnalysis, key: str, histories: list[StageHistory]) -> Iterator[charts.Markup]:
    """Draws the loss of a stage, its terms where there are several, the dev metric."""
    columns = list(dict.fromkeys(name for h in histories for name in h.columns))
    terms = [n for n in columns if n not in _NO_LOSS_TERM and not n.startswith("val_")]
    metric = f"val_{run.metric}"
    shown = ["loss", *(terms if len(terms) > 1 else []), *(n for n in columns if n == metric)]
    for number, column in enumerate(shown):
        lines = [
            timeline.Line(history.label, points, run.series.get(history.model, charts.OTHERS))
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
