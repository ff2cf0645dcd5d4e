"""The recipe of the litert-quantizer: a rule for the file, and one for each layer of its own.

An operator belongs to the layers whose names its output carries: the converter names
``model/layer_0_key/MatMul;model/layer_0_key/BiasAdd`` what it fused from these two.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from litert_quantizer.algorithm_manager import AlgorithmName
from litert_quantizer.qtyping import (
    ComputePrecision,
    OpQuantizationConfig,
    QuantGranularity,
    TensorDataType,
    TensorQuantizationConfig,
    TFLOperationName,
)
from litert_quantizer.utils import tfl_flatbuffer_utils

from tfdistill import errors
from tfdistill.tflite import editing

from . import lookup
from .quantize import SMALLEST_QUANTIZED, Quantization

_LOOKUP = "EMBEDDING_LOOKUP"
# Operators whose constants are the weights of a layer.
_WEIGHTS = ("FULLY_CONNECTED", _LOOKUP)
_WITH_MATRIX = (*_WEIGHTS, "GATHER")
_MIN_MAX = AlgorithmName.MIN_MAX_UNIFORM_QUANT
# Its rows have the integers of the table, and become floats then.
_GATHERED = OpQuantizationConfig(
    TensorQuantizationConfig(8, symmetric=True),
    TensorQuantizationConfig(8),
    ComputePrecision.INTEGER,
)


class Rule(NamedTuple):
    """The arguments of `Quantizer.update_quantization_recipe`."""

    regex: str
    operation: TFLOperationName
    config: OpQuantizationConfig | None = None
    algorithm: AlgorithmName = AlgorithmName.NO_QUANTIZE


def rules(
    model: Any,
    base: Quantization,
    layers: Mapping[str, Quantization],
    matrices: Sequence[str],
) -> list[Rule]:
    """Makes a recipe for the litert-quantizer; of rules that fit one operator the last counts.

    `matrices` names the layers that have a weight matrix, in the order of the model. Raises
    ExportError if one with a quantization of its own has no operator in the file, or shares one
    with a layer of another.
    """
    everything = TFLOperationName.ALL_SUPPORTED
    recipe = _rules_for(".*", base, (everything,) if base.method == "static" else _WEIGHTS)
    if base.method == "static":  # inputs and outputs keep the types of their signature
        recipe += [Rule(".*", TFLOperationName.INPUT), Rule(".*", TFLOperationName.OUTPUT)]
    with_operators: set[str] = set()
    written: set[str] = set()
    for graph in model.subgraphs:
        for operator in graph.operators:
            scope = tfl_flatbuffer_utils.get_op_scope(operator, graph.tensors)
            kind = editing.name_of(model, operator)
            owners = _owners(model, graph, operator, layers, matrices)
            with_operators |= owners
            chosen = _agreed({name: layers.get(name, base) for name in owners}, base)
            gathered = gathers_integers(model, graph, operator, chosen)
            if scope in written or (chosen == base and (not gathered or base.method == "static")):
                continue
            written.add(scope)
            regex = f"^{re.escape(scope)}$"
            recipe.append(Rule(regex, everything))
            if kind in _WEIGHTS:
                recipe += _rules_for(regex, chosen, (kind,))
            elif gathered:
                recipe.append(Rule(regex, TFLOperationName.GATHER, _GATHERED, _MIN_MAX))
    lost = sorted(name for name in layers if name in matrices and name not in with_operators)
    if lost:
        raise errors.ExportError(
            "layers with a quantization of their own",
            "an operator of each in the file",
            f"none of {', '.join(lost)}",
            "Leave them out of `layers`.",
        )
    return recipe


def gathers_integers(model: Any, graph: Any, operator: Any, quantization: Quantization) -> bool:
    """Whether an operator looks up rows of a table that has one scale."""
    return (
        quantization.table_scales == "table"
        and lookup.gathers_rows(model, graph, operator)
        and math.prod(graph.tensors[operator.inputs[0]].shape) >= SMALLEST_QUANTIZED
    )


def owner_of_table(name: str, matrices: Sequence[str]) -> str | None:
    """Returns the layer whose table gives the rows called `name`, or None."""
    return next((layer for layer in matrices if layer in _parts(name)), None)


def _owners(
    model: Any, graph: Any, operator: Any, layers: Collection[str], matrices: Sequence[str]
) -> set[str]:
    """Returns the layers that an operator computes.

    An operator with a constant matrix belongs to the layer of that matrix, whatever else was folded
    into it: layers with equal biases share one, which has the names of all of them.
    """
    scope = tfl_flatbuffer_utils.get_op_scope(operator, graph.tensors)
    parts = _parts(scope)
    if editing.name_of(model, operator) not in _WITH_MATRIX:
        return parts & {*layers, *matrices}
    if not parts & set(matrices) and set(operator.outputs) & set(graph.outputs):
        return {matrices[-1]}  # the answer itself is named after the signature
    products = _parts(";".join(name for name in scope.split(";") if name.endswith("/MatMul")))
    return products & set(matrices) or parts & set(matrices)


def _parts(scope: str) -> set[str]:
    return set(re.split("[;/]", scope))


def _agreed(chosen: Mapping[str, Quantization], base: Quantization) -> Quantization:
    """Returns the quantization of an operator from its layers'."""
    different = set(chosen.values())
    if not different:
        return base
    if len(different) > 1:
        named = ", ".join(f"{name}: {value.name}" for name, value in sorted(chosen.items()))
        raise errors.ExportError(
            "layers with a quantization of their own",
            "the same for layers that the file computes in one operator",
            named,
            "Name all of them in `layers`, or none.",
        )
    return different.pop()


def _rules_for(regex: str, quantization: Quantization, operators: Collection[str]) -> list[Rule]:
    """Returns the rules that give operators a quantization; none for float32."""
    if quantization.name == "float32":
        return []
    names = [TFLOperationName(name) for name in operators]
    if quantization.name == "float16":
        halves = TensorQuantizationConfig(16, dtype=TensorDataType.FLOAT)
        config = OpQuantizationConfig(weight_tensor_config=halves)
        return [Rule(regex, name, config, AlgorithmName.FLOAT_CASTING) for name in names]
    block = quantization.block
    weights = TensorQuantizationConfig(
        quantization.weight_bits,
        granularity=QuantGranularity(f"BLOCKWISE_{block}" if block else "CHANNELWISE"),
    )
    # Rows that are looked up become floats, whatever is computed with them then.
    lookups = OpQuantizationConfig(
        weight_tensor_config=weights,
        compute_precision=ComputePrecision.INTEGER,
        min_weight_elements=SMALLEST_QUANTIZED,
    )
    config = lookups
    if quantization.method == "static":
        activations = TensorQuantizationConfig(8, symmetric=False)
        config = OpQuantizationConfig(activations, weights, ComputePrecision.INTEGER)
    elif quantization.method == "weight_only":
        config = dataclasses.replace(
            lookups, compute_precision=ComputePrecision.FLOAT, explicit_dequantize=True
        )
    # Clipping each row where its squared error is least halves the error of 4 bits (19 -> 24 dB);
    # it changes little for 8, or where few weights share a scale.
    clipped = quantization.weight_bits == 4 and not block
    algorithm = AlgorithmName.OCTAV if clipped else _MIN_MAX
    rules = [Rule(regex, name, config, algorithm) for name in names if name != _LOOKUP]
    if {_LOOKUP, TFLOperationName.ALL_SUPPORTED} & set(names):
        rules.append(Rule(regex, TFLOperationName(_LOOKUP), lookups, algorithm))
    return rules
