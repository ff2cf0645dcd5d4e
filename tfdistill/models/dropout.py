"""Dropout whose masks depend only on the layer and the step, so that a resumed run repeats them."""

from __future__ import annotations

import contextlib
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tf_keras as keras

_ACTIVE = threading.local()


@contextlib.contextmanager
def dropout_seed(seed: Any, *, drops: bool = True) -> Iterator[None]:
    """Makes every `Dropout` called inside the block draw its mask from `seed` alone.

    A train step that passes the global step (mixed with the run's seed) gets the same masks
    whether the run came here in one go or was killed and resumed. It holds for the calling thread
    and is meant for the inside of a traced function.

    Args:
      seed: An integer scalar, tensor or Python number.
      drops: Whether they drop anything.

    Yields:
      Nothing.
    """
    before = getattr(_ACTIVE, "seed", None), getattr(_ACTIVE, "drops", True)
    _ACTIVE.seed, _ACTIVE.drops = tf.cast(seed, tf.int32), drops
    try:
        yield
    finally:
        _ACTIVE.seed, _ACTIVE.drops = before


@keras.saving.register_keras_serializable(package="tfdistill")
class Dropout(keras.layers.Layer):
    """Inverted dropout: x * keep / (1 - rate), keep ~ Bernoulli(1 - rate); identity in inference.

    Inside `dropout_seed` the mask is a pure function of (layer name, seed, shape); elsewhere it
    comes from TensorFlow's global generator.

    Args:
      rate: Share of the elements set to zero, in [0, 1).
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.supports_masking = True

    def call(self, inputs: tf.Tensor, training: Any = None) -> tf.Tensor:
        """Drops elements of `inputs` when `training`; same shape and dtype out."""
        if self.rate == 0 or training is None or not getattr(_ACTIVE, "drops", True):
            return inputs
        if tf.is_tensor(training):
            return tf.cond(tf.cast(training, tf.bool), lambda: self._drop(inputs), lambda: inputs)
        return self._drop(inputs) if training else inputs

    def _drop(self, inputs: tf.Tensor) -> tf.Tensor:
        seed = getattr(_ACTIVE, "seed", None)
        if seed is None:
            pair = tf.random.uniform((2,), tf.int32.min, tf.int32.max, tf.int32)
        else:
            pair = tf.stack([zlib.crc32(self.name.encode()) & 0x7FFFFFFF, seed])
        # 16 random bits an element, not 32 made into a float: the generator is what costs here.
        # The rate is met to 1/65,536, and the scale is that of the rate as it is.
        dropped = min(round(self.rate * 65536), 65535)
        size = tf.size(inputs)
        bits = tf.random.stateless_uniform(
            [(size + 1) // 2], pair, minval=None, maxval=None, dtype=tf.uint32, alg="philox"
        )
        halves = tf.reshape(tf.bitcast(bits, tf.uint16), [-1])[:size]
        keep = tf.reshape(halves, tf.shape(inputs)) >= dropped
        return inputs * tf.cast(keep, inputs.dtype) * (65536 / (65536 - dropped))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the input shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Returns the rate and the layer's own settings."""
        return {**super().get_config(), "rate": self.rate}
