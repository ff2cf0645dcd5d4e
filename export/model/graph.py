"""The graph of an exported file: a model's answers, in a form that runs fast on one example.

A classifier of whole texts reads only [CLS] of the last layer. The last layer's queries,
feed-forward and normalizations are therefore computed for [CLS] alone; only its keys and values see
every token. The outputs are the same, and a four-layer model runs a fifth faster.

Three more ideas were measured on tinybert_4l_312d at 32 and 128 tokens and left out: one product
for query, key and value (1 to 3% faster with int8 weights, 2% slower in float32, and the three
layers could no longer be quantized each in its way), the mask as a further row of the keys (1%
slower), and no mask at all (at most 3% faster).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models

from .heads import END_LOGITS, HEADS, START_LOGITS

Features = dict[str, tf.Tensor]


def check_head(model: keras.Model) -> None:
    """Refuses a model without a head for a file: an encoder alone, a masked language model."""
    head = models.read_head(model)
    if head.kind not in HEADS:
        words = head.traits.predicts_words
        raise errors.ConfigError(
            f"model {model.name!r} to export",
            "a classifier or regression of texts, a classifier of tokens, a model of spans or a "
            "sentence encoder",
            "a masked language model" if words else "an encoder without a head",
            "Fine-tune it with a head first; as it is it runs in Python only: model.save, or "
            "weights.save_hf.",
        )


def in_float32(model: keras.Model) -> keras.Model:
    """Returns the model, or its copy in float32 where it computes in another type."""
    floats = {layer.compute_dtype for layer in model.layers if layer.weights}
    return model if floats <= {"float32"} else models.with_policy(model, "float32")


def at_temperature(model: keras.Model, temperature: float) -> keras.Model:
    """Returns a copy in float32 whose logits are the model's over the temperature."""
    copy = models.with_policy(model, "float32")
    head = copy.get_layer(models.read_head(model).layer)
    head.set_weights([weight / np.float32(temperature) for weight in head.get_weights()])
    return copy


def forward(model: keras.Model, *, softmax: bool = False) -> Callable[[Features], Features]:
    """Returns the inference function of the file: of int32 inputs (1, L) by name, float32 by name.

    It gives for whole texts "logits" (1, num_labels); for tokens "logits" (1, L, num_labels), both
    called "scores" with softmax; for spans "start_logits" and "end_logits" (1, L); of a sentence
    encoder "embedding" (1, width). A quantization-aware model is run as it is.
    """
    config = models.config_of(model)
    check_head(model)
    outputs = HEADS[models.head_of(model)]
    if softmax and not outputs.classifies:
        raise errors.ConfigError("softmax", "a classifier", outputs.description, outputs.no_softmax)
    if outputs.decodes_spans:
        return lambda features: _split_span(model(features, training=False))
    answer = model
    of_first = outputs.from_first_token and not models.read_head(model).pooled
    wrapped = any(isinstance(layer, keras.layers.Wrapper) for layer in model.layers)  # as for QAT
    if of_first and not (wrapped or isinstance(config, models.WordVectorConfig)):
        answer = _for_first_token(model, config)
    (name,) = outputs.output_names(softmax=softmax)

    def run(features: Features) -> Features:
        logits = answer(features, training=False)
        return {name: tf.nn.softmax(logits) if softmax else logits}

    return run


def _split_span(logits: tf.Tensor) -> Features:
    """Splits (1, L, 2)."""
    rows = tf.transpose(tf.reshape(logits, (-1, 2)))  # (2, L)
    # XNNPACK takes a split over, but no slice that reaches to the end.
    start, end = tf.split(rows, 2)  # (1, L)
    return {START_LOGITS: start, END_LOGITS: end}


def _for_first_token(model: keras.Model, config: models.EncoderConfig) -> Callable[..., tf.Tensor]:
    """Returns the classifier with its last layer computed for [CLS] alone."""
    last = config.num_layers - 1
    prefix = f"layer_{last}"
    below = f"layer_{last - 1}_layer_norm" if last else "flatten_tokens"
    hidden = model.get_layer(below).output  # (L, d): the tokens of the one example
    before = keras.Model(
        model.inputs,
        {
            "hidden": hidden,
            "key": model.get_layer(f"{prefix}_key").output,
            "value": model.get_layer(f"{prefix}_value").output,
            "mask": model.get_layer("attention_mask_scores").output,  # (1, 1, 1, L)
        },
        # Keras would count them, and the file's tensors be named after what ran before.
        name="all_tokens",
    )
    query = keras.Model(hidden, model.get_layer(f"{prefix}_query").output, name="asking")
    after = keras.Model(
        [model.get_layer(f"{prefix}_context").output, hidden],
        model.get_layer(f"{prefix}_layer_norm").output,
        name="asked",
    )
    head = keras.Model(model.get_layer("first_token").output, model.output, name="answer")

    def run(features: Features, *, training: bool) -> tf.Tensor:
        states = before(features, training=training)
        first = states["hidden"][:1]  # (1, d)
        context = _attend(
            query(first, training=training),
            states["key"],
            states["value"],
            states["mask"],
            config.num_heads,
            prefix,
        )
        return head(after([context, first], training=training), training=training)

    return run


def _attend(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor, num_heads: int, prefix: str
) -> tf.Tensor:
    """Attention of one query over one example: (1, d), (L, d), (L, d), (1, 1, 1, L) -> (1, d).

    The operators have the names of the layers that they replace, by which a mixed quantization
    and the report on errors find them.
    """
    width = query.shape[-1]
    size = width // num_heads
    heads = (1, tf.shape(key)[0] if key.shape[0] is None else key.shape[0], num_heads, size)
    with tf.name_scope(f"{prefix}_attention_scores"):
        # One query: its heads are already contiguous.
        query = tf.reshape(query * size**-0.5, (1, num_heads, 1, size))
        key = tf.transpose(tf.reshape(key, heads), (0, 2, 3, 1))  # (1, h, k, L)
        scores = tf.matmul(query, key)  # (1, h, 1, L)
    with tf.name_scope(f"{prefix}_attention_probs"):
        probabilities = tf.nn.softmax(scores + mask)
    with tf.name_scope(f"{prefix}_context"):
        value = tf.transpose(tf.reshape(value, heads), (0, 2, 1, 3))  # (1, h, L, k)
        return tf.reshape(tf.matmul(probabilities, value), (1, width))
