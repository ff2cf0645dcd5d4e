"""A recipe becomes a run folder: teacher, students, export, measurement, report."""

from __future__ import annotations

import functools
import pathlib
import shutil
import statistics
import sys
from typing import Any

import tf_keras as keras

from tfdistill import config, files, models, objectives, report, training, weights
from tfdistill.data import synthetic
from tfdistill.run import deliver, folder, prepare, students
from tfdistill.run import teacher as teachers

__all__ = ["distill", "finetune", "run_recipe"]


def run_recipe(
    recipe: config.Recipe, out: files.Path, *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Runs a recipe from the teacher to the report.

    The folder gets recipe.yaml and environment.json first, then teacher/, stages/, students/,
    student/ (the chosen one), export/, benchmark.json, metrics.json, report.html and report.md.
    Killed at any moment, it goes on with `resume`.

    Args:
      recipe: The recipe.
      out: The run folder.
      resume: Go on with an earlier run of the same recipe.
      overwrite: Remove an earlier run first.

    Returns:
      The content of metrics.json.

    Raises:
      TfdistillError: With what was wrong and what to do about it.
    """
    place = folder.RunFolder(out)
    with place.open(recipe, resume=resume, overwrite=overwrite):
        return _run(recipe, place)


def finetune(
    recipe: config.Recipe, out: files.Path, *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Runs the teacher's part of a recipe alone; see `run_recipe`.

    Returns:
      The teacher's record, as in metrics.json, with ``model_folder``.
    """
    place = folder.RunFolder(out)
    with place.open(recipe, resume=resume, overwrite=overwrite):
        prepared = prepare.prepare(recipe, place.path)
        record = _teacher_record(recipe, prepared, place)
    return {**record, "model_folder": "teacher/model/hf"}


def distill(
    recipe: config.Recipe, out: files.Path, *, resume: bool = False, overwrite: bool = False
) -> dict[str, Any]:
    """Trains the last variant of a recipe with its first seed, without export; see `run_recipe`.

    Returns:
      The student's record, as in metrics.json, with ``model_folder``.
    """
    place = folder.RunFolder(out)
    with place.open(recipe, resume=resume, overwrite=overwrite):
        prepared = prepare.prepare(recipe, place.path)
        load = functools.cache(lambda: _load(place.path / "teacher" / "model"))
        _teacher_record(recipe, prepared, place)
        name, seed = list(recipe.variants)[-1], recipe.seeds[0]
        pool = _pool(recipe, place, load)
        record = _student_record(recipe, name, seed, prepared, pool, place)
    return {**record, "model_folder": f"{record['folder']}/hf"}


def _run(recipe: config.Recipe, place: folder.RunFolder) -> dict[str, Any]:
    root = place.path
    say(f"{recipe.name}: reading the data")
    prepared = prepare.prepare(recipe, root)
    say(f"{len(prepared.train)} training and {prepared.dev.num_examples} development examples")
    load_teacher = functools.cache(lambda: _load(root / "teacher" / "model"))
    records = [_teacher_record(recipe, prepared, place)]
    say(f"teacher: {_describe(records[0]['metrics'])}")
    pool = _pool(recipe, place, load_teacher)
    _say_layer_maps(recipe, prepared, load_teacher)
    for name in recipe.variants:
        for seed in recipe.seeds:
            records.append(_student_record(recipe, name, seed, prepared, pool, place))
            say(f"{name}, seed {seed}: {_describe(records[-1]['metrics'])}")
    chosen = choose(records, list(recipe.variants)[-1], prepared.task.primary_metric)
    return _deliver(recipe, prepared, place, records, chosen, load_teacher)


def _deliver(
    recipe: config.Recipe,
    prepared: prepare.Prepared,
    place: folder.RunFolder,
    records: list[dict[str, Any]],
    chosen: str,
    load_teacher: Any,
) -> dict[str, Any]:
    root = place.path
    if not (root / "student" / "model.keras").is_file():
        with files.atomic_folder(root / "student") as temporary:
            shutil.copytree(root / chosen, temporary, dirs_exist_ok=True)
    exports = [{"name": "student", "of": chosen, "manifest": "export/model.json"}]
    say(f"exporting {chosen} as {recipe.export.quantize}")
    _export(recipe, prepared, place, lambda: _load(root / "student"), "student", root / "export")
    if recipe.teacher.export:
        say(f"exporting the teacher as {recipe.export.teacher_quantize}")
        _export(recipe, prepared, place, load_teacher, "teacher", root / "teacher" / "export")
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
            "kind": "regression" if prepared.task.regression else "classification",
            "labels": list(prepared.task.labels),
            "primary_metric": prepared.task.primary_metric,
        },
        "synthetic_data": prepared.task.name == synthetic.TASK.name,
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
    place: folder.RunFolder,
    load: Any,
    name: str,
    target: pathlib.Path,
) -> None:
    quantize = recipe.export.quantize if name == "student" else recipe.export.teacher_quantize
    if (target / "model.json").is_file():
        return
    deliver.export_model(
        load(),
        prepared,
        target,
        name=f"{recipe.name}-{name}",
        quantize=quantize,
        settings=recipe.export,
    )


def _teacher_record(
    recipe: config.Recipe, prepared: prepare.Prepared, place: folder.RunFolder
) -> dict[str, Any]:
    def work() -> dict[str, Any]:
        path = place.path / "teacher"
        model, result = teachers.task_teacher(recipe, prepared, path / "finetune")
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


def _pool(recipe: config.Recipe, place: folder.RunFolder, load_teacher: Any) -> students.Teachers:
    return students.Teachers(
        load_teacher,
        lambda: teachers.general_teacher(recipe, load_teacher),
        dtype=recipe.teacher.dtype,
        cache=place.path / "teacher" / "cache",
    )


def _load(path: pathlib.Path) -> keras.Model:
    return weights.load_classifier(str(path / "hf")).model


def _student_record(
    recipe: config.Recipe,
    name: str,
    seed: int,
    prepared: prepare.Prepared,
    pool: students.Teachers,
    place: folder.RunFolder,
) -> dict[str, Any]:
    path = f"students/{name}/seed-{seed}"

    def work() -> dict[str, Any]:
        stages = recipe.variants[name].stages
        model = students.train_stages(recipe, stages, seed, prepared, pool, place.path)
        metrics = training.evaluate(model, prepared.dev, prepared.task)
        deliver.save_model(model, prepared, place.path / path)
        records = students.stage_records(recipe, stages, seed, place.path)
        return {
            "name": name,
            "role": "student",
            "seed": seed,
            "stages": list(stages),
            "metrics": metrics,
            "num_examples": prepared.dev.num_examples,
            **deliver.describe(model, recipe.export.lengths),
            "train_seconds": sum(record["seconds"] for record in records),
            "folder": path,
            "history": [
                {"stage": record["stage"], "csv": f"{record['folder']}/history.csv"}
                for record in records
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


def _say_layer_maps(recipe: config.Recipe, prepared: prepare.Prepared, load_teacher: Any) -> None:
    shown = set()
    for settings in recipe.stages.values():
        if settings.kind in ("general", "intermediate") and settings.layer_map not in shown:
            shown.add(settings.layer_map)
            mapped = objectives.layer_map(
                models.config_of(load_teacher()).num_layers,
                students.student_shape(recipe.student, prepared.tokenizer.vocab_size).num_layers,
                settings.layer_map,
            )
            say(f"layer map {settings.layer_map}: {objectives.describe_layer_map(mapped)}")


def _describe(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())


def say(text: str) -> None:
    """Talks to the person at the terminal, on stderr."""
    print(text, file=sys.stderr, flush=True)
