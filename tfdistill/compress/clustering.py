"""Weight clustering: every matrix comes to consist of a few numbers, which are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import tf_keras as keras
from tensorflow_model_optimization.python.core.clustering.keras import (
    cluster_config,
    cluster_wrapper,
)

from tfdistill import errors
from tfdistill.compress import ranges
from tfdistill.compress.rebuild import check_encoder, matching, rebuilt
from tfdistill.losses import checks

LAYERS = ("layer_*",)
_MATRICES: dict[type, str] = {keras.layers.Dense: "kernel"}
_LEAST_WITH_ZEROS = 3  # zero, and numbers on both of its sides
_STARTS = {
    "linear": cluster_config.CentroidInitialization.LINEAR,
    "density": cluster_config.CentroidInitialization.DENSITY_BASED,
    "kmeans++": cluster_config.CentroidInitialization.KMEANS_PLUS_PLUS,
}


class Clustered(cluster_wrapper.ClusterWeights):
    """A built Dense layer whose kernel consists of few numbers, under the layer's own name.

    Of `start` see `cluster`.
    """

    def __init__(self, layer: keras.layers.Layer, clusters: int, start: str) -> None:
        # The wrapper will hand the layer clustered tensors in place of its kernel.
        self._names = [weight.name.split("/")[-1].split(":")[0] for weight in layer.weights]
        self._variables = list(layer.weights)
        kernel = layer.kernel.numpy()
        super().__init__(
            layer,
            clusters,
            cluster_centroids_init=_STARTS[start],
            preserve_sparsity=ranges.is_pruned(kernel),
            name=layer.name,
        )

    def stripped(self) -> keras.layers.Layer:
        """Returns the layer with each weight at the nearest of the numbers."""
        self.update_clustered_weights_associations()
        values = [
            self.layer.kernel.numpy() if name == "kernel" else variable.numpy()
            for name, variable in zip(self._names, self._variables, strict=True)
        ]
        return rebuilt(self.layer, self.input_shape, values)


def cluster(
    classifier: keras.Model,
    *,
    clusters: int = 16,
    layers: Sequence[str] = LAYERS,
    start: Literal["linear", "density", "kmeans++"] = "linear",
) -> keras.Model:
    """Copies a model into one whose matrices consist of few numbers while it trains.

    Forward, each weight is the nearest of its matrix's `clusters` numbers; backward, a number
    takes the sum of its weights' gradients, and each weight takes its own, so that it may move to
    another number. Zeros of a pruned matrix stay zeros and are one of the numbers. `strip` gives
    the clustered model, whose file becomes small when it is compressed.

    Args:
      classifier: A float model of `tfdistill.models`; not changed.
      clusters: Numbers of each matrix, from 2 to 256; of pruned ones from 3.
      layers: Patterns of names of Dense layers, as for a shell.
      start: Where the numbers start: "linear", evenly from the smallest weight to the largest;
        "density", evenly among the sorted weights; "kmeans++", far from each other.

    Returns:
      The model, with the layer names and the inputs of `classifier`.

    Raises:
      ConfigError: If a number is out of range, no layer matches, or the model is of a family that
        cannot be clustered.
    """
    check_encoder(classifier, "clustering")
    if not 2 <= clusters <= ranges.MOST_CLUSTERS:
        raise errors.ConfigError("clusters", f"2 to {ranges.MOST_CLUSTERS}", clusters)
    checks.check_choice("start", start, tuple(_STARTS))
    chosen = matching(classifier, layers, _MATRICES)
    pruned = [
        name for name in chosen if ranges.is_pruned(classifier.get_layer(name).kernel.numpy())
    ]
    if pruned and clusters < _LEAST_WITH_ZEROS:
        raise errors.ConfigError(
            f"clusters of pruned layers, such as {pruned[0]}",
            f"{_LEAST_WITH_ZEROS} to {ranges.MOST_CLUSTERS}, of which zero is one",
            clusters,
        )

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer:
        copy = rebuilt(layer)
        return Clustered(copy, clusters, start) if layer.name in chosen else copy

    return keras.models.clone_model(classifier, clone_function=wrap)
