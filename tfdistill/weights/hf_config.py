"""config.json of a Hugging Face checkpoint <-> `EncoderConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfdistill import errors
from tfdistill.models import LARGEST, EncoderConfig, MobileBertConfig
from tfdistill.weights import factorised

if TYPE_CHECKING:
    from collections.abc import Collection

    from tfdistill.models import Head

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
    "embedding": "Model",
    "sequence": "ForSequenceClassification",
    "token": "ForTokenClassification",
    "span": "ForQuestionAnswering",
    "masked_lm": "ForMaskedLM",
}
_FAMILIES = {  # of ours, by model_type
    "bert": ("bert", "tinybert"),
    "distilbert": ("distilbert",),
    "electra": ("electra",),
    "mobilebert": ("mobilebert",),
    "xlm-roberta": ("bert",),  # read as a BERT, see `weights.roberta_names`
}
ROBERTA_KINDS = ("roberta", "camembert")  # answer texts, see `weights.roberta`
_CLASSES = {"distilbert": "DistilBert", "electra": "Electra", "mobilebert": "MobileBert"}
_ELECTRA_WIDTH = 128  # of embeddings, where config.json does not say
_DISTILBERT_EPS = 1e-12  # fixed in transformers, not in its config
_MOBILEBERT_EPS = 1e-5  # likewise, in PyTorch, behind its embeddings and its `MobileBertOutput`

# Field of ours -> key of config.json. The first are required; what a file leaves out of the others
# has the value that `transformers` gives it, which is our default too but for MobileBERT.
_REQUIRED = ("num_layers", "hidden_size", "num_heads", "intermediate_size")
_BERT_NAMES = {
    "num_layers": "num_hidden_layers",
    "hidden_size": "hidden_size",
    "num_heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
    "hidden_act": "hidden_act",
    "layer_norm_eps": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "classifier_dropout": "classifier_dropout",
}
_DISTILBERT_NAMES = {
    "num_layers": "n_layers",
    "hidden_size": "dim",
    "num_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "classifier_dropout": "seq_classif_dropout",
}
_MOBILEBERT_NAMES = {
    "embedding_size": "embedding_size",
    "trigram": "trigram_input",
    "bottleneck_size": "intra_bottleneck_size",
    "bottleneck_attention": "use_bottleneck_attention",
    "shared_key_query": "key_query_shared_bottleneck",
    "num_feed_forward": "num_feedforward_networks",
    "normalization": "normalization_type",
    "pooler": "classifier_activation",
}
_TYPES: dict[str, type] = {
    BLOCK: dict,
    "pruned_heads": dict,
    "id2label": dict,
    "architectures": list,
    **dict.fromkeys(("hidden_act", "activation", "position_embedding_type"), str),
    "normalization_type": str,
}
_WORDS = {dict: "an object", list: "a list", str: "text"}
QUANTIZED = "Its weights are quantized. Take the checkpoint that they were made from."
_MOBILEBERT_DEFAULTS = {"hidden_act": "relu", "hidden_dropout_prob": 0.0}


def check_kind(
    raw: Mapping[str, Any],
    *,
    what: str = "config.json model_type",
    also: Collection[str] = (),
) -> str:
    """Returns the ``model_type`` of a config.json: one of ours, or of `also`, not quantized."""
    kind = raw.get("model_type")
    if kind is None:
        raise errors.WeightsError(
            what,
            f"one of {', '.join(_FAMILIES)}",
            "a file without it",
            'Old files lack it. If the network is a BERT, add "model_type": "bert".',
        )
    if not isinstance(kind, str) or kind not in (*_FAMILIES, *also):
        raise errors.WeightsError(
            what,
            f"one of {', '.join(_FAMILIES)}",
            repr(kind),
            "Only BERT, TinyBERT, DistilBERT, ELECTRA, MobileBERT and XLM-RoBERTa can be loaded: "
            "other models (RoBERTa, DeBERTa, ...) compute or tokenize otherwise. They teach by "
            "their answers: write those of a RoBERTa or CamemBERT with `tfdistill answers`, of "
            "others with scripts/answers_from_transformers.py, and give the file as "
            "teacher.answers.",
        )
    if quantized := raw.get("quantization_config"):
        named = isinstance(quantized, dict) and quantized.get("quant_method")
        raise errors.WeightsError(
            "config.json quantization_config", "none", repr(named or quantized)[:80], QUANTIZED
        )
    return kind


def parse_config(
    raw: Mapping[str, Any], *, family: str | None = None, layout: str = "pt"
) -> EncoderConfig:
    """Reads the architecture from a config.json."""
    kind = check_kind(raw)
    _check_types(raw)
    block = raw.get(BLOCK) or {}
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
            config = _distilbert(raw)
        else:
            defaults = _MOBILEBERT_DEFAULTS if kind == "mobilebert" else {}
            config = _bert({**defaults, **raw}, told, block, layout)
    except KeyError as error:
        raise errors.WeightsError("config.json", f"the key {error}", "a file without it") from error
    if "embedding_size" in block:
        return config.replace(embedding_size=block["embedding_size"])
    return config


def _check_types(raw: Mapping[str, Any]) -> None:
    """Refuses what would fail, or never end, where the file is read; sizes are the model's part."""
    for name, kind in _TYPES.items():
        value = raw.get(name)
        if value is not None and not isinstance(value, kind):
            raise errors.WeightsError(f"config.json {name}", _WORDS[kind], repr(value)[:80])
    for name in ("num_hidden_layers", "n_layers"):
        layers, most = raw.get(name), LARGEST["num_layers"]
        if isinstance(layers, int) and layers > most:
            raise errors.WeightsError(f"config.json {name}", f"at most {most} layers", layers)


def _common(raw: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Reads the fields that a file has, besides those of every family."""
    sizes = {field: raw[name] for field, name in names.items() if field in _REQUIRED or name in raw}
    sizes["hidden_act"] = _activation(sizes.get("hidden_act", "gelu"))
    if raw.get("pruned_heads"):
        sizes |= _after_pruning(raw["pruned_heads"], sizes)
    return {
        **sizes,
        "vocab_size": raw["vocab_size"],
        "max_positions": raw.get("max_position_embeddings", 512),
        "pad_token_id": raw.get("pad_token_id") or 0,
    }


def _bert(
    raw: Mapping[str, Any], family: str, block: Mapping[str, Any], layout: str
) -> EncoderConfig:
    positions = raw.get("position_embedding_type", "absolute")
    if positions != "absolute":
        raise errors.WeightsError(
            "config.json position_embedding_type", "'absolute'", repr(positions)
        )
    for feature in ("is_decoder", "add_cross_attention"):
        if raw.get(feature):
            raise errors.WeightsError(f"config.json {feature}", "false: an encoder", "true")
    sizes = _common(raw, _BERT_NAMES)
    sizes["type_vocab_size"] = block.get("type_vocab_size", raw.get("type_vocab_size", 2))
    if family == "electra":
        narrow = raw.get("embedding_size", _ELECTRA_WIDTH)
        sizes["embedding_size"] = None if narrow == sizes["hidden_size"] else narrow
        sizes["pooler"] = False
    if family != "mobilebert":
        return EncoderConfig(family=family, **sizes)
    if not raw.get("use_bottleneck", True):
        raise errors.WeightsError("config.json use_bottleneck", "true: a MobileBERT", "false")
    sizes |= {field: raw[name] for field, name in _MOBILEBERT_NAMES.items() if name in raw}
    # With bottleneck attention the shared bottleneck is in the file and not used.
    if sizes.get("normalization") == "layer_norm":
        epsilon = sizes.get("layer_norm_eps", 1e-12)
        fixed = epsilon if layout == "tf" else _MOBILEBERT_EPS
        eps = block.get("embeddings_layer_norm_eps", fixed)
        same = eps == epsilon
        sizes["embeddings_layer_norm_eps"] = None if same else eps
    narrow = sizes.get("bottleneck_attention", False)
    sizes["shared_key_query"] = not narrow and sizes.get("shared_key_query", True)
    return MobileBertConfig(**{"pooler": True, **sizes})


def _distilbert(raw: Mapping[str, Any]) -> EncoderConfig:
    sizes = {"dropout": 0.1, "classifier_dropout": 0.2, **_common(raw, _DISTILBERT_NAMES)}
    if sizes["classifier_dropout"] == sizes["dropout"]:
        sizes["classifier_dropout"] = None
    return EncoderConfig(
        family="distilbert",
        type_vocab_size=0,
        layer_norm_eps=_DISTILBERT_EPS,
        pooler=False,
        **sizes,
    )


def _after_pruning(pruned: Mapping[str, Any], sizes: Mapping[str, Any]) -> dict[str, int]:
    """Reads the number of heads that are left, and their size.

    ``pruned_heads`` maps a layer to the heads that its tensors lack. Every layer of ours has the
    same number of heads.
    """
    heads = sizes["num_heads"]
    try:
        lacking = [set(pruned.get(str(layer), ())) for layer in range(sizes["num_layers"])]
        size = sizes["hidden_size"] // heads
    except (TypeError, ZeroDivisionError) as error:
        raise errors.WeightsError(
            "config.json pruned_heads", "lists of heads, and whole sizes", error
        ) from error
    left = {heads - len(layer) for layer in lacking}
    if len(left) > 1 or min(left) < 1:
        raise errors.WeightsError(
            "config.json pruned_heads",
            "the same number of heads in each layer, at least one",
            f"{sorted(left)} heads left",
        )
    return {"num_heads": left.pop(), "head_size": size}


def _before_pruning(config: EncoderConfig) -> int:
    """Returns the number of heads that `transformers` must build before it prunes them."""
    if config.head_size is None:
        return config.num_heads
    heads, rest = divmod(config.hidden_size, config.head_size)
    if rest or heads < config.num_heads:
        raise errors.WeightsError(
            "attention of a model saved for transformers",
            f"heads whose size divides hidden_size {config.hidden_size}, no more than fill it",
            f"{config.num_heads} heads of {config.head_size}",
            "transformers has no such model. Choose other heads, or keep the .keras file.",
        )
    return heads


def _activation(name: Any) -> str:
    if name not in _ACTIVATIONS:
        raise errors.WeightsError(
            "config.json activation", f"one of {sorted(_ACTIVATIONS)}", repr(name)
        )
    return _ACTIVATIONS[name]


def foreign_head(config: EncoderConfig, head: Head) -> str:
    """Says why no class of `transformers` answers as a model does; "" where one does."""
    if config.family == "tinybert" and head.traits.of_texts and head.traits.classifies:
        return (
            "TinyBERT's head has a ReLU before its classifier, which no class of transformers has: "
            "only tfdistill reads its answers"
        )
    if head.pooled:
        return (
            "its classifier reads pooled states, which no class of transformers does: only "
            "tfdistill reads its answers"
        )
    return ""


def pooled_options(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Head` over pooled states, which a config.json of ours has; {} of others."""
    block = raw.get(BLOCK) or {}
    if "pooling" not in block:
        return {}
    options = {"pooling": block["pooling"], "normalize": block.get("normalize") is True}
    return {"pooled": True, **options}


def format_config(
    config: EncoderConfig, head: Head, labels: tuple[str, ...] | None
) -> dict[str, Any]:
    """Writes the architecture as the content of a config.json."""
    distil = config.family == "distilbert"
    if distil and config.layer_norm_eps != _DISTILBERT_EPS:
        raise errors.WeightsError(
            "layer_norm_eps of a DistilBERT saved for transformers",
            f"{_DISTILBERT_EPS}, which is fixed there",
            config.layer_norm_eps,
        )
    kind = "none" if head.pooled else head.kind
    suffix = "ForPreTraining" if head.next_sentence else _ARCHITECTURES[kind]
    written: dict[str, Any] = {
        "architectures": [_CLASSES.get(config.family, "Bert") + suffix],
        "model_type": config.family if config.family in _CLASSES else "bert",
        **_sizes(config),
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.max_positions,
        "pad_token_id": config.pad_token_id,
        "initializer_range": 0.02,
        "dtype": "float32",
    }
    if head.traits.classifies:
        names = labels or tuple(f"LABEL_{index}" for index in range(head.num_labels))
        written["id2label"] = {str(index): name for index, name in enumerate(names)}
        written["label2id"] = {name: index for index, name in enumerate(names)}
        if head.answers_number:
            written["problem_type"] = "regression"
    factors = factorised.is_factorised(config)
    if not distil or factors or head.pooled:
        written[BLOCK] = {
            "format_version": FORMAT_VERSION,
            "head": config.family,
            "type_vocab_size": config.type_vocab_size,
        }
        if reason := foreign_head(config, head):
            written[BLOCK]["only_for_tfdistill"] = reason
        if head.pooled:
            written[BLOCK] |= {"pooling": head.pooling, "normalize": head.normalize}
        if isinstance(config, MobileBertConfig) and config.normalization == "layer_norm":
            eps = config.embeddings_layer_norm_eps or config.layer_norm_eps
            written[BLOCK]["embeddings_layer_norm_eps"] = eps
    if factors:
        written[BLOCK]["embedding_size"] = config.embedding_size
    return written


def _sizes(config: EncoderConfig) -> dict[str, Any]:
    distil = config.family == "distilbert"
    names = dict(_DISTILBERT_NAMES if distil else _BERT_NAMES)
    if isinstance(config, MobileBertConfig):
        names |= _MOBILEBERT_NAMES
    written = {name: getattr(config, field) for field, name in names.items()}
    written[names["hidden_act"]] = (
        "gelu_new" if config.hidden_act == "gelu_tanh" else config.hidden_act
    )
    heads = written[names["num_heads"]] = _before_pruning(config)
    if heads > config.num_heads:
        lacking = list(range(config.num_heads, heads))
        written["pruned_heads"] = {str(layer): lacking for layer in range(config.num_layers)}
    if distil:
        written[names["classifier_dropout"]] = config.head_dropout
        return {**written, "sinusoidal_pos_embds": False, "tie_weights_": True}
    if config.family == "electra":
        written["embedding_size"] = config.embedding_size or config.hidden_size
    if isinstance(config, MobileBertConfig):
        written["use_bottleneck"] = True
    return {
        **written,
        "position_embedding_type": "absolute",
        "type_vocab_size": config.type_vocab_size or 2,
    }
