"""The models' answers, by kind of task, and what share they answer at each error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfdistill import analysis
from tfdistill.manifest.confidence import USUAL_MAX_ERROR
from tfdistill.report.answer_sides import FILE, TEACHER, AnswerSides
from tfdistill.report.document import Picture, ReportSection, SectionPart
from tfdistill.report.plot import charts, timeline
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.sections import class_answers
from tfdistill.tasks import registry

_FEWEST = 50  # texts that a curve is drawn of


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the section of answers, where the kind of task has one."""
    if run.sides is not None:
        yield from section(run.sides)


def section(sides: AnswerSides) -> Iterator[ReportSection]:
    """Yields what is shown of answers to one labelled set."""
    parts = tuple(_PARTS[sides.task.kind](sides)) if sides.task.kind in _PARTS else ()
    parts = sorted((*parts, *coverage(sides)), key=lambda part: part.folds)
    if parts:
        title = f"Answers to the {len(sides.gold):,} {sides.split} examples"
        yield ReportSection("answers", title, "Answers", parts=tuple(parts))


def coverage(sides: AnswerSides) -> Iterator[SectionPart]:
    """Yields the chart of file and teacher, and which texts the file's promises cover."""
    if not sides.task.traits.gives_probabilities or len(sides.gold) < _FEWEST:
        return
    lines = []
    series = {TEACHER: charts.TEACHER, FILE: charts.FILE}
    for name in (name for name in series if name in sides.logits):
        divisor = sides.confidence.temperature if name == FILE and sides.confidence else 1.0
        judged = analysis.judge_rows(sides.task.traits, sides.logits[name], sides.gold, divisor)
        points = 100 * analysis.error_by_coverage(judged)  # percent
        pairs = tuple((float(x), float(y)) for x, y in points)
        lines.append(timeline.Line(name.capitalize(), pairs, series[name]))
    if not lines or all(len(line.points) < 2 for line in lines):
        return
    chart = timeline.curve_panel(
        "coverage",
        "↑ Wrong of the answered texts",
        lines,
        show=lambda value: f"{value:.3g}%",
        x_title="answered texts, the surest first, %",
    )
    legend = tuple((charts.legend_mark(line.series), line.label) for line in lines)
    caption = "Where the model answers only the texts that it is surest of."
    picture = Picture(chart, "Error by coverage.", caption, legend)
    yield SectionPart("coverage-part", intro=_promised(sides), pictures=(picture,))


def _promised(sides: AnswerSides) -> str:
    """The usual promise of the file, and what is known of texts of another kind."""
    for promise in sides.confidence.promises if sides.confidence is not None else ():
        if promise.max_error == USUAL_MAX_ERROR and promise.coverage:
            return f"Promised with 90% confidence: {promise.summary}."
    return ""


def register(kind: str, parts: Callable[[AnswerSides], Iterable[SectionPart]]) -> None:
    """Adds what the section shows of a kind of task."""
    registry.add(_PARTS, kind, parts, "parts of the section of answers")


_PARTS: dict[str, Callable[[AnswerSides], Iterable[SectionPart]]] = {
    "classification": class_answers.parts_of_classes
}
