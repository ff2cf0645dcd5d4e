"""What must be true of an exported file before it is run."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

from tfdistill import errors, models
from tfdistill.tflite import editing
from tfdistill.tflite.inspection import GraphReport, ModelReport

from ..conversion import prepare
from ..conversion.prepare import ExportPlan, StoredWeight
from ..conversion.quantize import SMALLEST_QUANTIZED, Quantization
from ..file import metadata
from ..model import signature
from ..model.heads import OutputHead
from .evidence import Evidence
from .pairing import Constant, Operation, Pair
from .ranges import HANDING_ON

# Operators that only exist where a variable was not frozen into the file.
_VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
# Where most of the arithmetic is: with static activations none of it may be left in floats.
_PRODUCTS = ("FULLY_CONNECTED", "BATCH_MATMUL")
# Operator of the float32 file and the input that is a layer's matrix or table.
_MATRIX_INPUTS = (("FULLY_CONNECTED", 1), ("GATHER", 0))


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a file is expected to hold."""

    # how its numbers are stored, but for weights with another quantization
    quantization: Quantization
    lengths: tuple[int, ...]
    inputs: tuple[str, ...]  # names of the inputs of every signature
    head: OutputHead
    outputs: tuple[str, ...]  # names of the outputs
    num_labels: int  # width of the outputs of a classifier
    weights: tuple[StoredWeight, ...]  # the model's weights, except the position table
    position_width: int  # width of the position table, of which each signature keeps its first rows

    @property
    def is_mixed(self) -> bool:
        """Whether some layers are stored in another way than the file."""
        return any(weight.quantization != self.quantization for weight in self.weights)

    @property
    def weight_bytes(self) -> tuple[float, float]:
        """Bytes that the constants should take together: the least and the most."""
        least, most = self.quantization.bytes_per_constant
        if self.is_mixed:  # the ai-edge-quantizer casts nothing but matrices to float16
            most = max(most, 4)
        # With static activations each signature has biases, scales and positions of its own.
        copies = len(self.lengths) if self.quantization.method == "static" else 1
        positions = sum(self.lengths) * self.position_width
        totals = [positions * float(least), positions * float(most)]
        for weight in self.weights:
            stored_as = weight.quantization
            size = weight.num_elements
            if weight.is_matrix:
                both = (size * stored_as.bytes_per_weight,) * 2
            else:
                both = (
                    size * stored_as.bytes_per_constant[0],
                    size * max(most, stored_as.bytes_per_constant[1]),
                )
                both = both[0], both[1] * copies
            totals[0] += both[0]
            totals[1] += both[1]
        return totals[0], totals[1]


def _left_out(expected: Expectation) -> float:
    """Returns the bytes that may be missing: biases of zero, scales of one, equal vectors."""
    most = max(4, expected.quantization.bytes_per_constant[1])
    return sum(most * weight.num_elements for weight in expected.weights if len(weight.shape) < 2)


def expectation(plan: ExportPlan) -> Expectation:
    """Returns what a plan's file is expected to hold."""
    over_words = isinstance(plan.config, models.WordVectorConfig)
    weights = prepare.stored_weights(plan.model, plan.quantization, plan.layers)
    return Expectation(
        quantization=plan.quantization,
        lengths=plan.lengths,
        inputs=tuple(plan.model.input_names),
        head=plan.head,
        outputs=plan.head.output_names(softmax=plan.request.softmax),
        num_labels=plan.num_labels,
        weights=tuple(weights),
        position_width=0 if over_words else plan.config.hidden_size,
    )


def signatures(evidence: Evidence) -> list[str]:
    """One signature for each length, static int32 inputs and float32 outputs, bound by name."""
    return signature_faults(evidence.report, expectation(evidence.plan))


def operators(evidence: Evidence) -> list[str]:
    """Only built-in operators, no variables, nothing of dynamic shape."""
    return [fault for graph in evidence.report.graphs for fault in graph_faults(graph)]


def versions(evidence: Evidence) -> list[str]:
    """No operator of a version that a runtime registers which answers wrongly."""
    return [
        errors.explain(f"version of {name}", f"at least {version}", "a lower one")
        for name, version in evidence.report.understated.items()
    ]


def floats_left(evidence: Evidence) -> list[str]:
    """With static activations no product is left in floats, with integers only no operator."""
    expected = expectation(evidence.plan)
    return [fault for graph in evidence.report.graphs for fault in float_faults(graph, expected)]


def sizes(evidence: Evidence) -> list[str]:
    """Constants that take as many bytes as the weights should, each stored once."""
    return size_faults(evidence.report, expectation(evidence.plan))


def packed_files(evidence: Evidence) -> list[str]:
    """The vocabulary and the labels that MediaPipe reads from the file, where it carries them."""
    plan = evidence.plan
    if not plan.metadata or plan.request.vocab_file is None:
        return []
    vocab_file = plan.request.vocab_file
    return metadata.packed_faults(evidence.file, vocab_file=vocab_file, labels=plan.labels)


def signature_faults(report: ModelReport, expected: Expectation) -> list[str]:
    """Lists what is wrong with the names, types and shapes of the signatures."""
    faults = []
    names = [signature.signature_name(length) for length in expected.lengths]
    if sorted(names) != sorted(report.signatures):
        faults.append(errors.explain("signatures", names, sorted(report.signatures)))
    for name, length in zip(names, expected.lengths, strict=True):
        graph = report.signatures.get(name)
        if graph is None:
            continue
        wanted: dict[str, tuple[str, tuple[int, ...]]] = {
            key: ("int32", (1, length)) for key in expected.inputs
        }
        received = {t.name: (t.dtype, t.shape) for t in graph.inputs}
        if wanted != received:
            faults.append(errors.explain(f"inputs of {name}", wanted, received))
        shape = expected.head.output_shape(length, expected.num_labels)
        wanted = {key: ("float32", shape) for key in sorted(expected.outputs)}
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


def float_faults(graph: GraphReport, expected: Expectation) -> list[str]:
    """Lists the operators that should not compute with floats."""
    quantization = expected.quantization
    if quantization.method != "static" or expected.is_mixed:
        return []
    left = {name: count for name, count in graph.float_operators.items() if name in _PRODUCTS}
    if not left:
        return []
    counts = ", ".join(f"{count} {name}" for name, count in sorted(left.items()))
    where = graph.signature or "a graph without signature"
    return [
        errors.explain(
            f"operators of {where}",
            f"integers ({quantization.name})",
            f"floats in {counts}",
        )
    ]


def size_faults(report: ModelReport, expected: Expectation) -> list[str]:
    """Compares the bytes of the constants with those of the weights."""
    least, most = expected.weight_bytes
    does = sum(report.weight_bytes.values())
    # The shapes and axes of the operators come on top: measured, some 100 bytes a signature.
    slack = 0.01 * most + 1024 * len(expected.lengths)
    if least - slack - _left_out(expected) <= does <= most + slack:
        return []
    problem = "a weight is stored twice or not quantized" if does > most else "weights are lost"
    should = f"{most:,.0f}" if least == most else f"{least:,.0f} to {most:,.0f}"
    return [
        errors.explain(
            "bytes of the constants",
            f"{should} within {int(slack):,} ({expected.quantization.name})",
            f"{does:,}",
            f"Probably {problem}.",
        )
    ]


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
