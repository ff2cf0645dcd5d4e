"""The model cards of a run: what its files leave is put into the README.md of what it exported."""

from __future__ import annotations

import pathlib

from tfdistill import benchmark, config, errors, manifest, model_card, results
from tfdistill.benchmark import terminal
from tfdistill.weights import checkpoint as checkpoints


def evidence(root: pathlib.Path, file: manifest.Manifest | None = None) -> model_card.CardFacts:
    """Collects what a run knows of its student, or of one of its files.

    Args:
      root: A run folder; of any other folder nothing is known.
      file: Takes the latency of this file from the run's benchmark.

    Returns:
      It; what the run does not know is left out.
    """
    recipe = config.saved_recipe(root)
    path = root / results.METRICS_FILE
    if recipe is None or not path.is_file():
        return model_card.CardFacts()
    metrics = results.read_result_file(path, results.RunMetrics)
    teacher = next((model for model in metrics.models if model.role == "teacher"), None)
    latency, measured_on, phone = _latency(root / "benchmark.json", file)
    return model_card.CardFacts(
        base_model=_hub_id(recipe.teacher.source),
        synthetic=metrics.synthetic_data,
        teacher={} if teacher is None else teacher.metrics,
        baselines=metrics.baselines,
        latency=latency,
        measured_on=measured_on,
        phone=phone,
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


def _latency(
    path: pathlib.Path, file: manifest.Manifest | None
) -> tuple[tuple[model_card.MeasuredLatency, ...], str, bool]:
    if file is None or not path.is_file():
        return (), "", False
    try:
        result = benchmark.read_result(path)
    except errors.BenchmarkError:  # the report says so; a card does without
        return (), "", False
    names = {model.name for model in result.models if model.sha256 == file.model.sha256}
    latencies = tuple(
        model_card.MeasuredLatency(
            row.sequence_length, row.threads, row.p50_ms, *row.p50_ci_ms, busy=row.busy
        )
        for row in result.summary
        if row.model in names and row.delegate == "xnnpack" and row.affinity is None
    )
    notes = " ".join(result.notes)
    return latencies, f"{terminal.origin(result)}. {notes}".strip(), result.kind == "phone"
