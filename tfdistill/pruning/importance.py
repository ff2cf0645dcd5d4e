"""One pass over a sample: how much each neuron and head matters, and where the states lie."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.pruning.sample import Sample, answer_loss, inputs_of

_POOLED = ("pooler_activation", "pre_classifier")


@dataclasses.dataclass(frozen=True)
class Measurements:
    """Statistics of a teacher on a sample. L layers, h heads of size k, f neurons, hidden width d.

    Attributes:
      neurons: Importance of each feed-forward neuron, float64 (L, f).
      heads: Importance of each attention head, (L, h).
      pooled: Importance of each neuron of the dense layer in front of a classifier of texts (the
        pooler, DistilBERT's pre_classifier), (d,); 0 where there is none.
      states: Second moments ``E[x x^T]`` of the hidden states over real tokens, the embeddings
        first, (L + 1, d, d).
      queries: Second moments of each head's queries, (L, h, k, k).
      keys: Second moments of its keys, (L, h, k, k).
      contexts: Second moments of its contexts, (L, h, k, k).
      words: Occurrences of each token of the vocabulary, (V,).
      examples: Texts in the sample.
      tokens: Real tokens in it.
    """

    neurons: np.ndarray
    heads: np.ndarray
    pooled: np.ndarray
    states: np.ndarray
    queries: np.ndarray
    keys: np.ndarray
    contexts: np.ndarray
    words: np.ndarray
    examples: int
    tokens: int


def measure(teacher: keras.Model, sample: Sample, *, multi_label: bool = False) -> Measurements:
    """Runs a teacher forward and backward over a sample, once.

    The importance of a neuron or a head with activation a is
    ``mean over examples of |sum over real tokens of <a, dl/da>|``: to first order, how much the
    loss l of an example (`answer_loss`) changes when the activation is set to 0. It depends
    neither on padding nor on how the examples are batched.

    Args:
      teacher: A BERT-like model of `tfdistill.models`; not changed.
      sample: Batches of features.
      multi_label: Whether a text may have several labels.

    Raises:
      DataError: If the sample is empty.

    Reference: Molchanov et al. 2019, Importance Estimation for Neural Network Pruning, equation 8,
    with whole neurons as gates; Michel et al. 2019, Are Sixteen Heads Really Better than One?,
    equation 2, for heads.
    """
    config = models.config_of(teacher)
    head = models.head_of(teacher)
    layers = range(config.num_layers)
    wanted = {
        "inner": [f"layer_{i}_intermediate_activation" for i in layers],
        "context": [f"layer_{i}_context" for i in layers],
        "query": [f"layer_{i}_query" for i in layers],
        "key": [f"layer_{i}_key" for i in layers],
        "state": ["embeddings_dropout", *(f"layer_{i}_layer_norm" for i in layers)],
    }
    outputs: dict[str, Any] = {
        kind: [teacher.get_layer(name).output for name in names] for kind, names in wanted.items()
    }
    found_layers = {layer.name for layer in teacher.layers}
    pooled = next((name for name in _POOLED if name in found_layers), None)
    outputs["pooled"] = [] if pooled is None else [teacher.get_layer(pooled).output]
    answer = teacher.output
    outputs["answer"] = answer["sequence_output"] if isinstance(answer, dict) else answer
    view = keras.Model(teacher.inputs, outputs)
    words = teacher.get_layer("word_embeddings").weights[0]
    copies = getattr(words, "values", (words,))  # one on each device of a strategy
    num_heads, size = config.num_heads, config.attention_width // config.num_heads
    specs = {name: tf.TensorSpec((None, None), tf.int32) for name in teacher.input_names}

    @tf.function(input_signature=[specs, tf.TensorSpec((None, None), tf.int32)])
    def run(features: dict[str, tf.Tensor], mask: tf.Tensor) -> dict[str, tf.Tensor]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            for copy in copies:  # everything depends on it: so every activation is recorded
                tape.watch(copy)
            values = view(features, training=False)
            loss = answer_loss(values["answer"], mask, head, multi_label=multi_label)
        gradients = tape.gradient(
            loss,
            {kind: values[kind] for kind in ("inner", "context", "pooled")},
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        real = tf.reshape(mask, (-1,)) > 0  # (B L,)

        def importance(kind: str, units: int) -> tf.Tensor:
            """Sums over examples, (L, units)."""
            rows = []
            for value, gradient in zip(values[kind], gradients[kind], strict=True):
                # 0 at padding, which neither the loss nor a real token's attention reads.
                product = tf.cast(value * gradient, tf.float32)  # (B L, units k)
                shape = (tf.shape(mask)[0], tf.shape(mask)[1], units, value.shape[-1] // units)
                by_example = tf.reduce_sum(tf.reshape(product, shape), axis=(1, 3))  # (B, units)
                rows.append(tf.reduce_sum(tf.abs(by_example), axis=0))
            return tf.stack(rows)

        def moments(kind: str, groups: int, width: int) -> tf.Tensor:
            """Sums over real tokens of the outer products, (layers, groups, width, width)."""
            rows = []
            for value in values[kind]:
                value = tf.reshape(tf.cast(value, tf.float32), (-1, groups, width))
                states = tf.boolean_mask(value, real)  # (N, groups, width)
                rows.append(tf.einsum("ngi,ngj->gij", states, states))
            return tf.stack(rows)

        return {
            "neurons": importance("inner", config.intermediate_size),
            "heads": importance("context", num_heads),
            "pooled": tf.reduce_sum(
                [
                    tf.reduce_sum(tf.abs(tf.cast(value * gradient, tf.float32)), axis=0)
                    for value, gradient in zip(values["pooled"], gradients["pooled"], strict=True)
                ]
                or tf.zeros((1, config.hidden_size)),
                axis=0,
            ),
            "states": moments("state", 1, config.hidden_size)[:, 0],
            "queries": moments("query", num_heads, size),
            "keys": moments("key", num_heads, size),
            "contexts": moments("context", num_heads, size),
            "words": tf.math.bincount(features["input_ids"], mask, config.vocab_size),
        }

    examples = tokens = 0
    sums: dict[str, np.ndarray] = {}
    for features in sample:
        mask = tf.cast(features["attention_mask"], tf.int32)
        for name, value in run(inputs_of(teacher, features), mask).items():
            sums[name] = sums.get(name, 0.0) + value.numpy().astype(np.float64)
        examples += int(mask.shape[0] or 0)
        tokens += int(tf.reduce_sum(mask))
    if not tokens:
        raise errors.DataError("sample to measure a teacher on", "at least one text", "none")
    per = dict.fromkeys(("neurons", "heads", "pooled"), examples) | {"words": 1}
    means = {name: value / per.get(name, tokens) for name, value in sums.items()}
    return Measurements(**means, examples=examples, tokens=tokens)
