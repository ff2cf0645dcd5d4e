"""The models of a run: each is trained, saved and described for metrics.json, once."""

from __future__ import annotations

import json
import statistics
from typing import Any

from tfdistill import config, training
from tfdistill.run import deliver, folder, prepare, students
from tfdistill.run import teacher as teachers

_WORD_METRICS = ("mlm_accuracy", "mlm_loss")


def pretrained(
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


def teacher(
    recipe: config.Recipe, prepared: prepare.Prepared, place: folder.RunFolder
) -> dict[str, Any]:
    """Gets the teacher of the task, saves it and returns its record."""

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


def student(
    recipe: config.Recipe,
    name: str,
    seed: int,
    prepared: prepare.Texts,
    pool: teachers.Teachers,
    place: folder.RunFolder,
) -> dict[str, Any]:
    """Trains a variant with a seed, saves the student and returns its record."""
    path = f"students/{name}/seed-{seed}"

    def work() -> dict[str, Any]:
        stages = recipe.variants[name].stages
        taught = students.train_stages(recipe, stages, seed, prepared, pool, place.path)
        model = taught.model
        if isinstance(prepared, prepare.Prepared):
            metrics = training.evaluate(model, prepared.dev, prepared.task)
            deliver.save_model(model, prepared, place.path / path)
            num_examples = prepared.dev.num_examples
        else:
            metrics, num_examples = {}, 0
            if taught.masked_lm is not None:
                model, settings = taught.masked_lm, recipe.stages[stages[-1]]
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
