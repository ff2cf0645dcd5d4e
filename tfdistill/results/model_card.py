"""README.md of an exported folder: a model card for people, with the metadata of the hub."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill.io import files, work_folder
from tfdistill.manifest import Manifest
from tfdistill.results import BaselineResult, tables, templates
from tfdistill.tasks import KINDS

FILE_NAME = "README.md"
_LONGEST_NAME = 60  # letters of a label or task
Metrics = Mapping[str, float | None]
MARK = "<!-- Written by tfdistill, which replaces only files with this line. -->"


@dataclasses.dataclass(frozen=True)
class CardFacts:
    """The facts of a model beyond its file; an unknown one stays out of the card."""

    name: str | None = None  # of the model; that of the manifest by default
    base_model: str | None = None  # hub id of the teacher
    license: str | None = None  # SPDX name, as the hub lists it
    language: str | None = None  # ISO 639 code of the texts
    synthetic: bool = False  # whether the data was generated
    # development metrics of the teacher
    teacher: Mapping[str, float | None] = dataclasses.field(default_factory=dict)
    # of "teacher", "student", "file" on the test set, and how many examples that has
    tested: Mapping[str, Mapping[str, float | None]] = dataclasses.field(default_factory=dict)
    num_tested: int | None = None
    caveats: Sequence[str] = ()  # what makes its figures doubtful
    baselines: Sequence[BaselineResult] = ()  # what the model is compared with
    latency: Sequence[Any] = ()  # of the file: rows of `benchmark.schema.Summary`
    # expected time of a development text, by threads
    text_ms: Mapping[int, float] = dataclasses.field(default_factory=dict)
    measured_on: str = ""  # machine, runtime and load of the latency
    phone: bool = False  # whether that was a phone


def of_file(manifest: Manifest, evidence: CardFacts | None = None) -> str:
    """Writes the card of a folder with a TFLite file."""
    evidence = evidence or CardFacts()
    metrics = manifest.parity.file_metrics if manifest.parity else {}
    lengths = sorted(entry.sequence_length for entry in manifest.signatures.values())
    runner = f"len{lengths[-1]}" if f"len{lengths[-1]}" in manifest.signatures else "serving"
    entry = next(iter(manifest.signatures.values()))
    values = {"lengths": lengths, "runner": runner, "entry": entry}
    return _card(
        manifest, evidence, metrics, evidence.tested.get("file", {}), of_file=True, **values
    )


def of_checkpoint(manifest: Manifest, evidence: CardFacts | None = None) -> str:
    """Writes the card of a Hugging Face folder from the manifest of the same model's file."""
    evidence = evidence or CardFacts()
    # `transformers` has no ReLU in front of the classifier: other logits, so no figures of ours.
    whole_texts = manifest.task is not None and KINDS[manifest.task.kind].row_a_text
    differs = whole_texts and manifest.architecture.family == "tinybert"
    metrics = manifest.parity.model_metrics if manifest.parity and not differs else {}
    role = "student" if "student" in evidence.tested else "teacher"  # which it is, then
    tested = {} if differs else evidence.tested.get(role, {})
    return _card(manifest, evidence, metrics, tested, of_file=False, differs=differs)


def write(folder: files.Path, text: str) -> pathlib.Path | None:
    """Writes README.md and returns its path; None where somebody else wrote what is there."""
    path = pathlib.Path(folder) / FILE_NAME
    if path.exists() and MARK not in path.read_text("utf-8", errors="replace"):
        return None
    work_folder.record(folder, [path])  # first: a card that no list names would be foreign
    files.atomic_write_text(path, text)
    return path


def _card(
    manifest: Manifest,
    evidence: CardFacts,
    metrics: Metrics,
    tested: Metrics,
    *,
    of_file: bool,
    **values: object,
) -> str:
    """Fills the template; `metrics` are of the development set, `tested` of the test set."""
    task, parity = manifest.task, manifest.parity
    traits = KINDS[task.kind if task is not None else "classification"]
    subject = "this file" if of_file else "this model"
    of_dev = {subject: metrics, "teacher": evidence.teacher}
    of_dev |= {row.name: row.metrics for row in evidence.baselines}
    of_test = {subject: tested, "teacher": evidence.tested.get("teacher", {})}
    # The test set first, where there is one.
    sets = ({"test": of_test} if tested else {}) | ({"development": of_dev} if metrics else {})
    columns = list(sets.values())[-1] if sets else {}
    num_examples = parity.num_scored if parity else None
    num_examples = evidence.num_tested if "test" in sets else num_examples
    accuracy, error = (tested or metrics).get("accuracy") or 0.0, None
    if traits.one_class and num_examples and 0 < accuracy < 1:
        error = math.sqrt(accuracy * (1 - accuracy) / num_examples)
    agreement = []
    if parity is not None and parity.sqnr_db is not None:
        agreement.append(f"SQNR {parity.sqnr_db:.1f} dB")
    if parity is not None and parity.argmax_agreement is not None:
        agreement.append(f"the same {parity.answer_word} for {parity.argmax_agreement:.1%}")
    return templates.render(
        "tfdistill.results",
        "model_card.md.j2",
        {
            **values,
            "of_file": of_file,
            "metadata": _metadata(manifest, evidence, tested, metrics, of_file),
            "mark": MARK,
            "name": evidence.name or manifest.name,
            "manifest": manifest,
            "facts": evidence,
            "traits": traits,
            "subject": subject,
            "sets": sets,
            "columns": [name for name, figures in columns.items() if figures],
            "num_examples": num_examples,
            "standard_error": error,
            "agreement": agreement,
        },
        cut=lambda name: tables.cut(name, _LONGEST_NAME),
        four=lambda value: "" if value is None else f"{value:.4f}",
        marked=tables.marked,
    )


def _metadata(
    manifest: Manifest,
    evidence: CardFacts,
    tested: Metrics,
    metrics: Metrics,
    of_file: bool,
) -> str:
    import huggingface_hub  # slow to import
    import yaml

    task = manifest.task
    traits = None if task is None else KINDS[task.kind]
    library = "sentence-transformers" if traits and traits.vectors else "transformers"
    scores = [
        huggingface_hub.EvalResult(
            task_type=str(traits and traits.pipeline),
            dataset_type=task.name,
            dataset_name=task.name,
            dataset_split="test" if tested else "validation",
            metric_type=metric,
            metric_value=round(value, 4),
        )
        for metric, value in (tested or metrics).items()
        if task is not None and value is not None
    ]
    formats = ["tflite", "litert"] if of_file else []
    data = huggingface_hub.ModelCardData(
        model_name=(evidence.name or manifest.name) if scores else None,
        eval_results=scores or None,
        base_model=evidence.base_model,
        license=evidence.license,
        language=evidence.language,
        library_name=None if of_file else library,
        pipeline_tag=traits and traits.pipeline,
        tags=[*formats, manifest.architecture.family, "knowledge-distillation", "tfdistill"],
    )
    # Not `to_yaml`: libraries, such as tf-models-official, change what `yaml.dump` writes.
    return yaml.safe_dump(data.to_dict(), sort_keys=False, allow_unicode=True).rstrip()
