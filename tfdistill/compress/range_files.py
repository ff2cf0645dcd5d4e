"""What a saved model does not hold: the ranges of a quantization-aware one, the factors of a table.

The plain model is saved with the product of the two factors of a word table. That has others when
it is split again: ranges would not fit them, nor are they rounded to 4 bits as they were trained.
"""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.compress import rebuild
from tfdistill.io import arrays, files
from tfdistill.weights import factorised

RANGES = "ranges.safetensors"
"""The file of activation ranges next to a saved model."""
FLOAT_WEIGHTS = "its float weights: compress.strip(model), of a run a copy of its folder student/hf"
"""Advice on what has no ranges; the folder itself is opened with those next to it."""
_FORMAT = "1"
_FACTORS = ("word_embeddings/factor", "embedding_projection/factor")


def save_ranges(model: keras.Model, path: files.Path) -> None:
    """Writes the ranges of a quantization-aware model, and a word table's two factors.

    Of a model with neither nothing is written; its float weights are saved elsewhere.

    Args:
      model: Any model of `tfdistill.models`.
      path: The safetensors file: "<layer>/<tensor>_min" and "..._max", and how many batches an
        activation's range is made of.
    """
    ranges = {name: np.asarray(variable) for name, variable in _ranges(model).items()}
    ranges |= _factors(rebuild.strip(model))
    if ranges:
        arrays.write_arrays(path, ranges, metadata={"format_version": _FORMAT})


def with_ranges(plain: keras.Model, path: files.Path) -> keras.Model:
    """Gives a model the ranges and factors of a file; with ranges it is quantization-aware.

    Args:
      plain: The model as `strip` gave it, saved and loaded.
      path: What `save_ranges` wrote.

    Returns:
      A model that answers bit for bit as the saved one.

    Raises:
      WeightsError: If the file is damaged or belongs to another model.
    """
    path = pathlib.Path(path)
    saved = arrays.read_arrays(path, entries=(header := {}))
    version = header.get("format_version")
    factors = {name: saved.pop(name) for name in saved.keys() & set(_FACTORS)}
    wrapped = sorted({name.split("/")[0] for name in saved})
    names = {layer.name for layer in plain.layers}
    if version != _FORMAT or not (wrapped or factors) or not names.issuperset(wrapped):
        raise errors.WeightsError(
            f"{path}",
            f"ranges (format {_FORMAT}) of the layers of {plain.name!r}",
            f"format {version} of {', '.join(sorted(set(wrapped) - names)) or 'known'} layers",
            "It belongs to the model that it was saved with.",
        )
    from tfdistill.compress import quantization_aware  # only where there are ranges

    shapes = {name: factor.shape for name, factor in _factors(plain).items()}
    fitting = shapes == {name: factor.shape for name, factor in factors.items()}
    if factors and fitting:
        plain = models.with_policy(plain, "float32")  # a copy
        for name, factor in factors.items():
            plain.get_layer(name.split("/")[0]).set_weights([factor])
    model = quantization_aware.quantize_aware(plain, layers=wrapped) if wrapped else plain
    variables = _ranges(model)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if not fitting or shapes != {name: array.shape for name, array in saved.items()}:
        raise errors.WeightsError(
            f"{path}", f"the {len(shapes)} ranges of {plain.name!r}", f"{len(saved)} others"
        )
    for name, variable in variables.items():
        variable.assign(saved[name])
    return model


def _factors(plain: keras.Model) -> dict[str, np.ndarray]:
    """The factors of a factorised word table, by name; none of other models."""
    config = models.config_of(plain)
    if not isinstance(config, models.EncoderConfig) or not factorised.is_factorised(config):
        return {}
    return {name: plain.get_layer(name.split("/")[0]).get_weights()[0] for name in _FACTORS}


def _ranges(model: keras.Model) -> dict[str, tf.Variable]:
    """The variables that hold ranges, by name."""
    return {
        variable.name.removesuffix(":0"): variable
        for layer in model.layers
        if isinstance(layer, rebuild.Rounded)
        for variable in layer.weights
        if variable.name.removesuffix(":0").endswith(("_min", "_max", "_batches"))
    }
