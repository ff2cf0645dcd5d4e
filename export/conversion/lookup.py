"""GATHER from a table of vectors -> EMBEDDING_LOOKUP, which quantizers can store.

The litert-quantizer leaves the table of a GATHER in float32: three quarters of a small model. The
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
    """Replaces each chosen GATHER by RESHAPE, EMBEDDING_LOOKUP and RESHAPE, in place; same answers.

    `chosen` is called with the tensor of the table, of rank 2, and the name of the output. Returns
    how many were replaced.
    """

    def middle(gather: Any, flat: int, rows: int) -> Any:
        inputs = [flat, int(gather.inputs[0])]
        return editing.new_operator(model, _LOOKUP, _LOOKUP_VERSION, inputs, [rows])

    def wanted(graph: Any, gather: Any) -> bool:
        name = text(graph.tensors[gather.outputs[0]].name)
        return chosen(graph.tensors[gather.inputs[0]], name)

    return replace_gathers(model, wanted, middle)


def replace_gathers(
    model: Any,
    chosen: Callable[[Any, Any], bool],
    middle: Callable[[Any, int, int], Any],
) -> int:
    """Replaces each chosen GATHER of whole rows by RESHAPE, another operator and RESHAPE, in place.

    `chosen` is called with subgraph and operator. `middle` makes the operator that looks rows up;
    it is called with the operator, the tensor of flat ids (n,) and the tensor of their rows (n,
    width). Returns the number of replaced operators.
    """
    replaced = 0
    for graph in model.subgraphs:
        operators = []
        for operator in graph.operators:
            if not gathers_rows(model, graph, operator) or not chosen(graph, operator):
                operators.append(operator)
                continue
            table, ids = (int(index) for index in operator.inputs)
            output = int(operator.outputs[0])
            name = text(graph.tensors[output].name)
            num_rows = int(np.prod(graph.tensors[ids].shape))
            flat = editing.add_tensor(graph, f"{name}/ids", [num_rows], schema.TensorType.INT32)
            shape = [num_rows, int(graph.tensors[table].shape[1])]
            rows = editing.add_tensor(graph, f"{name}/rows", shape, graph.tensors[table].type)
            operators += [
                reshape(model, graph, ids, flat),
                middle(operator, flat, rows),
                reshape(model, graph, rows, output),
            ]
            replaced += 1
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
