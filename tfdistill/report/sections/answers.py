"""The models' answers, by kind of task."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tfdistill.report.answer_sides import AnswerSides
from tfdistill.report.document import ReportSection, SectionPart
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.sections import class_answers, coverage
from tfdistill.tasks import registry


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the section of answers, where the kind of task has one."""
    if run.sides is not None:
        yield from section(run.sides)


def section(sides: AnswerSides) -> Iterator[ReportSection]:
    """Yields what is shown of answers to one labelled set."""
    parts = tuple(_PARTS[sides.task.kind](sides)) if sides.task.kind in _PARTS else ()
    parts = sorted((*parts, *coverage.parts(sides)), key=lambda part: part.folds)
    if parts:
        title = f"Answers to the {len(sides.gold):,} {sides.split} examples"
        yield ReportSection("answers", title, "Answers", parts=tuple(parts))


def register(kind: str, parts: Callable[[AnswerSides], Iterable[SectionPart]]) -> None:
    """Adds what the section shows of a kind of task."""
    registry.add(_PARTS, kind, parts, "parts of the section of answers")


_PARTS: dict[str, Callable[[AnswerSides], Iterable[SectionPart]]] = {
    "classification": class_answers.parts_of_classes
}
