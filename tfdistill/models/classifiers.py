"""Classifiers of whole texts, of tokens and of spans, in the styles of each family."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.models import bert, bilstm, layers
from tfdistill.models.config import EncoderConfig, WordVectorConfig
from tfdistill.models.dropout import Dropout
from tfdistill.models.layer_factory import initializer, output_layer
from tfdistill.models.presets import as_config, preset

# Families without a pooler whose head has a dense layer of its own, and its activation.
_DENSE_HEADS = {"distilbert": "relu", "electra": "gelu"}


def build_classifier(
    preset_or_config: str | EncoderConfig | WordVectorConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a head over [CLS].

    The head follows the family, p being the tanh-pooled state of [CLS] and h its last state:
    bert: W dropout(p) + b; tinybert: W relu(p) + b; distilbert: W dropout(relu(V h + c)) + b;
    electra: W dropout(gelu(V dropout(h) + c)) + b, with the exact GELU whatever `hidden_act`;
    mobilebert: as bert, p = h where there is no pooler. A BiLSTM or static student is a classifier
    of its own, see `build_bilstm`.

    Args:
      preset_or_config: A preset's name, an `EncoderConfig` or a `WordVectorConfig`.
      num_labels: Classes, or 1 for regression.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the classifier, which stays float32;
        default the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B,
      num_labels), float32, no softmax.

    Raises:
      ConfigError: If `num_labels` is below 1, or a BERT or TinyBERT shape has no pooler.
    """
    shape = preset(preset_or_config) if isinstance(preset_or_config, str) else preset_or_config
    if isinstance(shape, WordVectorConfig):
        return bilstm.build_bilstm(shape, num_labels, name=name, dtype_policy=dtype_policy)
    config = as_config(shape)
    if num_labels < 1:
        raise errors.ConfigError("num_labels", "at least 1", num_labels)
    if config.family in ("bert", "tinybert") and not config.pooler:
        raise errors.ConfigError(
            f"{config.family} classifier",
            "an encoder with a pooler",
            "pooler=False",
            "Use config.replace(pooler=True).",
        )
    inputs = bert.encoder_inputs(config)
    outputs = bert.encode(inputs, config, dtype_policy)
    features = _features(outputs, config, dtype_policy)
    logits = output_layer(num_labels, "classifier")(features)
    return keras.Model(inputs, logits, name=name or config.family)


def build_token_classifier(
    preset_or_config: str | EncoderConfig,
    num_labels: int,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder with a classifier over every token.

    W dropout(h) + b for the last state h of each token, padding included. The dropout's rate is
    the classifier's; for distilbert, as in transformers, the encoder's. There is no pooler.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      num_labels: Classes.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the classifier, which stays float32;
        default the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B, L,
      num_labels), float32, no softmax.

    Raises:
      ConfigError: If `num_labels` is below 1.
    """
    config = as_config(preset_or_config)
    if num_labels < 1:
        raise errors.ConfigError("num_labels", "at least 1", num_labels)
    rate = config.dropout if config.family == "distilbert" else config.head_dropout
    return _over_tokens(config, num_labels, "token", rate, name, dtype_policy)


def build_span_classifier(
    preset_or_config: str | EncoderConfig,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder that points at the start and the end of a span.

    W h + b for the last state h of each token; for distilbert, as in transformers, W dropout(h) +
    b with the encoder's rate. There is no pooler.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer but the last, which stays float32; default
        the global policy.

    Returns:
      A functional model with the inputs of `build_encoder` and one output: logits (B, L, 2),
      float32, [..., 0] of being the start and [..., 1] of being the end; a softmax would be over
      the tokens that are no padding.
    """
    config = as_config(preset_or_config)
    rate = config.dropout if config.family == "distilbert" else 0.0
    return _over_tokens(config, 2, "span", rate, name, dtype_policy)


def _over_tokens(
    config: EncoderConfig,
    num_labels: int,
    head: str,
    rate: float,
    name: str | None,
    dtype_policy: str | None,
) -> keras.Model:
    inputs = bert.encoder_inputs(config)
    states = bert.encode(inputs, config, dtype_policy)["sequence_output"]  # (B, L, d)
    rows = layers.FlattenTokens(name=f"{head}_rows", dtype=dtype_policy)(states)  # (B L, d)
    rows = Dropout(rate, name=f"{head}_dropout", dtype=dtype_policy)(rows)
    logits = output_layer(num_labels, f"{head}_classifier")(rows)
    unflatten = layers.UnflattenTokens(name=f"{head}_logits", dtype="float32")
    return keras.Model(inputs, unflatten((logits, inputs["input_ids"])), name=name or config.family)


def _features(outputs: dict[str, Any], config: EncoderConfig, dtype_policy: str | None) -> Any:
    """Returns what the classifier sees, (B, d)."""
    if config.family == "tinybert":
        activation = keras.layers.Activation("relu", name="pooled_relu", dtype=dtype_policy)
        return activation(outputs["pooled_output"])
    rate = config.head_dropout
    if config.family in _DENSE_HEADS:
        first = layers.FirstToken(name="first_token", dtype=dtype_policy)
        features = first(outputs["sequence_output"])
        if config.family == "electra":
            features = Dropout(rate, name="first_token_dropout", dtype=dtype_policy)(features)
        dense = keras.layers.Dense(
            config.hidden_size,
            activation=layers.activation_function(_DENSE_HEADS[config.family]),
            kernel_initializer=initializer(),
            name="pre_classifier",
            dtype=dtype_policy,
        )
        features = dense(features)
    else:
        features = outputs["pooled_output"]
    return Dropout(rate, name="pooled_dropout", dtype=dtype_policy)(features)
