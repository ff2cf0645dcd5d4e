"""The two layers that MobileBERT has and BERT has not.

Shapes: B examples, L tokens, e width of the word vectors, d hidden width.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras


@keras.saving.register_keras_serializable(package="tfdistill")
class NoNorm(keras.layers.Layer):
    """What stands in MobileBERT where BERT has LayerNorm: gamma x + beta, element by element.

    No statistics are taken, so it costs next to nothing, and a converter can fold it into the
    layer before.
    """

    def build(self, input_shape: Any) -> None:
        """Creates gamma (ones) and beta (zeros)."""
        width = input_shape[-1]
        self.gamma = self.add_weight(name="gamma", shape=(width,), initializer="ones")
        self.beta = self.add_weight(name="beta", shape=(width,), initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Scales and shifts each feature; same shape and dtype out."""
        return inputs * self.gamma + self.beta

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the input shape."""
        return input_shape


@keras.saving.register_keras_serializable(package="tfdistill")
class Trigrams(keras.layers.Layer):
    """Puts the vectors of the next, this and the previous token side by side.

    Beyond both ends of the sequence there are zeros. Padding is no end: the last token of a padded
    example has the vector of [PAD] as its next, as in Google's and Hugging Face's models. One
    token of padding therefore changes an answer a little, and further ones do not.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps word vectors (B, L, e) to (B, L, 3 e)."""
        following = tf.pad(inputs[:, 1:], ((0, 0), (0, 1), (0, 0)))
        preceding = tf.pad(inputs[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return tf.concat([following, inputs, preceding], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, L, 3 e)."""
        return (*input_shape[:-1], 3 * input_shape[-1])
