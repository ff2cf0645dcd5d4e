"""The params.yaml of a Model Garden run -> the architecture of its encoder."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.io import reading
from tfdistill.models import EncoderConfig, MobileBertConfig

PARAMS_FILE = "params.yaml"
# One word, two functions: the Garden's own table says "gelu" for the approximation by tanh, Keras,
# whom its MobileBERT asks, for the exact one.
_ACTIVATIONS = {"gelu": "gelu_tanh", "relu": "relu"}
_MOBILEBERT_ACTIVATIONS = {"gelu": "gelu", "relu": "relu"}


def read_params(folder: pathlib.Path) -> tuple[EncoderConfig, str | None] | None:
    """Reads params.yaml as the Garden's trainer writes it."""
    path = folder / PARAMS_FILE
    if not path.is_file():
        return None
    try:
        raw = reading.read_yaml(path, error=errors.WeightsError)
        model = raw["task"]["model"]
        encoder = model["encoder"]
        kind = encoder["type"]
        shape = encoder[kind]
    except (KeyError, TypeError) as error:
        raise errors.WeightsError(
            str(path), "task.model.encoder as the Model Garden writes it", repr(error)
        ) from error
    if kind not in ("bert", "mobilebert"):
        raise errors.WeightsError(f"encoder type in {path}", "'bert' or 'mobilebert'", repr(kind))
    config = _mobilebert(shape) if kind == "mobilebert" else _bert(shape)
    activation = model.get("mlm_activation")
    return config, None if activation is None else _activation(activation, _ACTIVATIONS)


def _bert(shape: Mapping[str, Any]) -> EncoderConfig:
    width = shape.get("hidden_size", 768)
    for name, plain in (("embedding_size", (None, width)), ("norm_first", (None, False))):
        if shape.get(name) not in plain:
            raise errors.WeightsError(f"{PARAMS_FILE} {name}", f"one of {plain}", shape[name])
    return EncoderConfig(
        num_layers=shape.get("num_layers", 12),
        hidden_size=width,
        num_heads=shape.get("num_attention_heads", 12),
        intermediate_size=shape.get("intermediate_size", 3072),
        vocab_size=shape.get("vocab_size", 30522),
        max_positions=shape.get("max_position_embeddings", 512),
        type_vocab_size=shape.get("type_vocab_size", 2),
        hidden_act=_activation(shape.get("hidden_activation", "gelu"), _ACTIVATIONS),
        dropout=shape.get("dropout_rate", 0.1),
        attention_dropout=shape.get("attention_dropout_rate", 0.1),
    )


def _mobilebert(shape: Mapping[str, Any]) -> MobileBertConfig:
    narrow = shape.get("use_bottleneck_attention", False)
    return MobileBertConfig(
        num_layers=shape.get("num_blocks", 24),
        hidden_size=shape.get("hidden_size", 512),
        num_heads=shape.get("num_attention_heads", 4),
        intermediate_size=shape.get("intermediate_size", 4096),
        vocab_size=shape.get("word_vocab_size", 30522),
        max_positions=shape.get("max_sequence_length", 512),
        type_vocab_size=shape.get("type_vocab_size", 2),
        hidden_act=_activation(shape.get("hidden_activation", "gelu"), _MOBILEBERT_ACTIVATIONS),
        dropout=shape.get("hidden_dropout_prob", 0.1),
        attention_dropout=shape.get("attention_probs_dropout_prob", 0.1),
        pooler=shape.get("classifier_activation", True),
        embedding_size=shape.get("word_embed_size", 128),
        bottleneck_size=shape.get("intra_bottleneck_size", 1024),
        num_feed_forward=shape.get("num_feedforward_networks", 1),
        shared_key_query=not narrow and shape.get("key_query_shared_bottleneck", False),
        bottleneck_attention=narrow,
        normalization=shape.get("normalization_type", "layer_norm"),
    )


def _activation(name: Any, names: Mapping[str, str]) -> str:
    if name not in names:
        raise errors.WeightsError(
            f"activation in {PARAMS_FILE}", f"one of {sorted(names)}", repr(name)
        )
    return names[name]
