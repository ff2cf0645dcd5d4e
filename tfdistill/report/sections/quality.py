"""The tables of a run: models, seeds, training, agreement of files and models. Pure."""

from __future__ import annotations

import dataclasses
import statistics

from tfdistill.report import cells
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table, row
from tfdistill.report.plot.timeline import loss
from tfdistill.report.run_analysis import RunAnalysis
from tfdistill.report.run_parts import ModelGroup, Speed
from tfdistill.report.run_results import StageHistory
from tfdistill.results import BaselineResult

_LONGEST_TITLE = 40  # letters; longer lists of stages are replaced by the variant's name


def variant_title(group: ModelGroup) -> str:
    """Names a group for a reader."""
    if group.role == "teacher":
        return "Teacher"
    if group.taught is False:
        return "Student without teacher"
    by_stages = " + ".join(group.stages)
    return "Student: " + (by_stages if 0 < len(by_stages) <= _LONGEST_TITLE else group.name)


def models(run: RunAnalysis) -> Table | None:
    """Teacher, student without teacher, student by stages: quality, size and speed."""
    case, length = run.headline_case(), run.flops_length()
    speedup = next((s.speedup for s in run.speeds if (s.sequence_length, s.threads) == case), None)
    rows = []
    borrowed = False
    for group in run.groups:
        source = group
        if run.export_of(group) is None and run.has_student_shape(group):
            source = run.student or group
        mark = "" if source is group else " †"
        found, latency = run.manifest_of(source), run.latency(source, case)
        borrowed |= bool(mark) and (found is not None or latency is not None)
        size = cells.size(found.model.size_bytes, found.quantization) if found else fmt.ABSENT
        ratio = cells.ratio(speedup if source is run.student else None)
        if group is run.teacher and run.speeds:
            ratio = Cell("1×")
        model = group.models[0]
        flops = model.flops.get(length or "")
        rows.append(
            row(
                Cell(variant_title(group), _shape(group)),
                _metric(run, group),
                _kept(run, group),
                Cell(fmt.count(model.parameters), value=model.parameters),
                Cell(fmt.flops(flops), value=flops),
                _of_file(run, group),
                _marked(size, mark),
                _marked(cells.milliseconds(latency.p50_ms if latency else None), mark),
                _marked(ratio, mark),
                cells.seconds(group.train_seconds() or None),
                strong=group is run.student,
            )
        )
    beside = run.results.metrics.baselines if run.results.metrics else ()
    rows += [_baseline(run, found) for found in beside]
    columns = (
        "Model",
        fmt.metric_title(run.metric),
        "Of the teacher’s",
        "Parameters",
        "FLOPs",
        f"{fmt.metric_title(run.metric)} of the file",
        "File",
        "Latency",
        "Speed-up",
        "Training",
    )
    meaning = [f"{fmt.metric_title(run.metric)} on the development set"]
    meaning += [f"FLOPs at {length} tokens"] if length is not None else []
    meaning += [f"median latency {run.where} at {fmt.case(*case)}"] if case is not None else []
    notes = ["; ".join([*meaning, "training time of one model"]) + "."]
    alone = any(found.name == "no_teacher" for found in beside)
    if borrowed or (alone and run.manifest_of(run.student) is not None):
        notes.append("† Of the exported student, which has the same shape; not exported itself.")
    if any(found.parameters is not None for found in beside):
        notes.append(
            "‡ Of a baseline: its weights as float32, not a file; the median time of one answer in "
            "Python on the machine of the run, for TF-IDF from the text on, for word vectors, as "
            "for files, from the tokens on."
        )
    if any(len(group.models) > 1 for group in run.groups):
        notes.append("± is the standard deviation over the seeds (n − 1).")
    task = run.results.metrics.task.name if run.results.metrics else ""
    return cells.table("models", f"The models on {task}", columns, rows, notes, drop_empty=True)


def _baseline(run: RunAnalysis, found: BaselineResult) -> Row:
    """What a baseline reaches, weighs and takes; see the notes under the table."""
    value = found.metrics.get(run.metric)
    teacher = run.teacher.mean(run.metric) if run.teacher and not run.teacher_part else None
    share = value / teacher if value is not None and teacher and teacher > 0 else None
    size, mark = None if found.parameters is None else 4 * found.parameters, " ‡"
    latency_ms = found.latency_ms
    if found.name == "no_teacher":  # of the student's shape
        made, timing = run.manifest_of(run.student), run.latency(run.student, run.headline_case())
        size, mark = made.model.size_bytes if made else None, " †"
        latency_ms = timing.p50_ms if timing else None
    return row(
        Cell(fmt.baseline_title(found.name), found.note or "baseline"),
        cells.metric(run.metric, value),
        cells.share(share, 1),
        Cell(fmt.count(found.parameters), value=found.parameters),
        fmt.ABSENT,
        fmt.ABSENT,
        _marked(cells.size(size), mark),
        _marked(cells.milliseconds(latency_ms), mark),
        fmt.ABSENT,
        cells.seconds(found.seconds),
    )


def formats(run: RunAnalysis) -> Table | None:
    """Teacher and student in the same format, and as they are usually exported."""
    pairs = run.file_pairs
    if len(pairs) < 2:
        return None
    rows = []
    for pair in pairs:
        speed, sizes = pair.speed, (pair.teacher.model.size_bytes, pair.student.model.size_bytes)
        names = pair.teacher.quantization, pair.student.quantization
        latencies = [None, None] if speed is None else [speed.teacher.p50_ms, speed.student.p50_ms]
        head = Cell(names[1], "both") if pair.is_alike else Cell(names[1], f"against {names[0]}")
        rows.append(
            row(
                head,
                *map(cells.size, sizes),
                cells.ratio(sizes[0] / sizes[1]),
                *cells.in_one_unit(*latencies),
                _factor(speed),
                strong=pair is pairs[0],
            )
        )
    columns = ("Format", "Teacher’s file", "Student’s", "Smaller", "Teacher’s latency", "Student’s")
    case = run.headline_case()
    note = (
        "In one format the difference is that of the models; in two, that of the formats as well."
    )
    if case is not None:
        note += f" Median latency {run.where} at {fmt.case(*case)}; brackets hold 95% intervals."
    caption = "Student and teacher, like for like"
    return cells.table("formats", caption, (*columns, "Faster"), rows, (note,), drop_empty=True)


def _factor(speed: Speed | None) -> Cell:
    if speed is None:
        return Cell(fmt.ABSENT)
    detail = fmt.interval(*speed.interval) if speed.interval else "medians alone"
    if speed.interval and speed.faster is None:
        detail += " no clear difference"
    return Cell(fmt.ratio(speed.speedup), detail, speed.speedup, "", speed.interval)


def seeds(run: RunAnalysis) -> Table | None:
    """Every single model with all its metrics."""
    listed = [(group, model) for group in run.groups for model in group.models]
    names = list(dict.fromkeys(name for _, model in listed for name in model.metrics))
    if len(listed) == len(run.groups) and len(names) < 2:
        return None
    chosen = run.results.metrics.chosen if run.results.metrics else None
    rows = [
        row(
            Cell(variant_title(group), group.name if group.name != group.role else ""),
            fmt.ABSENT if model.seed is None else str(model.seed),
            *(cells.metric(name, model.metrics.get(name)) for name in names),
            cells.number(model.num_examples),
            cells.seconds(model.train_seconds),
            strong=model.folder is not None and model.folder == chosen,
        )
        for group, model in listed
    ]
    columns = ("Model", "Seed", *map(fmt.metric_title, names), "Examples", "Training")
    caption = "Every model by seed; the exported one is highlighted"
    return cells.table("seeds", caption, columns, rows)


def test_set(run: RunAnalysis) -> Table | None:
    """Teacher, student and file on examples that nothing was chosen by."""
    found = run.results.metrics.test_metrics if run.results.metrics else {}
    names = list(dict.fromkeys(name for scores in found.values() for name in scores))
    best = found.get("teacher", {}).get(run.metric)
    rows = []
    for model, scores in found.items():
        own = scores.get(run.metric)
        kept = own / best if own is not None and best is not None and best > 0 else None
        title = {"file": "The student’s file"}.get(model, model.capitalize())
        rows.append(
            row(
                Cell(title),
                *(cells.metric(name, scores.get(name)) for name in names),
                cells.share(kept, 1),
            )
        )
    columns = ("Model", *map(fmt.metric_title, names), "Of the teacher’s")
    caption = "On the test set, which no choice was made on"
    return cells.table("test-set", caption, columns, rows)


def training(run: RunAnalysis, stages: dict[str, list[StageHistory]]) -> Table | None:
    """Start and end of every training curve."""
    rows = []
    for stage, histories in stages.items():
        for history in histories:
            losses, dev = history.values("loss"), history.values(f"val_{run.metric}")
            speeds, epochs = history.values("examples_per_second"), history.values("epoch")
            rows.append(
                row(
                    Cell(stage, history.label),
                    f"{epochs[-1]:g}" if epochs else fmt.ABSENT,
                    loss(losses[0]) if losses else fmt.ABSENT,
                    loss(losses[-1]) if losses else fmt.ABSENT,
                    fmt.metric(run.metric, max(dev) if dev else None),
                    f"{statistics.fmean(speeds):,.0f}" if speeds else fmt.ABSENT,
                )
            )
    columns = (
        "Stage",
        "Epochs",
        "First loss",
        "Last loss",
        f"Best {fmt.metric_words(run.metric)}",
        "Examples per second",
    )
    caption = "Training by stage; losses of different stages are different quantities"
    return cells.table("training", caption, columns, rows)


def _marked(cell: Cell | str, mark: str) -> Cell:
    cell = Cell(cell) if isinstance(cell, str) else cell
    marked = mark and cell.text != fmt.ABSENT
    return dataclasses.replace(cell, text=cell.text + mark) if marked else cell


def _metric(run: RunAnalysis, group: ModelGroup) -> Cell:
    number = len(group.values(run.metric))
    detail = "" if group.role == "teacher" else f"{number} seed{'s' if number != 1 else ''}"
    mean, deviation = group.mean(run.metric), group.deviation(run.metric)
    return Cell(fmt.mean_and_spread(run.metric, mean, deviation), detail, mean)


def _of_file(run: RunAnalysis, group: ModelGroup) -> Cell:
    """The metric of the group's exported file on the development set."""
    found = run.manifest_of(group)
    checked = found.parity if found else None
    return cells.metric(run.metric, checked.file_metrics.get(run.metric) if checked else None)


def _kept(run: RunAnalysis, group: ModelGroup) -> Cell:
    if group.role != "student":
        return Cell("100%", value=1.0)
    found = cells.share(run.kept(group), 1)
    # One seed above its teacher does not show by how much.
    by_chance = found.value is not None and found.value > 1 and len(group.models) == 1
    return dataclasses.replace(found, text="≥ 100%") if by_chance else found


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
