"""Which layer of a model takes which quantization."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import errors
from tfdistill.compress import rebuild

from . import quantize as quantizing
from .quantize import SMALLEST_QUANTIZED, Quantization


@dataclasses.dataclass(frozen=True)
class StoredWeight:
    """A weight as the file should hold it.

    Attributes:
      layer: Name of its layer.
      shape: Its dimensions.
      quantization: How it is stored.
    """

    layer: str
    shape: tuple[int, ...]
    quantization: Quantization

    @property
    def num_elements(self) -> int:
        """Product of the dimensions."""
        return _product(self.shape)

    @property
    def is_matrix(self) -> bool:
        """Whether it is a matrix large enough to be quantized."""
        return len(self.shape) > 1 and self.num_elements >= SMALLEST_QUANTIZED


def resolve(
    model: keras.Model, base: Quantization, layers: Mapping[str, str]
) -> dict[str, Quantization]:
    """Resolves which layers take another quantization than the file.

    Args:
      model: The model.
      base: The quantization of the file.
      layers: Pattern of layer names, as for a shell, -> name of a quantization. The first pattern
        that fits a layer counts.

    Returns:
      Name of a layer -> its quantization, where that is not `base`.

    Raises:
      ConfigError: If a pattern fits no layer or changes nothing, or a quantization cannot be
        combined with `base`.
    """
    names = [layer.name for layer in model.layers]
    chosen: dict[str, Quantization] = {}
    matrices = set(with_matrices(model))
    for pattern, name in layers.items():
        own = quantizing.quantization(name)
        what = f"layers, {pattern!r}"
        if own.method == "static":
            raise errors.ConfigError(
                what,
                "a quantization of weights",
                f"{name}, which is one of activations",
                "Give the file that one as `quantize`, and other layers another here.",
            )
        fitting = fnmatch.filter(names, pattern)
        if not fitting:
            raise errors.ConfigError(
                what,
                "a pattern of layer names",
                "one that fits no layer",
                errors.nearest(pattern.strip("*"), names),
            )
        if base.method != "static" and not matrices & set(fitting):
            raise errors.ConfigError(
                what,
                f"layers with weight matrices, which alone are quantized in {base.name}",
                ", ".join(fitting[:3]),
            )
        for layer in fitting:
            chosen.setdefault(layer, own)
    return {layer: own for layer, own in chosen.items() if own != base}


def with_matrices(model: keras.Model) -> list[str]:
    """Returns the names of the layers with a matrix that operators multiply by or look up in."""
    return [
        layer.name
        for layer in model.layers
        if layer.name not in _tables_of_positions(model)
        and any(len(weight.shape) > 1 for weight in _weights(layer))
    ]


def stored_weights(
    model: keras.Model, base: Quantization, layers: Mapping[str, Quantization]
) -> list[StoredWeight]:
    """Lists a model's weights, except position tables, of which each signature keeps some rows."""
    seen: set[int] = set()
    stored = []
    for layer in model.layers:
        if layer.name in _tables_of_positions(model):
            continue
        for weight in _weights(layer):
            if id(weight) not in seen:
                seen.add(id(weight))
                shape = tuple(int(size) for size in weight.shape)
                stored.append(StoredWeight(layer.name, shape, layers.get(layer.name, base)))
    return stored


def check_blocks(weights: Sequence[StoredWeight]) -> None:
    """Refuses blocks that do not divide the rows of a matrix.

    Raises:
      ConfigError: With the widths and what to take instead.
    """
    misfits: dict[str, int] = {}
    for weight in weights:
        block = weight.quantization.block
        if block is None or not weight.is_matrix:
            continue
        # A row is what is multiplied with one input: (inputs, outputs) is transposed.
        width = weight.shape[-1] if "embeddings" in weight.layer else weight.shape[0]
        if width % block:
            misfits[weight.layer] = width
    if not misfits:
        return
    widths = ", ".join(str(width) for width in sorted(set(misfits.values())))
    some = ", ".join(list(misfits)[:3]) + (", ..." if len(misfits) > 3 else "")
    names = {weight.quantization.name for weight in weights if weight.layer in misfits}
    raise errors.ConfigError(
        f"quantize {' and '.join(sorted(names))}",
        "widths that its blocks divide",
        f"{widths} ({some})",
        "Take dynamic_wi4_afp32, which has a scale for each row of any width (for these layers "
        "alone: layers={pattern: that}), or train a student whose widths are multiples.",
    )


def _weights(layer: keras.layers.Layer) -> Sequence[Any]:
    """Returns a layer's weights, without the ranges that a quantization-aware one has besides."""
    return layer.float_weights if isinstance(layer, rebuild.Rounded) else layer.weights


def _tables_of_positions(model: keras.Model) -> set[str]:
    return {layer.name for layer in model.layers if layer.name == "position_embeddings"}


def _product(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
