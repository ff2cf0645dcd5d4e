"""A model's answers over a set, and the task's metrics of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.data import batches as data_batches
from tfdistill.data import metrics, tasks


def predict_logits(model: keras.Model, batches: data_batches.Batches) -> np.ndarray:
    """Runs a model in inference mode over every example.

    Args:
      model: A classifier of `tfdistill.models`.
      batches: The examples, in any order of batches.

    Returns:
      Logits, float32 (examples, classes), in the order of the examples.

    Raises:
      DataError: If the batches leave examples out.
    """
    return predictor(model)(batches)


def predictor(model: keras.Model) -> Callable[[data_batches.Batches], np.ndarray]:
    """Builds a function that can be called after every epoch without tracing again."""
    names = model.input_names
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in names}

    @tf.function(input_signature=[specs])
    def forward(features: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.cast(model(features, training=False), tf.float32)

    def predict(batches: data_batches.Batches) -> np.ndarray:
        if batches.num_examples != len(batches.encoded):
            raise errors.DataError(
                errors.explain(
                    "batches to predict",
                    f"all {len(batches.encoded)} examples",
                    batches.num_examples,
                    "Make them without drop_remainder.",
                )
            )
        rows: list[np.ndarray] = []
        for batch in batches.dataset():
            features = batch[0] if isinstance(batch, tuple) else batch
            rows.append(forward({name: features[name] for name in names}).numpy())
        order = np.concatenate(batches.plan(0))
        logits = np.concatenate(rows)
        answers = np.empty_like(logits)
        answers[order] = logits
        return answers

    return predict


def evaluate(
    model: keras.Model, batches: data_batches.Batches, task: tasks.TaskSpec
) -> dict[str, float]:
    """Computes the task's metrics of a model.

    Args:
      model: A classifier of `tfdistill.models`.
      batches: Labelled examples.
      task: Says which metrics.

    Returns:
      Metric -> value; higher is better for all of them.
    """
    return metrics.compute_metrics(task, predict_logits(model, batches), gold_labels(batches))


def gold_labels(batches: data_batches.Batches) -> np.ndarray:
    """The labels of a set, in the order of its examples.

    Raises:
      DataError: If it has none.
    """
    labels = batches.encoded.labels
    if labels is None:
        raise errors.DataError(
            errors.explain("evaluation", "labelled examples", "examples without labels")
        )
    return labels
