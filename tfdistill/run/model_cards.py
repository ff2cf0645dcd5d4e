"""The model cards of a run: what its files leave is put into the README.md of what it exported."""

from __future__ import annotations

import pathlib
from typing import Any

from tfdistill import benchmark, config, errors, manifest, results
from tfdistill.benchmark import schema, terminal
from tfdistill.data import answers
from tfdistill.results import model_card
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
    tested, of_test = dict(metrics.test_metrics), root / answers.TEST_FILE
    if "file" in tested:
        scored = manifest.read_manifest(root / "export", verify=False)
        if file is None or file.model.sha256 != scored.model.sha256:
            del tested["file"]
    return model_card.CardFacts(
        base_model=_hub_id(recipe.teacher.source),
        synthetic=metrics.synthetic_data,
        teacher={} if teacher is None else teacher.metrics,
        tested=tested,
        num_tested=len(answers.read(of_test).gold) if tested and of_test.is_file() else None,
        caveats=metrics.caveats,
        baselines=metrics.baselines,
        **measured,
    )


def write_all(root: pathlib.Path, exports: tuple[results.ExportedFile, ...]) -> None:
    """Writes the cards of a run's exported files and of its student's Hugging Face folder."""
    for exported in exports:
        path = root / exported.manifest
        described = manifest.read_manifest(path, verify=False)
        facts = evidence(root, described)
        write(path.parent, described, facts)
        checkpoint = root / "student" / "hf"
        if exported.name == "student" and checkpoint.is_dir():
            model_card.write(checkpoint, model_card.of_checkpoint(described, facts))


def write(folder: pathlib.Path, file: manifest.Manifest, facts: model_card.CardFacts) -> None:
    """Writes the card of a file, and its figures on the test set into its manifest."""
    figures = {k: v for k, v in facts.tested.get("file", {}).items() if v is not None}
    if figures and file.parity is not None:
        parity = file.parity.model_copy(update={"test_metrics": figures})
        file = file.model_copy(update={"parity": parity})
        path = manifest.manifest_path(folder / file.model.file)
        manifest.write_manifest(file, folder, file_name=path.name)
    model_card.write(folder, model_card.of_file(file, facts))


def _hub_id(source: str | None) -> str | None:
    """A teacher's name on the hub; None of a preset, and of a path, which is nobody's business."""
    if source is None or pathlib.Path(source).expanduser().exists():
        return None
    named = checkpoints.HUB_ID.fullmatch(source)
    return None if named is None else named["name"]


def _latency(path: pathlib.Path, file: manifest.Manifest | None) -> dict[str, Any]:
    if file is None or not path.is_file():
        return {}
    try:
        result = benchmark.read_result(path)
    except errors.BenchmarkError:  # the report says so; a card does without
        return {}
    names = {model.name for model in result.models if model.sha256 == file.model.sha256}

    def usual(row: schema.Summary | schema.TextTime) -> bool:
        return row.model in names and row.delegate == "xnnpack" and row.affinity is None

    return {
        "latency": tuple(filter(usual, result.summary)),
        "text_ms": {row.threads: row.expected_ms for row in result.text_times if usual(row)},
        "measured_on": f"{terminal.origin(result)}. {' '.join(result.notes)}".strip(),
        "phone": result.kind == "phone",
    }
