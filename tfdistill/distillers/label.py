"""Learning from gold labels: the teacher's fine-tuning, and every student's baseline."""

from __future__ import annotations

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.distillers import answers, base
from tfdistill.objectives import reduction

# The axes of the labels of each head.
_AXES = {
    "multi_label": ("batch", "classes"),
    "token": ("batch", "tokens"),
    "span": ("batch", "2"),
}


def gold_loss(batch: base.StepInputs, head: str = "sequence") -> tf.Tensor:
    """Cross entropy with the gold labels, or squared error where a sequence has one output.

    - sequence: ``-log softmax(z)[y]``, or ``(z - y)^2``; a mean over the batch, weighted by the
      sample weights (sum of weight times loss over sum of weights).
    - token: ``-log softmax(z)[y]`` of each labelled token; a mean over these, weighted by the
      sample weights.
    - span: ``-log softmax(z_start)[start]`` and the same for the end, each softmax over the real
      tokens of the example; the mean of both, then over the batch as for a sequence.
    - multi_label: ``-y log s - (1 - y) log(1 - s)`` with ``s = sigmoid(z)``; a mean over classes,
      then over the batch as for a sequence.

    Args:
      batch: Needs `labels` and the student's ``logits``. Labels: sequence (B,), int or float;
        token int (B, L), `answers.UNLABELLED` where there is none; span int (B, 2), first and
        last token; multi_label (B, C) of 0 and 1.
      head: One of `answers.HEADS`.

    Returns:
      A float32 scalar.

    Raises:
      ShapeError: If the batch has no labels, or labels of another shape.
    """
    if batch.labels is None:
        raise errors.ShapeError(
            errors.explain("batch", "(features, labels)", "features only", "Use a labelled set.")
        )
    _check_labels(batch.labels, head)
    logits = tf.cast(batch.student["logits"], tf.float32)
    weight = batch.sample_weight  # (B,)
    if head == "token":
        weight = answers.token_weights(batch)  # (B, L)
        labels = tf.maximum(tf.cast(batch.labels, tf.int32), 0)  # (B, L)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (B, L)
    elif head == "span":
        rows = answers.over_tokens(logits, batch.features["attention_mask"])  # (B, 2, L)
        labels = tf.cast(batch.labels, tf.int32)
        both = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, rows)  # (B, 2)
        loss = tf.reduce_mean(both, axis=1)  # (B,)
    elif head == "multi_label":
        each = tf.nn.sigmoid_cross_entropy_with_logits(tf.cast(batch.labels, tf.float32), logits)
        loss = tf.reduce_mean(each, axis=1)  # (B,)
    elif logits.shape[-1] == 1:
        labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.float32)
        loss = tf.square(logits[:, 0] - labels)  # (B,)
    else:
        labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (B,)
    return reduction.weighted_mean(loss, weight)


def _check_labels(labels: tf.Tensor, head: str) -> None:
    axes = _AXES.get(head)
    if axes is None:
        return
    fits = labels.shape.rank in (None, len(axes))
    if fits and head == "span" and labels.shape.rank is not None:
        fits = labels.shape[-1] in (None, 2)
    if not fits:
        raise errors.ShapeError(
            errors.explain(
                f"labels of a {head} head",
                f"shape ({', '.join(axes)})",
                f"shape {labels.shape}",
            )
        )


class LabelTrainer(base.Distiller):
    """Trains a model with a head on gold labels, without a teacher.

    One term, ``label``: `gold_loss`. The step, the callbacks, the checkpoints and the logs are
    those of every distiller, so that a baseline differs from a distilled student in its loss only.

    Args:
      student: A classifier of sequences, tokens or spans, or a regressor.
      head: None for the model's own; "multi_label" where a classifier's classes exclude nothing.
      seed: Seed of the dropout masks.
      name: The Keras name.

    Raises:
      ConfigError: If `head` is unknown.
      ShapeError: If the model has no such head.
    """

    def __init__(
        self,
        student: keras.Model,
        *,
        head: str | None = None,
        seed: int = 0,
        name: str | None = None,
    ):
        """Checks that there is a head to train."""
        answered = answers.resolve_head(student, head)
        super().__init__(None, student, terms={"label": 1.0}, seed=seed, name=name)
        self._head = answered

    def check_terms(self) -> None:
        """The one term fits every head."""

    def needs_only_logits(self) -> bool:
        """False: there is no teacher."""
        return False

    def compute_terms(self, batch: base.StepInputs) -> dict[str, tf.Tensor]:
        """The cross entropy with the gold labels."""
        return {"label": gold_loss(batch, self._head)}
