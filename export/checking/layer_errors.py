"""Where a quantized file goes wrong: the error of each layer's output, and what the layer adds.

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
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from ai_edge_litert import interpreter as litert

from tfdistill import errors, files
from tfdistill.data.encoded import EncodedExamples
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from ..file.runtime import TfliteModel
from ..model import inputs, signature

NUM_EXAMPLES = 16
# A dense layer's tensor is named after all that the converter merged into it; the product decides.
_PRODUCTS = ("/MatMul", "/BiasAdd")


@dataclasses.dataclass(frozen=True)
class LayerError:
    """The error of one layer.

    Attributes:
      layer: Name of the layer.
      sqnr_db: Signal to quantization noise of its output; None where it is equal bit for bit.
      noise: The noise of its output, in [0, 1], as defined above.
      introduced: How much of it the layer adds to that of its inputs, at least 0.
      readers: The layers that read its output.
    """

    layer: str
    sqnr_db: float | None
    noise: float
    introduced: float
    readers: tuple[str, ...]


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
    """Compares the layers of two files of one model.

    Args:
      float_file: The float32 file.
      quantized_file: The quantized file, with the same signatures; it may be a bad one.
      encoded: Real examples; the first `NUM_EXAMPLES` of those that fit the length at which most of
        them run are used.
      layer_names: The names of the model's layers.

    Returns:
      The layers whose outputs both files have, in the order in which the file runs them.

    Raises:
      DataError: If no example fits.
      ExportError: If the files cannot be run or have no tensor in common.
    """
    file = TfliteModel(float_file)
    fitting = np.flatnonzero(encoded.lengths <= max(file.lengths))
    if not len(fitting):
        raise errors.DataError("examples", f"some of at most {max(file.lengths)} tokens", "none")
    runs_at = np.searchsorted(file.lengths, encoded.lengths[fitting])
    busiest = int(np.bincount(runs_at).argmax())
    chosen = encoded.select(fitting[runs_at == busiest][:NUM_EXAMPLES])
    length = file.lengths[busiest]
    with files.temporary_folder("layers") as folder:
        names = frozenset(layer_names)
        exact = _Trace(float_file, length, names, folder / "float.tflite")
        rough = _Trace(quantized_file, length, names, folder / "quantized.tflite")
        exact_values = exact.run(chosen)
        rough_values = rough.run(chosen)
    found = {}
    for name in exact_values.keys() & rough_values.keys():
        if exact_values[name].shape == rough_values[name].shape:
            found[name] = compare(exact_values[name], rough_values[name])
    if not found:
        raise errors.ExportError("layers of the two files", "tensors of the same names", "none")
    return _by_layer(rough.operators(), found)


def culprits(found: Sequence[LayerError], *, share: float = 0.5) -> tuple[str, ...]:
    """Names the layers to leave in float, those that add most of the error first.

    Args:
      found: What `layer_errors` returned.
      share: How much of all the introduced noise the named layers are to explain.

    Returns:
      The fewest layers that add `share` of the noise, each followed by the layers that read its
      output: they would round it again. Empty where no layer adds any.
    """
    total = sum(error.introduced for error in found)
    named: list[str] = []
    explained = 0.0
    for error in sorted(found, key=lambda error: -error.introduced):
        if explained >= share * total or not error.introduced:
            break
        explained += error.introduced
        named += [error.layer, *error.readers]
    return tuple(dict.fromkeys(named))


def compare(exact: np.ndarray, rough: np.ndarray) -> tuple[float | None, float]:
    """Compares a tensor of two files.

    Args:
      exact: (..., channels), the float file's.
      rough: The same shape.

    Returns:
      SQNR in dB, None for equal tensors, and the noise as defined above.
    """
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
    total = signal.sum()
    return 10 * math.log10(total / squares.sum()) if total else -math.inf, noise


class _Trace:
    """One signature of a file, run with every tensor kept.

    Args:
      source: The file.
      length: The signature's sequence length.
      layer_names: The names of the model's layers.
      copy: Where the signature is cut out to.
    """

    def __init__(
        self,
        source: files.Path,
        length: int,
        layer_names: frozenset[str],
        copy: pathlib.Path,
    ) -> None:
        self._model = editing.read(source)
        editing.keep_signature(self._model, signature.signature_name(length))
        editing.write(self._model, copy)
        self._length = length
        self._layer_names = layer_names
        try:
            self._interpreter = litert.Interpreter(
                str(copy),
                experimental_preserve_all_tensors=True,
                # XNNPACK does not give out the tensors inside its partitions.
                experimental_op_resolver_type=(
                    litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
                ),
            )
            self._runner = self._interpreter.get_signature_runner()
        except (ValueError, RuntimeError) as error:
            raise errors.ExportError(
                f"model file {source}", "a file that LiteRT runs", error
            ) from error

    def run(self, encoded: EncodedExamples) -> dict[str, np.ndarray]:
        """Runs examples; returns what operators computed: name -> (examples, ...), as floats."""
        (graph,) = self._model.subgraphs
        computed = sorted({int(i) for operator in graph.operators for i in operator.outputs})
        details = {detail["index"]: detail for detail in self._interpreter.get_tensor_details()}
        kept = [index for index in computed if index in details]
        rows: dict[str, list[np.ndarray]] = collections.defaultdict(list)
        for example in range(len(encoded)):
            ids, types = encoded.row(example), encoded.row_types(example)
            features = inputs.padded(ids, types, self._length, encoded.pad_id)
            self._runner(**{name: features[name] for name in self._runner.get_input_details()})
            for index in kept:
                detail = details[index]
                if detail["dtype"] in (np.float32, np.float16, np.int8, np.int16):
                    value = self._interpreter.get_tensor(index)
                    name = _from_layer_on(detail["name"], self._layer_names)
                    rows[name].append(_as_float(value, detail))
        return {name: np.stack(values) for name, values in rows.items()}

    def operators(self) -> list[_Operator]:
        """Lists what the signature computes, in order, with the layers that it belongs to."""
        (graph,) = self._model.subgraphs
        names = [_from_layer_on(text(tensor.name), self._layer_names) for tensor in graph.tensors]
        listed = []
        for operator in graph.operators:
            outputs = tuple(names[i] for i in operator.outputs)
            inputs = tuple(names[i] for i in operator.inputs if i >= 0)
            layer = layer_of(outputs[0], self._layer_names)
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
    """Returns which layer computes a tensor, from the name that the converter gave it.

    Args:
      tensor_name: For example "model/layer_0_query/MatMul;model/layer_0_query/BiasAdd".
      layer_names: The names of the model's layers.

    Returns:
      The layer, or None if the name holds none. Of a name that several layers were merged into, the
      one whose product it is, otherwise the last.
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
    operators: Sequence[_Operator], found: Mapping[str, tuple[float | None, float]]
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
            noise[name] = found[name][1] if name in found else most
            # Outside all layers an operator passes one on, as a quantize operator does.
            made_by[name] = layer or next(filter(None, entering.values()), None)
            if layer is not None and name in found:
                outputs[layer] = name
        for name, source in entering.items():
            if layer is not None and source != layer:
                arriving[layer] = max(arriving[layer], noise.get(name, 0.0))
                if source is not None:
                    readers[source][layer] = None
    return [
        LayerError(
            layer,
            *found[name],
            introduced=max(0.0, found[name][1] - arriving[layer]),
            readers=tuple(readers[layer]),
        )
        for layer, name in outputs.items()
    ]


def _as_float(value: np.ndarray, detail: Mapping[str, Any]) -> np.ndarray:
    """Returns a copy in float32, with an integer's scale and zero point applied."""
    if detail["dtype"] not in (np.int8, np.int16):
        return value.astype(np.float32)
    scales = detail["quantization_parameters"]["scales"]
    points = detail["quantization_parameters"]["zero_points"]
    if not len(scales):
        return value.astype(np.float32)
    return (value.astype(np.float32) - points[0]) * scales[0]
