"""The quality of the models: on the test set, beside baselines, by variant and seed. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.answer_sides import TEST, AnswerSides, unseen_difference
from tfdistill.report.document import ReportSection, part
from tfdistill.report.model_groups import ModelGroup
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.results import BaselineResult, tables
from tfdistill.results.tables import Cell, Row, Table, row

_TITLES = {"file": "The student’s file"}
_LONGEST_TITLE = 40  # letters; longer lists of stages are replaced by the variant's name


def sections(run: RunAnalysis) -> Iterator[ReportSection]:
    """Yields the section of quality."""
    parts = (
        *part("test", "", test_set(run), entities(run)),
        *part("paired", "", differences(run.sides)),
        *part("models", "", models(run)),
        *part("seeds", "Every model by seed", seeds(run), folds=True),
    )
    if parts:
        yield ReportSection("quality", "Quality", "Quality", parts=parts)


def variant_title(group: ModelGroup) -> str:
    """Names a group for a reader."""
    if group.role == "teacher":
        return "Teacher"
    if group.taught is False:
        return "Student without teacher"
    by_stages = " + ".join(group.stages)
    return "Student: " + (by_stages if 0 < len(by_stages) <= _LONGEST_TITLE else group.name)


def test_set(run: RunAnalysis) -> Table | None:
    """Teacher, student and file on examples that nothing was chosen by."""
    scores = run.results.metrics.test_metrics if run.results.metrics else {}
    names = list(dict.fromkeys(name for values in scores.values() for name in values))
    sides = run.judged_sides if run.split == TEST else None
    rows = []
    for model, values in scores.items():
        line = {"Model": Cell(_TITLES.get(model, model.capitalize()))}
        for name in names:
            interval = ""
            if sides is not None and name == run.metric and model in sides.logits:
                interval = fmt.metric_interval(name, *sides.interval(model))
            line[fmt.metric_title(name)] = cells.metric(name, values.get(name), interval)
        rows.append(row(line, strong=model == "file"))
    for name, value in (sides.scores if sides else {}).items():
        if name not in scores:
            line = {"Model": Cell(fmt.baseline_title(name))}
            for metric in names:
                of_it = value if metric == run.metric else None
                line[fmt.metric_title(metric)] = cells.metric(metric, of_it)
            rows.append(line)
    number = f"{len(sides.gold):,} " if sides else ""
    caption = f"The {number}test examples, not used for training or model selection"
    return tables.of_rows("test-set", caption, rows)


def entities(run: RunAnalysis) -> Table | None:
    """How many entities of the test set are right, and how the others are wrong."""
    counts = run.results.metrics.test_counts if run.results.metrics else {}
    rows = [
        {
            "Model": _TITLES.get(model, model.capitalize()),
            **{kind.capitalize(): cells.number(number) for kind, number in of_model.items()},
        }
        for model, of_model in counts.items()
    ]
    notes = ("Wrong edge: shares a word with an entity. Invented: shares none.",)
    return tables.of_rows("entities", "Entities of the test examples", rows, notes)


def differences(sides: AnswerSides | None) -> Table | None:
    """The differences of models on the same examples, and whether chance alone may make them."""
    if sides is None:
        return None
    name, rows, has_p = sides.task.primary_metric, [], False
    for one, other in sides.pairs:
        paired = sides.difference(one, other)
        assert paired is not None
        title = one if one in sides.logits else fmt.baseline_words(one)
        if paired.is_none:
            hidden = fmt.points("accuracy", unseen_difference(len(sides.gold)))
            shown = Cell("none", f"up to {hidden} unseen", 0.0)
            verdict = "right on the same examples"
        else:
            ends = fmt.difference_interval(name, *paired.interval)
            written = fmt.metric_difference(name, paired.difference)
            shown = Cell(written, ends, paired.difference, interval=paired.interval)
            verdict = "within chance" if paired.difference else "equal"
            verdict = "too few rows to say" if paired.is_open else verdict
            if paired.is_clear:
                verdict = "better" if paired.difference > 0 else "worse"
        has_p |= (p := paired.p_value) is not None
        small = "< 0.001" if p is not None and p < 0.001 else f"{p or 0:.2g}"
        line = {
            "Comparison": f"{other.capitalize()} against {title}",
            f"{fmt.metric_title(name)} with 95% interval": shown,
            "Lost": cells.number(paired.lost),
            "Gained": cells.number(paired.gained),
            "p": Cell(fmt.ABSENT if p is None else small, value=p),
            "Verdict": verdict,
        }
        rows.append(line)
    notes = (
        "Lost, gained: examples that only the second, or only the first, has right. Intervals: "
        "paired bootstrap"
        + (", of accuracy also the exact one; p: exact McNemar test." if has_p else "."),
    )
    caption = f"Differences on the {len(sides.gold):,} {sides.split} examples"
    return tables.of_rows("paired", caption, rows, notes, drop_empty=True)


def models(run: RunAnalysis) -> Table | None:
    """Teacher, student without teacher, student by stages, baselines: quality, size and speed."""
    case, length, metric = run.headline_case(), run.flops_length(), fmt.metric_title(run.metric)
    rows = []
    borrowed = disturbed = False
    for group in run.groups:
        source = group
        if run.export_of(group) is None and run.has_student_shape(group):
            source = run.student or group
        mark = "" if source is group else " †"
        card, latency = run.manifest_of(source), run.latency(source, case)
        busy = " *" if latency is not None and latency.busy else ""
        disturbed |= bool(busy)
        borrowed |= bool(mark) and (card is not None or latency is not None)
        size = cells.size(card.model.size_bytes, card.quantization) if card else Cell(fmt.ABSENT)
        model = group.models[0]
        p50 = cells.milliseconds(latency.p50_ms if latency else None)
        line = {
            "Model": Cell(variant_title(group), _shape(group)),
            metric: _metric(run, group),
            "Of the teacher’s": _share(run, group),
            f"{metric} of the file": _of_file(run, group),
            "Parameters": cells.millions(model.parameters),
            "FLOPs": cells.millions(model.flops.get(length or "")),
            "File": _marked(size, mark),
            "Latency": _marked(p50, mark + busy),
            "Training": cells.seconds(group.train_seconds() or None),
        }
        rows.append(row(line, strong=group is run.student))
    baselines = run.results.metrics.baselines if run.results.metrics else ()
    rows += [_baseline(run, baseline, opens=i == 0) for i, baseline in enumerate(baselines)]
    facts = [f"FLOPs at {length} tokens"] if length is not None else []
    facts += [f"median latency {run.where} at {fmt.case(*case)}"] if case is not None else []
    notes = [f"{fmt.join(facts)}.".capitalize().replace("Flops", "FLOPs")] if facts else []
    alone = any(baseline.name == "no_teacher" for baseline in baselines)
    if borrowed or (alone and run.manifest_of(run.student) is not None):
        notes.append("† Of the exported student, which has the same shape.")
    if disturbed:
        notes.append(f"* {tables.BUSY.capitalize()}: other programs disturbed the measurement.")
    if any(baseline.parameters is not None for baseline in baselines):
        notes.append(
            "‡ Baselines are not exported: size of the float32 weights; median Python time per "
            "text on this machine."
        )
    if any(len(group.models) > 1 for group in run.groups):
        notes.append("± is the standard deviation over the seeds (n − 1).")
    number = run.subject.models[0].num_examples if run.subject else None
    counted = f"{number:,} " if number else ""
    caption = f"Models and baselines on the {counted}{run.dev_split} examples"
    return tables.of_rows("models", caption, rows, notes, drop_empty=True)


def _baseline(run: RunAnalysis, baseline: BaselineResult, *, opens: bool) -> Row:
    """A baseline's metric, size and time; see the notes under the table."""
    value = baseline.metrics.get(run.metric)
    size, mark = None if baseline.parameters is None else 4 * baseline.parameters, " ‡"
    latency_ms = baseline.latency_ms
    if baseline.name == "no_teacher":  # of the student's shape
        card, timing = run.manifest_of(run.student), run.latency(run.student, run.headline_case())
        size, mark = card.model.size_bytes if card else None, " †"
        latency_ms = timing.p50_ms if timing else None
    seconds = baseline.seconds
    if baseline.name == "majority":  # it ignores its input
        size = seconds = None
    line = {
        "Model": Cell(fmt.baseline_title(baseline.name), baseline.note),
        fmt.metric_title(run.metric): cells.metric(run.metric, value),
        "Of the teacher’s": cells.share(run.share_of_teacher(value), 1),
        f"{fmt.metric_title(run.metric)} of the file": fmt.ABSENT,
        "Parameters": cells.millions(baseline.parameters if size is not None else None),
        "FLOPs": fmt.ABSENT,
        "File": _marked(cells.size(size), mark),
        "Latency": _marked(cells.milliseconds(latency_ms), mark),
        "Training": cells.seconds(seconds),
    }
    return row(line, opens=opens)


def seeds(run: RunAnalysis) -> Table | None:
    """Every single model with all its metrics."""
    listed = [(group, model) for group in run.groups for model in group.models]
    names = list(dict.fromkeys(name for _, model in listed for name in model.metrics))
    if len(listed) == len(run.groups) and len(names) < 2:
        return None
    chosen = run.results.metrics.chosen if run.results.metrics else None
    rows = []
    for group, model in listed:
        line = {
            "Model": Cell(variant_title(group), group.name if group.name != group.role else ""),
            "Seed": fmt.ABSENT if model.seed is None else str(model.seed),
            **{fmt.metric_title(n): cells.metric(n, model.metrics.get(n)) for n in names},
            "Examples": cells.number(model.num_examples),
            "Training": cells.seconds(model.train_seconds),
        }
        rows.append(row(line, strong=model.folder is not None and model.folder == chosen))
    caption = f"Every model on the {run.dev_split} examples; the exported one is highlighted"
    return tables.of_rows("seeds", caption, rows)


def _marked(cell: Cell, mark: str) -> Cell:
    marked = mark and cell.text != fmt.ABSENT
    return dataclasses.replace(cell, text=cell.text + mark) if marked else cell


def _metric(run: RunAnalysis, group: ModelGroup) -> Cell:
    number = len(group.values(run.metric))
    mean, deviation = group.mean(run.metric), group.deviation(run.metric)
    detail = f"{number} seeds" if number > 1 else ""
    return Cell(fmt.mean_and_spread(run.metric, mean, deviation), detail, mean)


def _of_file(run: RunAnalysis, group: ModelGroup) -> Cell:
    """The metric of the group's exported file on the development set."""
    card = run.manifest_of(group)
    checked = card.parity if card else None
    return cells.metric(run.metric, checked.file_metrics.get(run.metric) if checked else None)


def _share(run: RunAnalysis, group: ModelGroup) -> Cell:
    if group.role != "student":
        return Cell("100%", value=1.0)
    cell = cells.share(run.share_of_teacher(group.mean(run.metric)), 1)
    # One seed above its teacher does not show by how much.
    by_chance = cell.value is not None and cell.value > 1 and len(group.models) == 1
    return dataclasses.replace(cell, text="≥ 100%") if by_chance else cell


def _shape(group: ModelGroup) -> str:
    shape = group.models[0].architecture
    parts = []
    if "num_layers" in shape and "hidden_size" in shape:
        parts.append(f"{shape['num_layers']} layers × {shape['hidden_size']}")
    heads, size = shape.get("num_heads"), shape.get("head_size")
    if heads and size and heads * size != shape.get("hidden_size"):
        parts.append(f"{heads} heads of {size}")
    if group.name != group.role:
        parts.append(group.name)
    return " · ".join(parts)
