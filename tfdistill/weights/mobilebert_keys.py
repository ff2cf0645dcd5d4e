"""Which tensor of a Hugging Face MobileBERT is which variable of ours."""

from __future__ import annotations

from tfdistill.models import MobileBertConfig
from tfdistill.weights.variables import Variable, dense, norm, table


def encoder_variables(config: MobileBertConfig) -> list[Variable]:
    """Lists every variable of a MobileBERT encoder.

    Args:
      config: The architecture.

    Returns:
      One entry for each variable, no two with the same key.
    """
    width, words = config.hidden_size, config.embedding_size
    listed = [
        table("word_embeddings", "embeddings.word_embeddings", config.vocab_size, words),
        table("position_embeddings", "embeddings.position_embeddings", config.max_positions, width),
    ]
    if config.type_vocab_size:
        key = "embeddings.token_type_embeddings"
        listed.append(table("token_type_embeddings", key, config.type_vocab_size, width))
    if config.trigram or words != width:
        key = "embeddings.embedding_transformation"
        inputs = words * (3 if config.trigram else 1)
        listed += dense("embedding_projection", key, width, inputs)
    listed += norm("embeddings_layer_norm", "embeddings.LayerNorm", width)
    for index in range(config.num_layers):
        listed += _block(config, f"layer_{index}", f"encoder.layer.{index}")
    if config.pooler:
        listed += dense("pooler", "pooler.dense", width, width)
    return listed


def unused(config: MobileBertConfig) -> set[str]:
    """Returns the keys that `transformers` writes though nothing reads them.

    A model with bottleneck attention carries the shared bottleneck there unless its configuration
    says otherwise, and one whose words need no projection carries it.
    """
    keys = set()
    if config.bottleneck_attention:
        keys |= {
            f"encoder.layer.{index}.bottleneck.attention.{name}"
            for index in range(config.num_layers)
            for name in ("dense.weight", "dense.bias", "LayerNorm.weight", "LayerNorm.bias")
        }
    if not config.trigram and config.embedding_size == config.hidden_size:
        keys |= {f"embeddings.embedding_transformation.{name}" for name in ("weight", "bias")}
    return keys


def _block(config: MobileBertConfig, layer: str, key: str) -> list[Variable]:
    width, inside, inner = config.hidden_size, config.bottleneck_size, config.intermediate_size
    narrow = config.bottleneck_attention
    asking = inside if narrow or config.shared_key_query else width

    def normed(ours: str, theirs: str, units: int, inputs: int) -> list[Variable]:
        return [
            *dense(f"{layer}_{ours}", f"{key}.{theirs}.dense", units, inputs),
            *norm(f"{layer}_{ours}_layer_norm", f"{key}.{theirs}.LayerNorm", units),
        ]

    listed = normed("bottleneck", "bottleneck.input", inside, width)
    if config.shared_key_query:
        listed += normed("shared_bottleneck", "bottleneck.attention", inside, width)
    for name, inputs in (("query", asking), ("key", asking)):
        listed += dense(f"{layer}_{name}", f"{key}.attention.self.{name}", inside, inputs)
    value_inputs = inside if narrow else width
    listed += dense(f"{layer}_value", f"{key}.attention.self.value", inside, value_inputs)
    listed += dense(f"{layer}_attention_output", f"{key}.attention.output.dense", inside, inside)
    listed += norm(f"{layer}_attention_layer_norm", f"{key}.attention.output.LayerNorm", inside)
    last = config.num_feed_forward - 1
    for index in range(config.num_feed_forward):
        ours = f"{layer}_ffn_{index}"
        theirs = key if index == last else f"{key}.ffn.{index}"
        listed += dense(f"{ours}_intermediate", f"{theirs}.intermediate.dense", inner, inside)
        listed += dense(f"{ours}_output", f"{theirs}.output.dense", inside, inner)
        listed += norm(f"{ours}_layer_norm", f"{theirs}.output.LayerNorm", inside)
    listed += dense(f"{layer}_output", f"{key}.output.bottleneck.dense", width, inside)
    listed += norm(f"{layer}_layer_norm", f"{key}.output.bottleneck.LayerNorm", width)
    return listed
