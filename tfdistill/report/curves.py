"""The training curves of a run, as charts and as a table. Pure."""

from __future__ import annotations

import dataclasses

from markupsafe import Markup

from tfdistill.report import charts
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.facts import Facts
from tfdistill.report.results import History

_NOT_A_TERM = ("epoch", "step", "loss", "learning_rate", "seconds", "examples_per_second")


@dataclasses.dataclass(frozen=True)
class StageCurves:
    """The small charts of one stage."""

    stage: str
    panels: tuple[Markup, ...]


def stages(facts: Facts) -> list[StageCurves]:
    """Draws, for every stage: the loss, its terms where there are several, the dev metric."""
    series = facts.series_of()
    found = []
    for number, (stage, histories) in enumerate(_by_stage(facts).items()):
        columns = list(dict.fromkeys(name for h in histories for name in h.columns))
        terms = [n for n in columns if n not in _NOT_A_TERM and not n.startswith("val_")]
        wanted = ["loss", *(terms if len(terms) > 1 else [])]
        wanted += [n for n in columns if n == f"val_{facts.metric}"]
        panels = []
        for column in wanted:
            lines = [line for h in histories if (line := _line(h, column, series.get(h.model, 0)))]
            if lines:
                panels.append(_panel(facts, f"curve-{number}-{len(panels)}", column, lines))
        if panels:
            found.append(StageCurves(stage, tuple(panels)))
    return found


def table(facts: Facts) -> Table | None:
    """Start and end of every curve: the charts in words, and for Markdown."""
    rows = []
    for stage, histories in _by_stage(facts).items():
        for history in histories:
            losses = _values(history, "loss")
            dev = _values(history, f"val_{facts.metric}")
            speed = _values(history, "examples_per_second")
            epochs = history.columns.get("epoch") or [None]
            rows.append(
                Row(
                    Cell(stage, _whose(history)),
                    (
                        Cell(fmt.ABSENT if epochs[-1] is None else f"{epochs[-1]:g}"),
                        Cell(charts.short(losses[0]) if losses else fmt.ABSENT),
                        Cell(charts.short(losses[-1]) if losses else fmt.ABSENT),
                        Cell(fmt.metric(facts.metric, max(dev) if dev else None)),
                        Cell(f"{sum(speed) / len(speed):,.0f}" if speed else fmt.ABSENT),
                    ),
                )
            )
    if not rows:
        return None
    columns = (
        "Stage",
        "Epochs",
        "First loss",
        "Last loss",
        f"Best {fmt.metric_words(facts.metric)}",
        "Examples a second",
    )
    caption = "Training by stage; losses of different stages are different quantities"
    return Table("training", caption, columns, tuple(rows))


def _by_stage(facts: Facts) -> dict[str, list[History]]:
    """Histories by stage, in the order of training; a teacher's own is a stage of its own."""
    teachers = {group.name for group in facts.groups if group.role == "teacher"}
    chains = sorted((g.stages for g in facts.groups if g.role == "student"), key=len, reverse=True)
    found: dict[str, list[History]] = {stage: [] for chain in chains for stage in chain}
    for history in facts.results.histories:
        title = "teacher" if history.model in teachers else history.stage
        found.setdefault(title, []).append(history)
    return {stage: histories for stage, histories in found.items() if histories}


def _panel(facts: Facts, key: str, column: str, lines: list[charts.Line]) -> Markup:
    if column.startswith("val_"):
        title = f"{fmt.metric_title(facts.metric)}, development set"

        def show(value: float) -> str:
            return fmt.metric_tick(facts.metric, value)

        return charts.curve_panel(key, title, lines, show=show, most=1.0)
    title = "Loss" if column == "loss" else f"{column.replace('_', ' ').capitalize()} loss"
    return charts.curve_panel(key, title, lines, show=charts.short)


def _line(history: History, column: str, series: int) -> charts.Line | None:
    values = history.columns.get(column)
    if values is None:
        return None
    epochs = history.columns.get("epoch", [])
    steps = history.columns.get("step", [])
    # One row an epoch is the rule; where rows are closer, the step tells them apart.
    per_epoch = len(set(epochs)) == len(epochs) > 0 or not steps
    xs = epochs if per_epoch else _as_epochs(epochs, steps)
    pairs = [
        (x if x is not None else float(i + 1), y)
        for i, (x, y) in enumerate(zip(xs or [None] * len(values), values, strict=True))
        if y is not None
    ]
    return charts.Line(_whose(history), tuple(pairs), series) if pairs else None


def _as_epochs(epochs: list[float | None], steps: list[float | None]) -> list[float | None]:
    """Turns steps into fractions of the epochs that they make up."""
    last_step = max((s for s in steps if s is not None), default=0.0)
    last_epoch = max((e for e in epochs if e is not None), default=0.0)
    if not last_step or not last_epoch:
        return steps
    return [None if s is None else s / last_step * last_epoch for s in steps]


def _values(history: History, column: str) -> list[float]:
    return [value for value in history.columns.get(column, []) if value is not None]


def _whose(history: History) -> str:
    return history.model if history.seed is None else f"{history.model}, seed {history.seed}"
