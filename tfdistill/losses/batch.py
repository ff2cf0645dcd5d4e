"""One batch as losses see it, and the weights of the answers in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import tensorflow as tf

UNLABELLED = -100
_OF_TOKENS = ("input_ids", "attention_mask", "token_type_ids", "prediction_mask", "mlm_labels")
# Logits of padding: far below any other, yet finite at every temperature above 1e-8.
_PADDING_LOGIT = -1e30


@dataclasses.dataclass(frozen=True)
class StepInputs:
    """The parts of one batch that a loss sees.

    Attributes:
      teacher: Outputs of `models.taps(teacher)`, or only ``logits`` when they came with the data;
        empty without a teacher.
      student: Outputs of `models.taps(student)`.
      labels: Gold labels, (batch,) or as `labels.gold_loss` takes them for the head, or None.
      mask: Weights of the tokens, float32 (batch, tokens): the attention mask times the
        example's sample weight.
      sample_weight: Weights of the examples, float32 (batch,).
      features: All features of the batch by name, also those that no model takes.
    """

    teacher: Mapping[str, Any]
    student: Mapping[str, Any]
    labels: tf.Tensor | None
    mask: tf.Tensor
    sample_weight: tf.Tensor
    features: Mapping[str, tf.Tensor]


def token_weights(batch: StepInputs) -> tf.Tensor:
    """Returns the weights of the tokens that a token head answers for.

    Shapes: `batch` (B, L); returns (B, L).
    """
    if batch.labels is None:
        return batch.mask
    return batch.mask * tf.cast(tf.not_equal(batch.labels, UNLABELLED), tf.float32)


def span_logits(logits: tf.Tensor, attention_mask: tf.Tensor) -> tf.Tensor:
    """Turns a span head's logits into two rows over tokens, in which padding has no chance.

    Shapes: `logits` (B, L, 2), `attention_mask` (B, L); returns (B, 2, L).
    """
    rows = tf.transpose(tf.cast(logits, tf.float32), [0, 2, 1])  # (B, 2, L)
    return tf.where(tf.cast(attention_mask, tf.bool)[:, None, :], rows, _PADDING_LOGIT)


def padded(
    features: Mapping[str, tf.Tensor], columns: int, *, also: Collection[str] = ()
) -> dict[str, tf.Tensor]:
    """The features with `columns` more of padding, in those of tokens: every text's, and `also`."""
    return {
        name: tf.pad(values, [[0, 0], [0, columns]] + [[0, 0]] * (values.shape.rank - 2))
        if name in _OF_TOKENS or name in also
        else values
        for name, values in features.items()
    }


def padded_labels(labels: tf.Tensor, columns: int) -> tf.Tensor:
    """The labels of tokens, (B, L), with so many more columns that have none."""
    return tf.pad(labels, [[0, 0], [0, columns]], constant_values=UNLABELLED)
