"""Which tensor of a Hugging Face checkpoint is which variable of ours."""

from __future__ import annotations

import re
from typing import NamedTuple

import tf_keras as keras

from tfdistill import models
from tfdistill.models import EncoderConfig, MobileBertConfig
from tfdistill.weights import mobilebert_keys
from tfdistill.weights.variables import Variable, dense, norm, table

# What a checkpoint may hold beside the encoder and its heads, after canonical_key: TinyBERT's
# projections for distillation, and buffers.
IGNORED = re.compile(r"((.*\.)?position_ids|fit_denses?(\..*)?)")
TINYBERT_MARK = re.compile(r"fit_denses?(\..*)?")
# Every head: a model takes the keys of its own and ignores the others.
HEADS = re.compile(
    r"(cls|classifier|pre_classifier|qa_outputs|vocab_(transform|layer_norm|projector))\..*"
)
# The decoder of a masked LM, where the file has it beside the tensor that it is tied to.
TIED = {
    "cls.predictions.decoder.weight": "embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "vocab_projector.weight": "embeddings.word_embeddings.weight",
}
_PREFIXES = {"distilbert": "distilbert", "mobilebert": "mobilebert"}  # of the encoder's keys

_BERT_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "attention_output": "attention.output.dense",
    "attention_layer_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "layer_norm": "output.LayerNorm",
}
_DISTILBERT_LAYER = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "attention_output": "attention.out_lin",
    "attention_layer_norm": "sa_layer_norm",
    "intermediate": "ffn.lin1",
    "output": "ffn.lin2",
    "layer_norm": "output_layer_norm",
}


class Head(NamedTuple):
    """The head of a model.

    Attributes:
      kind: As `models.head_of` calls it.
      num_labels: Width of its logits, 0 where it is no classifier.
      next_sentence: Whether a masked LM also predicts next sentences.
    """

    kind: str = "none"
    num_labels: int = 0
    next_sentence: bool = False


def head_in(model: keras.Model) -> Head:
    """Returns the head of a model of `tfdistill.models`."""
    kind = models.head_of(model)
    next_sentence = any(layer.name == "nsp_classifier" for layer in model.layers)
    return Head(kind, models.num_labels_of(model) or 0, next_sentence)


def variables(config: EncoderConfig, head: Head = Head()) -> list[Variable]:  # noqa: B008 - frozen
    """Lists every variable of an encoder and its head.

    Args:
      config: The architecture.
      head: Its head; default none.

    Returns:
      One entry for each variable, no two with the same key.
    """
    if isinstance(config, MobileBertConfig):
        encoder = mobilebert_keys.encoder_variables(config)
    else:
        encoder = _encoder(config)
    return [*encoder, *head_variables(config, head)]


def head_variables(config: EncoderConfig, head: Head) -> list[Variable]:
    """Lists the variables of a head, the pooler below it left out."""
    width = config.hidden_size
    distil = config.family == "distilbert"
    if head.kind == "sequence":
        before = dense("pre_classifier", "pre_classifier", width, width) if distil else []
        return [*before, *dense("classifier", "classifier", head.num_labels, width)]
    if head.kind == "token":
        return dense("token_classifier", "classifier", head.num_labels, width)
    if head.kind == "span":
        return dense("span_classifier", "qa_outputs", 2, width)
    if head.kind == "none":
        return []
    names = (
        ("vocab_transform", "vocab_layer_norm", "vocab_projector")
        if distil
        else (
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions",
        )
    )
    listed = [
        *dense("mlm_transform", names[0], width, width),
        *norm("mlm_layer_norm", names[1], width),
        Variable("mlm_bias", 0, f"{names[2]}.bias", (config.vocab_size,), False),
    ]
    rest = width - getattr(config, "embedding_size", width)
    if rest:  # MobileBERT's extra decoder, in our layout also there
        listed.append(table("mlm_extra_decoder", "cls.predictions.dense", rest, config.vocab_size))
    if head.next_sentence:
        listed += dense("nsp_classifier", "cls.seq_relationship", 2, width)
    return listed


def _encoder(config: EncoderConfig) -> list[Variable]:
    width, inner = config.hidden_size, config.intermediate_size

    def embedding(layer: str, rows: int) -> Variable:
        return table(layer, f"embeddings.{layer}", rows, width)

    listed = [
        embedding("word_embeddings", config.vocab_size),
        embedding("position_embeddings", config.max_positions),
    ]
    if config.type_vocab_size:
        listed.append(embedding("token_type_embeddings", config.type_vocab_size))
    listed += norm("embeddings_layer_norm", "embeddings.LayerNorm", width)
    distil = config.family == "distilbert"
    names = _DISTILBERT_LAYER if distil else _BERT_LAYER
    stack = "transformer.layer" if distil else "encoder.layer"
    shapes = {"intermediate": (inner, width), "output": (width, inner)}
    for index in range(config.num_layers):
        for ours, theirs in names.items():
            layer, key = f"layer_{index}_{ours}", f"{stack}.{index}.{theirs}"
            if ours.endswith("layer_norm"):
                listed += norm(layer, key, width)
            else:
                listed += dense(layer, key, *shapes.get(ours, (width, width)))
    if config.pooler:
        listed += dense("pooler", "pooler.dense", width, width)
    return listed


def canonical_key(key: str, layout: str) -> tuple[str, bool]:
    """Brings the spellings of a key that are in use into one.

    The base model's prefix ("bert.", "distilbert.", "mobilebert.") falls away, LayerNorm's old
    "gamma" and "beta" become "weight" and "bias", and the names that `transformers` gives to
    TensorFlow models become those of PyTorch ones.

    Args:
      key: The key as it is in the file.
      layout: The file's "format": "pt", or "tf" for one written by a TensorFlow model.

    Returns:
      The canonical key, and whether the tensor is transposed against PyTorch's layout.
    """
    transposed = False
    if layout == "tf":
        key = key.split(":")[0].replace("layer_._", "layer.").replace("/", ".")
        transposed = key.endswith(".kernel")
        key = re.sub(r"\.(kernel|embeddings)$", ".weight", key)
    key = re.sub(r"^(bert|distilbert|mobilebert)\.", "", key)
    key = re.sub(r"^\w+___cls\.", "cls.", key)
    key = re.sub(r"\.gamma$", ".weight", key)
    key = re.sub(r"\.beta$", ".bias", key)
    return key, transposed


def exported_key(key: str, config: EncoderConfig, head: Head) -> str:
    """Returns the key under which `transformers` expects a tensor.

    A model with a head calls its encoder "bert.", "distilbert." or "mobilebert.", a bare encoder
    has no prefix.
    """
    if head.kind == "none" or HEADS.fullmatch(key):
        return key
    return f"{_PREFIXES.get(config.family, 'bert')}.{key}"
