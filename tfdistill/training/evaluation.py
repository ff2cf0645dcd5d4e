"""A model's answers over a set, and the task's metrics of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.data import batches as data_batches
from tfdistill.data import metrics, tasks
from tfdistill.data.encoded import spans


def predict_logits(model: keras.Model, batches: data_batches.Batches) -> np.ndarray:
    """Runs a model in inference mode over every example.

    Args:
      model: A model of `tfdistill.models` with a head over sequences, tokens or spans.
      batches: The examples, in any order of batches.

    Returns:
      Logits, float32 (examples, classes), in the order of the examples; of a head over tokens or
      spans (tokens, classes), in the order of ``batches.encoded.ids``.

    Raises:
      DataError: If the batches leave examples out.
    """
    return predictor(model)(batches)


def predictor(model: keras.Model) -> Callable[[data_batches.Batches], np.ndarray]:
    """Builds a function that can be called after every epoch without tracing again."""
    names = model.input_names
    for_tokens = models.read_head(model).over_tokens
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in names}

    @tf.function(input_signature=[specs])
    def forward(features: dict[str, tf.Tensor]) -> tf.Tensor:
        return tf.cast(model(features, training=False), tf.float32)

    def predict(batches: data_batches.Batches) -> np.ndarray:
        if batches.num_examples != len(batches.encoded):
            raise errors.DataError(
                "batches to predict",
                f"all {len(batches.encoded)} examples",
                batches.num_examples,
                "Make them without drop_remainder.",
            )
        rows: list[np.ndarray] = []
        plan = batches.plan(0)
        for indices in plan:
            batch = batches.batch(indices)
            features = batch[0] if isinstance(batch, tuple) else batch
            logits = forward({name: tf.constant(features[name]) for name in names}).numpy()
            rows.append(logits[features["attention_mask"] > 0] if for_tokens else logits)
        logits = np.concatenate(rows)
        order = np.concatenate(plan)
        if for_tokens:
            encoded = batches.encoded
            order = spans(encoded.offsets[order], encoded.lengths[order])
        answers = np.empty_like(logits)
        answers[order] = logits
        return answers

    return predict


def evaluate(
    model: keras.Model, batches: data_batches.Batches, task: tasks.TaskSpec
) -> dict[str, float]:
    """Computes the task's metrics of a model.

    Args:
      model: A model of `tfdistill.models` with the task's head.
      batches: Labelled examples.
      task: Says which metrics.

    Returns:
      Metric -> value; higher is better for all of them.

    Raises:
      DataError: If there are no labels.
      ShapeError: If the model does not answer the task.
    """
    return metrics.score(task, predict_logits(model, batches), batches.encoded)


def gold_labels(batches: data_batches.Batches) -> np.ndarray:
    """The labels of a set, in the order of its examples, or of its tokens where these have them.

    Of windows of questions: bool (questions,), whether a question has no answer.

    Raises:
      DataError: If it has none.
    """
    labels = batches.encoded.labels
    found = batches.encoded.span_sources
    if found is not None and labels is not None:
        return np.array([not question.answers for question in found.questions])
    if labels is None:
        raise errors.DataError("evaluation", "labelled examples", "examples without labels")
    return labels
