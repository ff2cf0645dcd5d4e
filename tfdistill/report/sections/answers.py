"""Where the models are right and wrong. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.special

from tfdistill import analysis, registry
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.answer_sides import FILE, STUDENT, TEACHER, AnswerSides
from tfdistill.report.cells import Cell, Table, row
from tfdistill.report.document import ReportSection, SectionPart

_MOST_LABELS = 12  # of a matrix; of more labels the pairs that are most often confused are listed
_MOST_PAIRS = 15
_MOST_SENTENCES = 20
_LONG = 18  # rows; a longer table is folded
_SHADES = 4


def section(found: AnswerSides) -> ReportSection:
    """Shows where the models are right and wrong.

    Args:
      found: Their answers.

    Returns:
      The section.
    """
    parts = [SectionPart("paired-part", tables=(_paired(found),))] if found.differences else []
    if found.task.kind in _PARTS:
        parts += _PARTS[found.task.kind](found)
    title = f"Answers to the {len(found.gold):,} development examples"
    return ReportSection("answers", title, "Answers", parts=tuple(parts))


def register(kind: str, parts: Callable[[AnswerSides], Iterable[SectionPart]]) -> None:
    """Adds what the section shows of a kind of task.

    Args:
      kind: Its name.
      parts: Answers -> parts.

    Raises:
      ConfigError: If the kind has parts already.
    """
    registry.add(_PARTS, kind, parts, "parts of the section of answers")


def _of_classes(found: AnswerSides) -> Iterator[SectionPart]:
    yield from _classes(found)
    yield SectionPart("calibration-part", "Confidence", tables=(_calibration(found),))
    yield from _sentences(found)


_PARTS: dict[str, Callable[[AnswerSides], Iterable[SectionPart]]] = {"classification": _of_classes}


def _paired(found: AnswerSides) -> Table:
    name = found.task.primary_metric
    rows = []
    for (one, other), difference in found.differences.items():
        low, high = (fmt.metric_difference(name, end) for end in difference.interval)
        p_value = difference.p_value
        verdict = "within chance" if difference.difference else "equal"
        if difference.is_clear:
            verdict = "better" if difference.difference > 0 else "worse"
        rows.append(
            row(
                Cell(
                    f"{other.capitalize()} against {one if one in found.logits else 'baseline'}",
                    one if one not in found.logits else "",
                ),
                cells.metric(name, difference.before),
                cells.metric(name, difference.after),
                Cell(
                    fmt.metric_difference(name, difference.difference),
                    f"{low.removesuffix(' points')} to {high}",
                    difference.difference,
                    interval=difference.interval,
                ),
                cells.number(difference.lost),
                cells.number(difference.gained),
                Cell(fmt.ABSENT if p_value is None else f"{p_value:.2g}", value=p_value),
                verdict,
            )
        )
    title = fmt.metric_title(name)
    columns = ("Comparison", f"{title} before", f"{title} after", "Difference", "Lost", "Gained")
    notes = (
        "The difference has its 95% interval: bootstrap over the examples, paired; of accuracy "
        "also the exact one of lost against gained. Lost and gained are examples that only the "
        "first or only the second answers rightly; p is that of the exact McNemar test. Within "
        "chance: another sample of as many examples might show the opposite.",
    )
    made = cells.table(
        "paired", "Differences and chance", (*columns, "p", "Verdict"), rows, notes, drop_empty=True
    )
    assert made is not None
    return made


def _classes(found: AnswerSides) -> Iterator[SectionPart]:
    labels, gold = found.task.labels, found.gold
    scores = {
        name: analysis.class_scores(gold, found.answers(name), labels) for name in found.logits
    }
    own = found.subject
    others = [name for name in scores if name != own]
    rows = [
        row(
            Cell(mine.label),
            cells.number(mine.num_examples),
            cells.share(mine.precision, 1),
            cells.share(mine.recall, 1),
            cells.share(mine.f1, 1),
            *(cells.share(scores[name][i].f1, 1) for name in others),
        )
        for i, mine in enumerate(scores[own])
    ]
    columns = ("Class", "Examples", "Precision", "Recall", "F1", *(f"F1 ({n})" for n in others))
    classes = Table("classes", f"Every class, of the {own}", columns, tuple(rows))
    matrix = _confusion(found)
    folded = tuple(table for table in (classes, matrix) if len(table.rows) > _LONG)
    shown = tuple(table for table in (classes, matrix) if table not in folded)
    yield SectionPart("classes-part", "Classes", tables=shown, folded=folded)


def _confusion(found: AnswerSides) -> Table:
    labels, own = found.task.labels, found.subject
    counts = analysis.confusion_matrix(found.gold, found.answers(own), len(labels))
    if len(labels) <= _MOST_LABELS:
        totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
        shades = np.ceil(_SHADES * counts / totals).astype(int)  # share of the row's examples
        rows = tuple(
            row(label, *map(_shaded, counts[i].tolist(), shades[i].tolist()))
            for i, label in enumerate(labels)
        )
        caption = f"Labels (rows) and answers of the {own} (columns)"
        return Table("confusion", caption, ("Label", *labels), rows)
    wrong = counts * (1 - np.eye(len(labels), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_PAIRS]
    places = [np.unravel_index(place, wrong.shape) for place in order]
    rows = tuple(
        row(Cell(labels[i]), labels[j], cells.number(int(wrong[i, j])))
        for i, j in places
        if wrong[i, j]
    )
    caption = f"The classes that the {own} confuses most often"
    return Table("confused", caption, ("Label", "Answer", "Examples"), rows)


def _shaded(count: int, shade: int) -> Cell:
    return Cell(f"{count:,}", value=count, shade=shade)


def _calibration(found: AnswerSides) -> Table:
    rows = []
    for name, logits in found.logits.items():
        confidence = float(scipy.special.softmax(logits, axis=1).max(axis=1).mean())
        accuracy = float((found.answers(name) == found.gold).mean())
        rows.append(
            row(
                Cell(name.capitalize()),
                cells.share(accuracy, 1),
                cells.share(confidence, 1),
                cells.share(analysis.expected_calibration_error(logits, found.gold), 1),
                Cell(f"{(t := analysis.fit_temperature(logits, found.gold)):.2f}", value=t),
            )
        )
    columns = ("Model", "Right", "Mean confidence", "Calibration error", "Best temperature")
    notes = (
        "Confidence is the largest probability. The calibration error (ECE, 15 bins) is the mean "
        "gap between it and how often the answer is right. Logits divided by the best temperature "
        "fit these labels best: above 1 the model was too sure.",
    )
    return Table("calibration", "How sure the models are", columns, tuple(rows), notes)


def _sentences(found: AnswerSides) -> Iterator[SectionPart]:
    tables = []
    if {TEACHER, STUDENT} <= set(found.logits):
        lost = analysis.changed_examples(
            found.gold,
            found.answers(TEACHER),
            found.answers(STUDENT),
            logits=found.logits[STUDENT],
        )
        caption = "Right by the teacher, wrong by the student"
        tables.append(_examples(found, "lost", caption, lost, TEACHER, STUDENT))
    if FILE in found.logits:
        flipped = np.flatnonzero(found.answers(found.subject) != found.answers(FILE))
        caption = f"Answered differently by the {found.subject} and its file"
        tables.append(_examples(found, "flipped", caption, flipped, found.subject, FILE))
    shown = tuple(table for table in tables if table.rows)
    if shown:
        yield SectionPart("sentences-part", "Sentences", tables=shown)
    elif tables:
        none = "The models answer every example with the same class."
        yield SectionPart("sentences-part", "Sentences", none)


def _examples(
    found: AnswerSides, key: str, caption: str, indices: np.ndarray, one: str, other: str
) -> Table:
    def answer(name: str, i: int) -> Cell:
        probabilities = scipy.special.softmax(found.logits[name][i])
        best = int(probabilities.argmax())
        return Cell(found.task.labels[best], f"{100 * probabilities[best]:.0f}% sure")

    rows = tuple(
        row(
            found.texts[i] if found.texts else f"Example {i + 1}",
            found.task.labels[found.gold[i]],
            answer(one, i),
            answer(other, i),
        )
        for i in indices[:_MOST_SENTENCES].tolist()
    )
    columns = ("Sentence", "Label", one.capitalize(), other.capitalize())
    counted = f"{len(indices):,} of {len(found.gold):,}"
    if len(indices) > _MOST_SENTENCES:
        counted += f", the first {_MOST_SENTENCES}"
    return Table(key, f"{caption}: {counted}", columns, rows)
