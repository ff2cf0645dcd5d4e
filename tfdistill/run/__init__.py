"""A recipe becomes a run folder: teacher, students, export, measurement, report."""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdistill import config, files, models, objectives, report, training
from tfdistill.data import beam, synthetic
from tfdistill.run import augmentation, deliver, folder, prepare, spread, students
from tfdistill.run import teacher as teachers
from tfdistill.training import strategies

_WORD_METRICS = ("mlm_accuracy", "mlm_loss")

__all__ = ["distill", "finetune", "run_recipe"]


def run_recipe(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    pipeline: Sequence[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Runs a recipe from the teacher to the report.

    The folder gets recipe.yaml and environment.json first, then teacher/, stages/, students/,
    student/ (the chosen one), export/, benchmark.json, metrics.json, report.html and report.md.
    Killed at any moment, it goes on with `resume`.

    Args:
      recipe: The recipe.
      out: The run folder.
      devices: Devices to train on; None takes every visible GPU. A run may go on with others.
      pipeline: Options of Apache Beam, whose workers compute the teacher's answers over a training
        set then; they find tfdistill installed and the run folder under the same path.
      resume: Go on with an earlier run of the same recipe.
      overwrite: Remove an earlier run first.

    Returns:
      The content of metrics.json.

    Raises:
      TfdistillError: With what was wrong and what to do about it.
    """
    if pipeline is not None:
        beam.check(pipeline, out)
    opening = spread.open_run(recipe, out, devices, resume=resume, overwrite=overwrite)
    with opening as (place, strategy):
        return _run(recipe, place, strategy, pipeline)


def finetune(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Runs the teacher's part of a recipe alone; see `run_recipe`.

    Returns:
      The teacher's record, as in metrics.json, with ``model_folder``.
    """
    opening = spread.open_run(recipe, out, devices, resume=resume, overwrite=overwrite)
    with opening as (place, strategy), strategies.scope(strategy):
        prepared = prepare.prepare(recipe, place.path)
        _pretrain(recipe, prepared, place)
        record = _teacher_record(recipe, prepared, place)
    return {**record, "model_folder": "teacher/model/hf"}


def distill(
    recipe: config.Recipe,
    out: files.Path,
    *,
    devices: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Trains the last variant of a recipe with its first seed, without export; see `run_recipe`.

    Returns:
      The student's record, as in metrics.json, with ``model_folder``.
    """
    opening = spread.open_run(recipe, out, devices, resume=resume, overwrite=overwrite)
    with opening as (place, strategy), strategies.scope(strategy):
        prepared = _prepare(recipe, place)
        _pretrain(recipe, prepared, place)
        pool = teachers.Teachers(recipe, prepared, place.path)
        pool.check()
        if isinstance(prepared, prepare.Prepared):
            prepared = augmentation.augmented(recipe, prepared, place.path)
            _teacher_record(recipe, prepared, place)
        name, seed = list(recipe.variants)[-1], recipe.seeds[0]
        record = _student_record(recipe, name, seed, prepared, pool, place)
        _keep_chosen(place, record["folder"])
    saved = "student/hf" if (place.path / "student" / "hf").is_dir() else "student"
    return {**record, "model_folder": saved}


def _run(
    recipe: config.Recipe,
    place: folder.RunFolder,
    strategy: tf.distribute.Strategy | None,
    pipeline: Sequence[str] | None,
) -> dict[str, Any]:
    say(f"{recipe.name}: reading the data")
    with strategies.scope(strategy):
        prepared = _prepare(recipe, place)
        _pretrain(recipe, prepared, place)
        pool = teachers.Teachers(recipe, prepared, place.path, pipeline)
        pool.check()
        if not isinstance(prepared, prepare.Prepared):
            return _run_texts(recipe, prepared, pool, place)
        say(f"{len(prepared.train)} training and {prepared.dev.num_examples} development examples")
        prepared = augmentation.augmented(recipe, prepared, place.path)
        records = [_teacher_record(recipe, prepared, place)]
        say(f"teacher: {_describe(records[0]['metrics'])}")
        _say_layer_maps(recipe, prepared, pool)
        records += _student_records(recipe, prepared, pool, place)
    chosen = choose(records, list(recipe.variants)[-1], prepared.task.primary_metric)
    return _deliver(recipe, prepared, place, records, chosen)


def _run_texts(
    recipe: config.Recipe,
    prepared: prepare.Texts,
    pool: teachers.Teachers,
    place: folder.RunFolder,
) -> dict[str, Any]:
    """Runs a recipe without a task: its students are encoders that know plain text."""
    records = _pretrained_record(recipe, pool, place)
    records += _student_records(recipe, prepared, pool, place)
    chosen = records[-1]["folder"]
    _keep_chosen(place, chosen)
    metrics = {
        "format_version": 1,
        "recipe": recipe.name,
        "created": folder.now(),
        "seed": recipe.seeds[0],
        "task": {
            "name": "plain text",
            "kind": "pre-training",
            "labels": [],
            "primary_metric": "mlm_accuracy",
        },
        "synthetic_data": recipe.data.stand_in,
        "models": records,
        "chosen": chosen,
        "exports": [],
    }
    files.atomic_write_json(place.path / folder.METRICS, metrics)
    report.write(place.path)
    say(f"student: {place.path / 'student' / 'hf'}")
    return metrics


def _pretrained_record(
    recipe: config.Recipe, pool: teachers.Teachers, place: folder.RunFolder
) -> list[dict[str, Any]]:
    """The record of a teacher that was pre-trained here, for metrics.json; none otherwise."""
    if recipe.teacher.pretrain is None:
        return []
    result = json.loads((place.path / "teacher" / "pretrained.json").read_text(encoding="utf-8"))
    return [
        {
            "name": "teacher",
            "role": "teacher",
            "seed": recipe.seeds[0],
            "stages": ["mlm"],
            "metrics": {name: result["metrics"][name] for name in _WORD_METRICS},
            "num_examples": 0,
            **deliver.describe(pool.words, recipe.export.lengths),
            "train_seconds": result["train_seconds"],
            "folder": "teacher",
            "history": [{"stage": "mlm", "csv": "teacher/pretrain/history.csv"}],
        }
    ]


def _prepare(recipe: config.Recipe, place: folder.RunFolder) -> prepare.Texts:
    if recipe.data.task is None:
        return prepare.prepare_texts(recipe, place.path)
    return prepare.prepare(recipe, place.path)


def _pretrain(recipe: config.Recipe, prepared: prepare.Texts, place: folder.RunFolder) -> None:
    """Pre-trains the teacher, where the recipe says so and it is not done yet."""
    if recipe.teacher.pretrain is None:
        return

    def work() -> dict[str, Any]:
        target = place.path / teachers.PRETRAINED
        model, result = teachers.pretrain(recipe, prepared, target.parent / "pretrain")
        deliver.save_words(model, prepared, target)
        return result

    result = place.step("teacher/pretrained.json", work)
    say(f"pre-trained teacher: {_describe(result['metrics'])}")


def _student_records(
    recipe: config.Recipe,
    prepared: prepare.Texts,
    pool: teachers.Teachers,
    place: folder.RunFolder,
) -> list[dict[str, Any]]:
    records = []
    for name in recipe.variants:
        for seed in recipe.seeds:
            records.append(_student_record(recipe, name, seed, prepared, pool, place))
            say(f"{name}, seed {seed}: {_describe(records[-1]['metrics'])}")
    return records


def _keep_chosen(place: folder.RunFolder, chosen: str) -> None:
    if not (place.path / "student" / "model.keras").is_file():
        with files.atomic_folder(place.path / "student") as temporary:
            shutil.copytree(place.path / chosen, temporary, dirs_exist_ok=True)


def _deliver(
    recipe: config.Recipe,
    prepared: prepare.Prepared,
    place: folder.RunFolder,
    records: list[dict[str, Any]],
    chosen: str,
) -> dict[str, Any]:
    root = place.path
    _keep_chosen(place, chosen)
    exports = [{"name": "student", "of": chosen, "manifest": "export/model.json"}]
    say(f"exporting {chosen} as {recipe.export.quantize}")
    _export(recipe, prepared, root / "student", "student", root / "export")
    if recipe.teacher.export:
        say(f"exporting the teacher as {recipe.export.teacher_quantize}")
        _export(recipe, prepared, root / "teacher" / "model", "teacher", root / "teacher/export")
        exports.append(
            {"name": "teacher", "of": "teacher", "manifest": "teacher/export/model.json"}
        )
    metrics = {
        "format_version": 1,
        "recipe": recipe.name,
        "created": folder.now(),
        "seed": recipe.seeds[0],
        "task": {
            "name": prepared.task.name,
            "kind": prepared.task.kind,
            "labels": list(prepared.task.labels),
            "primary_metric": prepared.task.primary_metric,
        },
        "synthetic_data": prepared.task.name == synthetic.TASK.name or recipe.data.stand_in,
        "models": records,
        "chosen": chosen,
        "exports": exports,
    }
    files.atomic_write_json(root / folder.METRICS, metrics)
    say("measuring on this host")
    folders = {e["name"]: (root / e["manifest"]).parent for e in reversed(exports)}
    if not (root / "benchmark.json").is_file():
        deliver.measure(folders, recipe.benchmark, root / "benchmark.json")
    report.write(root)
    say(f"report: {root / 'report.html'}")
    return metrics


def _export(
    recipe: config.Recipe,
    prepared: prepare.Prepared,
    source: pathlib.Path,
    name: str,
    target: pathlib.Path,
) -> None:
    quantize = recipe.export.quantize if name == "student" else recipe.export.teacher_quantize
    if (target / "model.json").is_file():
        return
    deliver.export_model(
        teachers.open_saved(source, prepared.task),
        prepared,
        target,
        name=f"{recipe.name}-{name}",
        quantize=quantize,
        settings=recipe.export,
        data=recipe.data,
    )


def _teacher_record(
    recipe: config.Recipe, prepared: prepare.Prepared, place: folder.RunFolder
) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        path = place.path / "teacher"
        model, result = teachers.task_teacher(recipe, prepared, place.path)
        deliver.save_model(model, prepared, path / "model")
        return {
            "name": "teacher",
            "role": "teacher",
            "seed": recipe.seeds[0],
            "stages": ["labels"] if recipe.teacher.finetune else [],
            "metrics": result["metrics"],
            "num_examples": prepared.dev.num_examples,
            **deliver.describe(model, recipe.export.lengths),
            "train_seconds": result["train_seconds"],
            "folder": "teacher",
            "history": (
                [{"stage": "labels", "csv": "teacher/finetune/history.csv"}]
                if recipe.teacher.finetune
                else []
            ),
        }

    return place.step("teacher/result.json", work)


def _student_record(
    recipe: config.Recipe,
    name: str,
    seed: int,
    prepared: prepare.Texts,
    pool: teachers.Teachers,
    place: folder.RunFolder,
) -> dict[str, Any]:
    path = f"students/{name}/seed-{seed}"

    def work() -> dict[str, Any]:
        stages = recipe.variants[name].stages
        student = students.train_stages(recipe, stages, seed, prepared, pool, place.path)
        model = student.model
        if isinstance(prepared, prepare.Prepared):
            metrics = training.evaluate(model, prepared.dev, prepared.task)
            deliver.save_model(model, prepared, place.path / path)
            num_examples = prepared.dev.num_examples
        else:
            metrics, num_examples = {}, 0
            if student.masked_lm is not None:
                model, settings = student.masked_lm, recipe.stages[stages[-1]]
                held_out = prepared.corpora[stages[-1]].held_out(
                    batch_size=settings.batch_size, mask_rate=settings.mask_rate
                )
                measured = training.MaskedLmEvaluation(model, held_out)()
                metrics = {name: measured[name] for name in _WORD_METRICS}
            deliver.save_words(model, prepared, place.path / path)
        records = students.stage_records(recipe, stages, seed, place.path)
        return {
            "name": name,
            "role": "student",
            "seed": seed,
            "stages": list(stages),
            "metrics": metrics,
            "num_examples": num_examples,
            **deliver.describe(model, recipe.export.lengths),
            "train_seconds": sum(record["seconds"] for record in records),
            "folder": path,
            "history": [
                entry for record in records for entry in students.histories(record, place.path)
            ],
        }

    return place.step(f"results/{name}-{seed}.json", work)


def choose(records: list[dict[str, Any]], variant: str, metric: str) -> str:
    """The folder of the variant's median seed: the typical result, not the luckiest one.

    Args:
      records: The models of metrics.json.
      variant: The variant that is exported.
      metric: The primary metric.

    Returns:
      The folder of the seed with the (lower) median metric.
    """
    own = [record for record in records if record["name"] == variant]
    median = statistics.median_low([record["metrics"][metric] for record in own])
    return next(r["folder"] for r in own if r["metrics"][metric] == median)


def _say_layer_maps(
    recipe: config.Recipe, prepared: prepare.Prepared, pool: teachers.Teachers
) -> None:
    shown = set()
    for settings in recipe.stages.values():
        if settings.kind in ("general", "intermediate") and settings.layer_map not in shown:
            shown.add(settings.layer_map)
            mapped = objectives.layer_map(
                models.config_of(pool.task).num_layers,
                students.student_shape(recipe.student, prepared.tokenizer.vocab_size).num_layers,
                settings.layer_map,
            )
            say(f"layer map {settings.layer_map}: {objectives.describe_layer_map(mapped)}")


def _describe(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def say(text: str) -> None:
    """Talks to the person at the terminal, on stderr."""
    print(text, file=sys.stderr, flush=True)
