"""The oldest runtime that runs a file rightly, and the versions that make older ones refuse it.

A runtime registers each operator up to a version, and refuses a file that asks for a later one. A
quantizer keeps the float file's versions, so that runtimes open the file which lack the kernels for
its integers: TensorFlow Lite 2.14 answers noise, 2.16.1 crashes at int4, LiteRT 1.2 and 2.0 answer
noise. So an operator needs the lowest version that no runtime registers which answers wrongly, by
the golden examples of each format in each runtime of PyPI (tests/test_export/test_versions.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tfdistill.tflite.reader import ModelFile, OperatorInfo, Subgraph

# Runtimes that were measured, oldest first, and the release of TensorFlow that has their operators.
_RELEASES = {
    "TensorFlow Lite 2.14.0": "2.14.0",
    "TensorFlow Lite 2.16.1": "2.16.1",
    "LiteRT 1.0.1": "2.18.0",
    "LiteRT 2.1.0": "2.21.0",
    "LiteRT 2.1.2": "2.21.0",
}
RUNTIMES = tuple(_RELEASES)
OF_MODULE = RUNTIMES[:2]  # what runs in the Android module `runtime`, which has the second
# The operators of exported files, up to the version that TensorFlow Lite 2.14.0 registers.
_REGISTERED = {
    name: version
    for version, names in {
        1: ("RESHAPE",),
        2: ("GELU", "RSQRT", "SQUARED_DIFFERENCE"),
        3: ("EMBEDDING_LOOKUP", "MEAN", "QUANTIZE", "RELU", "SOFTMAX", "TANH"),
        4: ("BATCH_MATMUL",),
        5: ("ADD", "CAST", "DEQUANTIZE", "SUB"),
        6: ("GATHER", "TRANSPOSE"),
        7: ("MUL",),
        8: ("STRIDED_SLICE",),
        10: ("FULLY_CONNECTED",),
    }.items()
    for name in names
}


class Need(NamedTuple):
    """The version that an operator needs for the types that it reads."""

    version: int  # no runtime registers it that answers wrongly
    runtime: str  # the oldest of `RUNTIMES` that answers rightly


def need(graph: Subgraph, operator: OperatorInfo) -> Need | None:
    """Returns what an operator needs; None where every runtime answers rightly."""
    read = [graph.tensors[index] for index in operator.inputs if index >= 0]
    match operator.name, [tensor.dtype for tensor in read]:
        case "FULLY_CONNECTED", [_, "int4", *_]:
            return Need(14, "LiteRT 2.1.0")  # noise by row in LiteRT 1.0.1, in blocks up to 2.0.3
        case "FULLY_CONNECTED", ["float32", "int8", *_]:
            return Need(11, "TensorFlow Lite 2.16.1")  # noise in 2.14.0
        case "EMBEDDING_LOOKUP", [_, "int4" | "int8"]:
            # A scale for each row is 4's; blocks are noise up to LiteRT 1.3.0, which registers 4.
            return Need(5, "LiteRT 2.1.2") if read[1].in_blocks else Need(4, "LiteRT 1.0.1")
    return None


def needs(model: ModelFile) -> dict[str, Need]:
    """Returns what the operators of a file need, by name: all of a name share a version."""
    needed: dict[str, Need] = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            one, most = need(graph, operator), needed.get(operator.name, Need(1, RUNTIMES[0]))
            if one is not None:
                most = Need(max(one.version, most.version), _newest(one.runtime, most.runtime))
            needed[operator.name] = most
    return needed


def least(model: ModelFile) -> str | None:
    """Returns the oldest of `RUNTIMES` that runs a file; None for operators not measured."""
    if any(tensor.dtype == "int16" for graph in model.subgraphs for tensor in graph.tensors):
        return None
    needed = needs(model)
    for operator in _operators(model):
        if operator.name not in _REGISTERED:
            return None
        if operator.version > max(_REGISTERED[operator.name], needed[operator.name].version):
            return None
    return _newest(*(one.runtime for one in needed.values()))


def understated(model: ModelFile) -> dict[str, int]:
    """Returns the operators of too low a version, with the version that they need."""
    stated = {operator.name: operator.version for operator in _operators(model)}
    needed = {name: one.version for name, one in needs(model).items()}
    return {name: version for name, version in needed.items() if stated[name] < version}


def release(model: ModelFile) -> str:
    """Returns TensorFlow's release with the kernels that a file needs; "" where any has them."""
    runtime = _newest(*(one.runtime for one in needs(model).values()))
    return "" if runtime == RUNTIMES[0] else _RELEASES[runtime]


def _newest(*runtimes: str) -> str:
    return max(RUNTIMES[0], *runtimes, key=RUNTIMES.index)


def _operators(model: ModelFile) -> Iterator[OperatorInfo]:
    for graph in model.subgraphs:
        yield from graph.operators
