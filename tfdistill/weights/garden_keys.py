"""Names of a Model Garden encoder's variables for those of ours.

The names are those that the Garden's Keras layers give to their variables; a checkpoint records
them, whatever object it was saved from. Kernels of attention have an axis for the heads there.
"""

from __future__ import annotations

import re

import tf_keras as keras

from tfdistill import errors, models
from tfdistill.models import EncoderConfig, MobileBertConfig
from tfdistill.weights.factorised import is_factorised
from tfdistill.weights.filling import Variable, renamed, weights_of

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

# Patterns of our layers -> the prefix of their names.
_HEAD = {
    r"mlm_transform": rf"{MASKED_LM}transform/dense",
    r"mlm_layer_norm": rf"{MASKED_LM}transform/LayerNorm",
    r"mlm_bias": rf"{MASKED_LM}output_bias",
    r"mlm_extra_decoder": rf"{MASKED_LM}extra_output_weights",
}
_BERT = {
    **_HEAD,
    r"word_embeddings": r"word_embeddings",
    r"position_embeddings": r"position_embedding",
    r"token_type_embeddings": r"type_embeddings",
    r"embeddings_layer_norm": r"embeddings/layer_norm",
    r"pooler": r"pooler_transform",
    r"layer_(\d+)_(query|key|value|attention_output)": r"transformer/layer_\1/self_attention/\2",
    r"layer_(\d+)_(attention_layer_norm)": r"transformer/layer_\1/self_\2",
    r"layer_(\d+)_(intermediate|output)": r"transformer/layer_\1/\2",
    r"layer_(\d+)_(layer_norm)": r"transformer/layer_\1/output_\2",
}
_MOBILEBERT = {
    **_HEAD,
    r"(word|position)_embeddings": r"mobile_bert_embedding/\1_embedding",
    r"token_type_embeddings": r"mobile_bert_embedding/type_embedding",
    r"embedding_projection": r"mobile_bert_embedding/embedding_projection",
    r"embeddings_layer_norm": r"mobile_bert_embedding/embedding_norm",
    r"pooler": r"pooler",
    r"layer_(\d+)_bottleneck": r"transformer_layer_\1/bottleneck_input/dense",
    r"layer_(\d+)_bottleneck_layer_norm": r"transformer_layer_\1/bottleneck_input/norm",
    r"layer_(\d+)_shared_bottleneck": r"transformer_layer_\1/kq_shared_bottleneck/dense",
    r"layer_(\d+)_shared_bottleneck_layer_norm": r"transformer_layer_\1/kq_shared_bottleneck/norm",
    r"layer_(\d+)_(query|key|value|attention_output)": r"transformer_layer_\1/attention/\2",
    r"layer_(\d+)_attention_layer_norm": r"transformer_layer_\1/attention/norm",
    r"layer_(\d+)_ffn_(\d+)_(intermediate|output)": r"transformer_layer_\1/ffn_layer_\2/\3_dense",
    r"layer_(\d+)_ffn_(\d+)_layer_norm": r"transformer_layer_\1/ffn_layer_\2/norm",
    r"layer_(\d+)_output": r"transformer_layer_\1/bottleneck_output/dense",
    r"layer_(\d+)_layer_norm": r"transformer_layer_\1/bottleneck_output/norm",
}


def canonical_name(name: str) -> str | None:
    """Returns the name inside an encoder, None for a variable that belongs to no encoder.

    "bert_encoder/transformer/layer_0/output/bias" -> "transformer/layer_0/output/bias".
    """
    match = _PARTS.fullmatch(name)
    return re.sub(r"^(mobile_bert_embedding)_\d+/", r"\1/", match[1]) if match else None


def check(config: EncoderConfig) -> None:
    """Refuses an architecture that the Garden's encoders cannot have.

    They have one LayerNorm epsilon, token types, trigrams, all heads and a whole word table.
    """
    for field, fits, expected in (
        ("family", config.family in ("bert", "tinybert", "mobilebert"), "BERT or MobileBERT"),
        ("layer_norm_eps", config.layer_norm_eps == _EPSILON, f"{_EPSILON}, as in the Garden"),
        ("type_vocab_size", config.type_vocab_size > 0, "at least 1, as in the Garden"),
        ("trigram", getattr(config, "trigram", True), "True, as in the Garden"),
        ("head_size", config.head_size is None, "None, heads that share hidden_size"),
        ("embedding_size", not is_factorised(config), "None, a word table in one piece"),
    ):
        if not fits:
            what = f"{field} of a Model Garden encoder"
            raise errors.WeightsError(what, expected, getattr(config, field))


def variables(model: keras.Model) -> list[Variable]:
    """Lists every variable of an encoder, or of a masked language model over it."""
    config = models.config_of(model)
    rules = _MOBILEBERT if isinstance(config, MobileBertConfig) else _BERT
    heads = (config.num_heads, config.attention_width // config.num_heads)
    listed = []
    for layer, index, name, shape in weights_of(model):
        prefix = renamed(layer, rules)
        if layer == "mlm_extra_decoder":
            listed.append(Variable(layer, index, prefix, shape[::-1], transposed=True))
            continue
        if layer.endswith(("_query", "_key", "_value")):
            shape = (*shape[:-1], *heads)
        elif layer.endswith("_attention_output") and name == "kernel":
            shape = (*heads, shape[-1])
        listed.append(Variable(layer, index, f"{prefix}/{name}", shape))
    return listed
