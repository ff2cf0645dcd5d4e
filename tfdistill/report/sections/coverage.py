"""The share of texts that models answer at each error, if they answer only the surest. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfdistill import analysis
from tfdistill.manifest.confidence import USUAL_MAX_ERROR
from tfdistill.report.answer_sides import FILE, TEACHER, AnswerSides
from tfdistill.report.document import Picture, SectionPart
from tfdistill.report.plot import charts, timeline

_FEWEST = 50  # texts that a curve is drawn of


def parts(sides: AnswerSides) -> Iterator[SectionPart]:
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
