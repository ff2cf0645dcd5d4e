"""The task's metrics of a model's answers over a set."""

from __future__ import annotations

import tf_keras as keras

from tfdistill import tasks
from tfdistill.data import batches as data_batches
from tfdistill.models import predict_logits
from tfdistill.tasks import metrics


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
