"""MobileBERT and IB-BERT as a flat functional graph of named layers.

A block keeps its input as a residual stream of width d, works at width b inside, and stacks
several feed-forward networks there. The layers that distillation looks at have BERT's names.
Shapes: B examples, L tokens, d width between the blocks, b width inside, e of the word vectors.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill.models.config import MobileBertConfig
from tfdistill.models.layer_factory import LayerFactory
from tfdistill.models.layers import NoNorm, count_layers, layer_of

# Added to the scores of padding. Nothing keeps the states of a NoNorm network small, so scores of
# more than a hundred occur, where BERT's -100 would let padding through.
MASK_VALUE = -1e4


@keras.saving.register_keras_serializable(package="tfdistill")
class Trigrams(keras.layers.Layer):
    """Puts the vectors of the next, this and the previous token side by side.

    Beyond both ends of the sequence there are zeros. Padding is no end: the last token of a padded
    example has the vector of [PAD] as its next, as in Google's and Hugging Face's models. One
    token of padding therefore changes an answer a little, and further ones do not.
    """

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Maps word vectors (B, L, e) to (B, L, 3 e)."""
        following = tf.pad(inputs[:, 1:], ((0, 0), (0, 1), (0, 0)))
        preceding = tf.pad(inputs[:, :-1], ((0, 0), (1, 0), (0, 0)))
        return tf.concat([following, inputs, preceding], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns (B, L, 3 e)."""
        return (*input_shape[:-1], 3 * input_shape[-1])


def embed(inputs: dict[str, Any], config: MobileBertConfig, make: LayerFactory) -> Any:
    """Maps the named inputs (B, L) to embeddings (B, L, d), after norm and dropout.

    ``norm(W [next, this, previous] + c + position + type)``.
    """
    words = make.word_embedding(config.embedding_size)(inputs["input_ids"])  # (B, L, e)
    if config.trigram:
        words = Trigrams(name="word_trigrams", dtype=make.dtype)(words)  # (B, L, 3 e)
    if config.trigram or config.embedding_size != config.hidden_size:
        words = make.projected_words(words, inputs, bias=True)  # (B, L, d)
    summed = make.embeddings(words, inputs, config.hidden_size)
    norm = _norm("embeddings_layer_norm", config, make, config.embeddings_layer_norm_eps)
    normed = norm(summed)
    return make.dropout(config.dropout, "embeddings_dropout")(normed)


def block(hidden: Any, mask: Any, config: MobileBertConfig, make: LayerFactory, prefix: str) -> Any:
    """Maps (B L, d) to (B L, d), given the attention mask (B, 1, 1, L).

    bottleneck d -> b (the residual of the attention, and its input where the configuration says
    so); attention; feed-forward networks, each with residual and norm; out-bottleneck b -> d with
    the block's input as residual.
    """
    inside = config.bottleneck_size
    narrow = _dense_and_norm(hidden, inside, f"{prefix}_bottleneck", config, make)  # (B L, b)
    asking = value_input = narrow if config.bottleneck_attention else hidden
    if config.shared_key_query:
        asking = _dense_and_norm(hidden, inside, f"{prefix}_shared_bottleneck", config, make)
    query = make.dense(inside, f"{prefix}_query")(asking)
    key = make.dense(inside, f"{prefix}_key")(asking)
    value = make.dense(inside, f"{prefix}_value")(value_input)
    context = make.attention(query, key, value, mask, prefix)  # (B L, b)
    attended = make.dense(inside, f"{prefix}_attention_output")(context)
    attended = make.add(f"{prefix}_attention_add")([attended, narrow])
    states = _norm(f"{prefix}_attention_layer_norm", config, make)(attended)
    for index in range(config.num_feed_forward):
        is_last = index == config.num_feed_forward - 1
        epsilon = config.embeddings_layer_norm_eps if is_last else None
        states = _feed_forward(states, config, make, f"{prefix}_ffn_{index}", epsilon)
    output = make.dense(config.hidden_size, f"{prefix}_output")(states)  # (B L, d)
    output = make.dropout(config.dropout, f"{prefix}_output_dropout")(output)
    output = make.add(f"{prefix}_output_add")([output, hidden])
    return _norm(f"{prefix}_layer_norm", config, make)(output)


def read_config(model: keras.Model, *, head_dropout: float) -> MobileBertConfig:
    """Reads the configuration off the layers of a MobileBERT of this package.

    The model may have a head, and been saved and loaded; `head_dropout` is the rate before its
    classifier, that of the encoder where it has none.
    """
    names = {layer.name for layer in model.layers}
    get = functools.partial(layer_of, model)
    words = get("word_embeddings")
    norm = get("embeddings_layer_norm")
    # NoNorm has no epsilon; the one of the masked-LM head's LayerNorm is then the model's.
    if isinstance(norm, NoNorm):
        epsilon = get("mlm_layer_norm").epsilon if "mlm_layer_norm" in names else 1e-12
    else:
        epsilon = get("layer_0_layer_norm").epsilon
    dropout = get("embeddings_dropout").rate
    shared = "layer_0_shared_bottleneck" in names
    inside = get("layer_0_bottleneck").units
    hidden_size = get("layer_0_output").units
    value, residual = (model.get_layer(f"layer_0_{name}") for name in ("value", "attention_add"))
    narrow = value.input is residual.input[1]
    return MobileBertConfig(
        num_layers=count_layers("layer_{}_layer_norm", model),
        hidden_size=hidden_size,
        num_heads=get("layer_0_attention_scores").num_heads,
        intermediate_size=get("layer_0_ffn_0_intermediate").units,
        vocab_size=words.input_dim,
        max_positions=get("position_embeddings").max_positions,
        type_vocab_size=(
            get("token_type_embeddings").input_dim if "token_type_embeddings" in names else 0
        ),
        hidden_act=get("layer_0_ffn_0_intermediate_activation").activation.__name__,
        layer_norm_eps=epsilon,
        dropout=dropout,
        attention_dropout=get("layer_0_attention_dropout").rate,
        classifier_dropout=None if head_dropout == dropout else head_dropout,
        pooler="pooler" in names,
        pad_token_id=words.pad_token_id,
        embedding_size=words.output_dim,
        bottleneck_size=inside,
        num_feed_forward=count_layers("layer_0_ffn_{}_layer_norm", model),
        shared_key_query=shared,
        bottleneck_attention=narrow,
        normalization="no_norm" if isinstance(norm, NoNorm) else "layer_norm",
        trigram="word_trigrams" in names,
        embeddings_layer_norm_eps=None
        if isinstance(norm, NoNorm) or norm.epsilon == epsilon
        else norm.epsilon,
    )


def _norm(
    name: str, config: MobileBertConfig, make: LayerFactory, epsilon: float | None = None
) -> keras.layers.Layer:
    if config.normalization == "no_norm":
        return make.no_norm(name)
    return make.layer_norm(name, epsilon)


def _dense_and_norm(
    states: Any, width: int, name: str, config: MobileBertConfig, make: LayerFactory
) -> Any:
    return _norm(f"{name}_layer_norm", config, make)(make.dense(width, name)(states))


def _feed_forward(
    states: Any, config: MobileBertConfig, make: LayerFactory, prefix: str, epsilon: float | None
) -> Any:
    """Maps (B L, b) to (B L, b), with residual and norm."""
    inner = make.dense(config.intermediate_size, f"{prefix}_intermediate")(states)
    inner = make.activation(config.hidden_act, f"{prefix}_intermediate_activation")(inner)
    output = make.dense(config.bottleneck_size, f"{prefix}_output")(inner)
    output = make.add(f"{prefix}_add")([output, states])
    return _norm(f"{prefix}_layer_norm", config, make, epsilon)(output)
