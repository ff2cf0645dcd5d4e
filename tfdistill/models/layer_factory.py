"""Creates the layers of one encoder, with its options and dtype policy given once."""

from __future__ import annotations

from typing import Any

import tf_keras as keras

from tfdistill.models import attention, layers
from tfdistill.models.config import EncoderConfig
from tfdistill.models.dropout import Dropout


def initializer() -> keras.initializers.Initializer:
    """Returns BERT's initialiser: a normal of deviation 0.02 truncated at two deviations."""
    return keras.initializers.TruncatedNormal(stddev=0.02)


def output_layer(units: int, name: str, activation: str = "linear") -> keras.layers.Layer:
    """Returns a dense layer whose answers are float32 under every policy."""
    return keras.layers.Dense(
        units, activation, kernel_initializer=initializer(), name=name, dtype="float32"
    )


class LayerFactory:
    """Creates the layers of one encoder with its options; without a policy under the global one."""

    def __init__(self, config: EncoderConfig, dtype_policy: str | None) -> None:
        self.config = config
        self.dtype = dtype_policy

    def word_embedding(self, width: int) -> keras.layers.Layer:
        """Returns the table of word vectors."""
        return layers.WordEmbedding(
            self.config.vocab_size,
            width,
            family=self.config.family,
            pad_token_id=self.config.pad_token_id,
            embeddings_initializer=initializer(),
            name="word_embeddings",
            dtype=self.dtype,
        )

    def projected_words(self, words: Any, inputs: dict[str, Any], *, bias: bool) -> Any:
        """Maps word vectors (B, L, e) to (B, L, d) by one matrix."""
        words = layers.FlattenTokens(name="flatten_words", dtype=self.dtype)(words)
        words = self.dense(self.config.hidden_size, "embedding_projection", bias=bias)(words)
        unflatten = layers.UnflattenTokens(name="unflatten_words", dtype=self.dtype)
        return unflatten((words, inputs["input_ids"]))

    def embeddings(self, words: Any, inputs: dict[str, Any], width: int) -> Any:
        """Adds positions and token types to word vectors (B, L, w): what the norm then sees."""
        positions = layers.PositionEmbedding(
            self.config.max_positions,
            width,
            embeddings_initializer=initializer(),
            name="position_embeddings",
            dtype=self.dtype,
        )
        parts = [words, positions(inputs["input_ids"])]
        if self.config.type_vocab_size:
            types = keras.layers.Embedding(
                self.config.type_vocab_size,
                width,
                embeddings_initializer=initializer(),
                name="token_type_embeddings",
                dtype=self.dtype,
            )
            parts.append(types(inputs["token_type_ids"]))
        return self.add("embeddings_add")(parts)  # (B, L, w)

    def attention(self, query: Any, key: Any, value: Any, mask: Any, prefix: str) -> Any:
        """Maps query, key and value (B L, w) and mask (B, 1, 1, L) to the context (B L, w)."""
        scores = attention.AttentionScores(
            self.config.num_heads, name=f"{prefix}_attention_scores", dtype=self.dtype
        )((query, key, mask))  # (B, h, L, L)
        probabilities = attention.AttentionProbabilities(
            name=f"{prefix}_attention_probs", dtype=self.dtype
        )((scores, mask))
        drop = self.dropout(self.config.attention_dropout, f"{prefix}_attention_dropout")
        return attention.AttentionContext(name=f"{prefix}_context", dtype=self.dtype)(
            (drop(probabilities), value)
        )

    def dense(self, units: int, name: str, *, bias: bool = True) -> keras.layers.Layer:
        """Returns a dense layer."""
        return keras.layers.Dense(
            units, use_bias=bias, kernel_initializer=initializer(), name=name, dtype=self.dtype
        )

    def layer_norm(self, name: str, epsilon: float | None = None) -> keras.layers.Layer:
        """Returns a LayerNorm; epsilon: None takes that of the configuration."""
        layer_epsilon = self.config.layer_norm_eps if epsilon is None else epsilon
        return layers.LayerNorm(layer_epsilon, name=name, dtype=self.dtype)

    def no_norm(self, name: str) -> keras.layers.Layer:
        """Returns a NoNorm."""
        return layers.NoNorm(name=name, dtype=self.dtype)

    def dropout(self, rate: float, name: str) -> keras.layers.Layer:
        """Returns a dropout layer."""
        return Dropout(rate, name=name, dtype=self.dtype)

    def add(self, name: str) -> keras.layers.Layer:
        """Returns a sum."""
        return keras.layers.Add(name=name, dtype=self.dtype)

    def activation(self, function: str, name: str) -> keras.layers.Layer:
        """Returns an activation, one of `ACTIVATIONS` or of Keras."""
        return keras.layers.Activation(
            layers.activation_function(function), name=name, dtype=self.dtype
        )
