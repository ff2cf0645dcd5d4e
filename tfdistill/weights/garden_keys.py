"""Which variable of a Model Garden encoder is which variable of ours.

The names are those that the Garden's Keras layers give to their variables; a checkpoint records
them, whatever object it was saved from. Kernels of attention have an axis for the heads there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tfdistill import errors
from tfdistill.models import EncoderConfig, MobileBertConfig

# The parts of a name before the first of these are the names of models around the encoder.
_PARTS = re.compile(
    r"(?:[^/]+/)*?("
    r"(?:mobile_bert_embedding(?:_\d+)?|transformer_layer_\d+|pooler"  # MobileBERTEncoder
    r"|word_embeddings|position_embedding|type_embeddings|embeddings/layer_norm"  # BertEncoder
    r"|embedding_projection|transformer/layer_\d+|pooler_transform"
    r"|cls/predictions"  # MaskedLM
    r")/.+)"
)
MASKED_LM = "cls/predictions/"
POOLERS = ("pooler/", "pooler_transform/")
_EPSILON = 1e-12  # fixed in the Garden's encoders


class GardenVariable(NamedTuple):
    """One variable: where it lives here, what the Garden calls it, and its shape there."""

    layer: str  # name of our layer
    index: int  # place in that layer's get_weights()
    name: str
    shape: tuple[int, ...]
    transposed: bool = False  # whether ours is the transpose; else ours has the axes merged


def canonical_name(name: str) -> str | None:
    """Returns the name inside an encoder, None for a variable that belongs to no encoder.

    "bert_encoder/transformer/layer_0/output/bias" -> "transformer/layer_0/output/bias".
    """
    match = _PARTS.fullmatch(name)
    return re.sub(r"^(mobile_bert_embedding)_\d+/", r"\1/", match[1]) if match else None


def check(config: EncoderConfig) -> None:
    """Refuses an architecture that the Garden's encoders cannot have.

    Raises:
      WeightsError: If it has another LayerNorm epsilon, no token types, or no trigrams.
    """
    for field, fits, expected in (
        ("family", config.family in ("bert", "tinybert", "mobilebert"), "BERT or MobileBERT"),
        ("layer_norm_eps", config.layer_norm_eps == _EPSILON, f"{_EPSILON}, as in the Garden"),
        ("type_vocab_size", config.type_vocab_size > 0, "at least 1, as in the Garden"),
        ("trigram", getattr(config, "trigram", True), "True, as in the Garden"),
    ):
        if not fits:
            what = f"{field} of a Model Garden encoder"
            raise errors.WeightsError(what, expected, getattr(config, field))


def variables(config: EncoderConfig, *, masked_lm: bool = False) -> list[GardenVariable]:
    """Lists every variable of an encoder, or of a masked language model over it.

    Args:
      config: The architecture.
      masked_lm: Whether the masked-LM head is there.

    Returns:
      One entry for each variable, no two with the same name.
    """
    listed = _mobilebert(config) if isinstance(config, MobileBertConfig) else _bert(config)
    if masked_lm:
        width = config.hidden_size
        listed += _dense("mlm_transform", f"{MASKED_LM}transform/dense", width, width)
        listed += _norm("mlm_layer_norm", f"{MASKED_LM}transform/LayerNorm", width)
        bias = f"{MASKED_LM}output_bias/bias"
        listed.append(GardenVariable("mlm_bias", 0, bias, (config.vocab_size,)))
        rest = width - config.embedding_size if isinstance(config, MobileBertConfig) else 0
        if rest:
            name, shape = f"{MASKED_LM}extra_output_weights", (config.vocab_size, rest)
            listed.append(GardenVariable("mlm_extra_decoder", 0, name, shape, transposed=True))
    return listed


def _bert(config: EncoderConfig) -> list[GardenVariable]:
    width, inner = config.hidden_size, config.intermediate_size
    listed = [
        _table("word_embeddings", "word_embeddings", config.vocab_size, width),
        _table("position_embeddings", "position_embedding", config.max_positions, width),
        _table("token_type_embeddings", "type_embeddings", config.type_vocab_size, width),
        *_norm("embeddings_layer_norm", "embeddings/layer_norm", width),
    ]
    for index in range(config.num_layers):
        ours, theirs = f"layer_{index}", f"transformer/layer_{index}"
        listed += _attention(config, ours, f"{theirs}/self_attention", (width, width, width), width)
        listed += _norm(
            f"{ours}_attention_layer_norm", f"{theirs}/self_attention_layer_norm", width
        )
        listed += _dense(f"{ours}_intermediate", f"{theirs}/intermediate", width, inner)
        listed += _dense(f"{ours}_output", f"{theirs}/output", inner, width)
        listed += _norm(f"{ours}_layer_norm", f"{theirs}/output_layer_norm", width)
    if config.pooler:
        listed += _dense("pooler", "pooler_transform", width, width)
    return listed


def _mobilebert(config: MobileBertConfig) -> list[GardenVariable]:
    width, words = config.hidden_size, config.embedding_size
    top = "mobile_bert_embedding"
    listed = [
        _table("word_embeddings", f"{top}/word_embedding", config.vocab_size, words),
        _table("position_embeddings", f"{top}/position_embedding", config.max_positions, width),
        _table("token_type_embeddings", f"{top}/type_embedding", config.type_vocab_size, width),
        *_dense("embedding_projection", f"{top}/embedding_projection", 3 * words, width),
        *_norm("embeddings_layer_norm", f"{top}/embedding_norm", width),
    ]
    for index in range(config.num_layers):
        listed += _mobilebert_block(config, f"layer_{index}", f"transformer_layer_{index}")
    if config.pooler:
        listed += _dense("pooler", "pooler", width, width)
    return listed


def _mobilebert_block(config: MobileBertConfig, ours: str, theirs: str) -> list[GardenVariable]:
    width, inside, inner = config.hidden_size, config.bottleneck_size, config.intermediate_size
    narrow = config.bottleneck_attention
    asking = inside if narrow or config.shared_key_query else width

    def normed(layer: str, name: str, inputs: int, units: int) -> list[GardenVariable]:
        return [
            *_dense(f"{ours}_{layer}", f"{theirs}/{name}/dense", inputs, units),
            *_norm(f"{ours}_{layer}_layer_norm", f"{theirs}/{name}/norm", units),
        ]

    listed = normed("bottleneck", "bottleneck_input", width, inside)
    if config.shared_key_query:
        listed += normed("shared_bottleneck", "kq_shared_bottleneck", width, inside)
    inputs = (asking, asking, inside if narrow else width)
    listed += _attention(config, ours, f"{theirs}/attention", inputs, inside)
    listed += _norm(f"{ours}_attention_layer_norm", f"{theirs}/attention/norm", inside)
    for index in range(config.num_feed_forward):
        layer, name = f"{ours}_ffn_{index}", f"{theirs}/ffn_layer_{index}"
        listed += _dense(f"{layer}_intermediate", f"{name}/intermediate_dense", inside, inner)
        listed += _dense(f"{layer}_output", f"{name}/output_dense", inner, inside)
        listed += _norm(f"{layer}_layer_norm", f"{name}/norm", inside)
    listed += _dense(f"{ours}_output", f"{theirs}/bottleneck_output/dense", inside, width)
    return listed + _norm(f"{ours}_layer_norm", f"{theirs}/bottleneck_output/norm", width)


def _attention(
    config: EncoderConfig, ours: str, theirs: str, inputs: tuple[int, int, int], outputs: int
) -> list[GardenVariable]:
    heads = (config.num_heads, config.head_size)
    listed = []
    for name, width in zip(("query", "key", "value"), inputs, strict=True):
        layer = f"{ours}_{name}"
        listed.append(GardenVariable(layer, 0, f"{theirs}/{name}/kernel", (width, *heads)))
        listed.append(GardenVariable(layer, 1, f"{theirs}/{name}/bias", heads))
    layer, name = f"{ours}_attention_output", f"{theirs}/attention_output"
    listed.append(GardenVariable(layer, 0, f"{name}/kernel", (*heads, outputs)))
    return [*listed, GardenVariable(layer, 1, f"{name}/bias", (outputs,))]


def _table(layer: str, name: str, rows: int, width: int) -> GardenVariable:
    return GardenVariable(layer, 0, f"{name}/embeddings", (rows, width))


def _dense(layer: str, name: str, inputs: int, units: int) -> list[GardenVariable]:
    return [
        GardenVariable(layer, 0, f"{name}/kernel", (inputs, units)),
        GardenVariable(layer, 1, f"{name}/bias", (units,)),
    ]


def _norm(layer: str, name: str, width: int) -> list[GardenVariable]:
    return [
        GardenVariable(layer, 0, f"{name}/gamma", (width,)),
        GardenVariable(layer, 1, f"{name}/beta", (width,)),
    ]
