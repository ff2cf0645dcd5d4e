"""Which tensor of a Hugging Face checkpoint is which variable of ours."""

from __future__ import annotations

import re
from typing import NamedTuple

from tfdistill.models import EncoderConfig

# Tensors that a checkpoint may hold beside the encoder and its classifier, after canonical_key:
# pre-training heads, TinyBERT's projections for distillation, question answering, buffers.
IGNORED = re.compile(
    r"((.*\.)?position_ids|cls\..*|(mlm|nsp)___cls\..*|fit_denses?(\..*)?|qa_outputs\..*"
    r"|vocab_(transform|layer_norm|projector)\..*)"
)
TINYBERT_MARK = re.compile(r"fit_denses?(\..*)?")

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


class Variable(NamedTuple):
    """One variable: where it lives here, what the checkpoint calls it, how they relate."""

    layer: str  # name of our layer
    index: int  # place in that layer's get_weights()
    key: str  # canonical key in the checkpoint
    shape: tuple[int, ...]  # as in a PyTorch checkpoint
    transposed: bool  # whether ours is the transpose


def variables(config: EncoderConfig, num_labels: int | None = None) -> list[Variable]:
    """Lists every variable of an encoder, or with `num_labels` of a classifier.

    Args:
      config: The architecture.
      num_labels: Width of the classifier; None for an encoder.

    Returns:
      One entry for each variable, no two with the same key.
    """
    width, inner = config.hidden_size, config.intermediate_size
    listed = [
        _table("word_embeddings", config.vocab_size, width),
        _table("position_embeddings", config.max_positions, width),
    ]
    if config.type_vocab_size:
        listed.append(_table("token_type_embeddings", config.type_vocab_size, width))
    listed += _norm("embeddings_layer_norm", "embeddings.LayerNorm", width)
    distil = config.family == "distilbert"
    names = _DISTILBERT_LAYER if distil else _BERT_LAYER
    stack = "transformer.layer" if distil else "encoder.layer"
    shapes = {"intermediate": (inner, width), "output": (width, inner)}
    for index in range(config.num_layers):
        for ours, theirs in names.items():
            layer, key = f"layer_{index}_{ours}", f"{stack}.{index}.{theirs}"
            if ours.endswith("layer_norm"):
                listed += _norm(layer, key, width)
            else:
                listed += _dense(layer, key, *shapes.get(ours, (width, width)))
    if config.pooler:
        listed += _dense("pooler", "pooler.dense", width, width)
    if num_labels is not None:
        if distil:
            listed += _dense("pre_classifier", "pre_classifier", width, width)
        listed += _dense("classifier", "classifier", num_labels, width)
    return listed


def canonical_key(key: str, layout: str) -> tuple[str, bool]:
    """Brings the spellings of a key that are in use into one.

    The base model's prefix ("bert.", "distilbert.") falls away, LayerNorm's old "gamma" and
    "beta" become "weight" and "bias", and the names that `transformers` gives to TensorFlow
    models become those of PyTorch ones.

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
    key = re.sub(r"^(bert|distilbert)\.", "", key)
    key = re.sub(r"\.gamma$", ".weight", key)
    key = re.sub(r"\.beta$", ".bias", key)
    return key, transposed


def exported_key(key: str, config: EncoderConfig, num_labels: int | None) -> str:
    """Returns the key under which `transformers` expects a tensor.

    A model with a head calls its encoder "bert." or "distilbert.", a bare encoder has no prefix.
    """
    if num_labels is None or key.startswith(("classifier.", "pre_classifier.")):
        return key
    return f"{'distilbert' if config.family == 'distilbert' else 'bert'}.{key}"


def _table(layer: str, rows: int, width: int) -> Variable:
    return Variable(layer, 0, f"embeddings.{layer}.weight", (rows, width), False)


def _dense(layer: str, key: str, units: int, width: int) -> list[Variable]:
    return [
        Variable(layer, 0, f"{key}.weight", (units, width), True),
        Variable(layer, 1, f"{key}.bias", (units,), False),
    ]


def _norm(layer: str, key: str, width: int) -> list[Variable]:
    return [
        Variable(layer, 0, f"{key}.weight", (width,), False),
        Variable(layer, 1, f"{key}.bias", (width,), False),
    ]
