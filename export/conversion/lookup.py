"""GATHER from a table of vectors -> EMBEDDING_LOOKUP, which quantizers know how to store.

The ai-edge-quantizer leaves the table of a GATHER in float32: three quarters of a small model. The
same rows through EMBEDDING_LOOKUP may be int8 or int4 with a scale of their own, and only the rows
that are looked up become floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

GATHER = schema.BuiltinOperator.GATHER
_LOOKUP = schema.BuiltinOperator.EMBEDDING_LOOKUP
_RESHAPE = schema.BuiltinOperator.RESHAPE
_LOOKUP_VERSION = 4  # the first with a scale for each row


def use_lookups(model: Any, chosen: Callable[[Any, str], bool]) -> int:
    """Replaces each chosen GATHER by RESHAPE, EMBEDDING_LOOKUP and RESHAPE; same answers.

    Args:
      model: A float model (`flatbuffer.read`); changed in place.
      chosen: Whether a GATHER of whole rows is to be replaced: called with the tensor of its
        table, of rank 2, and the name of its output.

    Returns:
      How many were replaced.
    """
    replaced = 0
    for graph in model.subgraphs:
        operators = []
        for operator in graph.operators:
            name = text(graph.tensors[operator.outputs[0]].name) if len(operator.outputs) else ""
            if _gathers_rows(model, graph, operator) and chosen(
                graph.tensors[operator.inputs[0]], name
            ):
                operators += _lookup(model, graph, operator, name)
                replaced += 1
            else:
                operators.append(operator)
        graph.operators = operators
    return replaced


def builtin_code(model: Any, operator: Any) -> int:
    """Returns an operator's number in `schema.BuiltinOperator`."""
    code = model.operatorCodes[operator.opcodeIndex]
    return max(code.builtinCode, code.deprecatedBuiltinCode)


def constant(model: Any, tensor: Any) -> Any:
    """Returns the data of a constant, or None."""
    data = model.buffers[tensor.buffer].data
    return data if data is not None and len(data) else None


def text(value: bytes | str) -> str:
    """Returns a name of the flatbuffer as text."""
    return value.decode("utf-8") if isinstance(value, bytes) else value


def _gathers_rows(model: Any, graph: Any, operator: Any) -> bool:
    if builtin_code(model, operator) != GATHER:
        return False
    table = graph.tensors[operator.inputs[0]]
    options = operator.builtinOptions
    return (
        len(table.shape) == 2
        and constant(model, table) is not None
        and options.axis == 0
        and options.batchDims == 0
    )


def _lookup(model: Any, graph: Any, gather: Any, name: str) -> list[Any]:
    """Returns what replaces a GATHER."""
    table, ids = gather.inputs
    (output,) = gather.outputs
    tensors = graph.tensors
    num_rows = int(np.prod(tensors[ids].shape))
    flat = _add_tensor(graph, [num_rows], schema.TensorType.INT32, f"{name}/ids")
    rows_shape = [num_rows, int(tensors[table].shape[1])]
    rows = _add_tensor(graph, rows_shape, tensors[table].type, f"{name}/rows")
    lookup = schema.OperatorT()
    lookup.opcodeIndex = _code(model, _LOOKUP, _LOOKUP_VERSION)
    lookup.inputs, lookup.outputs = [flat, table], [rows]
    return [
        _reshape(model, graph, ids, flat),
        lookup,
        _reshape(model, graph, rows, output),
    ]


def _reshape(model: Any, graph: Any, source: int, target: int) -> Any:
    shape = [int(size) for size in graph.tensors[target].shape]
    buffer = schema.BufferT()
    buffer.data = np.array(shape, np.int32).view(np.uint8)
    model.buffers.append(buffer)
    name = f"{text(graph.tensors[target].name)}/shape"
    place = _add_tensor(graph, [len(shape)], schema.TensorType.INT32, name)
    graph.tensors[place].buffer = len(model.buffers) - 1
    operator = schema.OperatorT()
    operator.opcodeIndex = _code(model, _RESHAPE, 1)
    operator.inputs, operator.outputs = [source, place], [target]
    operator.builtinOptionsType = schema.BuiltinOptions.ReshapeOptions
    operator.builtinOptions = schema.ReshapeOptionsT()
    operator.builtinOptions.newShape = shape
    return operator


def _code(model: Any, builtin: int, version: int) -> int:
    """Returns the index of an operator code, added where the model has none."""
    for index, code in enumerate(model.operatorCodes):
        if max(code.builtinCode, code.deprecatedBuiltinCode) == builtin:
            code.version = max(code.version, version)
            return index
    code = schema.OperatorCodeT()
    code.builtinCode, code.deprecatedBuiltinCode, code.version = builtin, min(builtin, 127), version
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _add_tensor(graph: Any, shape: list[int], kind: int, name: str) -> int:
    tensor = schema.TensorT()
    tensor.shape, tensor.type, tensor.name = shape, kind, name.encode()
    tensor.buffer, tensor.hasRank = 0, True  # by the schema buffer 0 is the empty one
    graph.tensors.append(tensor)
    return len(graph.tensors) - 1
