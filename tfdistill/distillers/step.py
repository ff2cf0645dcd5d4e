"""What the losses see of one batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill.distillers.teacher import inputs_of
from tfdistill.losses.batch import StepInputs


def step_inputs(
    taps: keras.Model, data: tuple[Any, Any, Any], teacher: Mapping[str, Any], *, training: bool
) -> StepInputs:
    """Runs the student.

    Args:
      taps: The student's outputs by name, `models.taps`.
      data: Features, labels and sample weights; None where a batch has none of the last two.
      teacher: What the teacher says.
      training: Whether the student learns.
    """
    features, labels, sample_weight = data
    student = taps(inputs_of(taps, features), training=training)
    mask = tf.cast(features["attention_mask"], tf.float32)  # (batch, tokens)
    if sample_weight is None:
        weight = tf.ones_like(mask[:, 0])
    else:
        weight = tf.cast(sample_weight, tf.float32)
    return StepInputs(teacher, student, labels, mask * weight[:, None], weight, features)
