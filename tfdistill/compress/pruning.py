"""Magnitude pruning: training sets the smallest weights of each matrix to zero, more and more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tf_keras as keras
from tensorflow_model_optimization.python.core.sparsity.keras import (
    pruning_schedule,
    pruning_wrapper,
)

from tfdistill import errors, models
from tfdistill.compress.rebuild import check_encoder, matching, rebuilt

LAYERS = ("layer_*",)
# Kinds of layer that can be pruned -> the attribute that holds the matrix.
MATRICES: dict[type, str] = {keras.layers.Dense: "kernel", models.WordEmbedding: "embeddings"}
_UPDATES = 20  # of the masks, from the first to the last


class Pruned(pruning_wrapper.PruneLowMagnitude):
    """A built layer whose attribute `matrix` is masked by blocks, under the layer's own name."""

    def __init__(
        self,
        layer: keras.layers.Layer,
        matrix: str,
        schedule: pruning_schedule.PruningSchedule,
        block_size: Sequence[int],
    ) -> None:
        # The way for layers that tensorflow-model-optimization does not know.
        layer.get_prunable_weights = lambda: [getattr(layer, matrix)]
        super().__init__(layer, schedule, block_size=tuple(block_size))
        self._name = layer.name

    def build(self, input_shape: Any) -> None:
        """Adds the mask and a count of the batches, which needs no callback."""
        super().build(input_shape)
        self.pruning_step.assign(0)

    def stripped(self) -> keras.layers.Layer:
        """Returns the layer with its matrix masked."""
        ((matrix, mask, _),) = self.pruning_vars
        values = [
            weight.numpy() * mask.numpy() if weight is matrix else weight.numpy()
            for weight in self.layer.weights
        ]
        return rebuilt(self.layer, self.input_shape, values)


def prune(
    classifier: keras.Model,
    *,
    sparsity: float = 0.5,
    total_steps: int,
    begin: float = 0.0,
    end: float = 0.7,
    layers: Sequence[str] = LAYERS,
    block_size: Sequence[int] = (1, 1),
) -> keras.Model:
    """Copies a model into one that is pruned while it trains.

    The share of zeros of every matrix rises from 0 at the batch ``begin * total_steps`` to
    `sparsity` at ``end * total_steps``, at some 20 moments in between, steeply at first:
    ``s (1 - (1 - (t - t0) / (t1 - t0))^3)``. What is 0 may come back until the end; after it the
    zeros stay, and the others settle. `strip` gives the pruned model.

    Args:
      classifier: A float model of `tfdistill.models`; not changed.
      sparsity: The share of zeros at the end, in (0, 1).
      total_steps: Batches of the training.
      begin: The share of the batches before the first zeros.
      end: The share of the batches before the last ones.
      layers: Patterns of layer names, as for a shell: Dense layers and "word_embeddings".
      block_size: Rows and columns that are pruned together, by their mean magnitude.

    Returns:
      The model, with the layer names and the inputs of `classifier`.

    Raises:
      ConfigError: If a number is out of range, the training is too short, no layer matches, or the
        model is of a family that cannot be pruned.

    Reference: Zhu and Gupta 2017, To prune, or not to prune, equation 1.
    """
    check_encoder(classifier, "pruning")
    if not 0 < sparsity < 1:
        raise errors.ConfigError("sparsity", "a share between 0 and 1", sparsity)
    if not 0 <= begin < end <= 1:
        raise errors.ConfigError("begin, end", "0 <= begin < end <= 1", f"{begin}, {end}")
    first, span = round(begin * total_steps), round((end - begin) * total_steps)
    if span < 1:
        raise errors.ConfigError(
            "training steps",
            f"at least one from begin ({begin:g}) to end ({end:g}) of them",
            f"{total_steps} in all",
            "Train longer: the masks change up to 20 times.",
        )
    every = max(span // _UPDATES, 1)
    last = first + span // every * every
    chosen = matching(classifier, layers, MATRICES)

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer:
        copy = rebuilt(layer)
        if layer.name not in chosen:
            return copy
        schedule = pruning_schedule.PolynomialDecay(0.0, sparsity, first, last, frequency=every)
        return Pruned(copy, chosen[layer.name], schedule, block_size)

    return keras.models.clone_model(classifier, clone_function=wrap)
