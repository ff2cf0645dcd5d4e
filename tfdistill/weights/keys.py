"""Names of a Hugging Face checkpoint's tensors for our variables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from tfdistill import models
from tfdistill.errors import WeightsError
from tfdistill.models import EncoderConfig, MobileBertConfig
from tfdistill.weights.filling import Variable, renamed, shortened, weights_of

if TYPE_CHECKING:
    import tf_keras as keras

# What a checkpoint may hold besides the encoder and its heads, after canonical_key: TinyBERT's
# projections for distillation, buffers, and the weights of the classes in a loss.
IGNORED = re.compile(
    r"((.*\.)?position_ids|fit_denses?(\..*)?|(.*\.)?(loss|loss_fct|loss_fn|criterion)(\..*)?)"
)
COMPILED = "_orig_mod."  # what torch.compile puts in front of the keys of a module
_BASES = "bert|distilbert|electra|mobilebert|roberta"
_TABLE = re.compile(rf"(.*?)(?:(?:{_BASES})\.)?embeddings\.word_embeddings\.weight")
TINYBERT_MARK = re.compile(r"fit_denses?(\..*)?")
# Every head: a model takes the keys of its own and ignores the others.
HEADS = re.compile(
    r"(cls|classifier|pre_classifier|qa_outputs|vocab_(transform|layer_norm|projector)"
    r"|(discriminator|generator)_predictions|generator_lm_head)\..*"
)
# The parts of a head, by its name: "classifier", "cls.predictions" and so on.
_HEAD_NAME = re.compile(r"cls\.\w+|(?:pre_)?(classifier)|(vocab)_|\w+")
# The decoder of a masked LM, where the file repeats the tensor that it is tied to.
TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "vocab_projector.weight": "embeddings.word_embeddings.weight",
}
# A row for each token, where there are any.
OF_WORDS = (
    "embeddings.word_embeddings.weight",
    "cls.predictions.bias",
    "cls.predictions.decoder.weight",
    "cls.predictions.decoder.bias",
)
LAYER = re.compile(r"(?:encoder|transformer)\.layer\.(\d{1,4})\.")  # the number of a layer
_PREFIXES = {name: name for name in ("distilbert", "electra", "mobilebert")}  # of encoders' keys
_SUFFIXES = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "embeddings": "weight",
}

# Patterns of our layers -> the prefix of their keys; the first that matches counts.
_COMMON = {
    r"(word|position|token_type)_embeddings": r"embeddings.\1_embeddings",
    r"embedding_projection": r"embeddings.embedding_transformation",
    r"embeddings_layer_norm": r"embeddings.LayerNorm",
    r"pooler": r"pooler.dense",
    r"classifier|pre_classifier|vector_dense": r"\g<0>",
    r"token_classifier": r"classifier",
    r"span_classifier": r"qa_outputs",
    r"nsp_classifier": r"cls.seq_relationship",
    r"mlm_extra_decoder": r"cls.predictions.dense",
}
_ATTENTION = {
    r"layer_(\d+)_(query|key|value)": r"encoder.layer.\1.attention.self.\2",
    r"layer_(\d+)_attention_output": r"encoder.layer.\1.attention.output.dense",
    r"layer_(\d+)_attention_layer_norm": r"encoder.layer.\1.attention.output.LayerNorm",
    r"mlm_transform": r"cls.predictions.transform.dense",
    r"mlm_layer_norm": r"cls.predictions.transform.LayerNorm",
    r"mlm_bias": r"cls.predictions",
}
_BERT = {
    **_COMMON,
    **_ATTENTION,
    r"layer_(\d+)_(intermediate|output)": r"encoder.layer.\1.\2.dense",
    r"layer_(\d+)_layer_norm": r"encoder.layer.\1.output.LayerNorm",
}
_ELECTRA = {
    r"pre_classifier": r"classifier.dense",
    r"classifier": r"classifier.out_proj",
    **_BERT,
    r"embedding_projection": r"embeddings_project",
}
_DISTILBERT = {
    **_COMMON,
    r"layer_(\d+)_query": r"transformer.layer.\1.attention.q_lin",
    r"layer_(\d+)_key": r"transformer.layer.\1.attention.k_lin",
    r"layer_(\d+)_value": r"transformer.layer.\1.attention.v_lin",
    r"layer_(\d+)_attention_output": r"transformer.layer.\1.attention.out_lin",
    r"layer_(\d+)_attention_layer_norm": r"transformer.layer.\1.sa_layer_norm",
    r"layer_(\d+)_intermediate": r"transformer.layer.\1.ffn.lin1",
    r"layer_(\d+)_output": r"transformer.layer.\1.ffn.lin2",
    r"layer_(\d+)_layer_norm": r"transformer.layer.\1.output_layer_norm",
    r"mlm_transform": r"vocab_transform",
    r"mlm_layer_norm": r"vocab_layer_norm",
    r"mlm_bias": r"vocab_projector",
}
_MOBILEBERT = {
    **_COMMON,
    **_ATTENTION,
    r"layer_(\d+)_bottleneck": r"encoder.layer.\1.bottleneck.input.dense",
    r"layer_(\d+)_bottleneck_layer_norm": r"encoder.layer.\1.bottleneck.input.LayerNorm",
    r"layer_(\d+)_shared_bottleneck": r"encoder.layer.\1.bottleneck.attention.dense",
    r"layer_(\d+)_shared_bottleneck_layer_norm": (
        r"encoder.layer.\1.bottleneck.attention.LayerNorm"
    ),
    r"layer_(\d+)_ffn_(\d+)_(intermediate|output)": r"encoder.layer.\1.ffn.\2.\3.dense",
    r"layer_(\d+)_ffn_(\d+)_layer_norm": r"encoder.layer.\1.ffn.\2.output.LayerNorm",
    r"layer_(\d+)_output": r"encoder.layer.\1.output.bottleneck.dense",
    r"layer_(\d+)_layer_norm": r"encoder.layer.\1.output.bottleneck.LayerNorm",
}


def variables(model: keras.Model) -> list[Variable]:
    """Lists every variable of a model of `tfdistill.models` that Hugging Face has a class for."""
    config = models.config_of(model)
    of_family = {"distilbert": _DISTILBERT, "electra": _ELECTRA, "mobilebert": _MOBILEBERT}
    rules = of_family.get(config.family, _BERT)
    listed = []
    for layer, index, name, shape in weights_of(model):
        prefix = renamed(layer, rules)
        if isinstance(config, MobileBertConfig):  # the last network has BERT's names
            prefix = prefix.replace(f".ffn.{config.num_feed_forward - 1}.", ".")
        transposed = name == "kernel" and layer != "mlm_extra_decoder"
        shape = shape[::-1] if transposed else shape
        listed.append(Variable(layer, index, f"{prefix}.{_SUFFIXES[name]}", shape, transposed))
    return listed


def of_other_heads(names: Iterable[str], head_keys: Collection[str]) -> set[str]:
    """Returns the keys of heads that a model lacks, and decoders that repeat another tensor.

    A key that is none of `head_keys` but of the same head stays: that head computes otherwise.
    """
    heads = {_head_name(key) for key in head_keys}
    return {
        key
        for key in names
        if key not in head_keys
        and HEADS.fullmatch(key)
        and (key in TIED or _head_name(key) not in heads)
    }


def _head_name(key: str) -> str:
    match = _HEAD_NAME.match(key)
    return "" if match is None else match[match.lastindex or 0]


def unused(config: EncoderConfig) -> set[str]:
    """Returns the keys that `transformers` writes though nothing reads them.

    A MobileBERT with bottleneck attention carries the shared bottleneck there unless its
    configuration excludes it, and one whose words need no projection carries it, and an empty one
    in its masked LM.
    """
    keys: set[str] = set()
    if not isinstance(config, MobileBertConfig):
        return keys
    if config.bottleneck_attention:
        keys |= {
            f"encoder.layer.{index}.bottleneck.attention.{name}"
            for index in range(config.num_layers)
            for name in ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")
        }
    if config.embedding_size == config.hidden_size:
        keys.add("cls.predictions.dense.weight")
    if not config.trigram and config.embedding_size == config.hidden_size:
        keys |= {f"embeddings.embedding_transformation.{name}" for name in ("weight", "bias")}
    return keys


def is_ignored(key: str, layout: str) -> bool:
    """Checks whether a key, with the prefix of a wrapper or without, holds nothing for us."""
    return IGNORED.fullmatch(canonical_key(key, layout)[0]) is not None


def wrapper_of(names: Iterable[str], layout: str, *, what: str) -> str:
    """Finds what a wrapper put in front of every key, such as ``module.`` of DataParallel.

    It is what precedes the table of words, whatever the wrapper calls it: also ``model.`` of
    Lightning and ``0.auto_model.`` of a sentence encoder that was saved as a whole.
    """
    if layout == "tf":
        return ""
    listed = [name.replace(COMPILED, "") for name in names if not is_ignored(name, layout)]
    adapters = [name for name in listed if ".lora_" in name]
    if adapters:
        raise WeightsError(
            what,
            "the weights of a model",
            f"an adapter (LoRA) beside them, {shortened(adapters)}",
            "Merge it with peft: model.merge_and_unload().save_pretrained(merged).",
        )
    tables = {match[1] for name in listed if (match := _TABLE.fullmatch(name))}
    if len(tables) > 1:
        raise WeightsError(
            what,
            "one model",
            f"one under each of the prefixes {', '.join(map(repr, sorted(tables)))}",
            "Save the model that you mean alone, with save_pretrained.",
        )
    wrapper = next(iter(tables), "")
    others = [name for name in listed if not name.startswith(wrapper)]
    if others:
        raise WeightsError(
            what,
            f"keys that all begin with {wrapper!r}, as that of its words does",
            f"others, {shortened(sorted(others))}",
            "Save the model inside of the wrapper alone, with save_pretrained.",
        )
    return wrapper


def canonical_key(key: str, layout: str) -> tuple[str, bool]:
    """Brings the spellings of a key that are in use into one.

    The base model's prefix ("bert.", "electra." and so on) falls away, LayerNorm's old
    "gamma" and "beta" become "weight" and "bias", and the names that `transformers` gives to
    TensorFlow models become those of PyTorch ones.
    """
    transposed = False
    if layout == "tf":
        key = key.split(":")[0].replace("layer_._", "layer.").replace("/", ".")
        transposed = key.endswith(".kernel")
        key = re.sub(r"\.(kernel|embeddings)$", ".weight", key)
    key = re.sub(rf"^({_BASES})\.", "", key)
    key = re.sub(r"^\w+___cls\.", "cls.", key)
    key = re.sub(r"\.gamma$", ".weight", key)
    key = re.sub(r"\.beta$", ".bias", key)
    return key, transposed


def exported_key(key: str, config: EncoderConfig, *, bare: bool) -> str:
    """Returns the key under which `transformers` expects a tensor.

    A model with a head calls its encoder by its family's prefix, a bare encoder has none.
    """
    if bare or HEADS.fullmatch(key):
        return key
    return f"{_PREFIXES.get(config.family, 'bert')}.{key}"
