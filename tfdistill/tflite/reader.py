"""A .tflite file as plain values: signatures, subgraphs, tensors, operators and buffers.

Only the flatbuffer is parsed, in Python: a damaged file raises an error, where LiteRT might end the
process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import mmap
import pathlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors, files
from tfdistill.tflite.signature import Signature, Tensor

IDENTIFIER = b"TFL3"
# Operators that run other subgraphs, as loops do.
CONTROL_FLOW = frozenset({"CALL", "CALL_ONCE", "IF", "STABLEHLO_WHILE", "WHILE"})
_DTYPES = {value: name.lower() for name, value in vars(schema.TensorType).items() if name.isupper()}
_OPERATORS = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
# What a damaged flatbuffer makes the generated reader raise.
_DAMAGE = (
    struct.error,
    AttributeError,
    IndexError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """One tensor of a subgraph.

    Attributes:
      name: Its name in the subgraph.
      dtype: For example "float32", "int4".
      shape: Its dimensions, -1 where one is only known when the model runs.
      buffer: Index of the buffer with its data; an empty one where it is no constant.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: int


@dataclasses.dataclass(frozen=True)
class OperatorInfo:
    """One operator.

    Attributes:
      name: "FULLY_CONNECTED"; a custom one is "CUSTOM:<name>".
      inputs: Indices of the tensors that it reads, -1 for an optional one that is absent.
      outputs: Indices of the tensors that it writes.
    """

    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """One subgraph.

    Attributes:
      tensors: All tensors.
      inputs: Indices of the tensors that are inputs.
      outputs: Indices of the tensors that are outputs.
      operators: In execution order.
    """

    tensors: tuple[TensorInfo, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[OperatorInfo, ...]

    @property
    def runs_others(self) -> bool:
        """Whether an operator runs other subgraphs, as loops do."""
        return any(operator.name in CONTROL_FLOW for operator in self.operators)


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A whole file.

    Attributes:
      subgraphs: In the order of the file; LiteRT runs the first one where none is named.
      signatures: In the order of the file.
      buffer_bytes: Size of each buffer.
      metadata: Names of the metadata records.
    """

    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]
    buffer_bytes: tuple[int, ...]
    metadata: tuple[str, ...]

    @property
    def runnable(self) -> tuple[Signature, ...]:
        """Its signatures; of a file without any its first subgraph, which LiteRT then runs."""
        if self.signatures or not self.subgraphs:
            return self.signatures
        return (unnamed_signature(self.subgraphs, 0),)


def read(path: files.Path) -> ModelFile:
    """Reads a .tflite file.

    Args:
      path: The file.

    Returns:
      What it holds; of constants only their sizes.

    Raises:
      ModelFileError: If it is missing, no TFLite file, or damaged.
    """
    with open_flatbuffer(path) as (model, _):
        codes = [operator_name(code) for code in _each(model, "OperatorCodes")]
        subgraphs = tuple(_subgraph(graph, codes) for graph in _each(model, "Subgraphs"))
        buffer_bytes = tuple(_num_bytes(buffer) for buffer in _each(model, "Buffers"))
        _check_indices(subgraphs, buffer_bytes)
        return ModelFile(
            subgraphs,
            tuple(_signature(entry, subgraphs) for entry in _each(model, "SignatureDefs")),
            buffer_bytes,
            tuple(text(entry.Name()) for entry in _each(model, "Metadata")),
        )


@contextlib.contextmanager
def open_flatbuffer(path: files.Path) -> Iterator[tuple[Any, mmap.mmap]]:
    """Maps a file into memory for the generated reader of the schema.

    Args:
      path: A .tflite file.

    Yields:
      `schema_py_generated.Model`, and the bytes that it reads.

    Raises:
      ModelFileError: If the file is missing or no TFLite file, or the block finds it damaged.
    """
    path = pathlib.Path(path)
    what = f"model file {path}"
    if not path.is_file():
        received = "a folder" if path.is_dir() else "no such file"
        raise errors.ModelFileError(
            what, "a .tflite file", received, "`tfdistill export` writes one."
        )
    with open(path, "rb") as opened:
        head = opened.read(8)
        if head[4:] != IDENTIFIER:
            raise errors.ModelFileError(
                what, "the identifier TFL3 at byte 4", repr(head[4:]), "It is no TFLite file."
            )
        # Unmapped with its last array, not here: the frames of an error in the block may hold one.
        content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        yield schema.Model.GetRootAsModel(content, 0), content
    except _DAMAGE as error:
        received = f"a damaged one ({type(error).__name__}: {error})"
        raise errors.ModelFileError(
            what, "a readable flatbuffer", received, "Export it again."
        ) from error


def text(value: bytes | str | None) -> str:
    """Returns a string of a flatbuffer as text."""
    return value.decode("utf-8") if isinstance(value, bytes) else (value or "")


def dtype_name(kind: int) -> str:
    """Names a type of the schema, such as "int4"."""
    return _DTYPES.get(kind, f"type {kind}")


def operator_name(code: Any) -> str:
    """Names an operator code, of the generated reader or of the tree that `editing` changes."""
    if isinstance(code, schema.OperatorCodeT):
        builtin, custom = max(code.builtinCode, code.deprecatedBuiltinCode), code.customCode
    else:
        builtin, custom = max(code.BuiltinCode(), code.DeprecatedBuiltinCode()), code.CustomCode()
    name = _OPERATORS.get(builtin, f"operator {builtin}")
    return f"CUSTOM:{text(custom)}" if name == "CUSTOM" else name


def _check_indices(subgraphs: Sequence[Subgraph], buffer_bytes: Sequence[int]) -> None:
    """Raises IndexError where an index points outside the file."""
    for graph in subgraphs:
        used = [index for o in graph.operators for index in (*o.inputs, *o.outputs) if index != -1]
        _check_below(len(graph.tensors), [*graph.inputs, *graph.outputs, *used])
        _check_below(len(buffer_bytes), [tensor.buffer for tensor in graph.tensors])


def _check_below(size: int, indices: Sequence[int]) -> None:
    for index in indices:
        if not 0 <= index < size:
            raise IndexError(f"index {index} of {size}")


def _subgraph(graph: Any, codes: list[str]) -> Subgraph:
    return Subgraph(
        tuple(_tensor(tensor) for tensor in _each(graph, "Tensors")),
        _numbers(graph.InputsAsNumpy()),
        _numbers(graph.OutputsAsNumpy()),
        tuple(
            OperatorInfo(
                codes[operator.OpcodeIndex()],
                _numbers(operator.InputsAsNumpy()),
                _numbers(operator.OutputsAsNumpy()),
            )
            for operator in _each(graph, "Operators")
        ),
    )


def _tensor(tensor: Any) -> TensorInfo:
    declared = (
        tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
    )
    return TensorInfo(
        text(tensor.Name()), dtype_name(tensor.Type()), _numbers(declared), tensor.Buffer()
    )


def unnamed_signature(subgraphs: Sequence[Subgraph], index: int) -> Signature:
    """Describes a subgraph that no signature runs; its tensors go by their names in the graph."""
    graph = subgraphs[index]
    inputs, outputs = (
        tuple(_end(graph, graph.tensors[i].name, i) for i in ends)
        for ends in (graph.inputs, graph.outputs)
    )
    return Signature(None, index, inputs, outputs)


def _signature(entry: Any, subgraphs: Sequence[Subgraph]) -> Signature:
    index = entry.SubgraphIndex()
    _check_below(len(subgraphs), [index])
    graph = subgraphs[index]
    sides: list[tuple[Tensor, ...]] = []
    for items, ends in (("Inputs", graph.inputs), ("Outputs", graph.outputs)):
        named = [(item.TensorIndex(), text(item.Name())) for item in _each(entry, items)]
        _check_below(len(graph.tensors), [tensor for tensor, _ in named])
        order = {tensor: place for place, tensor in enumerate(ends)}
        named.sort(key=lambda item: order.get(item[0], len(order)))
        sides.append(tuple(_end(graph, name, tensor) for tensor, name in named))
    return Signature(text(entry.SignatureKey()), index, sides[0], sides[1])


def _end(graph: Subgraph, name: str, index: int) -> Tensor:
    tensor = graph.tensors[index]
    return Tensor(name, tensor.dtype, tensor.shape, index, tensor.name)


def _num_bytes(buffer: Any) -> int:
    """Returns the size of a buffer, whose data may also follow the flatbuffer."""
    data = buffer.DataAsNumpy()
    if isinstance(data, int):
        return buffer.Size() if buffer.Offset() > 1 else 0
    return len(data)


def _numbers(vector: Any) -> tuple[int, ...]:
    """Returns a vector of the generated reader, which gives 0 for an absent one."""
    return () if isinstance(vector, int) else tuple(vector.tolist())


def _each(owner: Any, name: str) -> Iterator[Any]:
    """Yields the entries of a vector of tables, which the generated reader gives one by one."""
    return map(getattr(owner, name), range(getattr(owner, f"{name}Length")()))
