"""A model in Keras 3: the same network in layers that every Keras 3 has, with the same weights.

The file needs nothing of this package and runs on any backend of Keras 3. This is the only module
that imports Keras 3; everything else is tf_keras (docs/adr/0001).
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import keras as keras3
import numpy as np
import tf_keras as keras
from keras import layers as layers3
from keras import ops

from tfdistill import errors, models
from tfdistill.io import checks, files

from ..file import bundle
from . import keras3_checks

SUFFIX = ".keras"


def to_keras(
    model: keras.Model, path: files.Path, *, check_on: Any = None, overwrite: bool = False
) -> pathlib.Path:
    """Writes a model as one file of Keras 3.

    Inputs, by name, and outputs are the model's: int32 (B, L) in, logits out. The file is
    loaded and compared with the model before it replaces anything: every number, the settings of
    every layer, and the answers to random ids of every length and to `check_on`.

    Args:
      model: A model of `tfdistill.models` with a head over whole texts, tokens or spans.
      path: The .keras file to write.
      check_on: Real examples to compare on as well, in the forms that `to_tflite` takes.
      overwrite: Whether an existing file is replaced.

    Raises:
      ConfigError: If the model cannot be written, or the path does not end in .keras.
      OutputExistsError: If the file is there and `overwrite` is not given.
      ParityError: If the file does not answer like the model.
      ExportError: If it cannot be written.

    Examples:
      >>> export.to_keras(student, "student.keras").name
      'student.keras'
    """
    path = pathlib.Path(path)
    check_keras(model)
    bundle.check_file_free(path, suffix=SUFFIX, overwrite=overwrite)
    translated = translate(model)
    with bundle.writing(f"{path}"), files.atomic_write(path) as temporary:
        translated.save(temporary)
        loaded = keras3.saving.load_model(temporary, compile=False)
        written = keras3_checks.WrittenModel(model, loaded, check_on)
        checks.require(path.name, keras3_checks.CHECKS, written)
    return path


def check_keras(model: keras.Model) -> None:
    """Refuses a model whose head or one of whose layers has no counterpart in Keras 3."""
    head = models.read_head(model)
    if head.traits.bare or head.traits.predicts_words:
        raise errors.ConfigError(
            "model for Keras 3", "a head of classes, tags or spans", f"the head {head.kind!r}"
        )
    strange = {type(layer).__name__ for layer in model.layers} - _TRANSLATIONS.keys()
    if strange:
        raise errors.ConfigError(
            "model for Keras 3",
            "a float model of the BERT family",
            f"layers of the kinds {sorted(strange)}",
            "Recurrent and quantization-aware models, and heads over pooled states, can be written "
            "as TFLite files.",
        )


def translate(model: keras.Model) -> Any:
    """Builds the Keras 3 counterpart of a model, functional and in float32, with its weights.

    The layers with weights have the names that they have in the model. The tokens of a batch are
    (B, L, d), where the model flattens them.
    """
    counterparts: dict[int, Any] = {}  # id of a tensor of the model -> its counterpart
    model_inputs = {}
    for layer in model.layers:  # each after those that it reads
        if isinstance(layer, keras.layers.InputLayer):
            model_inputs[layer.name] = keras3.Input((None,), dtype="int32", name=layer.name)
            counterparts[id(layer.output)] = model_inputs[layer.name]
            continue
        # A layer that other models share was called by them, too, on tensors of theirs.
        calls = [(node, [id(part) for part in node.keras_inputs]) for node in layer.inbound_nodes]
        node, parts = next((node, ids) for node, ids in calls if counterparts.keys() >= set(ids))
        counterparts[id(node.outputs)] = _TRANSLATIONS[type(layer).__name__](
            layer, *(counterparts[part] for part in parts)
        )
    translated = keras3.Model(model_inputs, counterparts[id(model.output)], name=model.name)
    for layer in translated.layers:
        if layer.weights:
            layer.set_weights(
                [
                    np.asarray(value, np.float32)
                    for value in model.get_layer(layer.name).get_weights()
                ]
            )
    return translated


def _embedding(layer: Any, ids: Any) -> Any:
    return layers3.Embedding(layer.input_dim, layer.output_dim, name=layer.name)(ids)


def _positions(layer: Any, ids: Any) -> Any:
    positions = ops.cumsum(ops.ones_like(ids), axis=1) - 1  # (B, L): 0, 1, 2, ...
    return layers3.Embedding(layer.max_positions, layer.output_dim, name=layer.name)(positions)


def _dense(layer: Any, states: Any) -> Any:
    activation = layer.activation.__name__
    return layers3.Dense(layer.units, activation=activation, name=layer.name)(states)


def _activation(layer: Any, states: Any) -> Any:
    name = layer.activation.__name__
    if name in ("gelu", "gelu_tanh"):
        return ops.gelu(states, approximate=name == "gelu_tanh")
    return layers3.Activation(name, name=layer.name)(states)


def _layer_norm(layer: Any, states: Any) -> Any:
    return layers3.LayerNormalization(epsilon=layer.epsilon, name=layer.name)(states)


def _no_norm(layer: Any, states: Any) -> Any:
    scale = layers3.EinsumDense(
        "btd,d->btd", output_shape=(None, states.shape[-1]), bias_axes="d", name=layer.name
    )
    return scale(states)


def _trigrams(layer: Any, words: Any) -> Any:
    del layer
    following = ops.pad(words[:, 1:], ((0, 0), (0, 1), (0, 0)))
    preceding = ops.pad(words[:, :-1], ((0, 0), (1, 0), (0, 0)))
    return ops.concatenate([following, words, preceding], axis=-1)


def _mask(layer: Any, mask: Any) -> Any:
    padding = 1.0 - ops.cast(layers3.Reshape((1, 1, -1))(mask), "float32")  # (B, 1, 1, L)
    return padding * layer.value


def _heads(states: Any, num_heads: int, order: tuple[int, int, int]) -> Any:
    """Maps (B, L, d) to the heads (B, L, h, k) in another order of the last three."""
    split = layers3.Reshape((-1, num_heads, states.shape[-1] // num_heads))(states)
    return layers3.Permute(order)(split)


def _scores(layer: Any, query: Any, key: Any, mask: Any) -> Any:
    del mask
    scale = (query.shape[-1] // layer.num_heads) ** -0.5
    query = _heads(query * scale, layer.num_heads, (2, 1, 3))  # (B, h, L, k)
    return ops.matmul(query, _heads(key, layer.num_heads, (2, 3, 1)))  # (B, h, L, L)


def _context(layer: Any, probabilities: Any, value: Any) -> Any:
    del layer
    heads = _heads(value, probabilities.shape[1], (2, 1, 3))  # (B, h, L, k)
    context = layers3.Permute((2, 1, 3))(ops.matmul(probabilities, heads))  # (B, L, h, k)
    return layers3.Reshape((-1, value.shape[-1]))(context)


# By the kind of layer: (layer, Keras 3 tensors of its inputs) -> Keras 3 tensor of its output.
_TRANSLATIONS: dict[str, Callable[..., Any]] = {
    "InputLayer": lambda layer: None,
    "WordEmbedding": _embedding,
    "Embedding": _embedding,
    "PositionEmbedding": _positions,
    "Add": lambda layer, *parts: layers3.Add(name=layer.name)(list(parts)),
    "LayerNorm": _layer_norm,
    "NoNorm": _no_norm,
    "Trigrams": _trigrams,
    "Dropout": lambda layer, states: layers3.Dropout(layer.rate, name=layer.name)(states),
    "FlattenTokens": lambda layer, states: states,
    "UnflattenTokens": lambda layer, states, like: states,
    "Dense": _dense,
    "Activation": _activation,
    "AttentionMask": _mask,
    "AttentionScores": _scores,
    "AttentionProbabilities": lambda layer, scores, mask: ops.softmax(scores + mask),
    "AttentionContext": _context,
    "FirstToken": lambda layer, states: states[:, 0],
}
