"""What a TFLite file holds, read from its flatbuffer, and on request how LiteRT would run it."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import struct
from collections.abc import Mapping
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors, files

from . import delegation

_IDENTIFIER = b"TFL3"
_TYPE_NAMES = {
    value: name.lower() for name, value in vars(schema.TensorType).items() if name.isupper()
}
_OPERATOR_NAMES = {
    value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()
}
# Operators that turn numbers from one type into another.
_CASTS = ("CAST", "QUANTIZE", "DEQUANTIZE")
_FLOATS = ("float16", "float32", "float64")
# What a damaged flatbuffer makes the generated reader raise.
_DAMAGE = (
    struct.error,
    AttributeError,
    IndexError,
    MemoryError,
    OverflowError,
    TypeError,
    UnicodeDecodeError,
    ValueError,
)


@dataclasses.dataclass(frozen=True)
class TensorReport:
    """One input or output.

    Attributes:
      name: Its name in the signature, or in the graph where there is no signature.
      dtype: For example "int32".
      shape: Its dimensions, -1 where one is only known when the model runs.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """One subgraph of the file.

    Attributes:
      signature: Key of the signature that runs it; None if there is none.
      inputs: By name.
      outputs: By name.
      operators: Operator name -> how often it occurs; custom ones as "CUSTOM:<name>".
      dynamic_tensors: Names of the tensors without a static shape.
      partitions: Number of chains of operators that XNNPACK takes over; None where not looked at.
      left_operators: Operators that LiteRT then runs itself, by name; None where not looked at.
      float_operators: Operators that read or write floats, by name, but for those that turn numbers
        from one type into another.
    """

    signature: str | None
    inputs: dict[str, TensorReport]
    outputs: dict[str, TensorReport]
    operators: dict[str, int]
    dynamic_tensors: tuple[str, ...]
    partitions: int | None = None
    left_operators: dict[str, int] | None = None
    float_operators: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def num_operators(self) -> int:
        """Number of operators."""
        return sum(self.operators.values())


@dataclasses.dataclass(frozen=True)
class ModelReport:
    """A TFLite file.

    Attributes:
      file: Its name.
      size_bytes: Its size.
      sha256: Its checksum.
      graphs: Its subgraphs, those with a signature first, shortest input first.
      weight_bytes: Bytes of constants by dtype; a constant that graphs share counts once.
      metadata: Names of the metadata records.
      fault: Why LiteRT cannot open it; None where it can, or was not asked to.
    """

    file: str
    size_bytes: int
    sha256: str
    graphs: tuple[GraphReport, ...]
    weight_bytes: dict[str, int]
    metadata: tuple[str, ...]
    fault: str | None = None

    @property
    def signatures(self) -> dict[str, GraphReport]:
        """The graphs that have a signature, by its key."""
        return {graph.signature: graph for graph in self.graphs if graph.signature is not None}


def inspect(path: files.Path, *, open_it: bool = False) -> ModelReport:
    """Reads a TFLite file.

    Args:
      path: The file.
      open_it: Whether LiteRT opens it too, in a process of its own, to tell how many partitions
        XNNPACK makes of it.

    Returns:
      What is in it.

    Raises:
      ExportError: If it is missing, no TFLite file, or damaged.
    """
    path = pathlib.Path(path)
    what = f"model file {path}"
    if not path.is_file():
        received = "a folder" if path.is_dir() else "no such file"
        raise errors.ExportError(
            errors.explain(what, "a .tflite file", received, "`tfdistill export` writes one.")
        )
    content = path.read_bytes()
    if content[4:8] != _IDENTIFIER:
        raise errors.ExportError(
            errors.explain(
                what, "the identifier TFL3 at byte 4", repr(content[4:8]), "It is no TFLite file."
            )
        )
    try:
        model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
        graphs, weight_bytes = _graphs(model), _weight_bytes(model)
        metadata = tuple(_text(entry.name) for entry in model.metadata or [])
    except _DAMAGE as error:
        received = f"a damaged one ({type(error).__name__}: {error})"
        raise errors.ExportError(
            errors.explain(what, "a readable flatbuffer", received, "Export it again.")
        ) from error
    fault = None
    if open_it:
        try:
            graphs = _opened(path, graphs)
        except errors.ExportError as error:
            fault = str(error)
    return ModelReport(
        path.name, len(content), files.sha256_of(path), graphs, weight_bytes, metadata, fault
    )


def format_text(report: ModelReport) -> str:
    """Writes a report for a terminal.

    Args:
      report: What `inspect` returned.

    Returns:
      Lines of text without a final line break.
    """
    lines = [
        f"{report.file}  {report.size_bytes / 1e6:.2f} MB  sha256 {report.sha256[:16]}...",
        "constants: "
        + ", ".join(
            f"{dtype} {size / 1e6:.2f} MB"
            for dtype, size in sorted(report.weight_bytes.items(), key=lambda item: -item[1])
        ),
    ]
    if report.metadata:
        lines.append(f"metadata: {', '.join(report.metadata)}")
    if report.fault is not None:
        lines.append(f"LiteRT cannot run it: {report.fault}")
    seen: dict[str, str] = {}
    for number, graph in enumerate(report.graphs):
        title = graph.signature or f"graph {number} (no signature)"
        lines += ["", f"{title}: {graph.num_operators} operators"]
        for kind, tensors in (("in ", graph.inputs), ("out", graph.outputs)):
            for tensor in tensors.values():
                lines.append(f"  {kind} {tensor.name}  {tensor.dtype}{list(tensor.shape)}")
        if graph.dynamic_tensors:
            lines.append(f"  {len(graph.dynamic_tensors)} tensors without a static shape")
        table = _table(graph.operators)
        lines.append(f"  ops {'as in ' + seen[table] if table in seen else table}")
        seen.setdefault(table, title)
        if graph.partitions is not None:
            left = _table(graph.left_operators or {})
            lines.append(f"  XNNPACK partitions {graph.partitions}, outside {left or 'nothing'}")
    return "\n".join(lines)


def _table(operators: Mapping[str, int]) -> str:
    counts = sorted(operators.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {name}" for name, count in counts)


def _opened(path: pathlib.Path, graphs: tuple[GraphReport, ...]) -> tuple[GraphReport, ...]:
    """Adds to each graph what XNNPACK takes over of it."""
    found = delegation.delegate(path)  # by None only where there is one graph, without signature
    opened = []
    for graph in graphs:
        if taken := found.get(graph.signature):
            graph = dataclasses.replace(
                graph, partitions=taken.partitions, left_operators=taken.left_operators
            )
        opened.append(graph)
    return tuple(opened)


def _graphs(model: Any) -> tuple[GraphReport, ...]:
    """Describes each signature, then each subgraph that no signature runs."""
    reports = []
    for signature in model.signatureDefs or []:
        graph = model.subgraphs[signature.subgraphIndex]
        inputs = {_text(entry.name): entry.tensorIndex for entry in signature.inputs}
        outputs = {_text(entry.name): entry.tensorIndex for entry in signature.outputs}
        reports.append(_graph(model, graph, _text(signature.signatureKey), inputs, outputs))
    reports.sort(key=lambda report: [tensor.shape for tensor in report.inputs.values()])
    served = {signature.subgraphIndex for signature in model.signatureDefs or []}
    for index, graph in enumerate(model.subgraphs):
        if index not in served:
            inputs = {_text(graph.tensors[i].name): i for i in graph.inputs}
            outputs = {_text(graph.tensors[i].name): i for i in graph.outputs}
            reports.append(_graph(model, graph, None, inputs, outputs))
    return tuple(reports)


def _graph(
    model: Any, graph: Any, signature: str | None, inputs: dict[str, int], outputs: dict[str, int]
) -> GraphReport:
    codes = [model.operatorCodes[operator.opcodeIndex] for operator in graph.operators]
    return GraphReport(
        signature=signature,
        inputs=_tensors(graph, inputs),
        outputs=_tensors(graph, outputs),
        operators=dict(collections.Counter(_operator_name(code) for code in codes)),
        dynamic_tensors=tuple(
            _text(tensor.name)
            for tensor in graph.tensors
            if any(size < 0 for size in _shape(tensor))
        ),
        float_operators=_float_operators(graph, [_operator_name(code) for code in codes]),
    )


def _float_operators(graph: Any, names: list[str]) -> dict[str, int]:
    """Counts the operators that compute with floats."""
    counts: collections.Counter[str] = collections.Counter()
    for name, operator in zip(names, graph.operators, strict=True):
        places = [index for index in (*operator.inputs, *operator.outputs) if index >= 0]
        if name not in _CASTS and any(_dtype(graph.tensors[i]) in _FLOATS for i in places):
            counts[name] += 1
    return dict(counts)


def _tensors(graph: Any, indices: dict[str, int]) -> dict[str, TensorReport]:
    return {
        name: TensorReport(name, _dtype(graph.tensors[index]), _shape(graph.tensors[index]))
        for name, index in sorted(indices.items())
    }


def _weight_bytes(model: Any) -> dict[str, int]:
    """Adds up the buffers with data, each under the type of the first tensor that uses it."""
    sizes: collections.Counter[str] = collections.Counter()
    counted: set[int] = set()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = model.buffers[tensor.buffer].data
            if data is not None and len(data) and tensor.buffer not in counted:
                counted.add(tensor.buffer)
                sizes[_dtype(tensor)] += len(data)
    return dict(sizes)


def _shape(tensor: Any) -> tuple[int, ...]:
    declared = tensor.shapeSignature if tensor.shapeSignature is not None else tensor.shape
    return () if declared is None else tuple(int(size) for size in declared)


def _dtype(tensor: Any) -> str:
    return _TYPE_NAMES.get(tensor.type, f"type {tensor.type}")


def _operator_name(code: Any) -> str:
    builtin = max(code.builtinCode, code.deprecatedBuiltinCode)
    name = _OPERATOR_NAMES.get(builtin, f"operator {builtin}")
    return f"CUSTOM:{_text(code.customCode)}" if name == "CUSTOM" else name


def _text(value: bytes | str | None) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else (value or "")
