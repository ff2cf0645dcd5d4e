"""The model's and the file's answers over the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras as keras
import tqdm

from tfdistill import models
from tfdistill.data import batches as batching
from tfdistill.data.encoded import EncodedExamples

from ..conversion.quantize import Bounds
from ..file.runtime import TfliteModel
from ..model import rows
from . import parity

# Between the signatures of one file: they were found equal bit for bit in dynamic_wi8_afp32 and
# to 1e-5 in float32; a fault in one of them is of the size of the outputs.
SAME_FILE = Bounds(
    max_error=0.01, mean_error=1e-3, sqnr_db=50.0, argmax_agreement=0.95, metric_drop=0.0
)
_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Answers:
    """What model and file say: a row for each example or, by heads over tokens, for each token.

    Attributes:
      logits: The model's logits, float32 (rows, num_labels), see `export.model.rows`.
      model: The model's outputs as the file should give them: logits, or probabilities.
      file: The file's outputs.
    """

    logits: np.ndarray
    model: np.ndarray
    file: np.ndarray


def model_logits(
    model: keras.Model, encoded: EncodedExamples, lengths: Sequence[int] | None = None
) -> np.ndarray:
    """Runs the model in inference mode; float32 (rows, num_labels), see `export.model.rows`.

    Args:
      model: A classifier of texts or tokens, or a model of spans.
      encoded: The examples.
      lengths: Pads each example to the shortest of these that holds it, as the file does; None
        pads to the longest of a batch.
    """
    if lengths is not None:
        bucket = np.searchsorted(sorted(lengths), encoded.lengths)
        groups = [np.flatnonzero(bucket == i) for i in range(len(lengths))]
        parts = [
            _logits(model, encoded.select(group), length)
            for length, group in zip(sorted(lengths), groups, strict=True)
            if len(group)
        ]
        order = np.concatenate(groups)
    else:
        parts, order = [_logits(model, encoded, None)], np.arange(len(encoded))
    logits = np.concatenate(parts)
    ordered = np.empty_like(logits)
    ordered[rows.rows_of(encoded, models.head_of(model), order)] = logits
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
    plan = batches.plan(0)
    head = models.head_of(model)
    parts = []
    for indices in plan:
        features = batches.batch(indices)
        inputs = {name: tf.constant(features[name]) for name in model.input_names}
        answer = model(inputs, training=False).numpy()
        if head != "sequence":  # (batch, tokens, width): padding is left out
            answer = answer[np.arange(answer.shape[1]) < encoded.lengths[indices][:, None]]
        parts.append(answer)
    logits = np.concatenate(parts)
    ordered = np.empty_like(logits)
    ordered[rows.rows_of(encoded, head, np.concatenate(plan))] = logits
    return ordered


def file_outputs(
    file: TfliteModel, encoded: EncodedExamples, *, length: int | None = None
) -> np.ndarray:
    """Runs the file on each example; float32 (rows, num_labels), see `export.model.rows`.

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
    return np.stack(outputs) if file.head == "sequence" else np.concatenate(outputs)


def answers(
    model: keras.Model, file: TfliteModel, encoded: EncodedExamples, *, softmax: bool
) -> Answers:
    """Asks model and file the same questions, with the same padding."""
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
            said = outputs[rows.rows_of(encoded, file.head, fitting)]
            again = file_outputs(file, short, length=length)
            decided = [rows.decisions(answer, short, file.head) for answer in (said, again)]
            agreement = parity.compare(said, again, decisions=decided)
            faults += parity.violations(agreement, bounds, where=f"len{length}: ")
    return faults


def softmax_of(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, computed in float64 and returned as float32."""
    shifted = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    return (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
