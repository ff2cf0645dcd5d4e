"""The variables of models and projections in the files of a run, by name."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from tfdistill import errors
from tfdistill.io import arrays

_AGAIN = "Delete result.json next to it and resume: the stage is trained again."


def by_name(variables: Sequence[tf.Variable]) -> dict[str, tf.Variable]:
    """Name -> variable."""
    return {variable.name.removesuffix(":0"): variable for variable in variables}


def save(
    variables: Sequence[tf.Variable],
    path: pathlib.Path,
    *,
    made_from: str = "",
    beside: dict[str, np.ndarray] | None = None,
) -> None:
    """Writes the values of variables with names of their own, and more arrays `beside` them.

    For `made_from` see `arrays.write_arrays`.
    """
    values = {name: np.asarray(variable) for name, variable in by_name(variables).items()}
    arrays.write_arrays(path, {**values, **(beside or {})}, made_from=made_from)


def read(
    path: pathlib.Path, *, made_from: str | None = None, remedy: str = _AGAIN
) -> dict[str, np.ndarray]:
    """The arrays that `save` wrote: name -> array."""
    return arrays.read_arrays(path, made_from=made_from, remedy=remedy)


def load(
    variables: Sequence[tf.Variable],
    path: pathlib.Path,
    *,
    made_from: str | None = None,
    beside: Sequence[str] = (),
    remedy: str = _AGAIN,
) -> dict[str, np.ndarray]:
    """Sets variables to what `save` wrote of them.

    Returns the arrays `beside` them, as far as they are there. Refuses a file that is damaged, of
    other variables, or made from something else than `made_from`; None takes any.
    """
    saved, named = read(path, made_from=made_from, remedy=remedy), by_name(variables)
    more = {name: saved.pop(name) for name in beside if name in saved}
    if {name: array.shape for name, array in saved.items()} != {
        name: tuple(variable.shape) for name, variable in named.items()
    }:
        raise errors.WeightsError(f"{path}", "the weights of this model", "others", remedy)
    for name, variable in named.items():
        variable.assign(saved[name])
    return more
