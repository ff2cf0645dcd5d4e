"""Whether a file is built and answers as the model does: what decides if it is written."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
import tqdm

from tfdistill import errors, models
from tfdistill.data import batches as batching
from tfdistill.data import metrics
from tfdistill.data.encoded import EncodedExamples
from tfdistill.manifest import Parity

from ..conversion.plan import ExportPlan
from ..conversion.quantize import Bounds
from ..file import inspection
from ..file.inspection import ModelReport
from ..file.runtime import TfliteModel
from ..model import heads, inputs
from . import golden, parity, structure

# Between the signatures of one file: they were found equal bit for bit in dynamic_wi8_afp32 and
# to 1e-5 in float32; a fault in one of them is of the size of the outputs.
SAME_FILE = Bounds(
    max_error=0.01, mean_error=1e-3, sqnr_db=50.0, argmax_agreement=0.95, metric_drop=0.0
)
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Verification:
    """What was found of a file that may be written.

    Attributes:
      report: What it holds.
      parity: How far it agrees with the model.
      golden: The content of golden.json.
      answers: What model and file answered.
    """

    report: ModelReport
    parity: Parity
    golden: dict[str, Any]
    answers: Answers


@dataclasses.dataclass(frozen=True)
class Answers:
    """The answers of model and file, in rows as `export.model.heads` says.

    Attributes:
      logits: The model's logits, float32 (rows, num_labels), see `export.model.heads`.
      model: The model's outputs as the file should give them: logits, or probabilities.
      file: The file's outputs.
    """

    logits: np.ndarray
    model: np.ndarray
    file: np.ndarray


def verify(plan: ExportPlan, file: pathlib.Path) -> Verification:
    """Checks a converted file: its structure, and its answers against those of the model.

    Args:
      plan: What the file was made from.
      file: The file.

    Returns:
      What was found.

    Raises:
      ExportError: If the file is not built as it should be.
      ParityError: If it does not answer like the model; with every broken bound, a line each.
    """
    report = inspection.inspect(file)
    structure.check(report, structure.expectation(plan))
    opened = TfliteModel(file, threads=min(4, os.cpu_count() or 1))
    examples = plan.examples
    found = answers(plan.model, opened, examples, softmax=plan.request.softmax)
    bounds = plan.bounds
    if not plan.real_examples:
        bounds = dataclasses.replace(bounds, argmax_agreement=0.0)
    record, faults = _compare(plan, found, bounds)
    chosen = inputs.probes(examples, plan.lengths)
    if plan.head.name == "span":
        chosen = inputs.whole_texts(examples, chosen)
    if np.isfinite(found.file).all():
        alike = chosen[inputs.comparable(examples.select(chosen), plan.config, plan.lengths)]
        if len(alike):
            outputs = found.file[plan.head.rows_of(examples, alike)]
            within = bounds if plan.quantization.method == "static" else SAME_FILE
            faults += signature_faults(opened, examples.select(alike), outputs, within)
    if faults:
        raise errors.ParityError(
            f"{file.name} ({plan.quantization.name}) does not answer like the model on "
            f"{len(examples)} examples and was not written:\n  - " + "\n  - ".join(faults)
        )
    golden_vectors = golden.content(plan, chosen, found.logits, found.file)
    return Verification(report, record, golden_vectors, found)


def _compare(plan: ExportPlan, found: Answers, bounds: Bounds) -> tuple[Parity, list[str]]:
    """Compares the answers of file and model; lists the bounds that are broken."""
    examples, task = plan.examples, plan.task
    agreement = parity.compare(
        found.model,
        found.file,
        decisions=[
            plan.head.decisions(outputs, examples, task) for outputs in (found.model, found.file)
        ],
    )
    faults = parity.violations(agreement, bounds)
    model_metrics: dict[str, float] = {}
    file_metrics: dict[str, float] = {}
    if task is not None and examples.labels is not None and np.isfinite(found.file).all():
        model_metrics = metrics.score(task, found.logits, examples)
        file_metrics = metrics.score(task, found.file, examples)
        faults += parity.metric_violations(
            model_metrics, file_metrics, task.primary_metric, bounds, heads.num_scored(examples)
        )
    record = Parity(
        num_examples=len(examples),
        inputs="real" if plan.real_examples else "random",
        output_rms=agreement.output_rms,
        max_abs_error=agreement.max_abs_error,
        mean_abs_error=agreement.mean_abs_error,
        sqnr_db=agreement.sqnr_db,
        argmax_agreement=agreement.argmax_agreement,
        model_metrics=model_metrics,
        file_metrics=file_metrics,
        bounds=bounds.as_dict(),
    )
    return record, faults


def model_logits(
    model: keras.Model, encoded: EncodedExamples, lengths: Sequence[int] | None = None
) -> np.ndarray:
    """Runs the model in inference mode; float32 (rows, num_labels), see `export.model.heads`.

    Args:
      model: A classifier of texts or tokens, or a model of spans.
      encoded: The examples.
      lengths: Pads each example to the shortest of these that holds it, as the file does; None
        pads to the longest of a batch.
    """
    if lengths is None:
        return _logits(model, encoded, None)
    bucket = np.searchsorted(sorted(lengths), encoded.lengths)
    groups = [np.flatnonzero(bucket == i) for i in range(len(lengths))]
    parts = [
        _logits(model, encoded.select(group), length)
        for length, group in zip(sorted(lengths), groups, strict=True)
        if len(group)
    ]
    return _in_order(model, encoded, parts, groups)


def _in_order(
    model: keras.Model,
    encoded: EncodedExamples,
    parts: Sequence[np.ndarray],
    groups: Sequence[np.ndarray],
) -> np.ndarray:
    """Puts the logits of groups of examples into the order of the examples."""
    logits = np.concatenate(parts)
    ordered = np.empty_like(logits)
    head = heads.HEADS[models.head_of(model)]
    ordered[head.rows_of(encoded, np.concatenate(groups))] = logits
    return ordered


def _logits(model: keras.Model, encoded: EncodedExamples, length: int | None) -> np.ndarray:
    """The same for examples padded to `length`, or to the longest of a batch."""
    unlabelled = dataclasses.replace(encoded, labels=None, weights=None)
    batches = batching.Batches(
        unlabelled,
        batch_size=_BATCH_SIZE,
        shuffle=False,
        bucketing=length is None,
        max_length=length,
    )
    groups = batches.plan(0)
    head = heads.HEADS[models.head_of(model)]
    parts = []
    for indices in groups:
        features = batches.batch(indices)
        given = {name: tf.constant(features[name]) for name in model.input_names}
        outputs = model(given, training=False).numpy()
        parts.append(head.rows_of_batch(outputs, encoded.lengths[indices]))
    return _in_order(model, encoded, parts, groups)


def file_outputs(
    file: TfliteModel, encoded: EncodedExamples, *, length: int | None = None
) -> np.ndarray:
    """Runs the file on each example; float32 (rows, num_labels), see `export.model.heads`.

    Args:
      file: The opened file.
      encoded: The examples.
      length: Sequence length for all; None takes the shortest signature for each.
    """
    examples = tqdm.tqdm(
        range(len(encoded)),
        desc="Checking the file",
        unit="example",
        disable=None if length is None else True,  # None: shown on a terminal only
        leave=False,
    )
    outputs = [
        file.predict(encoded.row(i), encoded.row_types(i), length=length, pad_id=encoded.pad_id)
        for i in examples
    ]
    return file.head.join(outputs)


def answers(
    model: keras.Model, file: TfliteModel, encoded: EncodedExamples, *, softmax: bool
) -> Answers:
    """Runs model and file on the same examples, with the same padding."""
    logits = model_logits(model, encoded, file.lengths)
    return Answers(logits, softmax_of(logits) if softmax else logits, file_outputs(file, encoded))


def signature_faults(
    file: TfliteModel, encoded: EncodedExamples, outputs: np.ndarray, bounds: Bounds = SAME_FILE
) -> list[str]:
    """Runs examples through every signature that holds them and lists where the answers differ.

    Short examples in a long signature are mostly padding, so this is also the check that padding
    changes nothing. It needs no model: the signatures hold the same numbers in the same format, so
    they must agree much more closely than a quantized file agrees with its model.

    Args:
      file: The opened file.
      encoded: A few examples.
      outputs: The file's outputs for them through the shortest signature that holds each.
      bounds: How far the signatures may differ. With static activations they do, each storing its
        rows of positions with a scale of its own.

    Returns:
      One line for each broken bound.
    """
    faults = []
    for length in file.lengths:
        fitting = np.flatnonzero(encoded.lengths <= length)
        if len(fitting):
            short = encoded.select(fitting)
            expected = outputs[file.head.rows_of(encoded, fitting)]
            received = file_outputs(file, short, length=length)
            decided = [file.head.decisions(rows, short) for rows in (expected, received)]
            agreement = parity.compare(expected, received, decisions=decided)
            faults += parity.violations(agreement, bounds, where=f"len{length}: ")
    return faults


def softmax_of(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, computed in float64 and returned as float32."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
