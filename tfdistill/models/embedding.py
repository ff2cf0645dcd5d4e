"""Sentence encoders: a vector for a text, from the last states of any encoder."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, layers
from tfdistill.models.bilstm import MaskedMean
from tfdistill.models.config import EncoderConfig
from tfdistill.models.layer_factory import output_layer
from tfdistill.models.layers import FirstToken, layer_of
from tfdistill.models.presets import as_config

POOLINGS = ("mean", "cls", "max")
PROJECTIONS = ("linear", "tanh")
POOLING, DENSE, NORM = "vector_pooling", "vector_dense", "vector_norm"  # layers of the head
CLASSIFIER = "classifier"  # the layer over them, of a classifier
_LEAST_NORM = 1e-12
_NOTHING = -1e9  # a state of padding, for a maximum


@keras.saving.register_keras_serializable(package="tfdistill")
class MaskedMax(keras.layers.Layer):
    """The largest value of each feature over tokens: ``max over l with m_l = 1 of x_l``."""

    def call(self, inputs: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        """Maps states (B, L, d) and the text's mask, int32 (B, L), to (B, d)."""
        states, mask = inputs
        padding = 1.0 - tf.cast(mask, states.dtype)[:, :, tf.newaxis]  # (B, L, 1)
        return tf.reduce_max(states * (1.0 - padding) + padding * _NOTHING, axis=1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, d)."""
        return (input_shape[0][0], input_shape[0][-1])


@keras.saving.register_keras_serializable(package="tfdistill")
class L2Normalization(keras.layers.Layer):
    """Scales each row to length 1: ``x / max(|x|, 1e-12)``, in float32."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Same shape out."""
        values = tf.cast(inputs, tf.float32)
        squares = tf.reduce_sum(tf.square(values), axis=-1, keepdims=True)
        return values * tf.math.rsqrt(tf.maximum(squares, _LEAST_NORM**2))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the input shape."""
        return input_shape


def build_embedder(
    preset_or_config: str | EncoderConfig,
    width: int | None = None,
    *,
    pooling: str = "mean",
    projection: str | None = None,
    normalize: bool = True,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder of texts as vectors.

    With h_l the last states and m the attention mask, p is ``sum_l m_l h_l / sum_l m_l`` ("mean"),
    h_0 ("cls", the state of [CLS]) or ``max over l with m_l = 1 of h_l`` ("max"). With a projection
    the vector is ``f(W p + b)``, otherwise p; normalised it is divided by its length. These are the
    modules Pooling, Dense and Normalize of sentence-transformers.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      width: Width of the vectors; None for the encoder's. Another one needs a projection, which is
        "linear" where it is not given.
      pooling: "mean", "cls" or "max".
      projection: f, "linear" or "tanh"; None for no projection where the widths are equal.
      normalize: Whether vectors have length 1.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the projection, which stays float32;
        default the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output, (B, width), float32.

    Raises:
      ConfigError: If an option is unknown, or the shape is none of an encoder.
    """
    config = as_config(preset_or_config)
    if projection not in (None, *PROJECTIONS):
        raise errors.ConfigError("projection", f"one of {PROJECTIONS}, or None", repr(projection))
    if width is not None and width < 1:
        raise errors.ConfigError("width of the vectors", "at least 1", width)
    inputs, vector = _pooled(config, pooling, dtype_policy)
    if projection is not None or width not in (None, config.hidden_size):
        vector = output_layer(width or config.hidden_size, DENSE, projection or "linear")(vector)
    if normalize:
        vector = L2Normalization(name=NORM, dtype="float32")(vector)
    else:
        vector = keras.layers.Activation("linear", name="vector", dtype="float32")(vector)
    return keras.Model(inputs, vector, name=name or config.family)


def build_pooled_classifier(
    preset_or_config: str | EncoderConfig,
    num_labels: int,
    *,
    pooling: str,
    normalize: bool,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """A classifier over the vector of `build_embedder`: logits ``W v + b``, float32 (B, labels)."""
    config = as_config(preset_or_config)
    inputs, vector = _pooled(config, pooling, dtype_policy)
    if normalize:
        vector = L2Normalization(name=NORM, dtype="float32")(vector)
    logits = output_layer(num_labels, CLASSIFIER)(vector)
    return keras.Model(inputs, logits, name=name or config.family)


def _pooled(
    config: EncoderConfig, pooling: str, dtype_policy: str | None
) -> tuple[dict[str, Any], Any]:
    """The inputs of an encoder, and its last states pooled, (B, d)."""
    if pooling not in POOLINGS:
        raise errors.ConfigError(
            "pooling", f"one of {POOLINGS}", repr(pooling), errors.nearest(pooling, POOLINGS)
        )
    if config.family != "mobilebert":
        config = config.replace(pooler=False)
    inputs = bert.encoder_inputs(config)
    states = bert.encode(inputs, config, dtype_policy)["sequence_output"]  # (B, L, d)
    options: dict[str, Any] = {"name": POOLING, "dtype": dtype_policy}
    if pooling == "cls":
        return inputs, FirstToken(**options)(states)
    pool = MaskedMean(**options) if pooling == "mean" else MaskedMax(**options)
    return inputs, pool((states, inputs["attention_mask"]))


def read_options(model: keras.Model) -> dict[str, Any]:
    """Reads `width`, `pooling`, `projection` and `normalize` off a model of `build_embedder`."""
    names = {layer.name for layer in model.layers}
    kinds = {MaskedMean: "mean", MaskedMax: "max", layers.FirstToken: "cls"}
    projection = None
    if DENSE in names:
        projection = keras.activations.serialize(layer_of(model, DENSE).activation)
    return {
        "width": model.output.shape[-1],
        "pooling": kinds[type(layer_of(model, POOLING))],
        "projection": projection,
        "normalize": NORM in names,
    }
