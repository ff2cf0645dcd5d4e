"""One step as a method sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class StepInputs:
    """What a method sees of one batch.

    Attributes:
      teacher: Outputs of `models.taps(teacher)`, or only ``logits`` when they came with the data;
        empty without a teacher.
      student: Outputs of `models.taps(student)`.
      labels: Gold labels, (batch,) or as `label.gold_loss` says for the head, or None.
      mask: Weights of the tokens, float32 (batch, tokens): the attention mask times the
        example's sample weight.
      sample_weight: Weights of the examples, float32 (batch,).
      features: All that the batch holds by name, also what no model takes.
    """

    teacher: Mapping[str, Any]
    student: Mapping[str, Any]
    labels: tf.Tensor | None
    mask: tf.Tensor
    sample_weight: tf.Tensor
    features: Mapping[str, tf.Tensor]
