"""Measures of a model: the task's metrics of its answers, and masked words on held-out text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, tasks
from tfdistill.data import batches as data_batches
from tfdistill.data import streaming
from tfdistill.models import predict_logits


def evaluate(
    model: keras.Model, batches: data_batches.Batches, task: tasks.TaskSpec | None = None
) -> dict[str, float]:
    """Computes the task's metrics of a model.

    Args:
      model: A model of `tfdistill.models` with the task's head.
      batches: Labelled examples.
      task: Says which metrics; None: the task that the examples were read for.

    Returns:
      Metric -> value; higher is better for all of them.

    Raises:
      ConfigError: If `task` is None and the examples do not name theirs.
      DataError: If there are no labels.
      ShapeError: If the model does not answer the task.

    Examples:
      >>> metrics = tfdistill.evaluate(student, data.dev)
      >>> 0 <= metrics["accuracy"] <= 1
      True
    """
    errors.check_types(model=(model, keras.Model), batches=(batches, data_batches.Batches))
    task = task or batches.encoded.task
    if task is None:
        raise errors.ConfigError(
            "task", "the task", "None, and examples that name none", "Pass task=... as well."
        )
    return task.score(predict_logits(model, batches), batches.encoded)


class MaskedLmEvaluation:
    """Measures a masked language model on batches whose masks never change.

    Calling it gives, over all masked positions p of the batches (not a mean of batch means):

        mlm_loss     = mean over p of -log softmax(z_p)[y_p], natural logarithm
        mlm_accuracy = share of p where y_p has the greatest logit
        perplexity   = exp(mlm_loss)

    and, where the model and the batches have it, ``nsp_loss`` and ``nsp_accuracy``, means over
    the examples; ``predictions``, how many positions there were.

    Args:
      model: A model with a masked-LM head.
      batches: Masked batches, one epoch of which is measured; unshuffled ones of a fixed seed
        give comparable figures.
    """

    def __init__(self, model: keras.Model, batches: streaming.TrainingBatches):
        """Keeps the arguments; the graph is traced at the first call."""
        self._model = model
        self._batches = batches
        self._sums = tf.function(self._batch_sums, reduce_retracing=True)

    def __call__(self) -> dict[str, float]:
        """Runs the model over the batches, without dropout.

        Raises:
          DataError: If no position is masked.
        """
        totals: dict[str, float] = {}
        with streaming.raising_faults():
            for features in self._batches.dataset():
                for name, value in self._sums(features).items():
                    totals[name] = totals.get(name, 0.0) + float(value)
        if not totals.get("predictions"):
            raise errors.DataError(
                "evaluation batches", "masked positions", "none", "Use more text."
            )
        loss = totals["mlm_loss"] / totals["predictions"]
        figures = {
            "mlm_loss": loss,
            "mlm_accuracy": totals["mlm_hits"] / totals["predictions"],
            "perplexity": math.exp(min(loss, 700.0)),  # the largest power that a float holds
            "predictions": totals["predictions"],
        }
        if "nsp_loss" in totals:
            figures["nsp_loss"] = totals["nsp_loss"] / totals["examples"]
            figures["nsp_accuracy"] = totals["nsp_hits"] / totals["examples"]
        return figures

    def _batch_sums(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        inputs = {name: features[name] for name in self._model.input_names}
        answers: Mapping[str, Any] = self._model(inputs, training=False)
        chosen = tf.not_equal(features["prediction_mask"], 0)
        labels = tf.boolean_mask(features["mlm_labels"], chosen)  # (N,)
        is_masked = tf.cast(labels >= 0, tf.float32)
        loss, hits = _losses_and_hits(tf.maximum(labels, 0), answers["mlm_logits"])
        sums = {
            "mlm_loss": tf.reduce_sum(loss * is_masked),
            "mlm_hits": tf.reduce_sum(hits * is_masked),
            "predictions": tf.reduce_sum(is_masked),
        }
        if "nsp_logits" in answers and "nsp_labels" in features:
            loss, hits = _losses_and_hits(features["nsp_labels"], answers["nsp_logits"])
            sums["nsp_loss"], sums["nsp_hits"] = tf.reduce_sum(loss), tf.reduce_sum(hits)
            sums["examples"] = tf.cast(tf.size(loss), tf.float32)
        return sums


def _losses_and_hits(labels: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    logits = tf.cast(logits, tf.float32)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    answers = tf.argmax(logits, axis=-1, output_type=labels.dtype)
    return losses, tf.cast(tf.equal(answers, labels), tf.float32)
