"""Models that train as the int8 file will compute: each matrix and each activation rounded.

A quantization-aware model is the model itself with most of its layers in wrappers of the same
name. Distillers, taps, metrics and the export take it as they take the model.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import tensorflow as tf
import tf_keras as keras
from tensorflow_model_optimization.python.core.quantization.keras import (
    quantize_config,
    quantize_wrapper,
)

from tfdistill import errors, models
from tfdistill.compress import ranges
from tfdistill.compress.rebuild import check_encoder, rebuilt
from tfdistill.models import layers as model_layers

# Attributes that hold a layer's matrix, by kind of layer.
_MATRICES: dict[type, str] = {
    keras.layers.Dense: "kernel",
    models.WordEmbedding: "embeddings",
    models.PositionEmbedding: "embeddings",
    keras.layers.Embedding: "embeddings",
}
# A converter sees through these.
_MOVING = (
    models.Dropout,
    model_layers.FirstToken,
    model_layers.FlattenTokens,
    model_layers.UnflattenTokens,
)
SMALLEST_IN_BLOCKS = 1024  # numbers of a matrix
# Layers whose result an int8 file stores. Tables are rounded themselves, and what only moves
# numbers about needs no range of its own.
_ROUNDED = (
    keras.layers.Dense,
    keras.layers.Add,
    keras.layers.Activation,
    models.LayerNorm,
    models.NoNorm,
    models.AttentionScores,
    models.AttentionProbabilities,
    models.AttentionContext,
)


class LayerRanges(quantize_config.QuantizeConfig):
    """The rounded parts of a layer: its matrix, an attribute, and its output, where it has one."""

    def __init__(self, *, matrix: str | None, output: bool) -> None:
        self.matrix = matrix
        self.output = output

    def get_weights_and_quantizers(self, layer: keras.layers.Layer) -> list[tuple[Any, Any]]:
        """Returns the matrix and what rounds it."""
        if self.matrix is None:
            return []
        variable = getattr(layer, self.matrix)
        return [(variable, ranges.weight_range(variable.numpy()))]

    def set_quantize_weights(
        self, layer: keras.layers.Layer, quantize_weights: Sequence[tf.Tensor]
    ) -> None:
        """Lets the layer compute with the rounded matrix."""
        if self.matrix is not None:
            setattr(layer, self.matrix, quantize_weights[0])

    def get_activations_and_quantizers(self, layer: keras.layers.Layer) -> list[tuple[Any, Any]]:
        """Returns the scaled query, which attention multiplies; others are layers of their own."""
        if isinstance(layer, models.AttentionScores):
            return [(layer.query_activation, ranges.ActivationRange())]
        return []

    def set_quantize_activations(
        self, layer: keras.layers.Layer, quantize_activations: Sequence[Any]
    ) -> None:
        """Lets attention multiply the rounded query."""
        if isinstance(layer, models.AttentionScores):
            (layer.query_activation,) = quantize_activations

    def get_output_quantizers(self, layer: keras.layers.Layer) -> list[Any]:
        """Returns what rounds the output."""
        return [ranges.ActivationRange()] if self.output else []

    def get_config(self) -> dict[str, Any]:
        """Returns the choices."""
        return {"matrix": self.matrix, "output": self.output}


class KernelGrid(LayerRanges):
    """A kernel, (in, out), rounded to 4 bits in blocks down its columns; of a table its rows.

    `norm` is the normalization whose output the kernel multiplies, or None.
    """

    def __init__(self, *, matrix: str | None, norm: keras.layers.Layer | None) -> None:
        super().__init__(matrix=matrix, output=matrix is None)
        self.norm = norm

    def get_weights_and_quantizers(self, layer: keras.layers.Layer) -> list[tuple[Any, Any]]:
        """Returns the kernel and what rounds it."""
        return [(layer.kernel, ranges.BlockGrid(0, self.norm))] if self.matrix else []

    def get_output_quantizers(self, layer: keras.layers.Layer) -> list[Any]:
        """Returns what rounds the rows that are looked up."""
        return [ranges.BlockGrid(-1)] if self.output else []


class OnGrid(quantize_wrapper.QuantizeWrapperV2):
    """A built layer that computes with its matrix in 4 bits, under the layer's own name."""

    def __init__(self, layer: keras.layers.Layer, norm: keras.layers.Layer | None) -> None:
        # The wrapper will hand the layer rounded tensors in place of its variables.
        self._variables = list(layer.weights)
        kernel = "kernel" if isinstance(layer, keras.layers.Dense) else None
        self._grid = ranges.BlockGrid(-1 if kernel is None else 0, norm)
        super().__init__(layer, KernelGrid(matrix=kernel, norm=norm), name=layer.name)

    def stripped(self) -> keras.layers.Layer:
        """Returns the layer with its matrix rounded, as the file stores it."""
        values = [
            self._grid(variable, False, weights={}) if variable.shape.rank == 2 else variable
            for variable in self._variables
        ]
        return rebuilt(self.layer, self.input_shape, [np.asarray(value) for value in values])


class Quantized(quantize_wrapper.QuantizeWrapperV2):
    """A built layer that rounds its matrix and its output, under the layer's own name."""

    def __init__(self, layer: keras.layers.Layer, rule: LayerRanges) -> None:
        # The wrapper will hand the layer rounded tensors in place of its variables.
        self.float_weights = list(layer.weights)
        super().__init__(layer, rule, name=layer.name)

    def masks(self) -> dict[int, np.ndarray]:
        """Returns what keeps zeros 0, by the index of the matrix in `float_weights`."""
        masks = [
            (matrix, variables.get("sparsity_mask")) for matrix, _, variables in self._weight_vars
        ]
        return {
            index: mask.numpy()
            for matrix, mask in masks
            for index, weight in enumerate(self.float_weights)
            if mask is not None and weight is matrix
        }

    def stripped(self) -> keras.layers.Layer:
        """Returns the layer with its float weights as trained, zeros kept."""
        values = [variable.numpy() for variable in self.float_weights]
        for index, mask in self.masks().items():
            values[index] = values[index] * mask
        return rebuilt(self.layer, self.input_shape, values)

    def rounded(self) -> keras.layers.Layer:
        """Returns the layer without rounding of its results, its matrix as it is rounded."""
        values = [variable.numpy() for variable in self.float_weights]
        for matrix, quantizer, variables in self._weight_vars:
            (index,) = (i for i, weight in enumerate(self.float_weights) if weight is matrix)
            values[index] = quantizer(matrix, False, weights=variables).numpy()
        return rebuilt(self.layer, self.input_shape, values)

    def call(self, inputs: Any, training: Any = None, **kwargs: Any) -> tf.Tensor:
        """Runs the layer on the rounded matrix, and rounds what it gives."""
        if isinstance(self.layer, models.LayerNorm):
            # A mean of int8 numbers would be an int8 number in the file. Twice the numbers have the
            # same normal form, and are no int8 numbers.
            inputs = 2.0 * inputs
        return super().call(inputs, training, **kwargs)


def quantize_aware(
    classifier: keras.Model, *, layers: Sequence[str] = ("*",), bits: Literal[8, 4] = 8
) -> keras.Model:
    """Copies a model into one that computes as its int8 file will.

    Matrices of Dense layers and the tables are rounded to int8 (symmetric, a scale for each
    matrix), and so are the results of Dense, Add, activation, attention and normalization layers,
    each with a range of its own that training learns: the average of the batches' minima and
    maxima. Training also moves the weights so that they suffer little from the rounding. Ranges
    that were never learnt are not guessed: train the model, or `observe` real batches.

    A matrix that was pruned or clustered before stays so: zeros stay zeros, and with 8 bits few
    different numbers stay few.

    With 4 `bits` kernels and the word table are rounded as `ranges.BlockGrid` says, where the file
    in dynamic_wi4_afp32_block32 rounds them: matrices of 1,024 numbers and more. Results stay
    floats. `strip` then gives a plain model of the rounded matrices, which that file stores without
    a further loss.

    Args:
      classifier: A float model of `tfdistill.models`; not changed.
      layers: Patterns of layer names, as for a shell; the others stay in float.
      bits: Of a number of a matrix.

    Returns:
      The model, with the layer names and the inputs of `classifier`.

    Raises:
      ConfigError: If it is quantization-aware already, of a family that cannot be, or no layer
        matches.
    """
    check_encoder(classifier, "quantization-aware training")
    norms = {
        one.name: rebuilt(one) for one in classifier.layers if isinstance(one, models.LayerNorm)
    }
    before = _norms_before(classifier) if bits == 4 else {}
    num_wrapped = 0

    def wrap(layer: keras.layers.Layer) -> keras.layers.Layer:
        nonlocal num_wrapped
        copy = norms.get(layer.name) or rebuilt(layer)
        matrix = next((name for kind, name in _MATRICES.items() if isinstance(layer, kind)), None)
        output = isinstance(layer, _ROUNDED)
        chosen = any(fnmatch.fnmatchcase(layer.name, pattern) for pattern in layers)
        chosen = chosen and (_is_in_blocks(layer) if bits == 4 else bool(matrix or output))
        num_wrapped += chosen
        if chosen and bits == 4:
            return OnGrid(copy, norms.get(before.get(layer.name, "")))
        if chosen:
            return Quantized(copy, LayerRanges(matrix=matrix, output=output))
        return copy

    model = keras.models.clone_model(classifier, clone_function=wrap)
    if not num_wrapped:
        raise errors.ConfigError(
            "layers", "patterns that match a layer, such as 'layer_0_*'", layers
        )
    return model


def _norms_before(model: keras.Model) -> dict[str, str]:
    """Dense layer -> the normalization whose output it multiplies in the file, by name.

    A file of a classifier of whole texts has no product of the last query and all tokens: it is of
    a slice of them.
    """
    head, last = models.read_head(model), models.config_of(model).num_layers - 1
    sliced = "" if head.over_tokens or head.bare else f"layer_{last}_query"
    before = {}
    for layer in model.layers:
        if not isinstance(layer, keras.layers.Dense) or layer.name == sliced:
            continue
        source = _sources(layer)[0]
        while isinstance(source, _MOVING):
            source = _sources(source)[0]
        if isinstance(source, models.LayerNorm):
            before[layer.name] = source.name
    return before


def _sources(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    return tf.nest.flatten(layer.inbound_nodes[0].inbound_layers)


def _is_in_blocks(layer: keras.layers.Layer) -> bool:
    """Whether a file in blocks of 4 bits rounds the matrix of a layer."""
    if isinstance(layer, keras.layers.Dense):
        width, size = layer.kernel.shape[0], np.prod(layer.kernel.shape)
    elif isinstance(layer, models.WordEmbedding):
        width, size = layer.output_dim, layer.input_dim * layer.output_dim
    else:
        return False
    return width % ranges.BLOCK == 0 and size >= SMALLEST_IN_BLOCKS


def observe(model: keras.Model, features: Iterable[Mapping[str, tf.Tensor]]) -> int:
    """Notes the ranges of real batches, without training: int8 after training.

    Args:
      model: A quantization-aware model; its ranges continue from their values.
      features: Batches of named inputs.

    Returns:
      The number of batches.
    """
    count = 0
    with ranges.observing():
        for batch in features:
            model({name: batch[name] for name in model.input_names}, training=False)
            count += 1
    return count


def check_ranges(model: keras.Model) -> None:
    """Refuses a quantization-aware model whose ranges were never learnt.

    Raises:
      ConfigError: If there is one that saw no batch; the message names the layers.
    """
    unseen = [
        layer.name
        for layer in model.layers
        if isinstance(layer, Quantized)
        and any("_batches" in v.name and float(v) == 0 for v in layer.weights)
    ]
    if unseen:
        raise errors.ConfigError(
            f"model {model.name!r}",
            "ranges learnt from real batches",
            f"none for {', '.join(unseen[:5])}{', ...' if len(unseen) > 5 else ''}",
            "Train it (compress on a stage), or call compress.observe on training batches.",
        )
