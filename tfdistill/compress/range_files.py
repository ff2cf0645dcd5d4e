"""Quantization-aware models on disk: the plain model, and a file with the ranges."""

from __future__ import annotations

import pathlib

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill import arrays, errors, files
from tfdistill.compress import rebuild

RANGES = "ranges.safetensors"
"""The file of activation ranges next to a saved model."""
_FORMAT = "1"


def save_ranges(model: keras.Model, path: files.Path) -> None:
    """Writes the ranges of a quantization-aware model; its float weights are saved elsewhere.

    Args:
      model: A quantization-aware model.
      path: The safetensors file: "<layer>/<tensor>_min" and "..._max", and how many batches an
        activation's range is made of.
    """
    ranges = {name: np.asarray(variable) for name, variable in _ranges(model).items()}
    arrays.write_arrays(path, ranges, metadata={"format_version": _FORMAT})


def with_ranges(plain: keras.Model, path: files.Path) -> keras.Model:
    """Makes a model quantization-aware with ranges from a file.

    Args:
      plain: The model as `strip` gave it, saved and loaded.
      path: What `save_ranges` wrote.

    Returns:
      A model that answers bit for bit as the saved one.

    Raises:
      WeightsError: If the file is damaged or belongs to another model.
    """
    path = pathlib.Path(path)
    saved, header = arrays.read_with_metadata(path)
    version = header.get("format_version")
    wrapped = sorted({name.split("/")[0] for name in saved})
    names = {layer.name for layer in plain.layers}
    if version != _FORMAT or not wrapped or not names.issuperset(wrapped):
        raise errors.WeightsError(
            f"{path}",
            f"ranges (format {_FORMAT}) of the layers of {plain.name!r}",
            f"format {version} of {', '.join(sorted(set(wrapped) - names)) or 'known'} layers",
            "It belongs to the model that it was saved with.",
        )
    from tfdistill.compress import quantization_aware  # only where there are ranges

    model = quantization_aware.quantize_aware(plain, layers=wrapped)
    variables = _ranges(model)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if shapes != {name: array.shape for name, array in saved.items()}:
        raise errors.WeightsError(
            f"{path}", f"the {len(shapes)} ranges of {plain.name!r}", f"{len(saved)} others"
        )
    for name, variable in variables.items():
        variable.assign(saved[name])
    return model


def _ranges(model: keras.Model) -> dict[str, tf.Variable]:
    """The variables that hold ranges, by name."""
    return {
        variable.name.removesuffix(":0"): variable
        for layer in model.layers
        if isinstance(layer, rebuild.Rounded)
        for variable in layer.weights
        if variable.name.removesuffix(":0").endswith(("_min", "_max", "_batches"))
    }
