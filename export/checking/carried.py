"""The ranges that a quantization-aware model carries, in its float32 file and in its int8 file.

The converter writes each of them into the float32 file as QUANTIZE and DEQUANTIZE. What is left
without these two is the network in floats, which must be the student's float weights run in
floats; and the int8 file must have the same operators on the same numbers, rounded in the same
places with the same scale and zero point.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from .pairing import RECODING, Pair, chain
from .ranges import FIXED, HANDING_ON

_SAME = 1e-5  # relative; scales are float32
_MOST_LINES = 5
# Kernels give these their range, (scale, zero point); the model's own one follows.
_OF_KERNELS = {"SOFTMAX": (1 / 256, -128), "LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0)}
_RELU = schema.ActivationFunctionType.RELU


@dataclasses.dataclass(frozen=True)
class Step:
    """The scale and zero point of a tensor that is stored as int8."""

    scale: float  # the difference of neighbours
    point: int  # the number that stands for 0, of int8

    def same(self, other: Step) -> bool:
        """Whether two are equal but for the rounding of float32."""
        return self.point == other.point and abs(self.scale / other.scale - 1) <= _SAME


# Where a number is rounded before it is used: (operator, input) of a signature's subgraph without
# QUANTIZE and DEQUANTIZE; of its outputs (-1, tensor).
Places = dict[tuple[int, int], Step]


def remove(model: Any) -> dict[str, Places]:
    """Removes QUANTIZE and DEQUANTIZE from a quantization-aware model's float32 file, in place.

    Returns key of a signature -> where they were.
    """
    return {
        text(entry.signatureKey): _remove(model, entry, model.subgraphs[entry.subgraphIndex])
        for entry in model.signatureDefs or []
    }


def _remove(model: Any, entry: Any, graph: Any) -> Places:
    source: dict[int, int] = {}
    steps: dict[int, Step] = {}
    places: Places = {}
    operators = []
    for operator in graph.operators:
        read, name = int(operator.inputs[0]), editing.name_of(model, operator)
        if name in RECODING:
            written = int(operator.outputs[0])
            source[written] = source.get(read, read)
            step = _step(graph.tensors[written]) or steps.get(read)
            if step is not None:
                steps[written] = step
            continue
        for position, index in enumerate(operator.inputs):
            if int(index) in steps:
                places[len(operators), position] = steps[int(index)]
        if name in HANDING_ON and read in steps and len(operator.outputs) == 1:
            steps[int(operator.outputs[0])] = steps[read]
        operator.inputs = [source.get(int(index), int(index)) for index in operator.inputs]
        operators.append(operator)
    graph.operators = operators
    graph.outputs = [_renamed(places, steps, source, int(index)) for index in graph.outputs]
    for item in entry.outputs:
        item.tensorIndex = source.get(item.tensorIndex, item.tensorIndex)
    return places


def _renamed(places: Places, steps: dict[int, Step], source: dict[int, int], index: int) -> int:
    renamed = source.get(index, index)
    if index in steps:
        places[-1, renamed] = steps[index]
    return renamed


def split_activations(model: Any) -> None:
    """Gives a ReLU that is part of another operator one of its own, as floats have it; in place."""
    for graph in model.subgraphs:
        operators = []
        for operator in graph.operators:
            operators.append(operator)
            options = operator.builtinOptions
            if options is None or vars(options).get("fusedActivationFunction") != _RELU:
                continue
            (result,) = (int(index) for index in operator.outputs)
            before = editing.add_tensor_like(
                graph, f"{text(graph.tensors[result].name)}/before", result
            )
            options.fusedActivationFunction = schema.ActivationFunctionType.NONE
            operator.outputs = [before]
            relu = schema.BuiltinOperator.RELU
            operators.append(editing.new_operator(model, relu, 1, [before], [result]))
        graph.operators = operators


def _step(tensor: Any) -> Step | None:
    """Returns how a tensor of 8 bits is stored; None for others and for one scale a row."""
    stored, kind = editing.step_of(tensor), editing.dtype_of(tensor)
    if kind not in ("int8", "uint8") or stored is None:
        return None
    return Step(stored[0], stored[1] - (128 if kind == "uint8" else 0))


def check(carried: Mapping[str, Places], pairs: Sequence[Pair]) -> list[str]:
    """Lists where the int8 file rounds in another way than its model: a line for the first places.

    `carried` is what `remove` returned for the float32 file, with which the other is paired.
    """
    faults: list[str] = []
    for pair in pairs:
        places = carried[pair.key]
        constants = {(constant.operator, constant.position) for constant in pair.constants}
        kinds = {out: operation.kind for operation in pair.operations for out in operation.outputs}
        for operation in pair.operations:
            for position, tensor in enumerate(operation.inputs):
                if tensor < 0:
                    continue
                expected = places.get((operation.float_index, position))
                what = f"{pair.key}, rounding of input {position} of {operation.name}"
                if expected is None and (operation.name, position) in constants:
                    continue  # `rounding` holds it against its value
                faults += _faults(pair, what, expected, tensor, kinds, operation.kind)
        for float_tensor, tensor_in_file in pair.outputs.items():
            what = f"{pair.key}, rounding of the output"
            faults += _faults(pair, what, places.get((-1, float_tensor)), tensor_in_file, kinds, "")
    return faults[:_MOST_LINES]


def _faults(
    pair: Pair,
    what: str,
    expected: Step | None,
    tensor: int,
    kinds: Mapping[int, str],
    reader: str,
) -> list[str]:
    """Holds one number that is read against the model's rounding of it."""
    way = chain(pair, tensor)
    steps = [step for step in (_step(pair.graph.tensors[index]) for index in way) if step]
    of_kernel = _OF_KERNELS.get(kinds.get(way[-1], ""))
    extra = [step for step in steps[1:] if not step.same(steps[0])]
    if of_kernel is not None:
        extra = [step for step in extra if not step.same(Step(*of_kernel))]
    if extra:
        return [errors.explain(what, "one step", f"a second one of {extra[0].scale:.6g}")]
    if expected is None:
        if steps and reader not in HANDING_ON:
            return [errors.explain(what, "floats", f"steps of {steps[0].scale:.6g}")]
        return []
    if not steps:
        if reader == "RELU":  # it was part of the operator before: one rounding for the two
            return []
        return [errors.explain(what, f"steps of {expected.scale:.6g}", "floats")]
    if expected.same(steps[0]):
        return []
    shown = [f"steps of {step.scale:.6g} around {step.point}" for step in (expected, steps[0])]
    return [errors.explain(what, *shown)]


assert set(_OF_KERNELS) == set(FIXED)
