"""The facts that must hold of an exported file before it is run."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tfdistill import errors
from tfdistill.tflite import editing
from tfdistill.tflite.inspection import GraphReport, ModelReport

from ..conversion import prepare
from ..conversion.prepare import ExportPlan
from ..conversion.quantize import SMALLEST_QUANTIZED, Quantization
from ..file import metadata
from ..model import signature
from .evidence import Evidence
from .pairing import Constant, Operation, Pair
from .ranges import HANDING_ON

# Operators that only exist where a variable was not frozen into the file.
_VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
# Where most of the arithmetic is.
_PRODUCTS = ("FULLY_CONNECTED", "BATCH_MATMUL")
# Operator of the float32 file and the input that is a layer's matrix or table.
_MATRIX_INPUTS = (("FULLY_CONNECTED", 1), ("GATHER", 0))


def signatures(evidence: Evidence) -> list[str]:
    """One signature for each length, static int32 inputs and float32 outputs, bound by name."""
    return signature_faults(evidence.report, evidence.plan)


def operators(evidence: Evidence) -> list[str]:
    """Only built-in operators, no variables, nothing of dynamic shape."""
    return [fault for graph in evidence.report.graphs for fault in graph_faults(graph)]


def versions(evidence: Evidence) -> list[str]:
    """No operator of a version that a runtime registers which answers wrongly."""
    return [
        errors.explain(f"version of {name}", f"at least {version}", "a lower one")
        for name, version in evidence.report.understated.items()
    ]


def packed_files(evidence: Evidence) -> list[str]:
    """The vocabulary and the labels that MediaPipe reads from the file, where it carries them."""
    plan = evidence.plan
    if not plan.metadata or plan.tokenizer is None:
        return []
    return metadata.packed_faults(evidence.file, tokenizer=plan.tokenizer, labels=plan.labels)


def signature_faults(report: ModelReport, plan: ExportPlan) -> list[str]:
    """Lists what is wrong with the names, types and shapes of the signatures."""
    faults = []
    names = [signature.signature_name(length) for length in plan.lengths]
    if sorted(names) != sorted(report.signatures):
        faults.append(errors.explain("signatures", names, sorted(report.signatures)))
    for name, length in zip(names, plan.lengths, strict=True):
        graph = report.signatures.get(name)
        if graph is None:
            continue
        wanted: dict[str, tuple[str, tuple[int, ...]]] = {
            key: ("int32", (1, length)) for key in plan.model.input_names
        }
        received = {t.name: (t.dtype, t.shape) for t in graph.inputs}
        if wanted != received:
            faults.append(errors.explain(f"inputs of {name}", wanted, received))
        shape = plan.head.output_shape(length, plan.num_labels)
        outputs = plan.head.output_names(softmax=plan.request.softmax)
        wanted = {key: ("float32", shape) for key in sorted(outputs)}
        received = {t.name: (t.dtype, t.shape) for t in graph.outputs}
        if wanted != received:
            faults.append(errors.explain(f"outputs of {name}", wanted, received))
    return faults


def graph_faults(graph: GraphReport) -> list[str]:
    """Lists the operators and tensors that no file may have."""
    where = graph.signature or "a graph without signature"
    faults = []
    custom = [name for name in graph.operators if name.startswith(("CUSTOM:", "operator "))]
    if custom:
        faults.append(errors.explain(f"operators of {where}", "built-in ones only", custom))
    variables = [name for name in graph.operators if name in _VARIABLES]
    if variables:
        faults.append(errors.explain(f"operators of {where}", "no variables", variables))
    if graph.dynamic_tensors:
        faults.append(
            errors.explain(f"tensors of {where}", "static shapes", graph.dynamic_tensors[:3])
        )
    return faults


def wrong_types(evidence: Evidence) -> list[str]:
    """Lists the matrices and tables that are stored in another type than their layer should be.

    Bytes alone do not show that two layers have each other's type. Small matrices stay out, and
    those whose layers are to be stored differently or are not named.
    """
    plan = evidence.plan
    if plan.is_float or plan.quantize_aware:
        return []
    matrices = set(prepare.with_matrices(plan.model))
    faults: dict[str, str] = {}
    for pair in evidence.pairs:
        for constant in pair.constants:
            tensor = pair.graph.tensors[constant.tensor]
            size = math.prod(editing.shape_of(tensor))
            place = (constant.kind, constant.position)
            if place not in _MATRIX_INPUTS or size < SMALLEST_QUANTIZED:
                continue
            layers = sorted(matrices & set(re.split("[;/]", constant.operator)))
            formats = {plan.layers.get(layer, plan.quantization) for layer in layers}
            if len(formats) == 1:
                expected, received = _type(formats.pop()), _stored_type(tensor)
                if expected != received:
                    what = f"type of {' and '.join(layers)}"
                    faults.setdefault(what, errors.explain(what, expected, received))
    return list(faults.values())


def wrong_activations(evidence: Evidence) -> list[str]:
    """Lists what is computed in another type than its layer should be.

    With static activations products read int8, and whatever else is stored as integers is int8;
    otherwise nothing that is computed is stored as integers, but for rows that are looked up.
    Weights become floats before their product where they alone are quantized.
    """
    plan = evidence.plan
    if plan.is_float or plan.quantize_aware:
        return []
    named = {layer.name for layer in plan.model.layers}
    faults: dict[str, str] = {}
    for pair in evidence.pairs:
        constants = {(one.operator, one.position): one for one in pair.constants}
        for operation in pair.operations:
            layers = sorted(named & set(re.split("[;/]", operation.name)))
            formats = {plan.layers.get(layer, plan.quantization) for layer in layers}
            if len(formats) > 1 or operation.kind in HANDING_ON:
                continue
            quantization = formats.pop() if formats else plan.quantization
            static = quantization.method == "static"
            expected = "int8" if static else "float32"
            received = _activation_types(pair, operation, constants) - {expected}
            if received:
                what = f"activations of {operation.name}"
                faults.setdefault(what, errors.explain(what, expected, min(received)))
            weights = constants.get((operation.name, 1))
            if weights is None or operation.kind != "FULLY_CONNECTED":
                continue
            integers = editing.dtype_of(pair.graph.tensors[weights.tensor]) in ("int4", "int8")
            if integers and weights.recoded != (quantization.method == "weight_only"):
                what = f"weights of {operation.name}"
                forms = ("multiplied as integers", "made floats before the product")
                if weights.recoded:
                    forms = forms[::-1]
                faults.setdefault(what, errors.explain(what, *forms[::-1]))
    return list(faults.values())


def _activation_types(
    pair: Pair, operation: Operation, constants: Mapping[tuple[str, int], Constant]
) -> set[str]:
    """Returns the types that a product reads and gives, of other operators those of integers."""
    tensors = [operation.outputs[0]]
    if operation.kind in _PRODUCTS:
        tensors += [
            tensor
            for position, tensor in enumerate(operation.inputs[:2])
            if (operation.name, position) not in constants
        ]
    types = {editing.dtype_of(pair.graph.tensors[tensor]) for tensor in tensors}
    return types if operation.kind in _PRODUCTS else types & {"int8"}


def _type(quantization: Quantization) -> str:
    if quantization.method == "float":
        return quantization.name
    block = f" in blocks of {quantization.block}" if quantization.block else ""
    return f"int{quantization.weight_bits}{block}"


def _stored_type(tensor: Any) -> str:
    details = None if tensor.quantization is None else tensor.quantization.details
    size = 0 if details is None or details.scales is None else details.blockSize
    return f"{editing.dtype_of(tensor)}{f' in blocks of {size}' if size else ''}"
