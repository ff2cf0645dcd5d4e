"""The Dense layers from the student's width to the teacher's that losses learn."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf
import tf_keras as keras

from tfdistill.losses.base import Loss, ModelPair


def build(losses: Iterable[Loss], pair: ModelPair) -> list[keras.layers.Layer]:
    """Builds the layers that the losses name, each name once, and hands them to the losses."""
    losses = list(losses)
    layers: dict[str, keras.layers.Layer] = {}
    for loss in losses:
        for name in loss.projection_names:
            if name not in layers:
                layers[name] = _dense(*loss.projection_widths(pair), name)
    for loss in losses:
        loss.projections = tuple(layers[name] for name in loss.projection_names)
    return list(layers.values())


def _dense(student: int | None, teacher: int | None, name: str) -> keras.layers.Dense:
    """Makes a Dense with bias from the student's width to the teacher's.

    It learns with the student and is no part of it. It is built at once, so that its variables
    exist before the first step.
    """
    layer = keras.layers.Dense(
        teacher,
        kernel_initializer=keras.initializers.TruncatedNormal(stddev=0.02),
        name=name,
    )
    with tf.name_scope(name):  # as a call would
        layer.build((None, student))
    return layer
