"""Writes a run folder with made-up but plausible numbers."""

import json
import math
import pathlib

import manifests
from test_report import fake_results

from tfdistill import results
from tfdistill.io import work_folder

ARCHITECTURE = {
    "teacher": {
        "family": "bert",
        "num_layers": 6,
        "hidden_size": 384,
        "num_heads": 12,
        "intermediate_size": 1536,
    },
    "student": {
        "family": "tinybert",
        "num_layers": 3,
        "hidden_size": 192,
        "num_heads": 12,
        "intermediate_size": 768,
    },
}
PARAMETERS = {"teacher": 22_861_826, "student": 7_330_370}
FLOPS = {
    "teacher": {"32": 690_000_000, "64": 1_400_000_000, "128": 2_870_000_000},
    "student": {"32": 86_000_000, "64": 174_000_000, "128": 357_000_000},
}
ACCURACY = {
    "teacher": [0.9],
    "no_teacher": [0.812, 0.806, 0.818],
    "prediction_only": [0.825, 0.829, 0.833],
    "task_stages": [0.843, 0.852, 0.849],
    "full": [0.88, 0.876, 0.884],
}
STAGES = {
    "no_teacher": ["labels"],
    "prediction_only": ["prediction"],
    "task_stages": ["intermediate", "prediction"],
    "full": ["general", "intermediate", "prediction"],
}
SHA = {"teacher": "a" * 64, "student": "b" * 64, "teacher-int8": "c" * 64}
P50 = {
    "teacher": {32: 8.0, 64: 16.0, 128: 36.0},
    "student": {32: 0.5, 64: 0.9, 128: 2.0},
    "teacher-int8": {32: 2.0, 64: 4.0, 128: 9.0},
}
RECIPE = """\
name: tinybert_3l_192d_sst2
stages:
  labels: {kind: labels, epochs: 3}
  general: {kind: general, epochs: 1}
  intermediate: {kind: intermediate, epochs: 4}
  prediction: {kind: prediction, epochs: 3}
"""


def build(folder, **changes):
    """Writes the run; `changes` replace keys of metrics.json."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    work = work_folder.WorkFolder(folder, "run")
    work.start()
    metrics = {**_metrics(folder), **changes}
    write_json(folder / "metrics.json", metrics)
    write_json(folder / "benchmark.json", _benchmark())
    write_json(
        folder / "environment.json",
        {
            "format_version": 1,
            "tfdistill_version": "0.1.0",
            "commit": "0123456789ab",
            "command": ["tfdistill", "run", "tinybert_3l_192d_sst2", "--set", "data.dir=SST-2"],
            "python": "3.11.7",
            "packages": {"tensorflow": "2.20.0", "tf-keras": "2.20.1", "numpy": "2.4.6"},
        },
    )
    (folder / "recipe.yaml").write_text(RECIPE)
    write_json(folder / "export" / "model.json", card("student"))
    write_json(folder / "teacher" / "export" / "model.json", card("teacher"))
    work.save()
    return folder


def add_teacher_like_student(folder):
    """Exports the teacher in the student's format, too, and measures it with the others."""
    target = "also/teacher-int8/model.json"
    manifest = {**card("teacher"), "quantization": "dynamic_wi8_afp32"}
    manifest["model"] = {
        **manifest["model"],
        "sha256": SHA["teacher-int8"],
        "size_bytes": 23_000_000,
    }
    write_json(folder / target, manifest)
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["exports"].append({"name": "teacher-int8", "of": "teacher", "manifest": target})
    write_json(folder / "metrics.json", metrics)
    cards = {"teacher": card("teacher"), "student": card("student"), "teacher-int8": manifest}
    write_json(folder / "benchmark.json", _benchmark(cards))


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def _metrics(folder):
    models = [_model("teacher", "teacher", 1, ["labels"], 0.9, "teacher", folder)]
    for name, stages in STAGES.items():
        for seed, accuracy in enumerate(ACCURACY[name], start=1):
            place = f"students/{name}/seed-{seed}"
            models.append(_model(name, "student", seed, stages, accuracy, place, folder))
    return {
        "format_version": 1,
        "recipe": "tinybert_3l_192d_sst2",
        "created": "2026-01-02T03:04:05+00:00",
        "seed": 1,
        "task": {
            "name": "sst2",
            "kind": "classification",
            "labels": ["negative", "positive"],
            "primary_metric": "accuracy",
        },
        "synthetic_data": False,
        "later": {"a": 1},  # a key of a later version
        "models": models,
        "chosen": "students/full/seed-1",
        "exports": [
            {"name": "student", "of": "students/full/seed-1", "manifest": "export/model.json"},
            {"name": "teacher", "of": "teacher", "manifest": "teacher/export/model.json"},
        ],
    }


def _model(name, role, seed, stages, accuracy, place, folder):
    history = []
    for number, stage in enumerate(stages):
        path = folder / place / stage / "history.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_history(stage, seed, accuracy, warm="general" in stages[:number]))
        csv = str(path.relative_to(folder))
        history.append(results.HistoryFile.of(folder, stage, csv).model_dump())
    return {
        "name": name,
        "role": role,
        "seed": seed,
        "stages": stages,
        "metrics": {"accuracy": accuracy},
        "num_examples": 872,
        "parameters": PARAMETERS[role],
        "flops": FLOPS[role],
        "train_seconds": {"teacher": 912.0, "student": 240.0 * len(stages)}[role],
        "architecture": ARCHITECTURE[role],
        "folder": place,
        "history": history,
    }


def _history(stage, seed, accuracy, warm):
    epochs = {"general": 1, "intermediate": 4, "prediction": 3, "labels": 3}[stage]
    layered = stage in ("general", "intermediate")
    terms = ["attention", "hidden"] if layered else []
    lines = [
        ",".join(
            ["epoch", "step", "loss", *terms, "learning_rate", "seconds", "examples_per_second"]
            + ([] if layered else ["val_accuracy"])
        )
    ]
    for epoch in range(1, epochs + 1):
        base = math.exp(-0.6 * epoch) * (1 + 0.03 * seed) * (0.4 if warm else 1.0)
        parts = [9.0 * base + 1.2, 2.1 * base + 0.4] if layered else []
        loss = sum(parts) if layered else 0.6 * base + 0.11
        shown = [] if layered else [accuracy - 0.02 * (epochs - epoch) ** 2 * (0.5 if warm else 1)]
        row = [epoch, 1053 * epoch, loss, *parts, 5e-5, 61.5, 1095.1 + seed, *shown]
        lines.append(",".join(f"{value:.6g}" for value in row))
    return "\n".join(lines) + "\n"


def _manifest(name, quantization, size):
    exact = quantization == "float32"
    content = manifests.content(
        name=f"tinybert_3l_192d_sst2-{name}",
        model={"file": "model.tflite", "sha256": SHA[name], "size_bytes": size},
        quantization=quantization,
        task={"name": "sst2", "kind": "classification", "primary_metric": "accuracy"},
    )
    (signature,) = content["signatures"].values()
    content["signatures"] = {f"len{n}": {**signature, "sequence_length": n} for n in (32, 64, 128)}
    content["architecture"] |= {
        **ARCHITECTURE[name],
        "vocab_size": 30522,
        "num_parameters": PARAMETERS[name],
    }
    content["parity"] = {
        "num_examples": 872,
        "inputs": "real",
        "output_rms": 2.33,
        "max_abs_error": 0.0000071 if exact else 0.0932,
        "mean_abs_error": 0.0000012 if exact else 0.0118,
        "sqnr_db": 118.2 if exact else 41.7,
        "argmax_agreement": 1.0 if exact else 0.9977,
        "model_metrics": {"accuracy": 0.9 if exact else 0.88},
        "file_metrics": {"accuracy": 0.9 if exact else 0.8789},
        "bounds": {"max_error": 0.3, "sqnr_db": 20.0, "argmax_agreement": 0.97},
    }
    return content


def _benchmark(cards=None):
    cards = cards or {name: card(name) for name in ("teacher", "student")}
    return fake_results.result(
        [
            fake_results.Model(name, SHA[name], P50[name], manifest)
            for name, manifest in cards.items()
        ],
        threads=(1, 2),
        comparisons=True,
        texts=True,
        created="2026-01-02T03:04:05+00:00",
    )


def card(name):
    """The manifest of the teacher's or the student's file."""
    if name == "teacher":
        return _manifest("teacher", "float32", 91_332_000)
    return _manifest("student", "dynamic_wi8_afp32", 7_611_000)
