"""config.json of a Hugging Face checkpoint <-> `EncoderConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.models import EncoderConfig, MobileBertConfig
from tfdistill.weights import keys, mobilebert_config

BLOCK = "tfdistill"  # the key of config.json that holds what Hugging Face has no word for
FORMAT_VERSION = 1
_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
_ARCHITECTURES = {
    "none": "Model",
    "sequence": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "masked_lm": "ForMaskedLM",
}
_FAMILIES = {  # of ours, by model_type
    "bert": ("bert", "tinybert"),
    "distilbert": ("distilbert",),
    "mobilebert": ("mobilebert",),
}
_CLASSES = {"distilbert": "DistilBert", "mobilebert": "MobileBert"}
_DISTILBERT_EPS = 1e-12  # fixed in transformers, not in its config


def check_kind(raw: Mapping[str, Any], *, what: str = "config.json model_type") -> str:
    """Returns the ``model_type`` of a config.json.

    Raises:
      WeightsError: If it is none of ours.
    """
    kind = raw.get("model_type")
    if kind not in _FAMILIES:
        raise errors.WeightsError(
            what,
            f"one of {', '.join(_FAMILIES)}",
            repr(kind),
            "Only BERT, TinyBERT, DistilBERT and MobileBERT can be loaded: other models "
            "(RoBERTa, DeBERTa, ...) compute or tokenize otherwise.",
        )
    return kind


def parse_config(raw: Mapping[str, Any], *, family: str | None = None) -> EncoderConfig:
    """Reads the architecture from a config.json.

    Args:
      raw: The parsed JSON.
      family: "tinybert" or "bert" to choose the head style of a BERT checkpoint; default what
        the file says.

    Returns:
      The configuration.

    Raises:
      WeightsError: If the model is of another kind, or uses a feature that we do not have.
      ConfigError: If a size in it is impossible.
    """
    kind = check_kind(raw)
    block = raw.get(BLOCK, {})
    if block and block.get("format_version") != FORMAT_VERSION:
        raise errors.WeightsError(
            f"config.json {BLOCK}.format_version",
            FORMAT_VERSION,
            block.get("format_version"),
            "The folder was written by another version of tfdistill.",
        )
    told = family or block.get("head") or kind
    fitting = _FAMILIES[kind]
    if told not in fitting:
        raise errors.WeightsError("family", f"one of {fitting} for model_type {kind!r}", repr(told))
    try:
        if kind == "distilbert":
            return _distilbert(raw)
        if kind == "mobilebert":
            common = _bert({**mobilebert_config.DEFAULTS, **raw}, "bert", block)
            return mobilebert_config.parse(raw, common)
        return _bert(raw, told, block)
    except KeyError as error:
        raise errors.WeightsError("config.json", f"the key {error}", "a file without it") from error


def _bert(raw: Mapping[str, Any], family: str, block: Mapping[str, Any]) -> EncoderConfig:
    positions = raw.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise errors.WeightsError(
            "config.json position_embedding_type", "'absolute'", repr(positions)
        )
    for feature in ("is_decoder", "add_cross_attention"):
        if raw.get(feature):
            raise errors.WeightsError(f"config.json {feature}", "false: an encoder", "true")
    return EncoderConfig(
        family=family,
        num_layers=raw["num_hidden_layers"],
        hidden_size=raw["hidden_size"],
        num_heads=raw["num_attention_heads"],
        intermediate_size=raw["intermediate_size"],
        vocab_size=raw["vocab_size"],
        max_positions=raw.get("max_position_embeddings", 512),
        type_vocab_size=block.get("type_vocab_size", raw.get("type_vocab_size", 2)),
        hidden_act=_activation(raw.get("hidden_act", "gelu")),
        layer_norm_eps=raw.get("layer_norm_eps", 1e-12),
        dropout=raw.get("hidden_dropout_prob", 0.1),
        attention_dropout=raw.get("attention_probs_dropout_prob", 0.1),
        classifier_dropout=raw.get("classifier_dropout"),
        pad_token_id=raw.get("pad_token_id") or 0,
    )


def _distilbert(raw: Mapping[str, Any]) -> EncoderConfig:
    dropout = raw.get("dropout", 0.1)
    head_dropout = raw.get("seq_classif_dropout", 0.2)
    return EncoderConfig(
        family="distilbert",
        num_layers=raw["n_layers"],
        hidden_size=raw["dim"],
        num_heads=raw["n_heads"],
        intermediate_size=raw["hidden_dim"],
        vocab_size=raw["vocab_size"],
        max_positions=raw.get("max_position_embeddings", 512),
        type_vocab_size=0,
        hidden_act=_activation(raw.get("activation", "gelu")),
        layer_norm_eps=_DISTILBERT_EPS,
        dropout=dropout,
        attention_dropout=raw.get("attention_dropout", 0.1),
        classifier_dropout=None if head_dropout == dropout else head_dropout,
        pooler=False,
        pad_token_id=raw.get("pad_token_id") or 0,
    )


def _activation(name: Any) -> str:
    if name not in _ACTIVATIONS:
        raise errors.WeightsError(
            "config.json activation", f"one of {sorted(_ACTIVATIONS)}", repr(name)
        )
    return _ACTIVATIONS[name]


def format_config(
    config: EncoderConfig, head: keys.Head, labels: tuple[str, ...] | None
) -> dict[str, Any]:
    """Writes the architecture as the content of a config.json.

    Args:
      config: The architecture.
      head: The head.
      labels: Names of the classes; None gives "LABEL_0", "LABEL_1", ...

    Returns:
      A JSON-able dict that `transformers.AutoConfig` understands. What it has no word for
      (TinyBERT's head, no token types, no pooler) stands under "tfdistill".

    Raises:
      WeightsError: If `transformers` could only build a different network.
    """
    distil = config.family == "distilbert"
    if distil and config.layer_norm_eps != _DISTILBERT_EPS:
        raise errors.WeightsError(
            "layer_norm_eps of a DistilBERT saved for transformers",
            f"{_DISTILBERT_EPS}, which is fixed there",
            config.layer_norm_eps,
        )
    suffix = "ForPreTraining" if head.next_sentence else _ARCHITECTURES[head.kind]
    written: dict[str, Any] = {
        "architectures": [_CLASSES.get(config.family, "Bert") + suffix],
        "model_type": config.family if config.family in _CLASSES else "bert",
        **(_distilbert_sizes(config) if distil else _bert_sizes(config)),
        **(mobilebert_config.sizes(config) if isinstance(config, MobileBertConfig) else {}),
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": config.pad_token_id,
        "initializer_range": 0.02,
        "dtype": "float32",
    }
    if head.num_labels and head.kind != "span":
        names = labels or tuple(f"LABEL_{index}" for index in range(head.num_labels))
        written["id2label"] = {str(index): name for index, name in enumerate(names)}
        written["label2id"] = {name: index for index, name in enumerate(names)}
        if head == ("sequence", 1, False):
            written["problem_type"] = "regression"
    if not distil:
        written[BLOCK] = {
            "format_version": FORMAT_VERSION,
            "head": config.family,
            "type_vocab_size": config.type_vocab_size,
        }
    return written


def _bert_sizes(config: EncoderConfig) -> dict[str, Any]:
    return {
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "num_attention_heads": config.num_heads,
        "intermediate_size": config.intermediate_size,
        "hidden_act": _their_activation(config),
        "layer_norm_eps": config.layer_norm_eps,
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": config.attention_dropout,
        "classifier_dropout": config.classifier_dropout,
        "position_embedding_type": "absolute",
        "type_vocab_size": config.type_vocab_size or 2,
    }


def _distilbert_sizes(config: EncoderConfig) -> dict[str, Any]:
    return {
        "n_layers": config.num_layers,
        "dim": config.hidden_size,
        "n_heads": config.num_heads,
        "hidden_dim": config.intermediate_size,
        "activation": _their_activation(config),
        "dropout": config.dropout,
        "attention_dropout": config.attention_dropout,
        "seq_classif_dropout": config.head_dropout,
        "sinusoidal_pos_embds": False,
        "tie_weights_": True,
    }


def _their_activation(config: EncoderConfig) -> str:
    return "gelu_new" if config.hidden_act == "gelu_tanh" else config.hidden_act
