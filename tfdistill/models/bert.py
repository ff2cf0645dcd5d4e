"""The encoder as a flat functional graph of named layers: embeddings, then attention blocks."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.models import layers
from tfdistill.models.config import EncoderConfig
from tfdistill.models.dropout import Dropout
from tfdistill.models.presets import as_config


def build_encoder(
    preset_or_config: str | EncoderConfig,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer, for example "mixed_bfloat16"; default the
        global policy.

    Returns:
      A functional model. Inputs, int32 (B, L): "input_ids", "attention_mask" (1 token, 0
      padding) and, where the encoder has token types, "token_type_ids". Outputs: a dict of
      "sequence_output" (B, L, d) and, with a pooler, "pooled_output" (B, d).
    """
    config = as_config(preset_or_config)
    inputs = encoder_inputs(config)
    outputs = encode(inputs, config, dtype_policy)
    return keras.Model(inputs, outputs, name=name or config.family)


def encoder_inputs(config: EncoderConfig) -> dict[str, Any]:
    """Returns the named int32 inputs (B, L) of an encoder."""
    names = ["input_ids", "attention_mask"]
    if config.type_vocab_size:
        names.append("token_type_ids")
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


def encode(
    inputs: dict[str, Any], config: EncoderConfig, dtype_policy: str | None = None
) -> dict[str, Any]:
    """Applies a new encoder to symbolic inputs and returns its outputs by name."""
    make = _Maker(config, dtype_policy)
    mask = layers.AttentionMask(name="attention_mask_scores", dtype=dtype_policy)(
        inputs["attention_mask"]
    )
    embedded = _embed(inputs, make)  # (B, L, d)
    hidden = layers.FlattenTokens(name="flatten_tokens", dtype=dtype_policy)(embedded)  # (B L, d)
    for index in range(config.num_layers):
        hidden = _block(hidden, mask, make, f"layer_{index}")
    unflatten = layers.UnflattenTokens(name="sequence_output", dtype=dtype_policy)
    sequence = unflatten((hidden, inputs["input_ids"]))  # (B, L, d)
    outputs = {"sequence_output": sequence}
    if config.pooler:
        first = layers.FirstToken(name="first_token", dtype=dtype_policy)(sequence)
        pooled = make.dense(config.hidden_size, "pooler")(first)
        outputs["pooled_output"] = make.activation("tanh", "pooler_activation")(pooled)
    return outputs


def initializer() -> keras.initializers.Initializer:
    """Returns BERT's initialiser: a normal of deviation 0.02 truncated at two deviations."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


class _Maker:
    """Makes the layers of one encoder with its options."""

    def __init__(self, config: EncoderConfig, dtype_policy: str | None) -> None:
        self.config = config
        self.dtype = dtype_policy

    def dense(self, units: int, name: str) -> keras.layers.Layer:
        return keras.layers.Dense(
            units, kernel_initializer=initializer(), name=name, dtype=self.dtype
        )

    def layer_norm(self, name: str) -> keras.layers.Layer:
        return layers.LayerNorm(self.config.layer_norm_eps, name=name, dtype=self.dtype)

    def dropout(self, rate: float, name: str) -> keras.layers.Layer:
        return Dropout(rate, name=name, dtype=self.dtype)

    def add(self, name: str) -> keras.layers.Layer:
        return keras.layers.Add(name=name, dtype=self.dtype)

    def activation(self, function: str, name: str) -> keras.layers.Layer:
        ours = {"gelu": layers.gelu, "gelu_tanh": layers.gelu_tanh}
        return keras.layers.Activation(ours.get(function, function), name=name, dtype=self.dtype)


def _embed(inputs: dict[str, Any], make: _Maker) -> Any:
    config = make.config
    ids = inputs["input_ids"]
    words = layers.WordEmbedding(
        config.vocab_size,
        config.hidden_size,
        family=config.family,
        pad_token_id=config.pad_token_id,
        embeddings_initializer=initializer(),
        name="word_embeddings",
        dtype=make.dtype,
    )(ids)
    positions = layers.PositionEmbedding(
        config.max_positions,
        config.hidden_size,
        embeddings_initializer=initializer(),
        name="position_embeddings",
        dtype=make.dtype,
    )(ids)
    parts = [words, positions]
    if config.type_vocab_size:
        types = keras.layers.Embedding(
            config.type_vocab_size,
            config.hidden_size,
            embeddings_initializer=initializer(),
            name="token_type_embeddings",
            dtype=make.dtype,
        )
        parts.append(types(inputs["token_type_ids"]))
    summed = make.add("embeddings_add")(parts)  # (B, L, d)
    normed = make.layer_norm("embeddings_layer_norm")(summed)
    return make.dropout(config.dropout, "embeddings_dropout")(normed)


def _block(hidden: Any, mask: Any, make: _Maker, prefix: str) -> Any:
    """Maps (B L, d) to (B L, d): attention, then feed-forward, each with residual and LayerNorm."""
    config = make.config
    width = config.hidden_size
    query = make.dense(width, f"{prefix}_query")(hidden)
    key = make.dense(width, f"{prefix}_key")(hidden)
    value = make.dense(width, f"{prefix}_value")(hidden)
    scores = layers.AttentionScores(
        config.num_heads, name=f"{prefix}_attention_scores", dtype=make.dtype
    )((query, key, mask))  # (B, h, L, L)
    probabilities = layers.AttentionProbabilities(
        name=f"{prefix}_attention_probs", dtype=make.dtype
    )((scores, mask))
    probabilities = make.dropout(config.attention_dropout, f"{prefix}_attention_dropout")(
        probabilities
    )
    context = layers.AttentionContext(name=f"{prefix}_context", dtype=make.dtype)(
        (probabilities, value)
    )  # (B L, d)
    attended = make.dense(width, f"{prefix}_attention_output")(context)
    attended = make.dropout(config.dropout, f"{prefix}_attention_output_dropout")(attended)
    attended = make.add(f"{prefix}_attention_add")([attended, hidden])
    attended = make.layer_norm(f"{prefix}_attention_layer_norm")(attended)

    inner = make.dense(config.intermediate_size, f"{prefix}_intermediate")(attended)
    inner = make.activation(config.hidden_act, f"{prefix}_intermediate_activation")(inner)
    output = make.dense(width, f"{prefix}_output")(inner)
    output = make.dropout(config.dropout, f"{prefix}_output_dropout")(output)
    output = make.add(f"{prefix}_output_add")([output, attended])
    return make.layer_norm(f"{prefix}_layer_norm")(output)
