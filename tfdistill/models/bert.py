"""The encoder as a flat functional graph of named layers: embeddings, then attention blocks."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.models import attention, layers, mobilebert
from tfdistill.models.config import EncoderConfig, MobileBertConfig, WordVectorConfig
from tfdistill.models.layer_factory import LayerFactory, initializer
from tfdistill.models.presets import as_config

__all__ = ["build_encoder", "encode", "encoder_inputs", "initializer"]


def build_encoder(
    preset_or_config: str | EncoderConfig,
    *,
    name: str | None = None,
    dtype_policy: str | None = None,
) -> keras.Model:
    """Builds a freshly initialised encoder.

    Args:
      preset_or_config: A preset's name or an `EncoderConfig`, also a `MobileBertConfig`.
      name: Name of the model; default the family.
      dtype_policy: Keras dtype policy of every layer, for example "mixed_bfloat16"; default the
        global policy.

    Returns:
      A functional model. Inputs, int32 (B, L): "input_ids", "attention_mask" (1 token, 0
      padding) and, where the encoder has token types, "token_type_ids". Outputs: a dict of
      "sequence_output" (B, L, d) and, with a pooler, "pooled_output" (B, d). MobileBERT
      without a pooler pools by taking the state of [CLS] as it is.
    """
    config = as_config(preset_or_config)
    inputs = encoder_inputs(config)
    outputs = encode(inputs, config, dtype_policy)
    return keras.Model(inputs, outputs, name=name or config.family)


def encoder_inputs(config: EncoderConfig | WordVectorConfig) -> dict[str, Any]:
    """Returns the named int32 inputs (B, L) of an encoder."""
    names = ["input_ids", "attention_mask"]
    if config.type_vocab_size:
        names.append("token_type_ids")
    return {name: keras.Input((None,), dtype="int32", name=name) for name in names}


def encode(
    inputs: dict[str, Any], config: EncoderConfig, dtype_policy: str | None = None
) -> dict[str, Any]:
    """Applies a new encoder to symbolic inputs and returns its outputs by name."""
    make = LayerFactory(config, dtype_policy)
    mobile = config if isinstance(config, MobileBertConfig) else None
    mask = attention.AttentionMask(
        mobilebert.MASK_VALUE if mobile else attention.ATTENTION_MASK_VALUE,
        name="attention_mask_scores",
        dtype=dtype_policy,
    )(inputs["attention_mask"])
    embedded = mobilebert.embed(inputs, mobile, make) if mobile else _embed(inputs, make)
    hidden = layers.FlattenTokens(name="flatten_tokens", dtype=dtype_policy)(embedded)  # (B L, d)
    for index in range(config.num_layers):
        prefix = f"layer_{index}"
        if mobile:
            hidden = mobilebert.block(hidden, mask, mobile, make, prefix)
        else:
            hidden = _block(hidden, mask, make, prefix)
    unflatten = layers.UnflattenTokens(name="sequence_output", dtype=dtype_policy)
    sequence = unflatten((hidden, inputs["input_ids"]))  # (B, L, d)
    outputs = {"sequence_output": sequence}
    if config.pooler or mobile:
        pooled = layers.FirstToken(name="first_token", dtype=dtype_policy)(sequence)
        if config.pooler:
            pooled = make.dense(config.hidden_size, "pooler")(pooled)
            pooled = make.activation("tanh", "pooler_activation")(pooled)
        outputs["pooled_output"] = pooled  # (B, d)
    return outputs


def _embed(inputs: dict[str, Any], make: LayerFactory) -> Any:
    config = make.config
    narrow = config.embedding_size or config.hidden_size
    words = make.word_embedding(narrow)(inputs["input_ids"])
    projected_last = config.family == "electra"
    if config.embedding_size is not None and not projected_last:
        words = make.projected_words(words, inputs, bias=False)
    summed = make.embeddings(words, inputs, narrow if projected_last else config.hidden_size)
    states = make.layer_norm("embeddings_layer_norm")(summed)
    if config.embedding_size is not None and projected_last:
        states = make.projected_words(states, inputs, bias=True)
    return make.dropout(make.config.dropout, "embeddings_dropout")(states)


def _block(hidden: Any, mask: Any, make: LayerFactory, prefix: str) -> Any:
    """Maps (B L, d) to (B L, d): attention, then feed-forward, each with residual and LayerNorm."""
    config = make.config
    width = config.hidden_size
    query = make.dense(config.attention_width, f"{prefix}_query")(hidden)
    key = make.dense(config.attention_width, f"{prefix}_key")(hidden)
    value = make.dense(config.attention_width, f"{prefix}_value")(hidden)
    context = make.attention(query, key, value, mask, prefix)  # (B L, attention width)
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
