"""The model cards of a run: what its files leave is put into the README.md of what it exported."""

from __future__ import annotations

import pathlib
from typing import Any

from tfdistill import benchmark, config, errors, manifest, model_card, results
from tfdistill.benchmark import schema, terminal
from tfdistill.weights import checkpoint as checkpoints


def evidence(root: pathlib.Path, file: manifest.Manifest | None = None) -> model_card.CardFacts:
    """Collects what a run knows of its student, or of one of its files."""
    recipe = config.saved_recipe(root)
    path = root / results.METRICS_FILE
    if recipe is None or not path.is_file():
        return model_card.CardFacts()
    metrics = results.read_result_file(path, results.RunMetrics)
    teacher = next((model for model in metrics.models if model.role == "teacher"), None)
    measured = _latency(root / "benchmark.json", file)
    return model_card.CardFacts(
        base_model=_hub_id(recipe.teacher.source),
        synthetic=metrics.synthetic_data,
        teacher={} if teacher is None else teacher.metrics,
        baselines=metrics.baselines,
        **measured,
    )


def write_all(root: pathlib.Path, exports: tuple[results.ExportedFile, ...]) -> None:
    """Writes the cards of a run's exported files and of its student's Hugging Face folder."""
    for exported in exports:
        path = root / exported.manifest
        described = manifest.read_manifest(path, verify=False)
        facts = evidence(root, described)
        model_card.write(path.parent, model_card.of_file(described, facts))
        checkpoint = root / "student" / "hf"
        if exported.name == "student" and checkpoint.is_dir():
            model_card.write(checkpoint, model_card.of_checkpoint(described, facts))


def _hub_id(source: str | None) -> str | None:
    """A teacher's name on the hub; None of a preset, and of a path, which is nobody's business."""
    if source is None or pathlib.Path(source).expanduser().exists():
        return None
    named = checkpoints.HUB_ID.fullmatch(source)
    return None if named is None else named["name"]


def _latency(path: pathlib.Path, file: manifest.Manifest | None) -> dict[str, Any]:
    """What `CardFacts` says of the times of a file."""
    if file is None or not path.is_file():
        return {}
    try:
        result = benchmark.read_result(path)
    except errors.BenchmarkError:  # the report says so; a card does without
        return {}
    names = {model.name for model in result.models if model.sha256 == file.model.sha256}

    def usual(row: schema.Summary | schema.TextTime) -> bool:
        return row.model in names and row.delegate == "xnnpack" and row.affinity is None

    latencies = tuple(
        model_card.MeasuredLatency(
            row.sequence_length, row.threads, row.p50_ms, *row.p50_ci_ms, busy=row.busy
        )
        for row in result.summary
        if usual(row)
    )
    return {
        "latency": latencies,
        "text_ms": {row.threads: row.expected_ms for row in result.text_times if usual(row)},
        "measured_on": f"{terminal.origin(result)}. {' '.join(result.notes)}".strip(),
        "phone": result.kind == "phone",
    }
