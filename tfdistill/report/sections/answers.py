"""The models' answers, by kind of task, and what share they answer at each error. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import scipy.special

from tfdistill import analysis
from tfdistill.manifest.confidence import USUAL_MAX_ERROR
from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.answer_sides import FILE, MODEL, STUDENT, TEACHER, TEST, AnswerSides
from tfdistill.report.document import Picture, ReportSection, SectionPart, part
from tfdistill.report.plot import charts, timeline
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.results import tables
from tfdistill.results.tables import Cell, Line, Row, Table
from tfdistill.tasks import registry
from tfdistill.tasks.answer_cells import UNANSWERED

_FEWEST = 50  # texts that a curve is drawn of
_MOST_LABELS = 12  # of a matrix; of more labels the pairs that are most often confused are listed
_MOST_PAIRS = 15
_FEW_SENTENCES, _MOST_SENTENCES = 3, 20
_LONG = 18  # rows; a longer table is folded
_SHADES = 4
_LABEL = 40  # letters of a label; a longer one is shortened


def parts_of_classes(sides: AnswerSides) -> Iterator[SectionPart]:
    """Yields examples, every class, how sure the models are, and the answers that changed."""
    yield from part("samples", "", _samples(sides))
    yield from part("who-is-right", "", _who_is_right(sides))
    yield from _classes(sides)
    yield from part("calibration", "", _calibration(sides))
    yield from _changes(sides)


def _samples(sides: AnswerSides) -> Table | None:
    """Three right answers to different classes, and the three surest wrong ones."""
    answers, logits = sides.answers(sides.subject), sides.logits[sides.subject]
    right = np.flatnonzero(answers == sides.gold)
    _, firsts = np.unique(sides.gold[right], return_index=True)
    right = right[np.sort(firsts)]
    wrong = np.flatnonzero(answers != sides.gold)
    margins = logits[wrong, answers[wrong]] - logits[wrong, sides.gold[wrong]]
    surest = wrong[np.argsort(-margins, kind="stable")]
    chosen = [*right[:_FEW_SENTENCES].tolist(), *surest[:_FEW_SENTENCES].tolist()]
    names = [name for name in dict.fromkeys((sides.subject, TEACHER)) if name in sides.logits]
    rows = [_sentence(sides, i, names, marks=True) for i in chosen]
    counted = f"{len(wrong):,} of {len(sides.gold):,} answers of the {sides.subject} are wrong"
    numbers = [min(len(some), _FEW_SENTENCES) for some in (right, wrong)]
    shown = [f"{numbers[0]} right", f"the {numbers[1]} surest wrong"]
    listed = ", then ".join(text for text, number in zip(shown, numbers, strict=True) if number)
    return tables.of_rows("samples", f"{counted}. Shown: {listed}", rows)


def _who_is_right(sides: AnswerSides) -> Table | None:
    """The large model and the subject against gold labels, where both are known."""
    if sides.large is None or not (rows := (sides.large != UNANSWERED).all(axis=1)).any():
        return None
    gold, model = sides.large[rows].T
    first, second = model == gold, sides.answers(sides.subject)[rows] == gold
    counted = {
        "both": first & second,
        "the model alone": first & ~second,
        f"the {sides.subject} alone": ~first & second,
        "neither": ~first & ~second,
    }
    lines = []
    for who, texts in counted.items():
        interval = analysis.share_interval(int(texts.sum()), len(gold))
        within = fmt.interval(*(100 * end for end in interval))
        share = f"{100 * texts.mean():.1f}%"
        line = {"Right": who, "Texts": cells.number(int(texts.sum()))}
        lines.append({**line, "Share": Cell(share, within, texts.mean(), interval=interval)})
    name = sides.confidence and sides.confidence.answered_by
    caption = f"Who is right, {name or 'the model'} that answered or the {sides.subject}, of "
    caption += f"{len(gold):,} {sides.split} texts with a gold label and an answer"
    return tables.of_rows("who-is-right", caption, lines)


def _classes(sides: AnswerSides) -> Iterator[SectionPart]:
    labels, gold, subject = sides.task.labels, sides.gold, sides.subject
    scores = {
        name: analysis.class_scores(gold, sides.answers(name), labels) for name in sides.logits
    }
    others = [name for name in scores if name != subject]
    rows = [
        {
            "Class": cells.name(score.label, longest=_LABEL),
            "Examples": cells.number(score.num_examples),
            "Precision": cells.share(score.precision, 1),
            "Recall": cells.share(score.recall, 1),
            "F1": cells.share(score.f1, 1),
            **{f"F1 ({name})": cells.share(scores[name][i].f1, 1) for name in others},
        }
        for i, score in enumerate(scores[subject])
    ]
    caption = f"Every class, of the {subject}"
    if len(rows) > _LONG:
        rows.sort(key=lambda line: line["F1"].value or 0.0)
        caption += ", the lowest F1 first"
    classes = tables.of_rows("classes", caption, rows)
    yield from part("classes", "", None if len(rows) > _LONG else classes, _confusion(sides))
    if len(rows) > _LONG:
        yield from part("all-classes", f"All {len(rows):,} classes", classes, folds=True)


def _confusion(sides: AnswerSides) -> Table:
    labels, subject = sides.task.labels, sides.subject
    counts = analysis.confusion_matrix(sides.gold, sides.answers(subject), len(labels))
    if len(labels) <= _MOST_LABELS:
        totals = np.maximum(counts.sum(axis=1, keepdims=True), 1)
        shades = np.ceil(_SHADES * counts / totals).astype(int)  # share of the row's examples
        rows = tuple(
            Row(
                cells.name(label, longest=_LABEL),
                tuple(
                    Cell(f"{n:,}" if n else fmt.ABSENT, value=n, shade=shade)
                    for n, shade in zip(counts[i].tolist(), shades[i].tolist(), strict=True)
                ),
            )
            for i, label in enumerate(labels)
        )
        caption = f"Labels (rows) and answers of the {subject} (columns)"
        heads = [fmt.shortened(label, _LABEL) for label in labels]
        return Table("confusion", caption, ("Label", *heads), rows)
    wrong = counts * (1 - np.eye(len(labels), dtype=int))
    order = np.argsort(-wrong, axis=None, kind="stable")[:_MOST_PAIRS]
    places = [np.unravel_index(place, wrong.shape) for place in order]
    rows = tuple(
        Row(
            cells.name(labels[i], longest=_LABEL),
            (cells.name(labels[j], longest=_LABEL), cells.number(int(wrong[i, j]))),
        )
        for i, j in places
        if wrong[i, j]
    )
    caption = f"The classes that the {subject} confuses most often"
    return Table("confused", caption, ("Label", "Answer", "Examples"), rows)


def _calibration(sides: AnswerSides) -> Table | None:
    rows = [_calibrated(sides, name.capitalize(), name) for name in sides.logits]
    notes = [
        "Confidence is the largest probability; the calibration error (ECE, 15 bins of equal mass) "
        "is its mean gap to how often it is right. Brackets: 95% over the examples. A best "
        "temperature above 1: the model was too sure."
    ]
    if FILE in sides.logits and sides.confidence is not None:
        temperature = sides.confidence.temperature
        if temperature != 1:  # otherwise the file has it inside, or none
            shown = f"File at temperature {temperature:.2f}"
            rows.append(_calibrated(sides, shown, FILE, temperature))
        noise = analysis.calibration_noise(sides.logits[FILE] / temperature)
        few = f"A calibrated file would have {100 * noise:.1f}% on so few examples."
        fitted = " The temperature was fitted on them." if sides.split != TEST else ""
        notes.append(few + fitted)
    return tables.of_rows("calibration", "How sure the models are", rows, notes)


def _calibrated(sides: AnswerSides, shown: str, name: str, temperature: float = 1.0) -> Line:
    logits = sides.logits[name] / temperature
    confidence = float(scipy.special.softmax(logits, axis=1).max(axis=1).mean())
    accuracy = float((sides.answers(name) == sides.gold).mean())
    scores = analysis.calibration_scores(logits, sides.gold)
    nll, ece = scores["nll"], scores["ece"]
    best = analysis.fit_temperature(logits, sides.gold)
    within = "[{:.3f}, {:.3f}]".format(*nll.interval)
    percent = "[{:.1f}, {:.1f}]".format(*(100 * end for end in ece.interval))
    share = f"{100 * ece.value:.1f}%"
    return {
        "Model": shown,
        "Right": cells.share(accuracy, 1),
        "Mean confidence": cells.share(confidence, 1),
        "Cross entropy": Cell(f"{nll.value:.3f}", within, nll.value, interval=nll.interval),
        "Calibration error": Cell(share, percent, ece.value, interval=ece.interval),
        "Best temperature": Cell(f"{best:.2f}", value=best),
    }


def _changes(sides: AnswerSides) -> Iterator[SectionPart]:
    """The examples that distillation lost, and those whose answer export changed."""
    model = STUDENT if STUDENT in sides.logits else MODEL
    if {TEACHER, STUDENT} <= set(sides.logits):
        lost = analysis.changed_examples(
            sides.gold,
            sides.answers(TEACHER),
            sides.answers(STUDENT),
            logits=sides.logits[STUDENT],
        )
        title = "Right by the teacher, wrong by the student"
        yield from _listed(sides, "lost", title, lost, (TEACHER, STUDENT))
    if FILE in sides.logits and model in sides.logits:
        flipped = np.flatnonzero(sides.answers(model) != sides.answers(FILE))
        title = f"Answered differently by the {model} and its file"
        yield from _listed(sides, "flipped", title, flipped, (model, FILE))


def _listed(
    sides: AnswerSides, key: str, title: str, indices: np.ndarray, names: tuple[str, str]
) -> Iterator[SectionPart]:
    """A folded table of examples with the answers of two models; nothing without examples."""
    rows = [_sentence(sides, i, names) for i in indices[:_MOST_SENTENCES].tolist()]
    title += f": {len(indices):,} of {len(sides.gold):,}"
    title += f", the first {_MOST_SENTENCES}" if len(indices) > _MOST_SENTENCES else ""
    yield from part(key, title, tables.of_rows(key, title, rows), folds=True)


def _sentence(sides: AnswerSides, i: int, names: Iterable[str], *, marks: bool = False) -> Line:
    """A text, its label, and the answer of each model with its probability."""
    text = sides.texts[i] if sides.texts else f"Example {i + 1}"
    gold = cells.name(sides.task.labels[sides.gold[i]], longest=_LABEL)
    line = {"Text": text, "Label": gold}
    for name in names:
        # Of the file as an app gives them.
        scale = sides.confidence.temperature if name == FILE and sides.confidence else 1.0
        probabilities = scipy.special.softmax(sides.logits[name][i] / scale)
        best = int(probabilities.argmax())
        mark = ("✓ " if best == sides.gold[i] else "✗ ") if marks else ""
        label = cells.name(mark + sides.task.labels[best], longest=_LABEL)
        probability = f"probability {100 * probabilities[best]:.0f}%"
        line[name.capitalize()] = Cell(label.text, probability, whole=label.whole)
    return line


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
    for promise in sides.confidence.by_error if sides.confidence is not None else ():
        if promise.max_error == USUAL_MAX_ERROR and promise.coverage:
            return f"Promised with 90% confidence: {promise.summary}."
    return ""


def register(kind: str, parts: Callable[[AnswerSides], Iterable[SectionPart]]) -> None:
    """Adds what the section shows of a kind of task."""
    registry.add(_PARTS, kind, parts, "parts of the section of answers")


_PARTS: dict[str, Callable[[AnswerSides], Iterable[SectionPart]]] = {
    "classification": parts_of_classes
}
