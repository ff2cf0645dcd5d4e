"""Heads that give logits: which axis is a distribution, which rows count, how labels are laid out.

- "sequence": (B, C), one class per example, or a number where C is 1;
- "multi_label": (B, C), each class true or false by itself;
- "token": (B, L, C), one class per labelled token;
- "span": (B, L, 2), two distributions over the real tokens: of the start and of the end.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
import tensorflow as tf

from tfdistill import errors
from tfdistill.losses.batch import StepInputs, span_logits, token_weights
from tfdistill.tasks import registry


class ComparedLogits(NamedTuple):
    """The values that a loss between logits sees."""

    teacher: tf.Tensor  # float32 (..., C), a distribution over the last axis
    student: tf.Tensor  # the same shape
    weight: tf.Tensor  # float32 (...), the weights of the rows
    factor: float = 1.0  # what the loss is multiplied with


class AnswerHead(abc.ABC):
    """A head whose answers are compared, with gold labels and with a teacher's."""

    name: ClassVar[str]  # a key of `HEADS`, `TaskSpec.head`
    model_head: ClassVar[str]  # see `models.Head`
    label_axes: ClassVar[tuple[str, ...]] = ()  # (batch,) or more where it is empty
    # Whether each example has one class, which may have a weight.
    weighs_classes: ClassVar[bool] = False

    @property
    def labels_tokens(self) -> bool:
        """Whether labels belong to tokens, of which some have none."""
        return "tokens" in self.label_axes

    def answers_number(self, width: int | None) -> bool:
        """Whether so many outputs are a number, which has no distribution."""
        return False

    @abc.abstractmethod
    def gold(
        self, batch: StepInputs, logits: tf.Tensor, class_weights: np.ndarray | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The loss of each row with its gold label, and the weights of the rows."""

    def row_weights(self, batch: StepInputs) -> tf.Tensor:
        """The weights of the rows of logits that are compared, (B,)."""
        return batch.sample_weight

    def compared(
        self,
        batch: StepInputs,
        teacher: tf.Tensor,
        student: tf.Tensor,
        *,
        squared: bool,
        reduction: str,
    ) -> ComparedLogits:
        """The logits of two models as rows; squared: whether they are not made distributions."""
        return ComparedLogits(teacher, student, self.row_weights(batch))

    def metric_inputs(self, batch: StepInputs) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The update of a Keras metric, one answer a row: labels, logits, weights."""
        assert batch.labels is not None
        return batch.labels, batch.student["logits"], batch.sample_weight

    def check_labels(self, labels: tf.Tensor) -> None:
        """Refuses labels of another layout."""
        axes, rank = self.label_axes, labels.shape.rank
        if not axes or rank is None:
            return
        if rank != len(axes) or (
            axes[-1].isdigit() and labels.shape[-1] not in (None, int(axes[-1]))
        ):
            raise errors.ShapeError(
                f"labels of a {self.name} head",
                f"shape ({', '.join(axes)})",
                f"shape {labels.shape}",
            )


class SequenceAnswers(AnswerHead):
    """A class for each example, or a number."""

    name = model_head = "sequence"
    weighs_classes = True

    def check_labels(self, labels: tf.Tensor) -> None:
        """See `AnswerHead.check_labels`: one label an example, (batch,) or (batch, 1)."""
        if labels.shape.rank is not None and any(
            size not in (1, None) for size in labels.shape[1:]
        ):
            raise errors.ShapeError(
                "labels of a sequence head",
                "one class or number an example, shape (batch,)",
                f"shape {labels.shape}",
                'For several labels an example pass head="multi_label" to the method or the loss.',
            )

    def answers_number(self, width: int | None) -> bool:
        """One output is a number."""
        return width == 1

    def gold(
        self, batch: StepInputs, logits: tf.Tensor, class_weights: np.ndarray | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """``-log softmax(z)[y]`` or ``(z - y)^2``, (B,)."""
        weight = batch.sample_weight  # (B,)
        if self.answers_number(logits.shape[-1]):
            labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.float32)
            return tf.square(logits[:, 0] - labels), weight
        labels = tf.cast(tf.reshape(batch.labels, [-1]), tf.int32)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)  # (B,)
        if class_weights is not None:
            weight *= tf.gather(tf.constant(class_weights, tf.float32), labels)
        return loss, weight


class MultiLabelAnswers(AnswerHead):
    """Each class by itself: a Bernoulli distribution, a softmax over it and the logit 0."""

    name = "multi_label"
    model_head = "sequence"
    label_axes = ("batch", "classes")

    def gold(
        self, batch: StepInputs, logits: tf.Tensor, class_weights: np.ndarray | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """``-y log s - (1 - y) log(1 - s)`` with ``s = sigmoid(z)``, a mean over classes, (B,)."""
        labels = tf.cast(batch.labels, tf.float32)
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
        return tf.reduce_mean(each, axis=1), batch.sample_weight

    def compared(
        self,
        batch: StepInputs,
        teacher: tf.Tensor,
        student: tf.Tensor,
        *,
        squared: bool,
        reduction: str,
    ) -> ComparedLogits:
        """Rows (B, C, 2); of squared differences (B, C)."""
        weight = batch.sample_weight
        if squared:
            return ComparedLogits(teacher, student, weight)
        weight = weight[:, None] * tf.ones_like(student)  # (B, C)
        factor = 2.0 if reduction == "reference" else 1.0
        return ComparedLogits(_two_classes(teacher), _two_classes(student), weight, factor)


class TokenAnswers(AnswerHead):
    """A class for each labelled token."""

    name = model_head = "token"
    label_axes = ("batch", "tokens")

    def gold(
        self, batch: StepInputs, logits: tf.Tensor, class_weights: np.ndarray | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """``-log softmax(z)[y]`` of each token, (B, L)."""
        labels = tf.maximum(tf.cast(batch.labels, tf.int32), 0)  # (B, L)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        return loss, _gold_weights(batch)

    def row_weights(self, batch: StepInputs) -> tf.Tensor:
        """(B, L)."""
        return token_weights(batch)

    def metric_inputs(self, batch: StepInputs) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(B L,), (B L, C) and (B L,), weight 0 where there is no label."""
        logits = batch.student["logits"]
        weight = tf.reshape(_gold_weights(batch), [-1])
        labels = tf.reshape(tf.maximum(batch.labels, 0), [-1])
        return labels, tf.reshape(logits, [-1, logits.shape[-1]]), weight


class SpanAnswers(AnswerHead):
    """Two distributions over the real tokens: of the start and of the end."""

    name = model_head = "span"
    label_axes = ("batch", "2")

    def gold(
        self, batch: StepInputs, logits: tf.Tensor, class_weights: np.ndarray | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean of ``-log softmax(z_start)[start]`` and the same for the end, (B,)."""
        rows = span_logits(logits, batch.features["attention_mask"])  # (B, 2, L)
        labels = tf.cast(batch.labels, tf.int32)
        both = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, rows)  # (B, 2)
        return tf.reduce_mean(both, axis=1), batch.sample_weight

    def compared(
        self,
        batch: StepInputs,
        teacher: tf.Tensor,
        student: tf.Tensor,
        *,
        squared: bool,
        reduction: str,
    ) -> ComparedLogits:
        """Rows (B, 2, L); of squared differences (B, L, 2)."""
        if squared:
            weight = batch.mask  # (B, L)
            if reduction == "batch":  # the examples', shared equally among their real tokens
                tokens = tf.cast(batch.features["attention_mask"], tf.float32)
                weight = tf.math.divide_no_nan(weight, tf.reduce_sum(tokens, axis=1, keepdims=True))
            return ComparedLogits(teacher, student, weight)
        real, weight = batch.features["attention_mask"], batch.sample_weight
        both = tf.stack([weight, weight], axis=-1)  # (B, 2)
        return ComparedLogits(span_logits(teacher, real), span_logits(student, real), both)

    def metric_inputs(self, batch: StepInputs) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """(2 B,), (2 B, L) and (2 B,)."""
        rows = span_logits(batch.student["logits"], batch.features["attention_mask"])  # (B, 2, L)
        rows = tf.reshape(rows, [-1, tf.shape(rows)[-1]])  # (2 B, L)
        return tf.reshape(batch.labels, [-1]), rows, tf.repeat(batch.sample_weight, 2)


def _gold_weights(batch: StepInputs) -> tf.Tensor:
    """The weights of the tokens whose label is known, (B, L)."""
    return batch.mask * tf.cast(tf.greater_equal(batch.labels, 0), tf.float32)


def _two_classes(logits: tf.Tensor) -> tf.Tensor:
    return tf.stack([tf.zeros_like(logits), logits], axis=-1)


_HEADS: dict[str, AnswerHead] = {
    head.name: head
    for head in (SequenceAnswers(), TokenAnswers(), SpanAnswers(), MultiLabelAnswers())
}
HEADS: Mapping[str, AnswerHead] = _HEADS
"""Name -> head."""


def labels_tokens(head: str) -> bool:
    """Checks whether labels of a model's head belong to tokens, of which some have none."""
    return head in HEADS and HEADS[head].labels_tokens


def register(head: AnswerHead) -> None:
    """Adds a head with a name of its own to `HEADS`."""
    registry.add(_HEADS, head.name, head, "head of losses")


def metric_inputs(batch: StepInputs, head: str) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns what updates a Keras metric of (labels, logits), so that every row is one answer.

    Labels, logits and weights: sequence (B,) or (B, C), (B, C), (B,); token (B L,), (B L, C),
    (B L,), weight 0 where there is no label; span (2 B,), (2 B, L), (2 B,).
    """
    return HEADS.get(head, HEADS["sequence"]).metric_inputs(batch)
