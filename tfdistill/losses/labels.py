"""How the answers of a model are compared with gold labels."""

from __future__ import annotations

import copy

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.answers import HEADS, resolve_head
from tfdistill.losses.base import Loss, ModelPair
from tfdistill.losses.batch import StepInputs, span_logits, token_weights

# The axes of the labels of each head but "sequence".
_LABEL_AXES = {
    "multi_label": ("batch", "classes"),
    "token": ("batch", "tokens"),
    "span": ("batch", "2"),
}


def balanced_weights(labels: np.ndarray, num_labels: int) -> np.ndarray:
    """Weights of classes that make all of them count alike: ``n / (k n_c)``, as in scikit-learn.

    Args:
      labels: int (n,), class indices.
      num_labels: Width of the logits.

    Returns:
      float32 (num_labels,): n examples over k classes that occur and n_c examples of the class; 1
      for a class that does not occur. The weights of the n examples sum to n.
    """
    counts = np.bincount(labels, minlength=num_labels)
    present = counts > 0
    weights = len(labels) / (present.sum() * np.maximum(counts, 1))
    return np.where(present, weights, 1.0).astype(np.float32)


def gold_loss(
    batch: StepInputs, head: str = "sequence", class_weights: np.ndarray | None = None
) -> tf.Tensor:
    """Cross entropy with the gold labels, or squared error where a sequence has one output.

    - sequence: ``-log softmax(z)[y]``, or ``(z - y)^2``; a mean over the batch, weighted by the
      sample weights (sum of weight times loss over sum of weights). With class weights the weight
      of an example is its sample weight times that of its class.
    - token: ``-log softmax(z)[y]`` of each labelled token; a mean over these, weighted by the
      sample weights.
    - span: ``-log softmax(z_start)[start]`` and the same for the end, each softmax over the real
      tokens of the example; the mean of both, then over the batch as for a sequence.
    - multi_label: ``-y log s - (1 - y) log(1 - s)`` with ``s = sigmoid(z)``; a mean over classes,
      then over the batch as for a sequence.

    Args:
      batch: Needs `labels` and the student's ``logits``. Labels: sequence (B,), int or float;
        token int (B, L), `batch.UNLABELLED` where there is none; span int (B, 2), first and
        last token; multi_label (B, C) of 0 and 1.
      head: One of `HEADS`.
      class_weights: float (C,), a weight for each class, or None; for a classifier of sequences.

    Returns:
      A float32 scalar.

    Raises:
      ShapeError: If the batch has no labels, or labels of another shape.
    """
    if batch.labels is None:
        raise errors.ShapeError(
            "batch", "(features, labels)", "features only", "Use a labelled set."
        )
    _check_labels(batch.labels, head)
    logits = tf.cast(batch.student["logits"], tf.float32)
    weight = batch.sample_weight  # (B,)
    if head == "token":
        weight = token_weights(batch)  # (B, L)
        labels = tf.maximum(tf.cast(batch.labels, tf.int32), 0)  # (B, L)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (B, L)
    elif head == "span":
        rows = span_logits(logits, batch.features["attention_mask"])  # (B, 2, L)
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
        if class_weights is not None:
            weight *= tf.gather(tf.constant(class_weights, tf.float32), labels)  # (B,)
    return reductions.weighted_mean(loss, weight)


def _check_labels(labels: tf.Tensor, head: str) -> None:
    axes = _LABEL_AXES.get(head)
    if axes is None:
        return
    fits = labels.shape.rank in (None, len(axes))
    if fits and head == "span" and labels.shape.rank is not None:
        fits = labels.shape[-1] in (None, 2)
    if not fits:
        raise errors.ShapeError(
            f"labels of a {head} head", f"shape ({', '.join(axes)})", f"shape {labels.shape}"
        )


class GoldLabels(Loss):
    """Cross entropy with the gold labels, or the squared error of a number: `gold_loss`.

    Args:
      head: None for the student's own; "multi_label" where a classifier's classes exclude nothing.
      weight: Its weight in the sum.
    """

    tap = None
    class_weights: np.ndarray | None = None

    def __init__(self, *, head: str | None = None, weight: float = 1.0):
        """See the class."""
        super().__init__(weight=weight)
        if head is not None:
            checks.check_choice("head", head, HEADS)
        self.head = head

    def bind(self, name: str, pair: ModelPair) -> GoldLabels:
        """See `Loss.bind`."""
        bound = copy.copy(self)
        if self.head is None and models.head_of(pair.student) in HEADS:
            bound.head = models.head_of(pair.student)
        return bound

    def check(self, pair: ModelPair) -> None:
        """See `Loss.check`."""
        resolve_head(pair.student, self.head)

    def weigh_classes(self, student: keras.Model, class_weights: np.ndarray) -> None:
        """Weighs the examples by their classes, float (labels,); see `gold_loss`.

        Raises:
          ConfigError: If the student is no classifier of sequences with one label a text.
          ShapeError: If there is not one finite weight above 0 for each of its labels.
        """
        head, width = models.head_of(student), models.num_labels_of(student)
        if head != "sequence" or width == 1 or self.head != "sequence":
            raise errors.ConfigError("class weights", "a classifier with one label a text", head)
        weights = np.asarray(class_weights, np.float32)
        if weights.shape != (width,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise errors.ShapeError("class weights", f"{width} numbers above 0", weights.tolist())
        self.class_weights = weights

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `gold_loss`."""
        assert self.head is not None
        return gold_loss(batch, self.head, self.class_weights)
