"""The arithmetic of a training: float32, or bfloat16 with weights in float32."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tf_keras as keras

from tfdistill import models

FLOAT32, MIXED = "float32", "mixed_bfloat16"


@contextlib.contextmanager
def training_in(model: keras.Model, precision: str) -> Iterator[keras.Model]:
    """Yields what is trained in an arithmetic; afterwards the model has the weights.

    In float32 that is the model itself, otherwise a copy whose weights are float32, too.
    """
    if precision == FLOAT32:
        yield model
        return
    copy = models.with_policy(model, precision)
    yield copy
    for layer in model.layers:
        layer.set_weights(copy.get_layer(layer.name).get_weights())
