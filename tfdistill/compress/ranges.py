"""The ranges of numbers that an int8 tensor stands for, and how they are learnt.

Quantizers of tensorflow-model-optimization: each gives what an int8 tensor would hold of its
input, as floats, and passes the gradient straight through inside the range.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.quantization.keras import quantizers
from tensorflow_model_optimization.python.core.quantization.keras.collab_opts.cluster_preserve import (  # noqa: E501
    cluster_preserve_quantize_registry as cluster_preserve,
)
from tensorflow_model_optimization.python.core.quantization.keras.collab_opts.prune_preserve import (  # noqa: E501
    prune_preserve_quantize_registry as prune_preserve,
)

_ACTIVE = threading.local()
_BITS = 8
BLOCK = 32
MOST_CLUSTERS = 256
MOMENTUM = 0.99  # of the moving average, once a hundred batches have been seen


@contextlib.contextmanager
def observing() -> Iterator[None]:
    """Makes models that run inside the block note their ranges, and compute in float meanwhile.

    It holds for the calling thread and for calls that are made eagerly.
    """
    _ACTIVE.observing = True
    try:
        yield
    finally:
        _ACTIVE.observing = False


def is_observing() -> bool:
    """Tells whether the caller is inside `observing`."""
    return getattr(_ACTIVE, "observing", False)


class ActivationRange(quantizers.Quantizer):
    """An int8 activation: from the average of the batches' minima to that of their maxima.

    The first hundred batches count alike, later ones by a moving average of momentum 0.99. 0 is
    always inside, as TFLite requires.
    """

    def build(self, tensor_shape: Any, name: str, layer: keras.layers.Layer) -> dict[str, Any]:
        """Adds minimum, maximum and the number of batches seen to the wrapper's weights."""
        del tensor_shape
        return {
            key: layer.add_weight(f"{name}_{key}", initializer="zeros", trainable=False)
            for key in ("min", "max", "batches")
        }

    def __call__(
        self, inputs: tf.Tensor, training: Any, weights: dict[str, Any], **kwargs: Any
    ) -> tf.Tensor:
        """Rounds `inputs` to the 256 numbers of the range; notes their range when training."""
        least, most = weights["min"], weights["max"]
        if training or is_observing():
            values = tf.stop_gradient(inputs)
            seen = weights["batches"] + 1.0
            share = tf.maximum(1.0 / seen, 1.0 - MOMENTUM)
            lowest = tf.minimum(tf.reduce_min(values), 0.0)
            highest = tf.maximum(tf.reduce_max(values), 0.0)
            weights["batches"].assign(seen)
            least = least.assign(least + share * (lowest - least))
            most = most.assign(most + share * (highest - most))
            if is_observing():
                return inputs
        return tf.quantization.fake_quant_with_min_max_vars(inputs, least, most, num_bits=_BITS)

    def get_config(self) -> dict[str, Any]:
        """Returns nothing: there is no choice."""
        return {}


class BlockGrid(quantizers.Quantizer):
    """A matrix in blocks of 32 numbers along `axis`, each of 4 bits, as a file stores them.

    w -> s round(w / s) between -7 s and 7 s, s = max |w| / 7 of the block as a bfloat16, which the
    litert-quantizer takes; the gradient passes straight through. A rounded matrix stays as it is.
    A kernel behind a normalization is rounded times its gamma, by `norm`, as converters fold it.

    Reference: Jacob et al. 2018, Quantization and Training of Neural Networks, arXiv 1712.05877.
    """

    def __init__(self, axis: int, norm: keras.layers.Layer | None = None) -> None:
        self.axis, self.norm = axis, norm

    def build(self, tensor_shape: Any, name: str, layer: keras.layers.Layer) -> dict[str, Any]:
        """Adds nothing to the wrapper's weights."""
        return {}

    def __call__(
        self, inputs: tf.Tensor, training: Any, weights: dict[str, Any], **kwargs: Any
    ) -> tf.Tensor:
        """Rounds `inputs`."""
        return tf.grad_pass_through(self._rounded)(tf.convert_to_tensor(inputs))

    def _rounded(self, values: tf.Tensor) -> tf.Tensor:
        factors = tf.ones((1, 1)) if self.norm is None else self.norm.gamma[:, None]
        ordered = tf.experimental.numpy.moveaxis(factors * values, self.axis, -1)
        blocks = tf.reshape(ordered, [-1, BLOCK])
        scales = tf.reduce_max(tf.abs(blocks), axis=1, keepdims=True) / 7
        scales = tf.cast(tf.cast(scales, tf.bfloat16), values.dtype)
        steps = tf.clip_by_value(tf.round(tf.math.divide_no_nan(blocks, scales)), -7, 7)
        rounded = tf.reshape(scales * steps, tf.shape(ordered))
        rounded = tf.experimental.numpy.moveaxis(rounded, -1, self.axis)
        return tf.math.divide_no_nan(rounded, factors)

    def get_config(self) -> dict[str, Any]:
        """Returns the axis."""
        return {"axis": self.axis}


class _Observed(quantizers.Quantizer):
    """A quantizer of matrices that takes the matrix as it is now also while models observe."""

    def __call__(
        self, inputs: tf.Tensor, training: Any, weights: dict[str, Any], **kwargs: Any
    ) -> tf.Tensor:
        """Rounds the matrix."""
        return super().__call__(inputs, training or is_observing(), weights, **kwargs)


class WeightRange(_Observed, quantizers.LastValueQuantizer):
    """An int8 matrix: 255 numbers, symmetric about 0, up to its largest magnitude."""

    def __init__(self) -> None:
        super().__init__(num_bits=_BITS, per_axis=False, symmetric=True, narrow_range=True)


class PrunedWeightRange(_Observed, prune_preserve.PrunePreserveDefault8BitWeightsQuantizer):
    """The same for a pruned matrix: what is 0 when the wrapper is built stays 0."""


class ClusteredWeightRange(_Observed, cluster_preserve.ClusterPreserveDefault8BitWeightsQuantizer):
    """The same for a clustered matrix: it keeps as many different numbers, which are learnt."""


def weight_range(matrix: np.ndarray) -> quantizers.Quantizer:
    """Chooses what rounds a matrix, so that what an earlier compression made of it stays."""
    if is_clustered(matrix):
        return ClusteredWeightRange(preserve_sparsity=is_pruned(matrix))
    return PrunedWeightRange() if is_pruned(matrix) else WeightRange()


def is_pruned(matrix: np.ndarray) -> bool:
    """Tells whether a matrix has zeros by design: a twentieth of its elements or more."""
    return float(np.mean(matrix == 0)) >= 0.05


def is_clustered(matrix: np.ndarray) -> bool:
    """Tells whether a matrix consists of few numbers: 256 or less, each 8 times on average."""
    return len(np.unique(matrix)) <= min(MOST_CLUSTERS, matrix.size // 8)
