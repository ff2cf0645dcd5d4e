"""`to_tflite`: a trained model becomes one checked file for phones, or none at all."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.data import metrics
from tfdistill.data.tasks import Examples, SpanRules, TaskSpec
from tfdistill.manifest import Manifest, Parity

from ..checking import golden, golden_answers, parity, structure, verify
from ..conversion import convert, mixed
from ..file import bundle, inspection
from ..file import metadata as tflite_metadata
from ..file.runtime import TfliteModel
from ..model import graph, inputs, rows, signature
from . import card
from .plan import Plan, make_plan


def to_tflite(
    model: keras.Model,
    path: files.Path,
    *,
    quantize: str = "dynamic_wi8_afp32",
    layers: Mapping[str, str] | None = None,
    lengths: Sequence[int] = (32, 64, 128),
    softmax: bool = False,
    check_on: Any = None,
    calibrate_on: Any = None,
    num_calibration: int = 200,
    seed: int = 0,
    texts: Examples | None = None,
    task: TaskSpec | None = None,
    vocab_file: files.Path | None = None,
    lower_case: bool = True,
    labels: Sequence[str] | None = None,
    bounds: Mapping[str, float] | None = None,
    metadata: bool | None = None,
    overwrite: bool = False,
    name: str | None = None,
    timeout_s: float = 1800,
) -> Manifest:
    """Exports a model as one TFLite file with a signature for each sequence length.

    The file is checked before it is written: its structure, its agreement with the model on
    `check_on` (max and mean error, SQNR, same class) through every signature, and the task's
    metric of the file itself. Beyond a bound nothing is written and nothing is replaced.

    Signature len32 takes int32 (1, 32) `input_ids`, `attention_mask` (1 token, 0 padding) and,
    where the model has it, `token_type_ids`, and gives float32 (1, num_labels) `logits`, or
    `scores` with softmax. Bind them by name.

    Args:
      model: A classifier or regressor of `tfdistill.models`.
      path: The .tflite file to write. model.json, golden.json and, where given, vocab.txt and
        labels.txt are written beside it (see `bundle.places`).
      quantize: Name of a quantization; see `export.quantizations`.
      layers: Layers that take another quantization: pattern of layer names, as for a shell
        ("layer_0_*"), -> name. Of several patterns that fit a layer the first counts.
      lengths: Sequence lengths; they share the weights.
      softmax: Whether the file gives probabilities instead of logits.
      check_on: Real examples to check on: `Batches`, `EncodedExamples` or a dataset of batches,
        with labels for the task's metric. None draws random ids, and the manifest says so.
      calibrate_on: Real examples, without labels or with them, in the same forms: what the ranges
        of a static quantization are measured on. Never those of `check_on`.
      num_calibration: Examples to draw from `calibrate_on`, without replacement.
      seed: Seed of that draw.
      texts: The texts of `check_on` in its order, for golden.json; they need `vocab_file`.
      task: The task, for metrics and labels.
      vocab_file: The vocabulary that text is tokenized with.
      lower_case: Whether text is lower-cased.
      labels: Label names in the order of the logits; default the task's.
      bounds: Bounds to change, by name (see `quantize.Bounds`), for example {"sqnr_db": 15}.
      metadata: Whether the file carries what MediaPipe needs to run it from text (see
        `export.file.metadata`): one length, softmax inside, a lower-case vocabulary, labels. None:
        where it can.
      overwrite: Whether existing files may be replaced.
      name: Name in the manifest; default the file's stem.
      timeout_s: Seconds that the converter may take.

    Returns:
      The manifest, as written to model.json.

    Raises:
      ConfigError: If an argument is not valid.
      DataError: If `check_on` does not fit the model or the lengths.
      OutputExistsError: If a file is there and `overwrite` is not given.
      ExportError: If the conversion fails, the file is not built as it should be, or it cannot be
        written.
      ParityError: If the file does not answer like the model.
    """
    places = bundle.places(path)
    plan = make_plan(
        model,
        name=name or places.model.stem,
        quantize=quantize,
        layers=layers,
        lengths=lengths,
        softmax=softmax,
        check_on=check_on,
        calibrate_on=calibrate_on,
        num_calibration=num_calibration,
        seed=seed,
        texts=texts,
        task=task,
        vocab_file=vocab_file,
        lower_case=lower_case,
        labels=labels,
        bounds=bounds,
        metadata=metadata,
    )
    beside: dict[pathlib.Path, bytes] = {}
    if plan.vocab_file is not None:
        beside[places.vocab] = plan.vocab_file.read_bytes()
    if plan.labels:
        beside[places.labels] = "".join(f"{label}\n" for label in plan.labels).encode()
    unknown = dict.fromkeys((places.model, places.manifest, places.golden))
    bundle.check_free({**unknown, **beside}, overwrite=overwrite)

    with tempfile.TemporaryDirectory(prefix="tfdistill-export-") as temporary:
        candidate = pathlib.Path(temporary) / places.model.name
        saved = pathlib.Path(temporary) / "saved_model"
        signature.save(plan.model, saved, lengths=plan.lengths, softmax=plan.softmax)
        convert.convert(
            saved,
            candidate,
            quantize=plan.quantization.name,
            signatures=[signature.signature_name(length) for length in plan.lengths],
            layers={name: own.name for name, own in plan.layers.items()},
            matrices=mixed.with_matrices(plan.model),
            examples=plan.calibration,
            quantize_aware=plan.quantize_aware,
            timeout_s=timeout_s,
        )
        if plan.metadata and plan.vocab_file is not None:
            tflite_metadata.attach(
                candidate, name=plan.name, vocab_file=plan.vocab_file, labels=plan.labels
            )
        report = inspection.inspect(candidate)
        structure.check(report, _expectation(plan))
        agreement, vectors = _verify(plan, candidate)
        beside[places.golden] = (json.dumps(vectors, ensure_ascii=False) + "\n").encode()
        manifest = card.describe(plan, report, agreement, places, beside)
        contents: dict[pathlib.Path, bytes | pathlib.Path] = {places.model: candidate, **beside}
        contents[places.manifest] = (manifest.model_dump_json(indent=2) + "\n").encode()
        bundle.write(contents)
    return manifest


def _expectation(plan: Plan) -> structure.Expectation:
    recurrent = isinstance(plan.config, models.BiLstmConfig)
    return structure.Expectation(
        quantization=plan.quantization,
        lengths=plan.lengths,
        inputs=tuple(plan.model.input_names),
        head=plan.head,
        outputs=graph.output_names(plan.head, softmax=plan.softmax),
        num_labels=plan.num_labels,
        weights=tuple(mixed.stored_weights(plan.model, plan.quantization, plan.layers)),
        position_width=0 if recurrent else plan.config.hidden_size,
    )


def _verify(plan: Plan, candidate: pathlib.Path) -> tuple[Parity, dict[str, Any]]:
    """Compares file and model; returns the record and the golden vectors, or raises."""
    file = TfliteModel(candidate, threads=min(4, os.cpu_count() or 1))
    said = verify.answers(plan.model, file, plan.examples, softmax=plan.softmax)
    bounds = plan.bounds if plan.real else dataclasses.replace(plan.bounds, argmax_agreement=0.0)
    examples, task = plan.examples, plan.task
    agreement = parity.compare(
        said.model,
        said.file,
        decisions=[
            rows.decisions(outputs, examples, plan.head, task)
            for outputs in (said.model, said.file)
        ],
    )
    faults = parity.violations(agreement, bounds)
    model_metrics: dict[str, float] = {}
    file_metrics: dict[str, float] = {}
    finite = bool(np.isfinite(said.file).all())
    if task is not None and examples.labels is not None and finite:
        model_metrics = metrics.score(task, said.logits, examples)
        file_metrics = metrics.score(task, said.file, examples)
        faults += parity.metric_violations(
            model_metrics, file_metrics, task.primary_metric, bounds, rows.num_scored(examples)
        )
    chosen = inputs.probes(examples, plan.lengths)
    if plan.head == "span":
        chosen = inputs.whole_texts(examples, chosen)
    probes = examples.select(chosen)
    if finite:
        alike = inputs.comparable(probes, plan.config, plan.lengths)
        if len(alike):
            outputs = said.file[rows.rows_of(examples, plan.head, chosen[alike])]
            static = plan.quantization.method == "static"
            faults += verify.signature_faults(
                file, probes.select(alike), outputs, bounds if static else verify.SAME_FILE
            )
    if faults:
        raise errors.ParityError(
            f"{candidate.name} ({plan.quantization.name}) does not answer like the model on "
            f"{len(plan.examples)} examples and was not written:\n  - " + "\n  - ".join(faults)
        )
    record = Parity(
        num_examples=len(examples),
        inputs="real" if plan.real else "random",
        output_rms=agreement.output_rms,
        max_abs_error=agreement.max_abs_error,
        mean_abs_error=agreement.mean_abs_error,
        sqnr_db=agreement.sqnr_db,
        argmax_agreement=agreement.argmax_agreement,
        model_metrics=model_metrics,
        file_metrics=file_metrics,
        bounds=bounds.as_dict(),
    )
    return record, _golden(plan, chosen, said)


def _golden(plan: Plan, chosen: np.ndarray, said: verify.Answers) -> dict[str, Any]:
    """Makes the content of golden.json from some of the examples."""
    probes, longest = plan.examples.select(chosen), max(plan.lengths)
    of_probes = rows.rows_of(plan.examples, plan.head, chosen)
    outputs = said.file[of_probes]
    sources = chosen if probes.sources is None else probes.sources
    known = None if plan.texts is None else plan.texts.select(sources)
    texts = golden.texts_of(probes, known, plan.tokenizer, longest)
    content = golden.golden(
        probes, texts, plan.lengths, said.logits[of_probes], outputs, head=plan.head
    )
    if plan.head == "token":
        content["sentences"] = golden_answers.sentences(
            probes, plan.texts, plan.tokenizer, longest, outputs, plan.labels
        )
    elif plan.head == "span":
        rules = SpanRules() if plan.task is None else plan.task.spans
        content["questions"] = golden_answers.questions(
            probes, plan.tokenizer, longest, outputs, rules
        )
    return content
