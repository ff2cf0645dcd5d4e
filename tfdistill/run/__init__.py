"""A recipe becomes a run folder: teacher, students, export, measurement, report."""

from __future__ import annotations

import pathlib
import shutil
import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfdistill import config, files, models, objectives, report
from tfdistill.data import beam, synthetic
from tfdistill.run import augmentation, deliver, folder, prepare, recorded, spread, students
from tfdistill.run import teacher as teachers
from tfdistill.training import strategies

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
        record = recorded.teacher(recipe, prepared, place)
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
            recorded.teacher(recipe, prepared, place)
        name, seed = list(recipe.variants)[-1], recipe.seeds[0]
        record = recorded.student(recipe, name, seed, prepared, pool, place)
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
        records = [recorded.teacher(recipe, prepared, place)]
        say(f"teacher: {_describe(records[0]['metrics'])}")
        _say_layer_maps(recipe, prepared, pool)
        records += _student_records(recipe, prepared, pool, place)
    chosen = recorded.choose(records, list(recipe.variants)[-1], prepared.task.primary_metric)
    return _deliver(recipe, prepared, place, records, chosen)


def _run_texts(
    recipe: config.Recipe,
    prepared: prepare.Texts,
    pool: teachers.Teachers,
    place: folder.RunFolder,
) -> dict[str, Any]:
    """Runs a recipe without a task: its students are encoders that know plain text."""
    records = recorded.pretrained(recipe, pool, place)
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
            records.append(recorded.student(recipe, name, seed, prepared, pool, place))
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
