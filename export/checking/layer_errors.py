"""The errors of a quantized file: the error of each layer's output, and what the layer adds.

A float file and a quantized file of the same model are run on the same examples with all their
intermediate tensors kept, and tensors of the same name are compared channel by channel: an outlier
in one channel stretches the range of the whole tensor, and the error then sits in the others, which
the signal-to-noise ratio of the tensor as a whole would hide behind the outlier.

With x a channel of the float file, q the same of the other, sums over examples and tokens, and s =
sum x^2: noise = mean over channels of min(1, sum (x - q)^2 / max(s, median of s over channels)), 0
for equal, 1 for lost. The median keeps channels that are hardly used from counting.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import TfliteModel
from tfdistill.tflite.agreement import ratio_db
from tfdistill.tflite.reader import text

from . import tracing

NUM_EXAMPLES = 16
# A dense layer's tensor is named after all that the converter merged into it; the product decides.
_PRODUCTS = ("/MatMul", "/BiasAdd")
_KEPT = (np.float32, np.float16, np.int8)


@dataclasses.dataclass(frozen=True)
class LayerError:
    """The error of one layer."""

    layer: str
    # of its output, signal to quantization noise; None where it is equal bit for bit
    sqnr_db: float | None
    noise: float  # of its output, in [0, 1], as defined above
    introduced: float  # how much of it the layer adds to that of its inputs, at least 0
    readers: tuple[str, ...]  # the layers that read its output


@dataclasses.dataclass(frozen=True)
class _Operator:
    inputs: tuple[str, ...]  # names of the tensors that it reads
    outputs: tuple[str, ...]
    layer: str | None


def layer_errors(
    float_file: files.Path,
    quantized_file: files.Path,
    encoded: EncodedExamples,
    layer_names: Iterable[str],
) -> list[LayerError]:
    """Compares the layers of two files of one model; the quantized one may be a bad one.

    Of the examples the first `NUM_EXAMPLES` are used that fit the length at which most of them run.
    Returns the layers whose outputs both files have, in the order in which the file runs them.
    """
    file = TfliteModel(float_file)
    fitting = np.flatnonzero(encoded.lengths <= max(file.lengths))
    if not len(fitting):
        raise errors.DataError("examples", f"some of at most {max(file.lengths)} tokens", "none")
    runs_at = np.searchsorted(file.lengths, encoded.lengths[fitting])
    busiest = int(np.bincount(runs_at).argmax())
    chosen = encoded.select(fitting[runs_at == busiest][:NUM_EXAMPLES])
    length = file.lengths[busiest]
    names = frozenset(layer_names)
    with tracing.trace(float_file, length) as exact:
        exact_values = _values(exact, chosen, names)
    with tracing.trace(quantized_file, length) as rough:
        rough_values = _values(rough, chosen, names)
        operators = _operators(rough.graph, names)
    compared = {}
    for name in exact_values.keys() & rough_values.keys():
        if exact_values[name].shape == rough_values[name].shape:
            compared[name] = compare(exact_values[name], rough_values[name])
    if not compared:
        raise errors.ExportError("layers of the two files", "tensors of the same names", "none")
    return _by_layer(operators, compared)


def culprits(layers: Sequence[LayerError], *, share: float = 0.5) -> tuple[str, ...]:
    """Names the layers to leave in float, those that add most of the error first.

    They are the fewest that add `share` of the noise, each followed by the layers that read its
    output: they would round it again. Empty where no layer adds any.
    """
    total = sum(error.introduced for error in layers)
    named: list[str] = []
    explained = 0.0
    for error in sorted(layers, key=lambda error: -error.introduced):
        if explained >= share * total or not error.introduced:
            break
        explained += error.introduced
        named += [error.layer, *error.readers]
    return tuple(dict.fromkeys(named))


def compare(exact: np.ndarray, rough: np.ndarray) -> tuple[float | None, float]:
    """Returns of a tensor (..., channels) of two files SQNR in dB, None if equal, and noise."""
    exact = np.asarray(exact, np.float64).reshape(-1, exact.shape[-1] if exact.ndim else 1)
    rough = np.asarray(rough, np.float64).reshape(exact.shape)
    squares = np.square(exact - rough).sum(axis=0)
    if not np.isfinite(squares).all():
        return -math.inf, 1.0
    signal = np.square(exact).sum(axis=0)
    scale = np.maximum(signal, np.median(signal))
    ratios = np.divide(squares, scale, out=(squares > 0).astype(float), where=scale > 0)
    noise = float(np.minimum(ratios, 1.0).mean())
    if not squares.sum():
        return None, 0.0
    return ratio_db(float(signal.sum()), float(squares.sum())), noise


def _values(
    traced: tracing.SignatureTrace, encoded: EncodedExamples, layer_names: frozenset[str]
) -> dict[str, np.ndarray]:
    """Runs examples; returns what operators computed: name -> (examples, ...), as floats."""
    computed = {int(i) for operator in traced.graph.operators for i in operator.outputs}
    details = {index: traced.details[index] for index in sorted(computed & traced.details.keys())}
    of_numbers = {index: detail for index, detail in details.items() if detail["dtype"] in _KEPT}
    rows: dict[str, list[np.ndarray]] = collections.defaultdict(list)
    for value_of in traced.run(encoded):
        for index, detail in of_numbers.items():
            name = _from_layer_on(detail["name"], layer_names)
            rows[name].append(_as_float(value_of(index), detail))
    return {name: np.stack(values) for name, values in rows.items()}


def _operators(graph: Any, layer_names: frozenset[str]) -> list[_Operator]:
    """Lists what the signature computes, in order, with the layers that it belongs to."""
    names = [_from_layer_on(text(tensor.name), layer_names) for tensor in graph.tensors]
    listed = []
    for operator in graph.operators:
        outputs = tuple(names[i] for i in operator.outputs)
        inputs = tuple(names[i] for i in operator.inputs if i >= 0)
        layer = layer_of(outputs[0], layer_names)
        listed.append(_Operator(inputs, outputs, layer))
    return listed


def _from_layer_on(tensor_name: str, layer_names: frozenset[str]) -> str:
    """Removes what precedes the layers in a tensor's name: how the model was called."""
    parts = []
    for part in tensor_name.split(";"):
        pieces = part.split("/")
        start = next((i for i, piece in enumerate(pieces) if piece in layer_names), 0)
        parts.append("/".join(pieces[start:]))
    return ";".join(parts)


def layer_of(tensor_name: str, layer_names: frozenset[str] | set[str]) -> str | None:
    """Returns which layer computes a tensor, from the name that the converter gave it, or None.

    Of "model/layer_0_query/MatMul;model/layer_0_query/BiasAdd", into which several layers may be
    merged, the one whose product it is, otherwise the last.
    """
    named = []
    for part in tensor_name.split(";"):
        layer = next((piece for piece in part.split("/") if piece in layer_names), None)
        if layer is not None:
            named.append((any(product in part for product in _PRODUCTS), layer))
    if not named:
        return None
    return max(enumerate(named), key=lambda item: (item[1][0], item[0]))[1][1]


def _by_layer(
    operators: Sequence[_Operator], compared: Mapping[str, tuple[float | None, float]]
) -> list[LayerError]:
    """Follows the noise through the operators and adds it up by layer."""
    noise: dict[str, float] = {}  # of each tensor; what is not compared passes its inputs' on
    made_by: dict[str, str | None] = {}
    outputs: dict[str, str] = {}
    arriving: dict[str, float] = collections.defaultdict(float)  # at each layer, from others
    readers: dict[str, dict[str, None]] = collections.defaultdict(dict)
    for operator in operators:
        layer = operator.layer
        entering = {name: made_by.get(name) for name in operator.inputs}
        most = max((noise.get(name, 0.0) for name in operator.inputs), default=0.0)
        for name in operator.outputs:
            noise[name] = compared[name][1] if name in compared else most
            # Outside all layers an operator passes one on, as a quantize operator does.
            made_by[name] = layer or next(filter(None, entering.values()), None)
            if layer is not None and name in compared:
                outputs[layer] = name
        for name, source in entering.items():
            if layer is not None and source != layer:
                arriving[layer] = max(arriving[layer], noise.get(name, 0.0))
                if source is not None:
                    readers[source][layer] = None
    return [
        LayerError(
            layer,
            *compared[name],
            introduced=max(0.0, compared[name][1] - arriving[layer]),
            readers=tuple(readers[layer]),
        )
        for layer, name in outputs.items()
    ]


def _as_float(value: np.ndarray, detail: Mapping[str, Any]) -> np.ndarray:
    """Returns a copy in float32, with an integer's scale and zero point applied."""
    if detail["dtype"] != np.int8:
        return value.astype(np.float32)
    scales = detail["quantization_parameters"]["scales"]
    points = detail["quantization_parameters"]["zero_points"]
    if not len(scales):
        return value.astype(np.float32)
    return (value.astype(np.float32) - points[0]) * scales[0]
