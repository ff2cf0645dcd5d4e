"""The faults of the converted file, by name: its constants, its operators, its ranges.

They are planted in the file alone; its float32 conversion stays right, unless it is that file.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from networks import KNOWN_IDS
from planted import Inapplicable

from tfdistill.tflite import editing
from tfdistill.tflite.reader import text


@dataclasses.dataclass
class File:
    """A converted file in memory, with what the faults look for.

    Attributes:
      tree: `editing.read`.
      random: Chooses where there are several places.
    """

    tree: Any
    random: np.random.Generator

    def constants(self, *kinds: str, least: int = 0) -> list[tuple[Any, Any]]:
        """Returns (graph, tensor) of constants of some types; each buffer once."""
        pairs, seen = [], set()
        for graph in self.tree.subgraphs:
            for tensor in graph.tensors:
                data = editing.constant(self.tree, tensor)
                size = int(np.prod(tensor.shape)) if tensor.shape is not None else 1
                if data is None or editing.dtype_of(tensor) not in kinds or size < least:
                    continue
                if tensor.buffer not in seen:
                    seen.add(tensor.buffer)
                    pairs.append((graph, tensor))
        if not pairs:
            raise Inapplicable("no such constant")
        return pairs

    def choose(self, *kinds: str, least: int = 0) -> Any:
        """Returns one of them."""
        pairs = self.constants(*kinds, least=least)
        return pairs[int(self.random.integers(len(pairs)))][1]

    def bytes_of(self, tensor: Any) -> np.ndarray:
        """Returns a constant's bytes, which may be changed, one row for each of its own."""
        buffer = self.tree.buffers[tensor.buffer]
        buffer.data = np.array(bytearray(buffer.data), np.uint8)
        rows = int(tensor.shape[0]) if tensor.shape is not None and len(tensor.shape) > 1 else 1
        return buffer.data.reshape(rows, -1)

    def operators(self, name: str) -> list[tuple[Any, Any]]:
        """Returns (graph, operator) of one kind."""
        pairs = [
            (graph, operator)
            for graph in self.tree.subgraphs
            for operator in graph.operators
            if editing.name_of(self.tree, operator) == name
        ]
        if not pairs:
            raise Inapplicable(f"no {name}")
        return pairs

    def activations(self) -> list[Any]:
        """Returns the tensors that are computed and stored as integers with a scale."""
        tensors = [
            graph.tensors[index]
            for graph in self.tree.subgraphs
            for operator in graph.operators
            for index in operator.outputs
            if editing.dtype_of(graph.tensors[index]) == "int8"
            and graph.tensors[index].quantization is not None
            and graph.tensors[index].quantization.scale is not None
            and len(graph.tensors[index].quantization.scale) == 1
        ]
        if not tensors:
            raise Inapplicable("no ranges")
        return tensors


_RELU = schema.ActivationFunctionType.RELU
INTEGERS = ("int4", "int8")
STORED = (*INTEGERS, "float16", "float32")


def _zero_row(file: File) -> None:
    rows = file.bytes_of(file.choose(*STORED, least=1024))
    _change(rows[int(file.random.integers(len(rows)))], np.zeros_like)


def _change(row: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> None:
    new = change(row.copy())
    if np.array_equal(new, row):
        raise Inapplicable("changes nothing")
    row[:] = new


def _one_step(file: File) -> None:
    tensor = file.choose(*INTEGERS, least=1024)
    row = file.bytes_of(tensor)[0]
    nibble = editing.dtype_of(tensor) == "int4"

    def change(values: np.ndarray) -> np.ndarray:
        signed = values.view(np.int8).astype(int)
        index = int(np.abs(signed).argmin())
        values[index] = (int(values[index]) + (0x20 if nibble else 2)) % 256
        return values

    _change(row, change)


def _exchange_rows(file: File) -> None:
    rows = file.bytes_of(file.choose(*STORED, least=1024))
    copy = rows.copy()
    if len(rows) < 2 or np.array_equal(copy[0], copy[1]):
        raise Inapplicable("one row")
    rows[0], rows[1] = copy[1], copy[0]


def _unseen_row(file: File) -> None:
    tables = [t for _, t in file.constants(*STORED, least=1024) if t.shape[0] == 200]
    if not tables:
        raise Inapplicable("no table")
    _change(file.bytes_of(tables[0])[KNOWN_IDS + 50], np.zeros_like)


def _scales(factor: float, all_of: bool) -> Callable[[File], None]:
    def apply(file: File) -> None:
        tensor = file.choose(*INTEGERS, least=1024)
        if tensor.quantization.scale is None:
            raise Inapplicable("scales of blocks, see _block_scale")
        scale = np.array(tensor.quantization.scale, np.float32)
        scale[slice(None) if all_of else slice(0, 1)] *= np.float32(factor)
        tensor.quantization.scale = scale

    return apply


def _last_scale(file: File) -> None:
    tensor = file.choose(*INTEGERS, least=1024)
    scale = np.array(tensor.quantization.scale, np.float32)
    if scale.size < 2:
        raise Inapplicable("one scale")
    scale[-1] *= 2
    tensor.quantization.scale = scale


def _bias(file: File) -> None:
    biases = [
        graph.tensors[operator.inputs[2]]
        for graph, operator in file.operators("FULLY_CONNECTED")
        if len(operator.inputs) > 2 and operator.inputs[2] >= 0
    ]
    biases = [tensor for tensor in biases if editing.constant(file.tree, tensor) is not None]
    biases = [tensor for tensor in biases if np.any(editing.constant(file.tree, tensor))]
    if not biases:
        raise Inapplicable("no bias")
    _change(file.bytes_of(biases[0]).reshape(-1), np.zeros_like)


def _gamma(file: File) -> None:
    for graph, operator in file.operators("MUL"):
        for index in operator.inputs:
            tensor = graph.tensors[index]
            data = editing.constant(file.tree, tensor)
            if data is not None and len(tensor.shape if tensor.shape is not None else ()) == 1:
                row = file.bytes_of(tensor).reshape(-1)
                _change(row, lambda values: np.roll(values, len(values) // 2))
                return
    raise Inapplicable("no gamma")


def _exchange_matrices(file: File) -> None:
    first_of_shape: dict[Any, Any] = {}
    for _, tensor in file.constants(*STORED, least=1024):
        key = (*tensor.shape, tensor.type)
        if key in first_of_shape and first_of_shape[key].buffer != tensor.buffer:
            buffers = file.tree.buffers
            first, second = buffers[first_of_shape[key].buffer], buffers[tensor.buffer]
            first.data, second.data = second.data, first.data
            return
        first_of_shape[key] = tensor
    raise Inapplicable("no two of one shape")


def _option(name: str, option: str, value: Any) -> Callable[[File], None]:
    def apply(file: File) -> None:
        for _, operator in file.operators(name):
            if getattr(operator.builtinOptions, option) == value:
                raise Inapplicable("is so already")
            setattr(operator.builtinOptions, option, value)
            return

    return apply


def _rewire(name: str) -> Callable[[File], None]:
    """An operator is left out: its readers read its first input of the same shape."""

    def apply(file: File) -> None:
        for graph, operator in file.operators(name):
            output = int(operator.outputs[0])
            for source in operator.inputs:
                tensor, result = graph.tensors[source], graph.tensors[output]
                alike = tensor.type == result.type and list(tensor.shape) == list(result.shape)
                if source >= 0 and alike and editing.constant(file.tree, tensor) is None:
                    graph.operators = [o for o in graph.operators if o is not operator]
                    for other in graph.operators:
                        other.inputs = [source if i == output else i for i in other.inputs]
                    return
        raise Inapplicable("none to leave out")

    return apply


def _exchange_outputs(file: File) -> None:
    """The second signature has the first one's positions."""
    tables: dict[int, Any] = {}
    for _, tensor in file.constants("float32", "float16", "int8"):
        shape = [] if tensor.shape is None else list(tensor.shape)
        if len(shape) == 3 and shape[0] == 1 and shape[2] in (32, 64):
            tables[shape[1]] = tensor
    if len(tables) < 2:
        raise Inapplicable("no positions")
    rows = file.bytes_of(tables[max(tables)]).reshape(max(tables), -1)
    if np.array_equal(rows[-1], rows[0]):
        raise Inapplicable("changes nothing")
    rows[-1] = rows[0]


def _ranges(factor: float, every: bool) -> Callable[[File], None]:
    def apply(file: File) -> None:
        tensors = file.activations()
        if not every:
            wide = [tensor for tensor in tensors if "MatMul" in text(tensor.name)] or tensors
            tensors = wide[:1]
        changed = set()
        for tensor in tensors:
            if id(tensor.quantization) not in changed:
                changed.add(id(tensor.quantization))
                scale = np.asarray(tensor.quantization.scale, np.float32) * np.float32(factor)
                tensor.quantization.scale = scale

    return apply


def _one_range(factor: float) -> Callable[[File], None]:
    """One range of a product in every signature, which share it."""

    def apply(file: File) -> None:
        places = [
            number
            for number, operator in enumerate(file.tree.subgraphs[0].operators)
            if editing.name_of(file.tree, operator) in ("FULLY_CONNECTED", "BATCH_MATMUL")
        ]
        for graph in file.tree.subgraphs:
            tensor = graph.tensors[graph.operators[places[len(places) // 2]].outputs[0]]
            if all(tensor is not other for other in file.activations()):
                raise Inapplicable("no range")
            quantization = copy.copy(tensor.quantization)
            quantization.scale = np.asarray(quantization.scale, np.float32) * np.float32(factor)
            tensor.quantization = quantization

    return apply


def _operands(file: File) -> None:
    for _, operator in file.operators("SUB"):
        operator.inputs = list(operator.inputs)[::-1]


def _insert(
    file: File, graph: Any, operator: Any, position: int, code: int, more: tuple[int, ...] = ()
) -> Any:
    """Puts an operator before an input of another one; returns it and the tensor that it makes."""
    source = int(operator.inputs[position])
    result = editing.add_tensor_like(graph, f"{text(graph.tensors[source].name)}/planted", source)
    graph.tensors[result].quantization = copy.copy(graph.tensors[source].quantization)
    new = editing.new_operator(file.tree, code, 1, [source, *more], [result])
    places = [number for number, other in enumerate(graph.operators) if other is operator]
    graph.operators = [*graph.operators[: places[0]], new, *graph.operators[places[0] :]]
    operator.inputs = [result if n == position else int(i) for n, i in enumerate(operator.inputs)]
    return new, graph.tensors[result]


def _readers(file: File, name: str) -> list[tuple[Any, Any, int]]:
    """Returns (graph, operator, input) of those that read what one kind of operator made."""
    results = [(graph, int(operator.outputs[0])) for graph, operator in file.operators(name)]
    readers = [
        (graph, operator, position)
        for graph in file.tree.subgraphs
        for operator in graph.operators
        for position, index in enumerate(operator.inputs)
        if any(of_graph is graph and result == index for of_graph, result in results)
    ]
    if not readers:
        raise Inapplicable(f"nothing reads {name}")
    return readers


def _ends_at_6(file: File) -> None:
    """Whether the values of the data reach that or not."""
    with_relu = [
        operator.builtinOptions
        for graph in file.tree.subgraphs
        for operator in graph.operators
        if getattr(operator.builtinOptions, "fusedActivationFunction", None) == _RELU
    ]
    if not with_relu:
        raise Inapplicable("no ReLU")
    for options in with_relu:
        options.fusedActivationFunction = schema.ActivationFunctionType.RELU6


def _softmax_twice(file: File) -> None:
    options = copy.copy(file.operators("SOFTMAX")[0][1].builtinOptions)
    for graph, operator, position in _readers(file, "SOFTMAX"):
        new, _ = _insert(file, graph, operator, position, schema.BuiltinOperator.SOFTMAX)
        new.builtinOptionsType, new.builtinOptions = schema.BuiltinOptions.SoftmaxOptions, options


def _saturated(file: File) -> None:
    """An activation ends at 6, whether the values of the data reach that or not."""
    for graph, operator, position in _readers(file, "GELU"):
        if editing.dtype_of(graph.tensors[operator.inputs[position]]) != "float32":
            raise Inapplicable("integers have ranges")
        six = editing.add_constant(file.tree, graph, "six", np.array(6, np.float32))
        _insert(file, graph, operator, position, schema.BuiltinOperator.MINIMUM, (six,))


def _coarse(factor: float) -> Callable[[File], None]:
    """Integers are rounded to larger steps before an operator, in every signature."""

    def apply(file: File) -> None:
        kinds = {id(tensor) for tensor in file.activations()}
        done = 0
        for graph, operator, position in _readers(file, "FULLY_CONNECTED"):
            tensor = graph.tensors[operator.inputs[position]]
            if editing.name_of(file.tree, operator) != "ADD" or id(tensor) not in kinds:
                continue
            _, result = _insert(file, graph, operator, position, schema.BuiltinOperator.QUANTIZE)
            result.quantization.scale = np.asarray(tensor.quantization.scale) * np.float32(factor)
            result.quantization.zeroPoint = np.zeros(1, np.int64)
            done += 1
        if not done:
            raise Inapplicable("no integers")

    return apply


def _larger_steps(name: str, factor: float, *, inputs: bool = False) -> Callable[[File], None]:
    """An operator calls the steps of its results (and inputs) larger, in every signature."""

    def apply(file: File) -> None:
        kinds = {id(tensor) for tensor in file.activations()}
        done = 0
        for graph, operator in file.operators(name):
            for index in (*(operator.inputs if inputs else ()), operator.outputs[0]):
                tensor = graph.tensors[index]
                if id(tensor) in kinds:
                    tensor.quantization = copy.copy(tensor.quantization)
                    scale = np.asarray(tensor.quantization.scale) * np.float32(factor)
                    tensor.quantization.scale = scale
                    done += 1
        if not done:
            raise Inapplicable("no integers")

    return apply


def _of_entry(kind: str, first: int, second: int) -> Callable[[File], None]:
    """The last signature binds two names to each other's tensors."""

    def apply(file: File) -> None:
        entries = sorted(getattr(file.tree.signatureDefs[-1], kind), key=lambda item: item.name)
        if len(entries) < 2:
            raise Inapplicable("one name")
        a, b = entries[first], entries[second]
        a.tensorIndex, b.tensorIndex = b.tensorIndex, a.tensorIndex

    return apply


def _columns(file: File) -> None:
    """The scales of a square matrix are those of its columns: where a kernel believes that."""
    matrices = [
        tensor
        for _, tensor in file.constants(*INTEGERS, least=1024)
        if tensor.quantization.scale is not None and len(tensor.quantization.scale) > 1
    ]
    if not matrices:
        raise Inapplicable("no scales of rows")
    matrices[0].quantization.quantizedDimension = 1


def _exchange_signatures(field: str) -> Callable[[File], None]:
    """Two signatures have each other's key or subgraph."""

    def apply(file: File) -> None:
        first, second = file.tree.signatureDefs
        values = getattr(second, field), getattr(first, field)
        for entry, value in zip((first, second), values, strict=True):
            setattr(entry, field, value)

    return apply


def _bias_of_long(file: File) -> None:
    """The longest signature alone has two numbers of its last bias exchanged."""
    products = [
        (graph, operator)
        for graph, operator in file.operators("FULLY_CONNECTED")
        if len(operator.inputs) > 2 and operator.inputs[2] >= 0
    ]
    if not products:
        raise Inapplicable("no bias")
    graph = max((graph for graph, _ in products), key=lambda each: int(each.tensors[0].shape[-1]))
    operator = [operator for each, operator in products if each is graph][-1]
    tensor = graph.tensors[operator.inputs[2]]
    dtype = editing.dtype_of(tensor)
    data = editing.constant(file.tree, tensor)
    if data is None or dtype not in ("float32", "int32"):
        raise Inapplicable("no bias")
    values = np.frombuffer(bytes(data), dtype).copy()
    if values[0] == values[1]:
        raise Inapplicable("changes nothing")
    values[:2] = values[1::-1]
    tensor.buffer = editing.add_buffer(file.tree, values)


def _block_scale(file: File) -> None:
    for graph in file.tree.subgraphs:
        for tensor in graph.tensors:
            details = None if tensor.quantization is None else tensor.quantization.details
            if details is None or details.scales is None or not details.blockSize:
                continue
            scales = file.bytes_of(graph.tensors[details.scales]).reshape(-1).view(np.float16)
            scales[1] *= 2
            return
    raise Inapplicable("no blocks")


def _zero_point(file: File) -> None:
    """A matrix and its zero point are three steps higher: kernels leave that out."""
    tensor = file.choose("int8", least=1024)
    rows = file.bytes_of(tensor)
    rows[:] = np.clip(rows.view(np.int8).astype(int) + 3, -128, 127).astype(np.int8).view(np.uint8)
    points = np.asarray(tensor.quantization.zeroPoint)
    tensor.quantization.zeroPoint = np.full(np.shape(tensor.quantization.scale), 3, points.dtype)


FILE: dict[str, Callable[[File], None]] = {
    "a row zeroed": _zero_row,
    "one number two steps off": _one_step,
    "two rows exchanged": _exchange_rows,
    "an unseen word's row zeroed": _unseen_row,
    "a row's scale 1.1 times": _scales(1.1, False),
    "all scales of a matrix doubled": _scales(2.0, True),
    "all scales of a matrix halved": _scales(0.5, True),
    "a bias zeroed": _bias,
    "gamma in another order": _gamma,
    "two matrices exchanged": _exchange_matrices,
    "softmax with beta 0.5": _option("SOFTMAX", "beta", 0.5),
    "GELU approximated": _option("GELU", "approximate", True),
    "a ReLU behind a product": _option("FULLY_CONNECTED", "fusedActivationFunction", 1),
    "an addition left out": _rewire("ADD"),
    "an activation left out": _rewire("GELU"),
    "operands of differences exchanged": _operands,
    "last position of the long signature": _exchange_outputs,
    "one range 32 times as wide": _ranges(32.0, False),
    "one range 1.5 times as wide": _one_range(1.5),
    "one range doubled": _one_range(2.0),
    "one range 0.6 times as wide": _one_range(0.6),
    "one range halved": _ranges(0.5, False),
    "all ranges halved": _ranges(0.5, True),
    "all ranges 16 times as wide": _ranges(16.0, True),
    "the last row's scale doubled": _last_scale,
    "the pooler's tanh left out": _rewire("TANH"),
    "a vector of another length than 1": _rewire("L2_NORMALIZATION"),
    "softmax twice": _softmax_twice,
    "an activation that ends at 6": _saturated,
    "ReLU that ends at 6": _ends_at_6,
    "integers rounded to 8 times the step": _coarse(8.0),
    "values handed on 1.05 times": _larger_steps("RESHAPE", 1.05),
    "transposed values 1.2 times": _larger_steps("TRANSPOSE", 1.2),
    "range of what is joined 4 times as wide": _larger_steps("CONCATENATION", 4.0, inputs=True),
    "inputs of one signature exchanged": _of_entry("inputs", 0, 1),
    "outputs of one signature exchanged": _of_entry("outputs", 0, 1),
    "keys of two signatures exchanged": _exchange_signatures("signatureKey"),
    "subgraphs of two signatures exchanged": _exchange_signatures("subgraphIndex"),
    "scales of rows called those of columns": _columns,
    "a bias of the long signature": _bias_of_long,
    "scale of a block doubled": _block_scale,
    "a matrix with a zero point": _zero_point,
    "weights called shuffled": _option("FULLY_CONNECTED", "weightsFormat", 1),
}
