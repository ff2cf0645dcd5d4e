"""Comparisons of the answers of a model with gold labels."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.losses import checks
from tfdistill.losses import reduction as reductions
from tfdistill.losses.answers import LogitLoss, LogitMSE, answers_number, resolve_head
from tfdistill.losses.base import Loss, ModelPair
from tfdistill.losses.batch import StepInputs
from tfdistill.losses.heads import HEADS


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
        token int (B, L), below 0 where there is none; span int (B, 2), first and last token;
        multi_label (B, C) of 0 and 1.
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
    HEADS[head].check_labels(batch.labels)
    logits = tf.cast(batch.student["logits"], tf.float32)
    loss, weight = HEADS[head].gold(batch, logits, class_weights)
    return reductions.weighted_mean(loss, weight)


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
            checks.check_choice("head", head, tuple(HEADS))
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
        check_class_weights(student, (self.head,))
        width = models.num_labels_of(student)
        weights = np.asarray(class_weights, np.float32)
        if weights.shape != (width,) or not (np.isfinite(weights) & (weights > 0)).all():
            raise errors.ShapeError("class weights", f"{width} numbers above 0", weights.tolist())
        self.class_weights = weights

    def compute(self, batch: StepInputs) -> tf.Tensor:
        """See `gold_loss`."""
        assert self.head is not None
        return gold_loss(batch, self.head, self.class_weights)


def weigh_classes(
    losses: Mapping[str, Loss], student: keras.Model, class_weights: np.ndarray
) -> None:
    """Weighs the examples of losses on gold labels by their classes; refuses to without one."""
    gold = [loss for loss in losses.values() if isinstance(loss, GoldLabels)]
    if not gold:
        raise errors.ConfigError("class weights", "a loss GoldLabels", ", ".join(losses))
    for loss in gold:
        loss.weigh_classes(student, class_weights)


def check_class_weights(student: keras.Model, heads: Iterable[str | None]) -> None:
    """Refuses weights of classes where a text has none, or several, by the heads that are read."""
    for head in heads:
        weighs = head is not None and HEADS[head].weighs_classes
        if not weighs or answers_number(student, head):
            expected = "a classifier with one label a text"
            raise errors.ConfigError("class weights", expected, head or models.head_of(student))


def name_heads(losses: Mapping[str, Loss], head: str) -> None:
    """Gives the losses on answers that name no head that of a task."""
    for loss in losses.values():
        if isinstance(loss, (LogitLoss, GoldLabels)) and loss.head is None and head in HEADS:
            loss.head = head


def check_heads(losses: Mapping[str, Loss], head: str) -> None:
    """Refuses losses that read the answers of a model otherwise than its task's head does.

    Squared differences of logits are the same for every head.
    """
    for name, loss in losses.items():
        if not isinstance(loss, (LogitLoss, GoldLabels)) or isinstance(loss, LogitMSE):
            continue
        ours, wanted = (HEADS.get(kind or "") for kind in (loss.head, head))
        if ours is None or wanted is None or ours.model_head != wanted.model_head:
            continue
        if ours is not wanted:
            raise errors.ConfigError(
                f"head of loss {name!r} ({loss.kind})",
                f"{head!r}, the head of the task of the examples",
                repr(loss.head),
                f'Pass head="{head}" to the method, the distiller or the loss.',
            )
