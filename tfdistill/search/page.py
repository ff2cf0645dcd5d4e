"""report.html of a search whose students were distilled a little: accuracy over latency."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tfdistill import report, safe_paths
from tfdistill.report import device_section, tradeoff
from tfdistill.report import format as fmt
from tfdistill.report import table_cells as cells
from tfdistill.report.document import Details, KeyFigure, Report, ReportSection, SectionPart
from tfdistill.report.table_cells import Cell, Table, row
from tfdistill.results import BaselineResult
from tfdistill.search.result import SearchResult, ShortDistillation


def write(result: SearchResult, folder: pathlib.Path) -> pathlib.Path:
    """Writes report.html, report.md and report-tables next to search.json.

    Args:
      result: The search, with a short distillation.
      folder: Its folder.

    Returns:
      The path of the page.
    """
    return report.write_pages(build(result), folder)[0]


def build(result: SearchResult) -> Report:
    """Shows the proposals, the teacher and the baselines.

    Args:
      result: The search, with a short distillation.

    Returns:
      The report.
    """
    trained = result.distillation
    assert trained is not None
    device = Details(f"About {result.device.name}", device_section.description(result.device))
    command = safe_paths.without_folders(" ".join(result.command))
    settings = (
        ("Command", fmt.cut(command)),
        ("Version", result.tfdistill_version),
        ("Runtime", " ".join(filter(None, (result.runtime.name, result.runtime.version)))),
    )
    return Report(
        name="search",
        headline=_headline(result, trained),
        tags=(f"task {result.task}", result.created[:10]),
        figures=_figures(result, trained),
        sections=(
            ReportSection(
                "students",
                f"Students after {trained.updates} updates",
                "Students",
                parts=(
                    device_section.trade_off("tradeoff", _trade_off(result, trained)),
                    SectionPart("shapes-part", tables=(_shapes(result, trained),)),
                ),
            ),
            ReportSection(
                "beside",
                "Teacher and baselines",
                "Baselines",
                parts=(SectionPart("beside-part", tables=(_beside(result, trained),)),),
            ),
        ),
        limits=_limits(result, trained),
        environment=(device, Details("Search", tuple((n, v) for n, v in settings if v))),
    )


def _headline(result: SearchResult, trained: ShortDistillation) -> str:
    chosen, figures = result.chosen, trained.figures
    if chosen is None or chosen.metric is None:
        return f"No student of {result.num_within_budget} within the budget was distilled."
    metric = fmt.metric_words(figures.metric)
    best = _best_baseline(figures.baselines, figures.metric)
    said = ""
    value = best.metrics.get(figures.metric) if best else None
    if best is not None and value is not None and value >= chosen.metric:
        said = f"{fmt.baseline_title(best.name)} reaches {fmt.metric(figures.metric, value)}: "
        said += f"no less than the student here after {trained.updates} updates. "
    text = (
        f"{said}{chosen.name} is the fastest student within chance of the best: {metric} "
        f"{fmt.metric(figures.metric, chosen.metric)} after {trained.updates} updates"
    )
    if figures.teacher is not None:
        text += f", its teacher’s {fmt.metric(figures.metric, figures.teacher)}"
    return f"{text}, {fmt.milliseconds(chosen.measured_ms)} at {_case(result)}."


def _figures(result: SearchResult, trained: ShortDistillation) -> tuple[KeyFigure, ...]:
    chosen, teacher = result.chosen, result.measured_teacher
    if chosen is None or chosen.metric is None:
        return ()
    name = trained.figures.metric
    found = [
        KeyFigure(
            fmt.metric(name, chosen.metric),
            f"{fmt.metric_words(name)} after {trained.updates} updates",
            f"its teacher: {fmt.metric(name, trained.figures.teacher)}",
        )
    ]
    if teacher is not None:
        found += [
            KeyFigure(
                fmt.ratio(teacher.measured_ms / chosen.measured_ms),
                "the teacher’s speed, both with random weights",
                f"{fmt.milliseconds(chosen.measured_ms, teacher.measured_ms)} against "
                f"{fmt.milliseconds(teacher.measured_ms)}, both {result.quantize}",
            ),
            KeyFigure(
                fmt.ratio(teacher.measured_size_bytes / chosen.measured_size_bytes),
                "smaller as a file",
                f"{fmt.size(chosen.measured_size_bytes)} against "
                f"{fmt.size(teacher.measured_size_bytes)}",
            ),
        ]
    return tuple(found)


def _trade_off(result: SearchResult, trained: ShortDistillation) -> tradeoff.TradeOff:
    figures, teacher = trained.figures, result.measured_teacher
    points = [
        tradeoff.Point(
            proposal.name.removesuffix(f"_{proposal.kind}"),  # the teacher's, of all
            proposal.metric,
            proposal.measured_ms,
            proposal.measured_ci_ms,
            proposal.measured_size_bytes,
            number=number,
        )
        for number, proposal in enumerate(result.proposals, start=2)
        if proposal.metric is not None
    ]
    if teacher is not None and figures.teacher is not None:
        whole = tradeoff.Point(
            "teacher",
            figures.teacher,
            teacher.measured_ms,
            teacher.measured_ci_ms,
            teacher.measured_size_bytes,
            number=1,
        )
        points.insert(0, whole)
    beside = [row for row in figures.baselines if row.is_alternative]
    values = [(row.name, row.metrics.get(figures.metric)) for row in beside]
    return tradeoff.TradeOff(
        task=result.task,
        metric=figures.metric,
        case=_case(result),
        checked=f"{fmt.metric_title(figures.metric)} is that of the models on "
        f"{figures.num_examples:,} development examples, of students after {trained.updates} "
        f"updates; latency and size are those of files ({result.quantize}) with random weights.",
        points=tradeoff.with_front(points),
        levels=tuple((fmt.baseline_words(n), value) for n, value in values if value is not None),
    )


def _shapes(result: SearchResult, trained: ShortDistillation) -> Table:
    name, equal = trained.figures.metric, trained.figures.within_chance
    rows = [
        row(
            Cell(proposal.name, _shape(proposal.config)),
            cells.metric(name, proposal.metric),
            "within chance of the best" if proposal.name in equal else "worse",
            cells.milliseconds(proposal.measured_ms, proposal.measured_ci_ms),
            cells.milliseconds(proposal.latency_ms, proposal.interval_ms, proposal.measured_ms),
            Cell(fmt.count(proposal.parameters), value=proposal.parameters),
            strong=proposal is result.chosen,
        )
        for proposal in result.proposals
    ]
    columns = ("Student", fmt.metric_title(name), "Verdict", "Measured", "Predicted", "Parameters")
    notes = (
        "The verdict is that of a paired test on the same examples. Brackets hold the 95% interval "
        "of the measured median and the interval that holds 90% of the predictions. Recipes are "
        "recipes/NAME.yaml.",
    )
    return Table("shapes", f"The students, latency at {_case(result)}", columns, tuple(rows), notes)


def _shape(config: Mapping[str, Any]) -> str:
    """Writes "3 layers × 384, 12 heads, FFN 1,536"."""
    layers = config["num_layers"]
    return (
        f"{layers} layer{'' if layers == 1 else 's'} × {config['hidden_size']}, "
        f"{config['num_heads']} heads, FFN {config['intermediate_size']:,}"
    )


def _beside(result: SearchResult, trained: ShortDistillation) -> Table:
    figures, teacher = trained.figures, result.measured_teacher
    rows = []
    if figures.teacher is not None:
        rows.append(
            row(
                Cell("Teacher", f"as a file, {result.quantize}"),
                cells.metric(figures.metric, figures.teacher),
                cells.size(teacher.measured_size_bytes if teacher else None),
                cells.milliseconds(teacher.measured_ms if teacher else None),
            )
        )
    for found in figures.baselines:
        weights = None if found.parameters is None else 4 * found.parameters
        rows.append(
            row(
                Cell(fmt.baseline_title(found.name), found.note or "baseline"),
                cells.metric(figures.metric, found.metrics.get(figures.metric)),
                cells.size(weights),
                cells.milliseconds(found.latency_ms),
            )
        )
    notes = (
        "Size and time of a baseline are its weights as float32 and one answer in Python on the "
        "machine of the search: of TF-IDF from the text on, else from the tokens on.",
    )
    columns = ("Model", fmt.metric_title(figures.metric), "Size", "Time")
    caption = f"What students are compared with on {result.task}"
    return Table("beside", caption, columns, tuple(rows), notes)


def _limits(result: SearchResult, trained: ShortDistillation) -> tuple[str, ...]:
    kind = {
        "host": "Latency was measured on this host, not on a phone: ratios differ there.",
        "emulator": "Latency was measured on an emulated device: it says nothing of a phone’s.",
        "phone": f"Latency was measured on one phone ({result.device.name}); others differ widely.",
    }
    model = result.models[-1]
    return (
        f"{trained.updates} updates rank students. The whole training of a recipe takes more, "
        "reaches more, and can change the order.",
        kind[result.kind],
        f"Predicted latencies of {model.held_out.n} students that the fit had not seen were off by "
        f"{model.held_out.median:.1%} (median) and {model.held_out.worst:.1%} (worst).",
        *(f"{warning[0].upper()}{warning[1:].rstrip('.')}." for warning in result.warnings),
    )


def _best_baseline(rows: tuple[BaselineResult, ...], metric: str) -> BaselineResult | None:
    known = [row for row in rows if row.is_alternative and row.metrics.get(metric) is not None]
    return max(known, key=lambda row: row.metrics[metric] or 0.0, default=None)


def _case(result: SearchResult) -> str:
    return fmt.case(max(result.lengths), result.threads)
