"""The layers over word vectors that Keras does not have in a form for phones.

Shapes: B examples, L tokens, e width of the word vectors, h units.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras


@keras.saving.register_keras_serializable(package="tfdistill")
class TextMasks(keras.layers.Layer):
    """Separates the two texts of a pair by their token types."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps mask and types, int32 (B, L), to the masks of first and second text."""
        mask, types = inputs
        return mask * (1 - types), mask * types


@keras.saving.register_keras_serializable(package="tfdistill")
class LastLstmState(keras.layers.Layer):
    """The state of an LSTM after the last token of a text; 0 where there is no token.

    With z = W x + U h + b in four parts i, f, g, o: c' = sigmoid(f) c + sigmoid(i) tanh(g),
    h' = sigmoid(o) tanh(c'). A step at a token outside the text leaves h and c as they are, so
    that padding, and the other text of a pair, change nothing. The weights are those of
    `keras.layers.LSTM`. That layer is not used because TFLite's fused operator for it carries its
    state from one call to the next: a file would answer by what it was asked before.

    Where L is known when a graph is built, as in an exported file, the steps are unrolled;
    otherwise they run in a loop.

    Args:
      units: Units h.
      backwards: Whether the text is read from its last token to its first.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, units: int, *, backwards: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.units = units
        self.backwards = backwards

    def build(self, input_shape: Any) -> None:
        """Creates W (e, 4 h), U (h, 4 h) and b (4 h,), which starts at 1 for the forget gate."""
        width, gates = input_shape[0][-1], 4 * self.units
        self.kernel = self.add_weight("kernel", (width, gates), initializer="glorot_uniform")
        self.recurrent = self.add_weight(
            "recurrent_kernel", (self.units, gates), initializer=_orthogonal
        )
        self.bias = self.add_weight("bias", (gates,), initializer=_open_forget_gate)
        super().build(input_shape)

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps word vectors (B, L, e) and the text's mask, int32 (B, L), to (B, h)."""
        vectors, mask = inputs
        batch, length, width = _sizes(vectors)
        rows = tf.reshape(vectors, (batch * length, width))
        rows = tf.nn.bias_add(tf.matmul(rows, self.kernel), self.bias)
        rows = tf.reshape(rows, (batch, length, 4 * self.units))
        rows = tf.transpose(rows, (1, 0, 2))  # (L, B, 4 h)
        keep = mask[:, :, tf.newaxis] > 0  # (B, L, 1)
        start = tf.zeros((batch, self.units), rows.dtype)
        if isinstance(length, int):
            steps = list(
                zip(tf.unstack(rows, length), tf.unstack(keep, length, axis=1), strict=True)
            )
            state = (start, start)
            for row, kept in reversed(steps) if self.backwards else steps:
                state = self._step(row, kept, *state)
            return state[0]

        def body(step: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor) -> tuple[tf.Tensor, ...]:
            index = length - 1 - step if self.backwards else step
            return step + 1, *self._step(rows[index], keep[:, index], hidden, cell)

        _, last, _ = tf.while_loop(lambda step, *_: step < length, body, (0, start, start))
        return last

    def _step(
        self, row: tf.Tensor, keep: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """One token: W x + b (B, 4 h), whether to read it (B, 1), both states (B, h)."""
        gates = row + tf.matmul(hidden, self.recurrent)
        take, forget, new, show = tf.split(gates, 4, axis=1)
        moved = tf.sigmoid(forget) * cell + tf.sigmoid(take) * tf.tanh(new)
        shown = tf.sigmoid(show) * tf.tanh(moved)
        return tf.where(keep, shown, hidden), tf.where(keep, moved, cell)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, h)."""
        return (input_shape[0][0], self.units)

    def get_config(self) -> dict[str, Any]:
        """Returns units and direction."""
        return {**super().get_config(), "units": self.units, "backwards": self.backwards}


@keras.saving.register_keras_serializable(package="tfdistill")
class MaskedMean(keras.layers.Layer):
    """The mean of a text's word vectors: ``sum_l m_l x_l / max(sum_l m_l, 1)``."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps word vectors (B, L, e) and the text's mask, int32 (B, L), to (B, e)."""
        vectors, mask = inputs
        keep = tf.cast(mask, vectors.dtype)[:, :, tf.newaxis]  # (B, L, 1)
        return tf.reduce_sum(vectors * keep, axis=1) / tf.maximum(tf.reduce_sum(keep, axis=1), 1.0)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, e)."""
        return (input_shape[0][0], input_shape[0][-1])


@keras.saving.register_keras_serializable(package="tfdistill")
class PairFeatures(keras.layers.Layer):
    """Compares two texts: [u, v, |u - v|, u * v]."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps two (B, d) to (B, 4 d)."""
        first, second = inputs
        return tf.concat([first, second, tf.abs(first - second), first * second], axis=-1)


def _sizes(tensor: tf.Tensor) -> list[Any]:
    """Returns each dimension of a tensor, as an integer where it is known."""
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


def _orthogonal(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
    """Starts a matrix with orthogonal rows; computed in float32, as there is no QR in bfloat16."""
    return tf.cast(keras.initializers.Orthogonal()(shape, tf.float32), dtype)


def _open_forget_gate(shape: Any, dtype: Any = None, **_: Any) -> tf.Tensor:
    """Starts the bias of an LSTM: 1 for the forget gate, the second of four, 0 otherwise."""
    units = shape[0] // 4
    return tf.concat([tf.zeros(units, dtype), tf.ones(units, dtype), tf.zeros(2 * units, dtype)], 0)
