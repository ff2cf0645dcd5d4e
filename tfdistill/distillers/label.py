"""Learning from gold labels: the teacher's fine-tuning, and every student's baseline."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.distillers import base


def gold_loss(batch: base.StepInputs) -> tf.Tensor:
    """Cross entropy with the gold label, or squared error where there is one output.

    Formula: ``-log softmax(z)[y]``, or ``(z - y)^2``; a mean over the batch, weighted by the
    sample weights (sum of weight times loss over sum of weights).

    Args:
      batch: Needs `labels`, (batch,), int or float, and the student's ``logits``,
        (batch, classes).

    Returns:
      A float32 scalar.

    Raises:
      ShapeError: If the batch has no labels.
    """
    if batch.labels is None:
        raise errors.ShapeError(
            errors.explain("batch", "(features, labels)", "features only", "Use a labelled set.")
        )
    logits = tf.cast(batch.student["logits"], tf.float32)
    if logits.shape[-1] == 1:
        labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.float32)
        loss = tf.square(logits[:, 0] - labels)  # (batch,)
    else:
        labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (batch,)
    weight = batch.sample_weight
    return tf.math.divide_no_nan(tf.reduce_sum(weight * loss), tf.reduce_sum(weight))


class LabelTrainer(base.Distiller):
    """Trains a classifier or a regressor on gold labels, without a teacher.

    One term, ``label``: `gold_loss`. The step, the callbacks, the checkpoints and the logs are
    those of every distiller, so that a baseline differs from a distilled student in its loss only.

    Args:
      student: A model with a classifier.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ShapeError: If the model has no classifier.
    """

    def __init__(self, student: keras.Model, *, seed: int = 0, name: str | None = None):
        """Checks that there is a classifier to train."""
        if models.num_labels_of(student) is None:
            raise errors.ShapeError(
                errors.explain(
                    "model", "a classifier", "an encoder without a head", "Use build_student."
                )
            )
        super().__init__(None, student, terms={"label": 1.0}, seed=seed, name=name)

    def check_terms(self) -> None:
        """The one term fits every classifier."""

    def needs_only_logits(self) -> bool:
        """False: there is no teacher."""
        return False

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The cross entropy with the gold labels."""
        return {"label": gold_loss(batch)}
