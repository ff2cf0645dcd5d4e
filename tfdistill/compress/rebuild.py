"""Copies of a model whose layers are wrapped, or unwrapped, on the way."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models


@runtime_checkable
class Wrapped(Protocol):
    """A wrapper that a compression puts around a layer, under the layer's own name."""

    def stripped(self) -> keras.layers.Layer:
        """Returns a copy of the layer as a file should have it."""
        ...


@runtime_checkable
class Rounded(Wrapped, Protocol):
    """A wrapper that rounds a layer's matrix and its result, as quantization-aware training does.

    `weights` are `float_weights` and the ranges.
    """

    float_weights: list[tf.Variable]
    weights: list[tf.Variable]

    def rounded(self) -> keras.layers.Layer:
        """Returns a copy of the layer with its matrix rounded, its result not."""
        ...


def rebuilt(
    layer: keras.layers.Layer,
    input_shape: Any = None,
    values: Sequence[np.ndarray] | None = None,
) -> keras.layers.Layer:
    """Copies a layer without a wrapper, built, with its weights and their names.

    What is left out of the shape of its input and the weights is as in the layer.
    """
    copy = type(layer).from_config(layer.get_config())
    values = layer.get_weights() if values is None else values
    if values:
        with tf.name_scope(copy.name):  # the names decide which weights decay
            copy.build(layer.input_shape if input_shape is None else input_shape)
        copy.built = True
        copy.set_weights(values)
    return copy


def strip(model: keras.Model) -> keras.Model:
    """Copies a model that is being compressed into a plain one of the same weights.

    Of a pruned or clustered model these are the compressed ones; of a quantization-aware one the
    float weights as trained, without its ranges.

    Returns:
      The plain model; `model` itself where it is plain.
    """
    if not any(isinstance(layer, Wrapped) for layer in model.layers):
        return model

    def unwrap(layer: keras.layers.Layer) -> keras.layers.Layer:
        return layer.stripped() if isinstance(layer, Wrapped) else rebuilt(layer)

    return keras.models.clone_model(model, clone_function=unwrap)


def is_quantize_aware(model: keras.Model) -> bool:
    """Tells whether a model was made by `quantize_aware`."""
    return any(isinstance(layer, Rounded) for layer in model.layers)


def with_rounded_matrices(model: keras.Model) -> keras.Model:
    """Copies a quantization-aware model into a plain one whose matrices are rounded.

    Results of layers are floats in it: what is left of the model where only those are not rounded.
    """

    def unwrap(layer: keras.layers.Layer) -> keras.layers.Layer:
        return layer.rounded() if isinstance(layer, Rounded) else rebuilt(layer)

    return keras.models.clone_model(model, clone_function=unwrap)


def float_weights(model: keras.Model) -> list[tf.Variable]:
    """Returns the weights of a model that a file stores: all but those that hold ranges."""
    return [
        weight
        for layer in model.layers
        for weight in (layer.float_weights if isinstance(layer, Rounded) else layer.weights)
    ]


def matching(
    model: keras.Model, layers: Sequence[str], kinds: Mapping[type, str]
) -> dict[str, str]:
    """Finds the matrices that patterns, as for a shell, name: layer name -> attribute.

    `kinds` has the attribute by kind of layer. Refuses a pattern that matches no such layer.
    """
    named = {
        layer.name: attribute
        for layer in model.layers
        for kind, attribute in kinds.items()
        if isinstance(layer, kind)
    }
    fitting = {pattern: fnmatch.filter(named, pattern) for pattern in layers}
    unmatched = [pattern for pattern, names in fitting.items() if not names]
    if unmatched or not layers:
        shown = sorted({re.sub(r"^layer_\d+_", "layer_*_", name) for name in named})
        raise errors.ConfigError(
            "layers",
            f"patterns that match a layer with a matrix ({', '.join(shown)})",
            ", ".join(unmatched) or "none",
        )
    return {name: named[name] for names in fitting.values() for name in names}


def check_encoder(model: keras.Model, what: str) -> None:
    """Refuses what compression is not made for, such as another compression's wrapper."""
    config = models.config_of(model)
    if isinstance(config, models.WordVectorConfig):
        raise errors.ConfigError(
            f"{what} of {model.name!r}",
            "an encoder of the BERT family",
            f"a {config.title}, whose layers tensorflow-model-optimization does not reach into",
            "Export it as dynamic_wi8_afp32, which needs no training.",
        )
    if any(isinstance(layer, keras.layers.Wrapper) for layer in model.layers):
        raise errors.ConfigError(
            f"{what} of {model.name!r}",
            "a plain model",
            "one that is being compressed already",
            "Train it as it is, or take compress.strip(model).",
        )
