"""How far the outputs of a foreign file may be from its model's: by the noise of its rounding."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import tensorflow as tf
import tf_keras as keras

from tfdistill.tflite import agreement, reader
from tfdistill.tflite.agreement import Bounds

_LARGE = 1024  # bytes: smaller constants stay floats in every format
_MARGIN_FLOAT_DB = 20.0  # ten times the error: honest conversions have 0.3 to 2 times
_MARGIN_DB = 9.0  # eight times the noise: files round elsewhere, too; honest ones had up to 6.9
_STEPS = 255  # of the eight bits of a row that a matrix is multiplied with
_INTEGERS = ("int8", "uint8", "int16")


def bounds_of_outputs(
    path: pathlib.Path, model: keras.Model, answers: Callable[[], Mapping[str, np.ndarray]]
) -> dict[str, Bounds]:
    """The bounds of each output by role: its format's, and the noise of that as floats show it.

    Of a file with integers, the model answers with each large matrix rounded to a scale for each of
    its outputs, a table to one for each row, and with the rows that it multiplies rounded to eight
    bits as LiteRT does when it runs such a file; the file may have eight times that noise. Of one
    with float32, each weight is moved by one step of float32, which is what another order of
    additions costs; the file may have a hundred times that. Where all activations have ranges of
    their own, or the constants are float16, the format's bounds count alone. `answers` gives the
    model's outputs by role; the model is as before afterwards.
    """
    file = reader.read(path)
    tensors = [tensor for graph in file.subgraphs for tensor in graph.tensors]
    sizes = file.buffer_bytes
    constants = {tensor.dtype for tensor in tensors if sizes[tensor.buffer] >= _LARGE}
    is_static = any(
        graph.tensors[operator.inputs[0]].dtype in _INTEGERS
        for graph in file.subgraphs
        for operator in graph.operators
        if operator.name == "FULLY_CONNECTED"
    )
    bounds, largest = agreement.FLOAT32, None
    if constants & {"int4", "int2", "uint4"}:
        bounds, largest = agreement.COARSE, 7
    elif constants & {*_INTEGERS}:
        bounds, largest = agreement.INT8, 127
    elif "float16" in constants:
        bounds = agreement.FLOAT16
    exact = answers()
    if bounds == agreement.FLOAT16 or is_static:
        return dict.fromkeys(exact, bounds)
    trained = model.get_weights()
    margin = _MARGIN_FLOAT_DB if largest is None else _MARGIN_DB
    try:
        model.set_weights(_rounded_weights(model, trained, largest))
        with contextlib.nullcontext() if largest is None else _rounded_rows(model):
            rough = answers()
    finally:
        model.set_weights(trained)
    return {
        role: _tightened(
            bounds,
            float(np.square(exact[role]).sum()),
            float(np.square(exact[role] - rough[role]).sum()),
            margin,
        )
        for role in exact
    }


def _tightened(bounds: Bounds, power: float, noise: float, margin_db: float) -> Bounds:
    """Raises the least ratio to what the noise alone leaves, less a margin."""
    ratio = agreement.ratio_db(power, noise)
    if ratio is None or ratio - margin_db <= bounds.sqnr_db:
        return bounds
    return bounds.replace({"sqnr_db": ratio - margin_db})


def _rounded_weights(
    model: keras.Model, trained: list[np.ndarray], largest: int | None
) -> list[np.ndarray]:
    """The weights, the large ones rounded to integers up to `largest`; None moves all by a step."""
    random = np.random.default_rng(0)
    rounded = []
    for variable, values in zip(model.weights, trained, strict=True):
        if largest is None:
            values = values + random.choice((-1, 1), values.shape) * np.spacing(values)
        elif values.ndim == 2 and values.nbytes >= 4 * _LARGE:
            axis = 1 if "embeddings" in variable.name else 0
            scale = np.abs(values).max(axis=axis, keepdims=True) / largest
            values = np.rint(values / np.where(scale > 0, scale, 1)) * scale
        rounded.append(values)
    return rounded


@contextlib.contextmanager
def _rounded_rows(model: keras.Model) -> Iterator[None]:
    """Lets each large Dense layer see its rows in eight bits, zero among them."""
    layers = [
        layer
        for layer in model._flatten_layers(include_self=False)
        if isinstance(layer, keras.layers.Dense) and tf.size(layer.kernel) >= _LARGE
    ]
    calls = [layer.call for layer in layers]

    def rounding(call: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        def rounded(inputs: tf.Tensor) -> tf.Tensor:
            low = tf.minimum(tf.reduce_min(inputs, -1, keepdims=True), 0.0)
            high = tf.maximum(tf.reduce_max(inputs, -1, keepdims=True), 0.0)
            step = tf.maximum(high - low, 1e-30) / _STEPS
            return call(tf.round(inputs / step) * step)

        return rounded

    try:
        for layer, call in zip(layers, calls, strict=True):
            layer.call = rounding(call)
        yield
    finally:
        for layer, call in zip(layers, calls, strict=True):
            layer.call = call
