"""A linear head over a frozen encoder: fitted on the task's rows in a moment, without steps."""

from __future__ import annotations

import functools
import time

import numpy as np
import tf_keras as keras

from tfdistill import analysis, errors, models, results
from tfdistill.data.task_data import TaskData, to_evaluate
from tfdistill.models.layers import layer_of


def fit_frozen(model: keras.Model, data: TaskData) -> results.FitResult:
    """Fits the last layer of a classifier to the training set; nothing else changes.

    Raises:
      ConfigError: If the task is not one of classes that exclude each other.
    """
    started = time.monotonic()
    head = _fit(model, data)
    layer_of(model, models.read_head(model).layer).set_weights([head.kernel, head.bias])
    return results.FitResult(steps=0, seconds=time.monotonic() - started)


def unseen_logits(model: keras.Model, data: TaskData) -> np.ndarray:
    """The logits of each training row by a head that was fitted without it, (n, num_labels)."""
    return _fit(model, data).unseen


def _fit(model: keras.Model, data: TaskData) -> analysis.LinearHead:
    if not data.task.traits.one_class:
        expected = "a task of classes that exclude each other"
        raise errors.ConfigError("frozen", expected, f"kind {data.task.kind}")
    layer = layer_of(model, models.read_head(model).layer)
    vectors = keras.Model(model.inputs, layer.input)
    rows = to_evaluate(data.train.encoded)
    features = models.predict_logits(vectors, rows)
    labels = np.asarray(data.train_examples.labels)
    return _head_of(features.tobytes(), tuple(labels.tolist()), data.task.num_labels)


@functools.lru_cache(maxsize=1)
def _head_of(vectors: bytes, labels: tuple[int, ...], num_labels: int) -> analysis.LinearHead:
    """The head of float32 vectors: a run asks for it twice, for the model and for unseen rows."""
    features = np.frombuffer(vectors, np.float32).reshape(len(labels), -1)
    return analysis.fit_head(features, np.array(labels), num_labels)
