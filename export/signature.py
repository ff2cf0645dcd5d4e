"""A classifier as a SavedModel with one signature for each sequence length.

Every signature has static shapes, (1, length), which is what phone delegates accept, and all of
them refer to the same variables, so that the converter stores each weight once.

A classifier reads only [CLS] of the last layer. The last layer's queries, feed-forward and
normalizations are therefore computed for [CLS] alone; only its keys and values see every token.
The outputs are the same, and a four-layer model runs a fifth faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, files, models

PREFIX = "len"
LOGITS = "logits"
SCORES = "scores"

Features = dict[str, tf.Tensor]


def signature_name(length: int) -> str:
    """Returns the key of the signature for `length` tokens, for example "len32"."""
    return f"{PREFIX}{length}"


def output_name(*, softmax: bool) -> str:
    """Returns the name of the output: "scores" (probabilities) with softmax, else "logits"."""
    return SCORES if softmax else LOGITS


def check_lengths(lengths: Sequence[int], max_positions: int) -> tuple[int, ...]:
    """Returns the lengths in ascending order.

    Raises:
      ConfigError: If there is none, one comes twice, is no integer, or does not fit the model.
    """
    chosen = tuple(lengths)
    whole = all(isinstance(length, int) and not isinstance(length, bool) for length in chosen)
    if not chosen or not whole or len(set(chosen)) != len(chosen):
        raise errors.ConfigError(
            errors.explain("lengths", "different whole numbers of tokens", lengths)
        )
    if min(chosen) < 2 or max(chosen) > max_positions:
        raise errors.ConfigError(
            errors.explain(
                "lengths",
                f"2 (for [CLS] and [SEP]) to {max_positions} tokens, the model's positions",
                lengths,
            )
        )
    return tuple(sorted(chosen))


def check_head(model: keras.Model) -> None:
    """Refuses a model that does not answer with one row of logits a text.

    Raises:
      ConfigError: If it has another head, or none.
    """
    head = models.head_of(model)
    if head == "sequence":
        return
    received = {
        "none": "an encoder without a head",
        "token": "a classifier of tokens",
        "span": "a model that answers with a span",
        "masked_lm": "a masked language model",
    }
    raise errors.ConfigError(
        errors.explain(
            f"model {model.name!r} to export",
            "a classifier or regression of whole texts (build_classifier)",
            received[head],
            "Other heads run in Python only: model.save, or weights.save_hf.",
        )
    )


def forward(model: keras.Model, *, softmax: bool = False) -> Callable[[Features], tf.Tensor]:
    """Returns the classifier's inference function, its last layer computed for [CLS] alone.

    Args:
      model: A classifier of `tfdistill.models`.
      softmax: Whether the function returns softmax(logits).

    Returns:
      A function of the named int32 inputs (1, L) that gives float32 (1, num_labels).

    Raises:
      ConfigError: If `model` is no classifier of whole texts.
      ShapeError: If `model` is not of `tfdistill.models`.
    """
    config = models.config_of(model)
    check_head(model)
    if isinstance(config, models.BiLstmConfig):  # nothing in it is computed for [CLS] alone
        return lambda features: _answer(model(features, training=False), softmax)
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
    )
    query = keras.Model(hidden, model.get_layer(f"{prefix}_query").output)
    after = keras.Model(
        [model.get_layer(f"{prefix}_context").output, hidden],
        model.get_layer(f"{prefix}_layer_norm").output,
    )
    head = keras.Model(model.get_layer("first_token").output, model.output)

    def run(features: Features) -> tf.Tensor:
        states = before(features, training=False)
        first = states["hidden"][:1]  # (1, d)
        context = _attend(
            query(first, training=False),
            states["key"],
            states["value"],
            states["mask"],
            config.num_heads,
        )
        logits = head(after([context, first], training=False), training=False)
        return _answer(logits, softmax)

    return run


def save(
    model: keras.Model, folder: files.Path, *, lengths: Sequence[int], softmax: bool = False
) -> None:
    """Writes the SavedModel that the converter reads.

    Each signature takes the model's inputs by name, int32 (1, length), and returns one output,
    float32 (1, num_labels), called "logits", or "scores" with softmax.

    Args:
      model: A classifier of `tfdistill.models` in float32.
      folder: The folder to write.
      lengths: Sequence lengths, one signature each.
      softmax: Whether the outputs are probabilities.

    Raises:
      ExportError: If TensorFlow cannot write it.
    """
    run = forward(model, softmax=softmax)
    module = tf.Module()
    # The variables alone: tracking the model would also trace and save each of its layers.
    module.variables_of_model = model.weights
    signatures: dict[str, Any] = {}
    for length in lengths:
        specs = {
            name: tf.TensorSpec((1, length), tf.int32, name=name) for name in model.input_names
        }

        @tf.function(input_signature=[specs], autograph=False)
        def entry(features: Features) -> Features:
            return {output_name(softmax=softmax): run(features)}

        signatures[signature_name(length)] = entry.get_concrete_function()
    try:
        tf.saved_model.save(module, str(folder), signatures=signatures)
    except (tf.errors.OpError, OSError) as error:
        raise errors.ExportError(
            errors.explain("SavedModel", f"it to be written to {folder}", error)
        ) from error


def _answer(logits: tf.Tensor, softmax: bool) -> tf.Tensor:
    return tf.nn.softmax(logits) if softmax else logits


def _attend(
    query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, mask: tf.Tensor, num_heads: int
) -> tf.Tensor:
    """Attention of one query over one example: (1, d), (L, d), (L, d), (1, 1, 1, L) -> (1, d)."""
    width = query.shape[-1]
    size = width // num_heads
    heads = (1, tf.shape(key)[0] if key.shape[0] is None else key.shape[0], num_heads, size)
    # One query: its heads already lie one after the other.
    query = tf.reshape(query * size**-0.5, (1, num_heads, 1, size))
    key = tf.transpose(tf.reshape(key, heads), (0, 2, 3, 1))  # (1, h, k, L)
    value = tf.transpose(tf.reshape(value, heads), (0, 2, 1, 3))  # (1, h, L, k)
    probabilities = tf.nn.softmax(tf.matmul(query, key) + mask)  # (1, h, 1, L)
    return tf.reshape(tf.matmul(probabilities, value), (1, width))
