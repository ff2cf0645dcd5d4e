"""The small layers that an encoder needs besides Dense, Embedding and LayerNormalization.

Between the embeddings and the output the tokens of a batch are in one matrix (B L, d): every Dense
is then one matrix product that TensorFlow fuses with its bias, GELU or residual, which it does not
do at rank 3.
Shapes: B examples, L tokens, d hidden width.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors


def lengths_of(tensor: tf.Tensor) -> list[Any]:
    """Returns each dimension of `tensor`, as an integer where it is known."""
    if None not in tensor.shape:
        return list(tensor.shape)
    dynamic = tf.shape(tensor)
    return [dynamic[i] if size is None else size for i, size in enumerate(tensor.shape)]


@keras.saving.register_keras_serializable(package="tfdistill")
class WordEmbedding(keras.layers.Embedding):
    """The table of word vectors, looked up by id, or read the other way round: vector to logits.

    It also records what the layers themselves do not show, the family and the id of [PAD].

    Args:
      input_dim: Rows: the size of the vocabulary.
      output_dim: Width.
      family: The encoder's family, see `EncoderConfig`.
      pad_token_id: The id of [PAD].
      **kwargs: As for `keras.layers.Embedding`.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        *,
        family: str = "bert",
        pad_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(input_dim, output_dim, **kwargs)
        self.family = family
        self.pad_token_id = pad_token_id

    def call(self, inputs: tf.Tensor, as_decoder: bool = False) -> tf.Tensor:
        """Looks ids up: (B, L) -> (B, L, d); as decoder, X E^T: (N, d) -> (N, V), no bias."""
        if not as_decoder:
            return super().call(inputs)
        # Keras casts neither the inputs nor the table of an embedding.
        table = tf.cast(self.embeddings, self.compute_dtype)
        return tf.matmul(tf.cast(inputs, self.compute_dtype), table, transpose_b=True)

    def get_config(self) -> dict[str, Any]:
        """Returns the settings of the table, its family and padding id."""
        return {
            **super().get_config(),
            "family": self.family,
            "pad_token_id": self.pad_token_id,
        }


@keras.saving.register_keras_serializable(package="tfdistill")
class PositionEmbedding(keras.layers.Layer):
    """A learned vector for each position: the first L rows of a (max_positions, d) table.

    Args:
      max_positions: Rows of the table.
      output_dim: Width d.
      embeddings_initializer: Initialiser of the table.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(
        self,
        max_positions: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_positions = max_positions
        self.output_dim = output_dim
        self.embeddings_initializer = keras.initializers.get(embeddings_initializer)

    def build(self, input_shape: Any) -> None:
        """Creates the table."""
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_positions, self.output_dim),
            initializer=self.embeddings_initializer,
        )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of the positions of `inputs` (B, L).

        Returns:
          (1, L, d), to be added to every example.

        Raises:
          ShapeError: If L is known and exceeds the table; where L is only known at run time, the
            run fails with an InvalidArgumentError of the same text.
        """
        length = lengths_of(inputs)[1]
        if isinstance(length, int):
            if length > self.max_positions:
                raise errors.ShapeError(self._too_long(length))
            return self.embeddings[tf.newaxis, :length]
        check = tf.debugging.assert_less_equal(
            length, self.max_positions, message=self._too_long("more")
        )
        with tf.control_dependencies([check]):
            return self.embeddings[tf.newaxis, : tf.identity(length)]

    def _too_long(self, length: Any) -> str:
        return errors.explain(
            "sequence length",
            f"at most {self.max_positions} tokens",
            length,
            "Truncate the text, or build the model with more positions.",
        )

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (1, L, d)."""
        return (1, input_shape[1], self.output_dim)

    def get_config(self) -> dict[str, Any]:
        """Returns the size and initialiser of the table."""
        return {
            **super().get_config(),
            "max_positions": self.max_positions,
            "output_dim": self.output_dim,
            "embeddings_initializer": keras.initializers.serialize(self.embeddings_initializer),
        }


class _Norm(keras.layers.Layer):
    """A layer that scales and shifts each feature."""

    def build(self, input_shape: Any) -> None:
        """Creates gamma (ones) and beta (zeros)."""
        width = input_shape[-1]
        self.gamma = self.add_weight(name="gamma", shape=(width,), initializer="ones")
        self.beta = self.add_weight(name="beta", shape=(width,), initializer="zeros")
        super().build(input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the input shape."""
        return input_shape


@keras.saving.register_keras_serializable(package="tfdistill")
class LayerNorm(_Norm):
    """Layer normalisation: gamma (x - mean) / sqrt(variance + epsilon) + beta over the last axis.

    Computed in float32 whatever the dtype policy. It is the formula of
    `keras.layers.LayerNormalization`, centred first: a third faster on a CPU, and one TFLite
    operator shorter.

    Args:
      epsilon: Added to the variance.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, epsilon: float = 1e-12, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.epsilon = epsilon

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalises each row; same shape and dtype out."""
        values = tf.cast(inputs, tf.float32)
        centred = values - tf.reduce_mean(values, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        normed = centred * tf.math.rsqrt(variance + self.epsilon)
        normed = normed * tf.cast(self.gamma, tf.float32) + tf.cast(self.beta, tf.float32)
        return tf.cast(normed, inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        """Returns epsilon and the layer's own settings."""
        return {**super().get_config(), "epsilon": self.epsilon}


@keras.saving.register_keras_serializable(package="tfdistill")
class NoNorm(_Norm):
    """MobileBERT's replacement of LayerNorm: gamma x + beta, element by element.

    No statistics are taken, so it costs next to nothing, and a converter can fold it into the
    layer before.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Scales and shifts each feature; same shape and dtype out."""
        return inputs * self.gamma + self.beta


@keras.saving.register_keras_serializable(package="tfdistill")
class FlattenTokens(keras.layers.Layer):
    """Lays the tokens of a batch under each other."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps (B, L, d) to (B L, d)."""
        batch, length, width = lengths_of(inputs)
        return tf.reshape(inputs, (batch * length, width))


@keras.saving.register_keras_serializable(package="tfdistill")
class UnflattenTokens(keras.layers.Layer):
    """Splits the tokens into examples again."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps states (B L, d) and any tensor (B, L), for example the ids, to (B, L, d)."""
        states, like = inputs
        batch, length = lengths_of(like)
        return tf.reshape(states, (batch, length, states.shape[-1]))


@keras.saving.register_keras_serializable(package="tfdistill")
class FirstToken(keras.layers.Layer):
    """The state of the first token, [CLS]."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps (B, L, d) to (B, d)."""
        return inputs[:, 0]


@keras.saving.register_keras_serializable(package="tfdistill")
class PredictedRows(keras.layers.Layer):
    """The states of the tokens that a masked language model is asked about."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps states (B, L, d) and prediction mask (B, L) to (N, d).

        Row n is the n-th token, counted along the examples, whose mask is not 0.
        """
        states, mask = inputs
        batch, length, width = lengths_of(states)
        chosen = tf.where(tf.reshape(mask, (batch * length,)) != 0)[:, 0]  # (N,)
        return tf.gather(tf.reshape(states, (batch * length, width)), chosen)


@keras.saving.register_keras_serializable(package="tfdistill")
class SplitFeatures(keras.layers.Layer):
    """Cuts vectors in two.

    Args:
      width: Width of the first part.
      **kwargs: Name and dtype of the layer.
    """

    def __init__(self, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.width = width

    def call(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Maps (N, d) to (N, width) and (N, d - width)."""
        return inputs[:, : self.width], inputs[:, self.width :]

    def get_config(self) -> dict[str, Any]:
        """Returns the width."""
        return {**super().get_config(), "width": self.width}


@keras.saving.register_keras_serializable(package="tfdistill")
class Bias(keras.layers.Layer):
    """Adds a learned number to each feature: x + b."""

    def build(self, input_shape: Any) -> None:
        """Creates the bias (zeros)."""
        self.bias = self.add_weight(name="bias", shape=(input_shape[-1],), initializer="zeros")
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Same shape out, in the layer's compute dtype."""
        return tf.nn.bias_add(inputs, self.bias)


@keras.saving.register_keras_serializable(package="tfdistill")
def gelu(inputs: tf.Tensor) -> tf.Tensor:
    """GELU, exact: x/2 (1 + erf(x / sqrt(2))), as PyTorch and Hugging Face compute it.

    `tf.nn.gelu` goes through erfc: equal to 1e-7, and twice as slow where it is not fused.
    """
    return 0.5 * inputs * (1.0 + tf.math.erf(inputs * 0.5**0.5))


@keras.saving.register_keras_serializable(package="tfdistill")
def gelu_tanh(inputs: tf.Tensor) -> tf.Tensor:
    """GELU by its tanh approximation: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    return tf.nn.gelu(inputs, approximate=True)


def activation_function(name: str) -> Any:
    """Returns what `keras.layers.Activation` takes for one of `ACTIVATIONS`."""
    return {"gelu": gelu, "gelu_tanh": gelu_tanh}.get(name, name)


def layer_of(model: keras.Model, name: str) -> keras.layers.Layer:
    """Returns the layer of that name, without the wrapper that compression may put around it."""
    layer = model.get_layer(name)
    return layer.layer if isinstance(layer, keras.layers.Wrapper) else layer


def count_layers(pattern: str, model: keras.Model) -> int:
    """Counts the layers whose names are `pattern` with 0, 1, ... in it."""
    names, count = {layer.name for layer in model.layers}, 0
    while pattern.format(count) in names:
        count += 1
    return count
