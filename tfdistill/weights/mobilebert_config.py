"""The part of a Hugging Face config.json that only a MobileBERT has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.models import EncoderConfig, MobileBertConfig

# What `transformers` takes where config.json is silent, and a BERT's does not.
DEFAULTS = {"hidden_act": "relu", "hidden_dropout_prob": 0.0}


def parse(raw: Mapping[str, Any], common: EncoderConfig) -> MobileBertConfig:
    """Reads a MobileBERT's architecture.

    Args:
      raw: The parsed JSON; what it leaves out has the value that `transformers` gives it.
      common: What every BERT has, as read from the same file.

    Returns:
      The configuration; with a pooler if the file says so.

    Raises:
      WeightsError: If the network has no bottlenecks.
      ConfigError: If a size in it is impossible.
    """
    if not raw.get("use_bottleneck", True):
        raise errors.WeightsError("config.json use_bottleneck", "true: a MobileBERT", "false")
    narrow = raw.get("use_bottleneck_attention", False)
    return MobileBertConfig(
        num_layers=common.num_layers,
        hidden_size=common.hidden_size,
        num_heads=common.num_heads,
        intermediate_size=common.intermediate_size,
        vocab_size=common.vocab_size,
        max_positions=common.max_positions,
        type_vocab_size=common.type_vocab_size,
        hidden_act=common.hidden_act,
        layer_norm_eps=common.layer_norm_eps,
        dropout=common.dropout,
        attention_dropout=common.attention_dropout,
        classifier_dropout=common.classifier_dropout,
        pad_token_id=common.pad_token_id,
        pooler=raw.get("classifier_activation", True),
        embedding_size=raw.get("embedding_size", 128),
        bottleneck_size=raw.get("intra_bottleneck_size", 128),
        num_feed_forward=raw.get("num_feedforward_networks", 4),
        # With bottleneck attention the shared bottleneck is there and not used.
        shared_key_query=not narrow and raw.get("key_query_shared_bottleneck", True),
        bottleneck_attention=narrow,
        normalization=raw.get("normalization_type", "no_norm"),
        trigram=raw.get("trigram_input", True),
    )


def sizes(config: MobileBertConfig) -> dict[str, Any]:
    """Returns what config.json says of a MobileBERT beside what it says of every BERT."""
    return {
        "embedding_size": config.embedding_size,
        "trigram_input": config.trigram,
        "use_bottleneck": True,
        "intra_bottleneck_size": config.bottleneck_size,
        "use_bottleneck_attention": config.bottleneck_attention,
        "key_query_shared_bottleneck": config.shared_key_query,
        "num_feedforward_networks": config.num_feed_forward,
        "normalization_type": config.normalization,
        "classifier_activation": config.pooler,
    }
