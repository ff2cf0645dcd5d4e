"""The values of one batch that the losses see."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.distillers.teacher import inputs_of
from tfdistill.losses.batch import StepInputs


def step_inputs(
    taps: keras.Model, data: tuple[Any, Any, Any], teacher: Mapping[str, Any], *, training: bool
) -> StepInputs:
    """Runs the student; `taps` are its outputs by name, `models.taps`.

    `data` are features, labels and sample weights; a batch may have none of the last two. `teacher`
    is what the teacher says.
    """
    features, labels, sample_weight = data
    student = taps(inputs_of(taps, features), training=training)
    mask = tf.cast(features["attention_mask"], tf.float32)  # (batch, tokens)
    if sample_weight is None:
        weight = tf.ones_like(mask[:, 0])
    else:
        weight = _example_weights(tf.cast(sample_weight, tf.float32), tf.shape(mask)[:1])
    return StepInputs(teacher, student, labels, mask * weight[:, None], weight, features)


def _example_weights(weights: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Sample weights, (batch,) or (batch, 1), as (batch,): nothing may be broadcast over them."""
    rank = weights.shape.rank
    if rank == 0 or (rank and any(size not in (1, None) for size in weights.shape[1:])):
        raise errors.ShapeError(
            "sample weights",
            "one number an example, shape (batch,)",
            f"shape {weights.shape}",
            "A token that is not to count has the label -100, padding the attention mask 0.",
        )
    return tf.reshape(weights, batch)
