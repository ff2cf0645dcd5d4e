"""The form of a file that a CPU or a GPU takes whole and answers rightly.

Found with LiteRT 2.3 and its WebGPU accelerator on SwiftShader; no export runs a GPU:

* A GPU takes GATHER with ids (L,) only, and of int8 tables only EMBEDDING_LOOKUP with a scale for
  each row: others give zeros or wrong numbers, though all is delegated.
* A GPU reads (L, d) + (1, L, d) as another broadcast, and does not compile a FULLY_CONNECTED of
  integers that makes (L, d) of (1, L, e): what an operator reads needs the rank of its result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from . import lookup
from .quantize import Quantization

_STATIC = "it computes in floats; static integers are for integer units"
_ELEMENTWISE = ("ADD", "SUB", "MUL", "SQUARED_DIFFERENCE")
_IN_BLOCKS = ("dynamic_wi4_afp32_block32", "dynamic_wi4_afp32_block64")
_BLOCKS = "LiteRT's GPU delegate crashes on weights in blocks"


@dataclasses.dataclass(frozen=True)
class DeviceForm:
    """The form of a file for one kind of processor."""

    name: str  # "cpu" or "gpu"
    # whether tables are looked up with ids (L,), and those of integers by row
    flat_ids: bool = False
    # quantization -> why it is not offered
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)
    instead: str = ""  # what to take instead

    def stored(self, quantization: Quantization) -> Quantization:
        """Returns a quantization as this form stores it: with a scale for each row of a table."""
        if not self.flat_ids:
            return quantization
        return dataclasses.replace(quantization, table_scales="row")


FORMS: dict[str, DeviceForm] = {
    "cpu": DeviceForm("cpu"),
    "gpu": DeviceForm(
        "gpu",
        flat_ids=True,
        refused={
            "float16": "it does not take the tables; it computes float32 files in 16 bits as well",
            "weight_only_wi8_afp32": "its answers are wrong there",
            **dict.fromkeys(_IN_BLOCKS, _BLOCKS),
            "static_wi8_ai8": _STATIC,
        },
        instead="float32, dynamic_wi8_afp32 or dynamic_wi4_afp32",
    ),
}


def form(name: str, *quantizations: Quantization) -> DeviceForm:
    """Returns the form for a "cpu" or "gpu" of a file with these quantizations."""
    if name not in FORMS:
        raise errors.ConfigError("device", ", ".join(FORMS), repr(name))
    device_form = FORMS[name]
    for quantization in quantizations:
        if (why := device_form.refused.get(quantization.name)) is not None:
            raise errors.ConfigError(
                f"quantize for {name}",
                device_form.instead,
                quantization.name,
                f"Not offered: {why}.",
            )
    return device_form


def flatten_ids(model: Any) -> int:
    """Replaces GATHER with ids (1, L) by RESHAPE, GATHER with ids (L,) and RESHAPE, in place.

    Tables of integers stay as they are. Returns how many were replaced.
    """

    def wanted(graph: Any, gather: Any) -> bool:
        table, ids = (graph.tensors[index] for index in gather.inputs[:2])
        return table.type == schema.TensorType.FLOAT32 and len(ids.shape) != 1

    def middle(gather: Any, flat: int, rows: int) -> Any:
        gather.inputs, gather.outputs = [int(gather.inputs[0]), flat], [rows]
        return gather

    return lookup.replace_gathers(model, wanted, middle)


def equal_ranks(model: Any) -> int:
    """Gives what an operator adds or multiplies the rank of its result, by RESHAPE, in place.

    Returns how many operands got another rank.
    """
    changed = 0
    for graph in model.subgraphs:
        operators = []
        for operator in graph.operators:
            name = editing.name_of(model, operator)
            rank = len(editing.shape_of(graph.tensors[operator.outputs[0]]))
            inputs = [int(index) for index in operator.inputs]
            for position, index in enumerate(inputs):
                whole = shape = list(editing.shape_of(graph.tensors[index]))
                if name in _ELEMENTWISE and 2 <= len(shape) < rank:
                    whole = [1] * (rank - len(shape)) + shape
                elif name == "FULLY_CONNECTED" and position == 0 and len(shape) > rank == 2:
                    whole = [int(np.prod(shape[:-1])), shape[-1]]
                if whole != shape:
                    title = f"{text(graph.tensors[index].name)}/rank{rank}"
                    kind = graph.tensors[index].type
                    inputs[position] = editing.add_tensor(graph, title, whole, kind)
                    operators.append(lookup.reshape(model, graph, index, inputs[position]))
                    changed += 1
            operator.inputs = inputs
            operators.append(operator)
        graph.operators = operators
    return changed
