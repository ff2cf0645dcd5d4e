"""The top of a run's report: is the file good enough, how big is it, how fast? Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from markupsafe import Markup

from tfdistill.analysis.paired import TELLING
from tfdistill.report import format as fmt
from tfdistill.report.answer_sides import (
    FILE,
    MAJORITY,
    STUDENT,
    TEACHER,
    TEST,
    unseen_difference,
)
from tfdistill.report.document import KeyFigure
from tfdistill.report.model_groups import ModelGroup
from tfdistill.report.plot import charts
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.results import UNDERTRAINED, WORDS_BETTER, quantities, tables


def headline(run: RunAnalysis) -> str:
    """Judges the file by the teacher, then says what it saves.

    Where a baseline is as good as the model, that is the first sentence.
    """
    metrics, benchmark = run.results.metrics, run.results.benchmark
    if metrics is None or run.subject is None:
        names = ", ".join(model.name for model in benchmark.models) if benchmark else ""
        sentences = (_of_files(run), f"Measured {run.where}: {names}." if names else "")
        return " ".join(filter(None, sentences)) or "No student yet."
    smaller = run.smaller()
    gains = [_smaller(smaller) + (" as its teacher’s" if smaller < 1 else "")] if smaller else []
    gains += [f"{_faster(run)} {run.where}"] if run.headline_speed() else []
    saved = f"It is {fmt.join(gains)}." if gains else ""
    return " ".join(filter(None, (_beaten(run), _no_better(run), _judgement(run), saved)))


def tags(run: RunAnalysis) -> Iterator[str]:
    """Yields the task, the models and the day."""
    metrics = run.results.metrics
    if metrics is None:
        return
    if metrics.task.name != run.results.name:
        yield f"task {metrics.task.name}"
    shapes = [(group, _shape(group)) for group in (run.student, run.teacher) if group]
    words = [f"{shape} {group.role}" for group, shape in shapes if shape]
    if words:
        yield " of a ".join(words) if run.student and run.student.taught else ", ".join(words)
    if metrics.created:
        yield metrics.created[:10]


def key_figures(run: RunAnalysis) -> Iterator[KeyFigure]:
    """Yields quality, size and latency, each with bars of what they are compared with."""
    if run.judged is not None:
        yield _quality(run, run.judged)
    yield from _size(run)
    yield from _latency(run)


def _quality(run: RunAnalysis, judged: str) -> KeyFigure:
    rows = [
        charts.Bar(title, fmt.metric(run.metric, run.scores[role]), run.scores[role], series)
        for role, title, series in (
            (TEACHER, "Teacher", charts.TEACHER),
            (STUDENT, "Student", charts.STUDENT),
            (FILE, "File", charts.FILE),
            (MAJORITY, fmt.baseline_title(MAJORITY), charts.BASELINE),
        )
        if role in run.scores and (role != STUDENT or judged == STUDENT)
    ]
    label = f"{fmt.metric_words(run.metric)} {_on(run)}"
    value = _written(run, judged)
    details = []
    if run.judged_sides is not None and judged in run.judged_sides.logits:
        ends = run.judged_sides.interval(judged)
        details.append(f"95% interval {fmt.metric_interval(run.metric, *ends)}")
    best = run.best_baseline
    dev = best.metrics.get(run.metric) if best else None
    if best is not None and dev is not None and best.name != MAJORITY:
        title = fmt.baseline_title(best.name)
        where = "" if run.split != TEST else " on the development set"
        details.append(f"{title}: {fmt.metric(run.metric, dev)}{where}")
    chart = charts.bars("quality-bars", label, rows, most=1.0) if len(rows) > 1 else None
    return KeyFigure(value, label, "; ".join(details), chart)


def _size(run: RunAnalysis) -> Iterator[KeyFigure]:
    card = run.manifest_of(run.subject) or run.only_manifest()
    if card is None:
        return
    size, smaller, chart = quantities.size(card.model.size_bytes), run.smaller(), None
    label, detail = "file", card.quantization
    teacher = run.manifest_of(run.teacher)
    if smaller is not None and teacher is not None:
        label += f", {_smaller(smaller)}" + ("" if smaller >= 1 else " as the teacher’s")
        detail = _formats(run)
        sizes = teacher.model.size_bytes, card.model.size_bytes
        chart = _bars("size-bars", label, sizes, quantities.size)
    yield KeyFigure(size, label, detail, chart)


def _latency(run: RunAnalysis) -> Iterator[KeyFigure]:
    case, speed = run.headline_case(), run.headline_speed()
    row = speed.student if speed else run.latency(run.subject, case)
    if row is None or case is None:
        return
    label, details, chart = f"a text of {case[0]} tokens {run.where}", [fmt.case(*case)], None
    label = tables.marked(label, row.busy and speed is None)
    if speed is not None:
        label += f", {_faster(run)}"
        if speed.interval:
            details.append(f"95% interval of the ratio {fmt.interval(*speed.interval)}")
        latencies_ms = speed.teacher.p50_ms, speed.student.p50_ms
        chart = _bars("latency-bars", f"Latency {run.where}", latencies_ms, fmt.milliseconds)
    yield KeyFigure(fmt.milliseconds(row.p50_ms), label, "; ".join(details), chart)


def _bars(
    key: str, title: str, values: tuple[float, float], show: Callable[[float], str]
) -> Markup:
    """The teacher's file above the student's."""
    names = (("Teacher’s file", charts.TEACHER), ("File", charts.FILE))
    pairs = zip(names, values, strict=True)
    rows = [charts.Bar(name, show(value), value, series) for (name, series), value in pairs]
    return charts.bars(key, title, rows)


def _judgement(run: RunAnalysis) -> str:
    judged = run.judged
    if judged is None:
        return "No student yet." if run.student is None else "The student was not scored."
    metric, value = fmt.metric_words(run.metric), _written(run, judged)
    who = f"The {run.subject.role if run.subject else 'model'}"
    who += "’s file" if judged == FILE else ""
    reached = f"{who} reaches {metric} {value} {_on(run)}"
    if run.student is None:
        exported = run.results.metrics is not None and run.results.metrics.chosen is not None
        return f"{reached}." if exported else f"{reached}. No student yet."
    if TEACHER not in run.scores or run.teacher_part or not run.student.taught:
        return f"{reached}."
    paired = run.against_teacher
    if paired is None:
        away = _away(run, run.scores[judged] - run.scores[TEACHER])
        if value == _written(run, TEACHER):
            away = f"level with its teacher in {metric}"
        return f"{who} is {away} {_on(run)} (not tested for chance)."
    if paired.is_none:
        unseen = unseen_difference(run.num_examples or 1)
        few = " too few rows to say more:" if unseen > TELLING else ""
        hidden = f"{few} a difference of up to {fmt.points('accuracy', unseen)} would go unseen"
        same = f"{who} gives the same right and wrong answers as its teacher {_on(run)}"
        return f"{same} ({metric} {value});{hidden}."
    ends = fmt.difference_interval(run.metric, *paired.interval)
    if paired.is_clear:
        away = _away(run, paired.difference)
        return f"{who} is {away} {_on(run)} (95% interval {ends})."
    told = f"No measurable loss of {metric}"
    if paired.is_open:
        told = f"Too few rows to say whether the {who[4:]} is as good as its teacher in {metric}"
    figures = f"{value} against {_written(run, TEACHER)}"
    return f"{told}: {figures} {_on(run)} (difference {ends}, 95% interval)."


def _away(run: RunAnalysis, difference: float) -> str:
    side = "below" if difference < 0 else "above"
    points = fmt.points(run.metric, difference)
    return f"{points} {side} its teacher in {fmt.metric_words(run.metric)}"


def _on(run: RunAnalysis) -> str:
    number = run.num_examples
    return f"on {number:,} {run.split} examples" if number else f"on the {run.split} set"


def _written(run: RunAnalysis, role: str) -> str:
    """A metric, with the deviation over seeds where it is their mean."""
    group = {TEACHER: run.teacher, STUDENT: run.student}.get(role)
    deviation = group.deviation(run.metric) if group and run.split != TEST else None
    return fmt.mean_and_spread(run.metric, run.scores[role], deviation)


def _beaten(run: RunAnalysis) -> str:
    best, subject, paired = run.best_baseline, run.subject, run.against_baseline
    value = subject.mean(run.metric) if subject else None
    other = best.metrics.get(run.metric) if best else None
    if best is None or subject is None or value is None or other is None:
        return ""
    shown = [fmt.metric(run.metric, figure) for figure in (other, value)]
    if other < value and shown[0] != shown[1] and (paired is None or paired.is_clear):
        return ""
    title = fmt.baseline_title(best.name)
    title += ", as large as the teacher," if best.name == "frozen_teacher" else ""
    words = f"{fmt.metric_words(run.metric)} {shown[0]} against {shown[1]}"
    words += "" if run.split != TEST else " on the development set"
    if run.dev_sides is not None and paired is not None and run.results.cross_fitted:
        interval = fmt.difference_interval(run.metric, *paired.interval)
        words += f" (the {run.dev_sides.subject.lower()} is better by {interval}, 95%)"
    advice = f" {WORDS_BETTER}" if run.results.cross_fitted else ""
    if paired is not None and paired.is_open:
        told = f"Too few rows to say whether a baseline does as well as the {subject.role}"
        return f"{told} ({fmt.baseline_title(best.name)}): {words}.{advice}"
    if shown[0] == shown[1]:
        return f"{title} does as well as the {subject.role}: {words}.{advice}"
    if paired is not None and not paired.is_clear:
        return f"{title} does as well as the {subject.role}, within chance: {words}.{advice}"
    taught = run.teacher.mean(run.metric) if run.teacher else None
    undertrained = best.name == "frozen_teacher" and taught is not None and taught < other
    advice = f" {UNDERTRAINED}" if undertrained else advice
    return f"{title} beats the {subject.role}: {words}.{advice}"


def _no_better(run: RunAnalysis) -> str:
    """Says that the test set does not tell a model from one that ignores its input."""
    sides = run.judged_sides
    paired = sides.difference(MAJORITY, run.judged or "") if sides else None
    if run.split != TEST or paired is None:
        return ""
    if paired.is_clear and paired.difference > 0:
        return ""
    if paired.is_open:
        answer = "always giving the same answer"
        return f"Too few rows to say whether the {run.judged} is better than {answer}."
    return f"Always giving the same answer does as well as the {run.judged}."


def _smaller(factor: float) -> str:
    return f"{fmt.ratio(factor)} smaller" if factor >= 1 else f"{fmt.ratio(1 / factor)} as large"


def _faster(run: RunAnalysis) -> str:
    speed = run.headline_speed()
    assert speed is not None
    if speed.faster is None:
        words = f"{fmt.ratio(speed.speedup)} as fast by medians alone"
        if speed.interval is not None:
            words = "about as fast, as far as this run can tell,"
    elif speed.faster:
        words = f"{fmt.ratio(speed.speedup)} faster"
    else:
        words = f"{fmt.ratio(1 / speed.speedup)} slower"
    return tables.marked(words, speed.busy)


def _formats(run: RunAnalysis) -> str:
    """Names the quantizations of student and teacher."""
    teacher, student = run.manifest_of(run.teacher), run.manifest_of(run.student)
    if teacher is None or student is None:
        return ""
    if teacher.quantization == student.quantization:
        return f"both {student.quantization}"
    return f"{student.quantization} against {teacher.quantization}"


def _of_files(run: RunAnalysis) -> str:
    """Says of an export outside a run how it agrees with its model."""
    sentences = []
    for card in run.results.manifests.values():
        size = quantities.size(card.model.size_bytes)
        text = f"{card.name} is a file of {size} ({card.quantization})"
        checked = card.parity
        if checked is not None and checked.argmax_agreement is not None:
            text += (
                f". It has the same {checked.answer_word} as its model for "
                f"{100 * checked.argmax_agreement:.1f}% of {checked.num_examples:,} inputs"
            )
        sentences.append(f"{text}.")
    return " ".join(sentences)


def _shape(group: ModelGroup) -> str:
    layers = group.models[0].architecture.get("num_layers")
    return f"{layers}-layer" if layers else ""
