"""The answers of a model and of its file on the same examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import scipy.special
import tensorflow as tf
import tf_keras as keras
import tqdm

from tfdistill import models
from tfdistill.data import batches as batching
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel

from ..model import heads

_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True)
class Answers:
    """The model's logits and the file's outputs, (rows, num_labels), see `export.model.heads`."""

    logits: np.ndarray
    file: np.ndarray


def model_logits(
    model: keras.Model, encoded: EncodedExamples, lengths: Sequence[int] | None = None
) -> np.ndarray:
    """Runs the model in inference mode; float32 (rows, num_labels), see `export.model.heads`.

    Each example is padded to the shortest of `lengths` that holds it, as in the file; without
    lengths to the longest of a batch.
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
        inputs = {name: tf.constant(features[name]) for name in model.input_names}
        outputs = model(inputs, training=False).numpy()
        parts.append(head.rows_of_batch(outputs, encoded.lengths[indices]))
    return _in_order(model, encoded, parts, groups)


def file_outputs(
    file: TfliteModel, encoded: EncodedExamples, *, length: int | None = None
) -> np.ndarray:
    """Runs the file on each example; float32 (rows, num_labels), see `export.model.heads`.

    All run at `length`; None takes the shortest signature for each.
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
    return heads.head_of_file(file).join(outputs)


def softmax_of(logits: np.ndarray) -> np.ndarray:
    """Returns the softmax over the last axis, computed in float64 and returned as float32."""
    return scipy.special.softmax(logits.astype(np.float64), axis=-1).astype(np.float32)
