"""The cost of a number format by itself: the float32 network with the format's rounding in it.

The float32 file is written again with each constant replaced by what the quantized file stores for
it. Where that file stores activations as integers, they are rounded to its steps here, too: static
ones by QUANTIZE and DEQUANTIZE with the file's own scales, dynamic ones by operators that find the
range of each row of a matrix product. It then computes in floats what the quantized file computes
in integers, so its error is the one that the file should have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfdistill.io import files
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from . import weights
from .pairing import Operation, Pair, chain

_LEVELS = 255  # steps of a row that is rounded to int8 when the product is computed
_LEAST_STEP = 1e-30  # of a row of zeros
_MATRICES = ("int4", "int8")


def write(float_model: Any, model: Any, pairs: list[Pair], path: files.Path) -> None:
    """Writes the float32 network, which is changed, with the rounding of a quantized file."""
    held: dict[tuple[Any, ...], int] = {}
    for pair in pairs:
        for constant in pair.constants:
            key = weights.stored_once(pair, constant)
            if key not in held:
                value = weights.dequantized(float_model, model, pair, constant)
                held[key] = editing.add_buffer(float_model, value)
            pair.float_graph.tensors[constant.float_tensor].buffer = held[key]
    editing.drop_unused_buffers(float_model)
    for pair in pairs:
        _Rounded(float_model, model, pair).run()
    editing.write(float_model, path)


class _Rounded:
    """Puts rounding between the operators of one signature of the float32 file."""

    def __init__(self, float_model: Any, model: Any, pair: Pair) -> None:
        self._float_model, self._model, self._found = float_model, model, pair
        self._graph = pair.float_graph
        self._made: dict[tuple[int, tuple[int, ...]], int] = {}
        self._rows: dict[int, int] = {}
        self._operators: list[Any] = []

    def run(self) -> None:
        """Rewrites the operators and the signature's outputs."""
        operations = {operation.float_index: operation for operation in self._found.operations}
        for index, operator in enumerate(self._graph.operators):
            if index in operations:
                self._read_rounded(operator, operations[index])
            self._operators.append(operator)
        changed = {}
        for float_tensor, tensor in self._found.outputs.items():
            changed[float_tensor] = self._static(float_tensor, tensor)
        self._graph.outputs = [changed.get(int(i), int(i)) for i in self._graph.outputs]
        for entry in self._float_model.signatureDefs:
            if self._float_model.subgraphs[entry.subgraphIndex] is self._graph:
                for item in entry.outputs:
                    item.tensorIndex = changed.get(item.tensorIndex, item.tensorIndex)
        self._graph.operators = self._operators

    def _read_rounded(self, operator: Any, operation: Operation) -> None:
        inputs = []
        for float_tensor, in_file in zip(operator.inputs, operation.inputs, strict=True):
            index = int(float_tensor)
            tensor = self._graph.tensors[index] if index >= 0 else None
            if tensor is not None and editing.constant(self._float_model, tensor) is None:
                index = self._static(index, in_file)
                if not inputs and self._is_dynamic(operation):
                    index = self._dynamic(index)
            inputs.append(index)
        operator.inputs = inputs

    def _is_dynamic(self, operation: Operation) -> bool:
        """Whether the file rounds the rows of a product's first factor when it computes it."""
        if operation.kind != "FULLY_CONNECTED":
            return False
        kinds = [editing.dtype_of(self._found.graph.tensors[i]) for i in operation.inputs[:2]]
        return kinds[0] == "float32" and kinds[1] in _MATRICES

    def _static(self, tensor: int, in_file: int) -> int:
        """Returns a tensor rounded as often as the quantized file rounds it on its way here."""
        way = chain(self._found, in_file)
        stored = tuple(i for i in reversed(way) if self._is_stored_as_integer(i))
        key = (tensor, stored)
        if stored and key not in self._made:
            source = self._made.get((tensor, stored[:-1]), tensor)
            if stored[:-1] and (tensor, stored[:-1]) not in self._made:
                source = self._static(tensor, way[way.index(stored[-1]) + 1])
            self._made[key] = self._rounded(source, self._found.graph.tensors[stored[-1]])
        return self._made.get(key, tensor)

    def _is_stored_as_integer(self, index: int) -> bool:
        tensor = self._found.graph.tensors[index]
        return editing.dtype_of(tensor) == "int8" and editing.step_of(tensor) is not None

    def _rounded(self, source: int, like: Any) -> int:
        """Adds QUANTIZE to the type and scale of a tensor, and DEQUANTIZE."""
        name = f"{text(self._graph.tensors[source].name)}/rounded"
        integers = editing.add_tensor_like(self._graph, f"{name}/q", source)
        self._graph.tensors[integers].type = like.type
        self._graph.tensors[integers].quantization = like.quantization
        floats = editing.add_tensor_like(self._graph, name, source)
        for code, read, written in (
            (schema.BuiltinOperator.QUANTIZE, source, integers),
            (schema.BuiltinOperator.DEQUANTIZE, integers, floats),
        ):
            self._operators.append(self._new(code, 2, [read], written))
        return floats

    def _dynamic(self, source: int) -> int:
        """Adds the rounding of each row to 256 values from its least to its greatest."""
        if source in self._rows:
            return self._rows[source]
        ops, shape = schema.BuiltinOperator, self._graph.tensors[source].shape
        row_shape = [*(int(size) for size in shape[:-1]), 1]
        axis = self._constant(np.array([len(shape) - 1], np.int32))

        def row(code: int, inputs: list[int], options: Any = None, kind: int = 0) -> int:
            return self._add(code, inputs, row_shape, options, kind)

        reducing = schema.ReducerOptionsT()
        reducing.keepDims = True
        reduced = schema.BuiltinOptions.ReducerOptions
        most = row(ops.REDUCE_MAX, [source, axis], reducing, reduced)
        least = row(ops.REDUCE_MIN, [source, axis], reducing, reduced)
        span = row(ops.SUB, [most, least], schema.SubOptionsT(), schema.BuiltinOptions.SubOptions)
        factor = self._constant(np.array(1 / _LEVELS, np.float32))
        step = row(ops.MUL, [span, factor], schema.MulOptionsT(), schema.BuiltinOptions.MulOptions)
        tiny = self._constant(np.array(_LEAST_STEP, np.float32))
        step = row(ops.MAXIMUM, [step, tiny])
        whole = [int(size) for size in shape]
        steps = self._add(
            ops.DIV, [source, step], whole, schema.DivOptionsT(), schema.BuiltinOptions.DivOptions
        )
        steps = self._add(ops.ROUND, [steps], whole)
        self._rows[source] = self._add(
            ops.MUL, [steps, step], whole, schema.MulOptionsT(), schema.BuiltinOptions.MulOptions
        )
        return self._rows[source]

    def _add(
        self, code: int, inputs: list[int], shape: list[int], options: Any = None, kind: int = 0
    ) -> int:
        name = f"{text(self._graph.tensors[inputs[0]].name)}/{len(self._graph.tensors)}"
        result = editing.add_tensor(self._graph, name, shape, schema.TensorType.FLOAT32)
        operator = self._new(code, 1, inputs, result)
        operator.builtinOptions, operator.builtinOptionsType = options, kind
        self._operators.append(operator)
        return result

    def _constant(self, value: np.ndarray) -> int:
        name = f"rounding/{len(self._graph.tensors)}"
        return editing.add_constant(self._float_model, self._graph, name, value)

    def _new(self, code: int, version: int, inputs: list[int], output: int) -> Any:
        return editing.new_operator(self._float_model, code, version, inputs, [output])
