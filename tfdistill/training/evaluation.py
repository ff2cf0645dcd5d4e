"""The task's metrics of a model's answers over a set."""

from __future__ import annotations

import tf_keras as keras

from tfdistill import errors, tasks
from tfdistill.data import batches as data_batches
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
    task = task or batches.encoded.task
    if task is None:
        raise errors.ConfigError(
            "task", "the task", "None, and examples that name none", "Pass task=... as well."
        )
    return task.score(predict_logits(model, batches), batches.encoded)
