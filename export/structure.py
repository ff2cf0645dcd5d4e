"""What must be true of an exported file before it is even run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tfdistill import errors

from . import signature
from .inspection import GraphReport, ModelReport
from .quantize import Quantization

# Operators that only exist where a variable was not frozen into the file.
_VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")
# Below this many elements the converter does not quantize a matrix to int8.
_SMALLEST_QUANTIZED = 1024


@dataclasses.dataclass(frozen=True)
class Expectation:
    """What a file is expected to hold.

    Attributes:
      quantization: How its numbers are stored.
      lengths: Sequence lengths, one signature each.
      inputs: Names of the inputs of every signature.
      output: Name of the output of every signature.
      num_labels: Width of the output.
      weight_shapes: Shapes of the model's weights, except the position table.
      position_width: Width of the position table, of which each signature keeps its first rows.
    """

    quantization: Quantization
    lengths: tuple[int, ...]
    inputs: tuple[str, ...]
    output: str
    num_labels: int
    weight_shapes: tuple[tuple[int, ...], ...]
    position_width: int

    @property
    def weight_bytes(self) -> int:
        """Bytes that the constants should take together."""
        other = self.quantization.bytes_per_constant
        total = sum(self.lengths) * self.position_width * other
        for shape in self.weight_shapes:
            elements = _product(shape)
            quantized = len(shape) > 1 and elements >= _SMALLEST_QUANTIZED
            total += elements * (self.quantization.bytes_per_weight if quantized else other)
        return total


def check(report: ModelReport, expected: Expectation) -> None:
    """Checks that a file is built as expected.

    One signature for each length with static int32 inputs and one float32 output, bound by name;
    only built-in operators, no variables, nothing of dynamic shape; constants that take as many
    bytes as the weights should, each stored once.

    Args:
      report: What is in the file.
      expected: What should be.

    Raises:
      ExportError: With every fault, a line each.
    """
    faults = _signature_faults(report, expected)
    for graph in report.graphs:
        faults += _graph_faults(graph)
    faults += _size_faults(report, expected)
    if faults:
        raise errors.ExportError(
            f"{report.file} is not built as it should be and was not written:\n  - "
            + "\n  - ".join(faults)
        )


def _signature_faults(report: ModelReport, expected: Expectation) -> list[str]:
    faults = []
    names = [signature.signature_name(length) for length in expected.lengths]
    if sorted(names) != sorted(report.signatures):
        faults.append(errors.explain("signatures", names, sorted(report.signatures)))
    for name, length in zip(names, expected.lengths, strict=True):
        graph = report.signatures.get(name)
        if graph is None:
            continue
        wanted = {key: ("int32", (1, length)) for key in sorted(expected.inputs)}
        found = {key: (t.dtype, t.shape) for key, t in sorted(graph.inputs.items())}
        if wanted != found:
            faults.append(errors.explain(f"inputs of {name}", wanted, found))
        wanted = {expected.output: ("float32", (1, expected.num_labels))}
        found = {key: (t.dtype, t.shape) for key, t in graph.outputs.items()}
        if wanted != found:
            faults.append(errors.explain(f"outputs of {name}", wanted, found))
    return faults


def _graph_faults(graph: GraphReport) -> list[str]:
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


def _size_faults(report: ModelReport, expected: Expectation) -> list[str]:
    should = expected.weight_bytes
    does = sum(report.weight_bytes.values())
    # The shapes and axes of the operators come on top: measured, some 100 bytes a signature.
    slack = 0.01 * should + 1024 * len(expected.lengths)
    if abs(does - should) <= slack:
        return []
    problem = "a weight is stored twice or not quantized" if does > should else "weights are lost"
    return [
        errors.explain(
            "bytes of the constants",
            f"{should:,} within {int(slack):,} ({expected.quantization.name})",
            f"{does:,}",
            f"Probably {problem}.",
        )
    ]


def _product(shape: Sequence[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
