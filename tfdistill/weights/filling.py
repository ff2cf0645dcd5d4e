"""Copies the tensors of a checkpoint into a model, with every one of them accounted for."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import numpy as np
import tf_keras as keras

from tfdistill import errors, models
from tfdistill.weights import keys
from tfdistill.weights.checkpoint import Checkpoint
from tfdistill.weights.variables import Variable


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every tensor.

    Attributes:
      loaded: Keys that were copied into the model.
      ignored: Keys of the checkpoint that the model has no use for.
      fresh: Keys of the model that the checkpoint lacks and that were initialised at random.
    """

    loaded: tuple[str, ...]
    ignored: tuple[str, ...]
    fresh: tuple[str, ...]

    def __str__(self) -> str:
        """Says it in a line."""
        parts = [f"{len(self.loaded)} tensors loaded"]
        if self.ignored:
            parts.append(f"{len(self.ignored)} ignored ({', '.join(self.ignored)})")
        if self.fresh:
            parts.append(f"{len(self.fresh)} initialised at random ({', '.join(self.fresh)})")
        return "; ".join(parts)


def fill(
    model: keras.Model,
    checkpoint: Checkpoint,
    wanted: Sequence[Variable],
    *,
    left_out: Collection[str] = (),
    fresh: Collection[str] = (),
) -> LoadReport:
    """Copies tensors into the model after every key has been found right.

    Args:
      model: Where the tensors go.
      checkpoint: Where they come from.
      wanted: The variables of the model.
      left_out: Keys that the checkpoint may hold and the model does not take; those of heads that
        are not in `wanted` need not be told.
      fresh: Keys of `wanted` that stay random where the checkpoint lacks them.

    Returns:
      What became of every tensor.

    Raises:
      WeightsError: If a tensor is missing, left over or of the wrong shape.
    """
    variables = {variable.key: variable for variable in wanted}
    unused = {key for key in checkpoint.tensors if keys.HEADS.fullmatch(key)} - set(variables)
    unused.update(left_out)
    unused_types = "embeddings.token_type_embeddings.weight"
    if "tfdistill" in checkpoint.raw_config and unused_types not in variables:
        unused.add(unused_types)  # written by save_hf only because transformers asks for it
    offered = {key: value for key, value in checkpoint.tensors.items() if key not in unused}
    absent = [key for key in variables if key not in offered]
    initialised = [key for key in absent if key in fresh]
    faults = {
        "missing": [key for key in absent if key not in initialised],
        "unexpected": [key for key in offered if key not in variables],
        "wrong shape": [
            f"{key} {offered[key].shape} instead of {variable.shape}"
            for key, variable in variables.items()
            if key in offered and offered[key].shape != variable.shape
        ],
    }
    if any(faults.values()):
        received = "; ".join(f"{what}: {', '.join(sorted(k))}" for what, k in faults.items() if k)
        raise errors.WeightsError(
            f"tensors of {checkpoint.folder}",
            f"those of a {models.config_of(model).family} of the sizes in config.json",
            received,
            "The weights and config.json do not belong together.",
        )
    arrays: dict[str, dict[int, np.ndarray]] = {}
    for key, tensor in offered.items():
        variable = variables[key]
        array = tensor.T if variable.transposed else tensor
        arrays.setdefault(variable.layer, {})[variable.index] = array
    for layer, values in arrays.items():
        model.get_layer(layer).set_weights([values[index] for index in sorted(values)])
    return LoadReport(
        loaded=tuple(sorted(offered)),
        ignored=tuple(sorted({*checkpoint.ignored, *(unused & set(checkpoint.tensors))})),
        fresh=tuple(sorted(initialised)),
    )


def check_tied(checkpoint: Checkpoint) -> None:
    """Refuses a masked LM whose decoder is not the table of its word vectors.

    Raises:
      WeightsError: If the file holds the decoder and it differs.
    """
    for key, twin in keys.TIED.items():
        decoder, expected = checkpoint.tensors.get(key), checkpoint.tensors.get(twin)
        if decoder is None or expected is None or np.array_equal(decoder, expected):
            continue
        raise errors.WeightsError(
            f"{key} of {checkpoint.folder.name}",
            f"the values of {twin}, which it is tied to",
            "others",
            "A decoder of its own is not supported; pass new_head=True for a new, tied head.",
        )
