"""The layers of attention, at rank 4 with explicit transposes.

That is what TFLite, XNNPACK and the phone GPU delegates digest.
Shapes: B examples, L tokens, h heads, d hidden width, k head width
(d / h unless heads were pruned).
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill.models.layers import lengths_of

ATTENTION_MASK_VALUE = -100.0
"""Added to the scores of padding.

Softmax makes exp(-100) ~ 4e-44 of it, which is nothing in float32, while a larger magnitude (-1e4,
-1e9) would eat the range of an int8 tensor.
"""


@keras.saving.register_keras_serializable(package="tfdistill")
class AttentionMask(keras.layers.Layer):
    """Turns a mask of ones (token) and zeros (padding) into what is added to attention scores.

    Args:
      value: What is added to the score of padding.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, value: float = ATTENTION_MASK_VALUE, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value = value

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps (B, L) to (B, 1, 1, L): 0 for a token, `value` for padding."""
        batch, length = lengths_of(inputs)
        mask = tf.reshape(tf.cast(inputs, self.compute_dtype), (batch, 1, 1, length))
        return (1.0 - mask) * self.value

    def get_config(self) -> dict[str, Any]:
        """Returns the value."""
        return {**super().get_config(), "value": self.value}


@keras.saving.register_keras_serializable(package="tfdistill")
class AttentionScores(keras.layers.Layer):
    """Scaled dot products of queries and keys, before mask and softmax: Q K^T / sqrt(k).

    Args:
      num_heads: Attention heads h.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, num_heads: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads = num_heads
        # What is done to the scaled query: nothing, unless quantization-aware training rounds it.
        self.query_activation = keras.activations.linear

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps query and key (B L, d) and mask (B, 1, 1, L) to scores (B, h, L, L).

        Of the mask only the shape is used: the scores are those of all tokens.
        """
        query, key, mask = inputs
        batch, _, _, length = lengths_of(mask)
        head_size = query.shape[-1] // self.num_heads
        heads = (batch, length, self.num_heads, head_size)
        # Scaling the query, not the scores, is less work, and TFLite folds it into the Dense.
        query = self.query_activation(query * head_size**-0.5)
        query = tf.transpose(tf.reshape(query, heads), (0, 2, 1, 3))  # (B, h, L, k)
        key = tf.transpose(tf.reshape(key, heads), (0, 2, 3, 1))  # (B, h, k, L)
        return tf.matmul(query, key)  # (B, h, L, L)

    def get_config(self) -> dict[str, Any]:
        """Returns the number of heads."""
        return {**super().get_config(), "num_heads": self.num_heads}


@keras.saving.register_keras_serializable(package="tfdistill")
class AttentionProbabilities(keras.layers.Layer):
    """Softmax over the keys of scores + mask."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps scores (B, h, L, L) and mask (B, 1, 1, L) to probabilities (B, h, L, L)."""
        scores, mask = inputs
        return tf.nn.softmax(scores + mask)


@keras.saving.register_keras_serializable(package="tfdistill")
class AttentionContext(keras.layers.Layer):
    """The average of the values under the attention probabilities, heads side by side."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps probabilities (B, h, L, L) and value (B L, d) to the context (B L, d)."""
        probabilities, value = inputs
        batch, num_heads, length, _ = lengths_of(probabilities)
        width = value.shape[-1]
        value = tf.reshape(value, (batch, length, num_heads, width // num_heads))
        value = tf.transpose(value, (0, 2, 1, 3))  # (B, h, L, k)
        context = tf.transpose(tf.matmul(probabilities, value), (0, 2, 1, 3))  # (B, L, h, k)
        return tf.reshape(context, (batch * length, width))
