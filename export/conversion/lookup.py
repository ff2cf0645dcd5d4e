"""GATHER from a table of vectors -> EMBEDDING_LOOKUP, which quantizers can store.

The ai-edge-quantizer leaves the table of a GATHER in float32: three quarters of a small model. The
same rows through EMBEDDING_LOOKUP may be int8 or int4 with a scale of their own, and only the rows
that are looked up become floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

_LOOKUP = schema.BuiltinOperator.EMBEDDING_LOOKUP
_RESHAPE = schema.BuiltinOperator.RESHAPE
_LOOKUP_VERSION = 4  # the first with a scale for each row


def use_lookups(model: Any, chosen: Callable[[Any, str], bool]) -> int:
    """Replaces each chosen GATHER by RESHAPE, EMBEDDING_LOOKUP and RESHAPE; same answers.

    Args:
      model: A float model (`editing.read`); changed in place.
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
            if gathers_rows(model, graph, operator) and chosen(
                graph.tensors[operator.inputs[0]], name
            ):
                operators += _lookup(model, graph, operator, name)
                replaced += 1
            else:
                operators.append(operator)
        graph.operators = operators
    return replaced


def gathers_rows(model: Any, graph: Any, operator: Any) -> bool:
    """Whether an operator looks rows up in a constant table."""
    if editing.name_of(model, operator) != "GATHER":
        return False
    table = graph.tensors[operator.inputs[0]]
    options = operator.builtinOptions
    return (
        len(table.shape) == 2
        and editing.constant(model, table) is not None
        and options.axis == 0
        and options.batchDims == 0
    )


def _lookup(model: Any, graph: Any, gather: Any, name: str) -> list[Any]:
    """Returns what replaces a GATHER."""
    table, ids = gather.inputs
    (output,) = gather.outputs
    tensors = graph.tensors
    num_rows = int(np.prod(tensors[ids].shape))
    flat = editing.add_tensor(graph, f"{name}/ids", [num_rows], schema.TensorType.INT32)
    rows_shape = [num_rows, int(tensors[table].shape[1])]
    rows = editing.add_tensor(graph, f"{name}/rows", rows_shape, tensors[table].type)
    lookup = editing.new_operator(model, _LOOKUP, _LOOKUP_VERSION, [flat, table], [rows])
    return [reshape(model, graph, ids, flat), lookup, reshape(model, graph, rows, output)]


def reshape(model: Any, graph: Any, source: int, target: int) -> Any:
    """Makes the operator that gives a tensor the shape of another."""
    shape = [int(size) for size in graph.tensors[target].shape]
    name = f"{text(graph.tensors[target].name)}/shape"
    sizes = editing.add_constant(model, graph, name, np.array(shape, np.int32))
    operator = editing.new_operator(model, _RESHAPE, 1, [source, sizes], [target])
    operator.builtinOptionsType = schema.BuiltinOptions.ReshapeOptions
    operator.builtinOptions = schema.ReshapeOptionsT()
    operator.builtinOptions.newShape = shape
    return operator
