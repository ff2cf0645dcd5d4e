"""The tables of a run: its models, their seeds, and how far the files agree with them. Pure."""

from __future__ import annotations

import dataclasses

from tfdistill import manifest
from tfdistill.report import cells, device_tables, devices
from tfdistill.report import format as fmt
from tfdistill.report.cells import Cell, Row, Table
from tfdistill.report.facts import Facts, Group

_LONGEST_TITLE = 40  # letters; longer lists of stages give way to the variant's name
_INPUTS = {"real": "real inputs", "random": "random ids"}


def variant_title(group: Group) -> str:
    """Names a group for a reader."""
    if group.role == "teacher":
        return "Teacher"
    if group.taught is False:
        return "Student without teacher"
    by_stages = " + ".join(group.stages)
    return "Student: " + (by_stages if 0 < len(by_stages) <= _LONGEST_TITLE else group.name)


def comparison(facts: Facts) -> Table | None:
    """Teacher, student without teacher, student by stages: quality, size and speed."""
    if not facts.groups:
        return None
    place = facts.headline_place()
    length = facts.flops_length()
    rows = []
    borrowed = False
    for group in facts.groups:
        source = group
        if facts.export_of(group) is None and facts.same_shape(group):
            source = facts.student or group
        mark = " †" if source is not group else ""
        card = facts.card_of(source)
        cell = facts.cell(source, *place) if place else None
        borrowed |= bool(mark) and (card is not None or cell is not None)
        speed = next(
            (
                s
                for s in facts.speeds()
                if source is facts.student and (s.sequence_length, s.threads) == place
            ),
            None,
        )
        baseline = facts.teacher is group and bool(facts.speeds())
        model = group.models[0]
        rows.append(
            Row(
                Cell(variant_title(group), _shape(group)),
                (
                    _metric_cell(facts, group),
                    _kept(facts, group),
                    Cell(fmt.count(model.parameters), value=model.parameters),
                    _flops_cell(model.flops.get(length or "")),
                    _marked(cells.size(card.model.size_bytes, card.quantization), mark)
                    if card
                    else Cell(fmt.ABSENT),
                    _marked(cells.milliseconds(cell.p50_ms), mark) if cell else Cell(fmt.ABSENT),
                    Cell(fmt.ratio(speed.speedup) + mark, value=speed.speedup)
                    if speed
                    else Cell("1×" if baseline else fmt.ABSENT),
                    _seconds(group.train_seconds()),
                ),
                strong=group is facts.student,
            )
        )
    columns = (
        "Model",
        fmt.metric_title(facts.metric),
        "Of the teacher’s",
        "Parameters",
        "FLOPs",
        "File",
        "Latency",
        "Speed-up",
        "Training",
    )
    notes = [_reading(facts, length, place)]
    if borrowed:
        notes.append("† Of the exported student, which has the same shape; not exported itself.")
    if any(len(group.models) > 1 for group in facts.groups):
        notes.append("± is the standard deviation over the seeds (n − 1).")
    task = facts.results.metrics.task.name if facts.results.metrics else ""
    return Table("models", f"The models on {task}", columns, tuple(rows), tuple(notes))


def seeds(facts: Facts) -> Table | None:
    """Every single model with all its metrics."""
    models = [(group, model) for group in facts.groups for model in group.models]
    names = list(dict.fromkeys(name for _, model in models for name in model.metrics))
    if not models or (len(models) == len(facts.groups) and len(names) < 2):
        return None
    chosen = facts.results.metrics.chosen if facts.results.metrics else None
    rows = tuple(
        Row(
            Cell(variant_title(group), group.name if group.name != group.role else ""),
            (
                Cell(fmt.ABSENT if model.seed is None else str(model.seed)),
                *(cells.metric(name, model.metrics.get(name)) for name in names),
                cells.number(model.num_examples),
                _seconds(model.train_seconds),
            ),
            strong=model.folder is not None and model.folder == chosen,
        )
        for group, model in models
    )
    columns = ("Model", "Seed", *map(fmt.metric_title, names), "Examples", "Training")
    return Table("seeds", "Every model by seed; the exported one stands out", columns, rows)


def parity(facts: Facts) -> Table | None:
    """How far each file agrees with the model that it came from."""
    checked = [(name, card) for name, card in facts.results.manifests.items() if card.parity]
    if not checked:
        return None
    rows = []
    for name, card in checked:
        found = card.parity
        assert found is not None
        before, after = (
            metrics.get(facts.metric) for metrics in (found.model_metrics, found.file_metrics)
        )
        agreement = found.argmax_agreement
        rows.append(
            Row(
                Cell(name, card.quantization),
                (
                    cells.number(found.num_examples, _INPUTS[found.inputs]),
                    _error(found.max_abs_error, found.output_rms),
                    _error(found.mean_abs_error, found.output_rms),
                    cells.decibels(found.sqnr_db),
                    cells.share(agreement),
                    cells.metric(facts.metric, before),
                    cells.metric(facts.metric, after),
                    cells.size(card.model.size_bytes, card.model.sha256[:12]),
                ),
            )
        )
    title = fmt.metric_title(facts.metric)
    columns = (
        "File",
        "Examples",
        "Largest error",
        "Mean error",
        "Signal to noise",
        "Same answer",
        f"{title} (model)",
        f"{title} (file)",
        "Size, sha256",
    )
    notes = [
        "Errors are those of the outputs; rms is the root mean square of the model’s own outputs.",
        *(_bounds(name, card) for name, card in checked if card.parity and card.parity.bounds),
    ]
    caption = "The files against the models that they were made from"
    return Table("parity", caption, columns, tuple(rows), tuple(notes))


def all_tables(facts: Facts) -> dict[str, Table]:
    """Every table that can be made, by key; of measurements, those of the run's own result."""
    made = [make(facts) for make in (comparison, seeds, parity)]
    found = {table.key: table for table in made if table is not None}
    return found if facts.bench is None else {**found, **device_tables.all_tables(facts.bench)}


def _bounds(name: str, card: manifest.Manifest) -> str:
    assert card.parity is not None
    listed = ", ".join(f"{key} {value:g}" for key, value in card.parity.bounds.items())
    return f"Bounds that the {name} file had to meet: {listed}."


def _reading(facts: Facts, length: str | None, place: tuple[int, int] | None) -> str:
    """Says what the columns of the comparison hold."""
    said = [f"{fmt.metric_title(facts.metric)} on the development set"]
    if length is not None:
        said.append(f"FLOPs at {length} tokens")
    if place is not None:
        where = _where(facts)
        said.append(f"median latency {where} at {_place(*place)}")
    return "; ".join([*said, "training time of one model"]) + "."


def _error(value: float, rms: float | None) -> Cell:
    """An error, and what share of the outputs' size it is."""
    share = f"{fmt.error(100 * value / rms)}% of rms" if rms else ""
    return Cell(fmt.error(value), share, value)


def _where(facts: Facts) -> str:
    assert facts.bench is not None
    return facts.bench.where


def _marked(cell: Cell, mark: str) -> Cell:
    return dataclasses.replace(cell, text=cell.text + mark)


def _flops_cell(value: float | None) -> Cell:
    return Cell(fmt.flops(value), value=value)


def _seconds(value: float | None) -> Cell:
    return Cell(fmt.duration(value), value=value, unit="s")


def _metric_cell(facts: Facts, group: Group) -> Cell:
    number = len(group.values(facts.metric))
    detail = "" if group.role == "teacher" else f"{number} seed{'s' if number != 1 else ''}"
    mean, spread = group.mean(facts.metric), group.spread(facts.metric)
    return Cell(fmt.mean_and_spread(facts.metric, mean, spread), detail, mean)


def _shape(group: Group) -> str:
    shape = group.models[0].architecture
    parts = []
    if "num_layers" in shape and "hidden_size" in shape:
        parts.append(f"{shape['num_layers']} layers × {shape['hidden_size']}")
    if group.name != group.role:
        parts.append(group.name)
    return " · ".join(parts)


def _kept(facts: Facts, group: Group) -> Cell:
    if group.role != "student":
        return Cell("100%", value=1.0)
    share = facts.kept(group)
    return Cell(fmt.ABSENT if share is None else f"{100 * share:.1f}%", value=share)


def _place(length: int, number: int) -> str:
    return f"{length} tokens, {devices.threads(number)}"
