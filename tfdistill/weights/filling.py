"""Assignments of a checkpoint's tensors to a model's variables, and how these are filled.

`keys` and `garden_keys` list the variables of a model under the names of their formats.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import tf_keras as keras

_NAMES = ("kernel", "bias", "gamma", "beta", "embeddings")  # a wrapper adds others of its own
_SHOWN = 5  # keys of each kind in an error


class Variable(NamedTuple):
    """One variable: where it is in a model, what the checkpoint calls it, how they relate."""

    layer: str
    index: int  # in the layer's get_weights()
    key: str  # canonical key in the checkpoint
    shape: tuple[int, ...]  # as in the checkpoint
    transposed: bool = False  # whether ours is the transpose; else ours has the axes merged


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """An account of every tensor.

    Attributes:
      loaded: Keys that were copied into the model.
      ignored: Keys of the checkpoint that the model has no use for.
      fresh: Keys of the model that the checkpoint lacks and that were initialised at random.
    """

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]
    fresh: tuple[str, ...]

    def __str__(self) -> str:
        """Summarises it in a line."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.ignored:
            parts.append(f"{len(self.ignored)} ignored ({', '.join(self.ignored)})")
        if self.fresh:
            parts.append(f"{len(self.fresh)} initialised at random ({', '.join(self.fresh)})")
        return "; ".join(parts)


def weights_of(model: keras.Model) -> Iterator[tuple[str, int, str, tuple[int, ...]]]:
    """Yields layer, index in its get_weights(), name such as "kernel", and shape of every weight.

    What a wrapper adds, such as the ranges of quantization-aware training, is left out.
    """
    for layer in model.layers:
        for index, weight in enumerate(layer.weights):
            name = weight.name.rsplit("/", 1)[-1].removesuffix(":0")
            if name in _NAMES:
                yield layer.name, index, name, tuple(weight.shape)


def renamed(name: str, rules: Mapping[str, str]) -> str:
    """Translates the name of a layer by the first pattern that matches all of it."""
    for pattern, template in rules.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(template)
    raise KeyError(name)


def mismatch(
    wanted: Sequence[Variable], tensors: Mapping[str, np.ndarray], optional: Collection[str] = ()
) -> str:
    """Describes how tensors differ from the variables of a model; "" where they fit."""
    variables = {variable.key: variable for variable in wanted}
    faults = {
        "missing": sorted(variables.keys() - tensors.keys() - set(optional)),
        "unexpected": [key for key in tensors if key not in variables],
        "wrong shape": [
            f"{key} {tensors[key].shape} instead of {variable.shape}"
            for key, variable in variables.items()
            if key in tensors and tensors[key].shape != variable.shape
        ],
    }
    return "; ".join(f"{what}: {shortened(keys)}" for what, keys in faults.items() if keys)


def assign(
    model: keras.Model, wanted: Sequence[Variable], tensors: Mapping[str, np.ndarray]
) -> None:
    """Copies the tensors that exist into a model, after `mismatch` has found no fault."""
    arrays: dict[str, dict[int, np.ndarray]] = {}
    for variable in wanted:
        if variable.key in tensors:
            tensor = tensors[variable.key]
            value = tensor.T if variable.transposed else tensor
            arrays.setdefault(variable.layer, {})[variable.index] = value
    for name, array in arrays.items():
        layer = model.get_layer(name)
        values = layer.get_weights()
        for index, value in array.items():
            values[index] = value.reshape(values[index].shape)
        layer.set_weights(values)


def exported(model: keras.Model, variable: Variable) -> np.ndarray:
    """Returns the value of a variable as the checkpoint has it, float32."""
    value = np.asarray(model.get_layer(variable.layer).get_weights()[variable.index], np.float32)
    value = value.T if variable.transposed else value.reshape(variable.shape)
    return np.ascontiguousarray(value)


def shortened(names: Iterable[str]) -> str:
    """Lists the first few names and counts the others."""
    listed = list(names)
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
