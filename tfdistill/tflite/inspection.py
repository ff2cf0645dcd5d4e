"""The content of a TFLite file, read from its flatbuffer, and on request how LiteRT runs it."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from collections.abc import Mapping

from tfdistill import errors
from tfdistill.io import files
from tfdistill.results import quantities
from tfdistill.tflite import reader, runtimes
from tfdistill.tflite.model import TfliteModel
from tfdistill.tflite.reader import ModelFile, OperatorInfo, Subgraph
from tfdistill.tflite.signature import Signature, Tensor

# Operators that turn numbers from one type into another.
_CASTS = ("CAST", "QUANTIZE", "DEQUANTIZE")
_FLOATS = ("float16", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class GraphReport:
    """One subgraph of the file."""

    signature: str | None  # key of the signature that runs it; None if there is none
    inputs: tuple[Tensor, ...]  # in the order of the subgraph
    outputs: tuple[Tensor, ...]  # in the order of the subgraph
    # operator name -> how often it occurs; custom ones as "CUSTOM:<name>"
    operators: dict[str, int]
    dynamic_tensors: tuple[str, ...]  # names of the tensors without a static shape
    # number of chains of operators that XNNPACK takes over; None where not looked at
    partitions: int | None = None
    # operators that LiteRT then runs itself, by name; None where not looked at
    left_operators: dict[str, int] | None = None
    # operators that read or write floats, by name, but for those that turn numbers from one type
    # into another
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
      least_runtime: The oldest runtime that is known to run it rightly, see `runtimes`; None where
        that was not measured.
      understated: Operators that older runtimes run wrongly, not refuse: name -> the version that
        they would refuse.
    """

    file: str
    size_bytes: int
    sha256: str
    graphs: tuple[GraphReport, ...]
    weight_bytes: dict[str, int]
    metadata: tuple[str, ...]
    fault: str | None = None
    least_runtime: str | None = None
    understated: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def signatures(self) -> dict[str, GraphReport]:
        """The graphs that have a signature, by its key."""
        return {graph.signature: graph for graph in self.graphs if graph.signature is not None}


def inspect(path: files.Path, *, open_it: bool = False) -> ModelReport:
    """Reads a TFLite file.

    Args:
      path: The file.
      open_it: Whether LiteRT opens it too, in a process of its own, to count the partitions that
        XNNPACK makes of it.

    Raises:
      ModelFileError: If it is missing, no TFLite file, or damaged.

    Examples:
      >>> report = export.inspect("student/model.tflite")
      >>> [graph.signature for graph in report.graphs]
      ['len16']
    """
    path = pathlib.Path(path)
    model = reader.read(path)
    graphs = _graphs(model)
    fault = None
    if open_it:
        try:
            graphs = _opened(path, graphs)
        except errors.ModelFileError as error:
            fault = str(error)
    return ModelReport(
        path.name,
        path.stat().st_size,
        files.sha256_of(path),
        graphs,
        _weight_bytes(model),
        model.metadata,
        fault,
        runtimes.least(model),
        runtimes.understated(model),
    )


def format_text(report: ModelReport) -> str:
    """Writes a report for a terminal, without a final line break."""
    lines = [
        f"{report.file}  {quantities.size(report.size_bytes)}  sha256 {report.sha256[:16]}...",
        "constants: "
        + ", ".join(
            f"{dtype} {quantities.size(size)}"
            for dtype, size in sorted(report.weight_bytes.items(), key=lambda item: -item[1])
        ),
    ]
    if report.metadata:
        lines.append(f"metadata: {', '.join(report.metadata)}")
    if report.least_runtime is not None:
        lines.append(f"runs in: {report.least_runtime} and later")
    for name, version in report.understated.items():
        lines.append(f"older runtimes may answer wrongly: {name} is not of version {version}")
    if report.fault is not None:
        lines.append(f"LiteRT cannot run it: {report.fault}")
    seen: dict[str, str] = {}
    for number, graph in enumerate(report.graphs):
        title = graph.signature or f"graph {number} (no signature)"
        lines += ["", f"{title}: {graph.num_operators} operators"]
        for kind, tensors in (("in ", graph.inputs), ("out", graph.outputs)):
            for tensor in sorted(tensors, key=lambda tensor: tensor.name):
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
    with TfliteModel(path, isolated=True) as model:
        taken = model.delegations()  # by None only where there is one graph, without signature
    opened = []
    for graph in graphs:
        if delegation := taken.get(graph.signature):
            graph = dataclasses.replace(
                graph, partitions=delegation.partitions, left_operators=delegation.left_operators
            )
        opened.append(graph)
    return tuple(opened)


def _graphs(model: ModelFile) -> tuple[GraphReport, ...]:
    """Describes each signature, then each subgraph that no signature runs."""
    reports = [_graph(model, entry) for entry in model.signatures]
    reports.sort(key=lambda report: sorted(tensor.shape for tensor in report.inputs))
    served = {entry.subgraph for entry in model.signatures}
    others = [index for index in range(len(model.subgraphs)) if index not in served]
    reports += [_graph(model, reader.unnamed_signature(model.subgraphs, index)) for index in others]
    return tuple(reports)


def _graph(model: ModelFile, signature: Signature) -> GraphReport:
    graph = model.subgraphs[signature.subgraph]
    floats = [operator for operator in graph.operators if _computes_with_floats(graph, operator)]
    return GraphReport(
        signature=signature.key,
        inputs=signature.inputs,
        outputs=signature.outputs,
        operators=dict(collections.Counter(operator.name for operator in graph.operators)),
        dynamic_tensors=tuple(tensor.name for tensor in graph.tensors if -1 in tensor.shape),
        float_operators=dict(collections.Counter(operator.name for operator in floats)),
    )


def _computes_with_floats(graph: Subgraph, operator: OperatorInfo) -> bool:
    used = [graph.tensors[i] for i in (*operator.inputs, *operator.outputs) if i >= 0]
    return operator.name not in _CASTS and any(tensor.dtype in _FLOATS for tensor in used)


def _weight_bytes(model: ModelFile) -> dict[str, int]:
    """Adds up the buffers with data, each under the type of the first tensor that uses it."""
    sizes: collections.Counter[str] = collections.Counter()
    counted: set[int] = set()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if model.buffer_bytes[tensor.buffer] and tensor.buffer not in counted:
                counted.add(tensor.buffer)
                sizes[tensor.dtype] += model.buffer_bytes[tensor.buffer]
    return dict(sizes)
