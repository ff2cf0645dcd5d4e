"""A .tflite file as plain values: signatures, subgraphs, tensors, operators and buffers.

Only the flatbuffer is parsed, in Python: a damaged file raises an error, where LiteRT might end the
process. All tables are checked when the file is read; what they say of a tensor or an operator
becomes a value when somebody looks at it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import mmap
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar, overload

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite.flatbuffer import FileBytes, Tables
from tfdistill.tflite.signature import Signature, Tensor

IDENTIFIER = b"TFL3"
# Operators that run other subgraphs, as loops do.
CONTROL_FLOW = frozenset({"CALL", "CALL_ONCE", "IF", "STABLEHLO_WHILE", "WHILE"})
_DTYPES = {value: name.lower() for name, value in vars(schema.TensorType).items() if name.isupper()}
_OPERATORS = {value: name for name, value in vars(schema.BuiltinOperator).items() if name.isupper()}
# What a damaged flatbuffer raises.
_DAMAGE = (IndexError, MemoryError, OverflowError, ValueError)
_Value = TypeVar("_Value")


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """One tensor of a subgraph."""

    name: str  # its name in the subgraph
    dtype: str  # for example "float32", "int4"
    shape: tuple[int, ...]  # its dimensions, -1 where one is only known when the model runs
    buffer: int  # index of the buffer with its data; an empty one where it is no constant
    in_blocks: bool = False  # whether blocks of its rows have scales of their own


@dataclasses.dataclass(frozen=True)
class OperatorInfo:
    """One operator."""

    name: str  # "FULLY_CONNECTED"; a custom one is "CUSTOM:<name>"
    # indices of the tensors that it reads, -1 for an optional one that is absent
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]  # indices of the tensors that it writes
    version: int = 1  # of its kernel: a runtime refuses later ones than it knows


@dataclasses.dataclass(frozen=True)
class Subgraph:
    """One subgraph."""

    tensors: Sequence[TensorInfo]
    inputs: tuple[int, ...]  # indices of the tensors that are inputs
    outputs: tuple[int, ...]  # indices of the tensors that are outputs
    operators: Sequence[OperatorInfo]  # in execution order

    @property
    def runs_others(self) -> bool:
        """Whether an operator runs other subgraphs, as loops do."""
        return any(operator.name in CONTROL_FLOW for operator in self.operators)


@dataclasses.dataclass(frozen=True)
class ModelFile:
    """A whole file."""

    # in the order of the file; LiteRT runs the first one where none is named
    subgraphs: tuple[Subgraph, ...]
    signatures: tuple[Signature, ...]  # in the order of the file
    buffer_bytes: tuple[int, ...]  # size of each buffer
    metadata: tuple[str, ...]  # names of the metadata records

    @property
    def runnable(self) -> tuple[Signature, ...]:
        """Its signatures; of a file without any its first subgraph, which LiteRT then runs."""
        if self.signatures or not self.subgraphs:
            return self.signatures
        return (unnamed_signature(self.subgraphs, 0),)


def read(path: files.Path) -> ModelFile:
    """Reads a .tflite file; of constants only their sizes."""
    path = pathlib.Path(path)
    content = _mapped(path)
    with _raising_damage(path):
        root = content.numbers(np.zeros(1, np.int64), "<u4").astype(np.int64)
        model = Tables(content, root)
        codes = _operator_codes(model.tables(_OPERATOR_CODES))
        buffer_bytes = _buffer_bytes(model.tables(_BUFFERS), len(content.bytes))
        subgraphs = _subgraphs(model.tables(_SUBGRAPHS), codes, len(buffer_bytes), path)
        return ModelFile(
            subgraphs,
            _signatures(model.tables(_SIGNATURES), subgraphs),
            buffer_bytes,
            tuple(model.tables(_METADATA).vectors(0, 1).texts()),
        )


def _mapped(path: pathlib.Path) -> FileBytes:
    """Maps a file into memory, as long as somebody holds it."""
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
        return FileBytes(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


@contextlib.contextmanager
def _raising_damage(path: pathlib.Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        received = f"a damaged one ({type(error).__name__}: {error})"
        raise errors.ModelFileError(
            f"model file {path}", "a readable flatbuffer", received, "Export it again."
        ) from error


def text(value: bytes | str | None) -> str:
    """Returns a string of a flatbuffer as text."""
    return value.decode("utf-8") if isinstance(value, bytes) else (value or "")


def dtype_name(kind: int) -> str:
    """Names a type of the schema, such as "int4"."""
    return _DTYPES.get(kind, f"type {kind}")


def operator_name(builtin: int, custom: bytes | str | None) -> str:
    """Names an operator by its code, and a custom one by its name."""
    name = _OPERATORS.get(builtin, f"operator {builtin}")
    return f"CUSTOM:{text(custom)}" if name == "CUSTOM" else name


def _check_below(sizes: int | np.ndarray, indices: np.ndarray) -> None:
    """Raises IndexError where an index points outside the file."""
    outside = indices[(indices < 0) | (indices >= sizes)]
    if len(outside):
        raise IndexError(f"index {outside[0]}")


def unnamed_signature(subgraphs: Sequence[Subgraph], index: int) -> Signature:
    """Describes a subgraph that no signature runs; its tensors go by their names in the graph."""
    graph = subgraphs[index]
    inputs, outputs = (
        tuple(_end(graph, graph.tensors[i].name, i) for i in ends)
        for ends in (graph.inputs, graph.outputs)
    )
    return Signature(None, index, inputs, outputs)


def _end(graph: Subgraph, name: str, index: int) -> Tensor:
    tensor = graph.tensors[index]
    return Tensor(name, tensor.dtype, tensor.shape, index, tensor.name)


# Fields of the schema's tables, in the order of their declaration.
_OPERATOR_CODES, _SUBGRAPHS, _BUFFERS, _METADATA, _SIGNATURES = 1, 2, 4, 6, 7


def _operator_codes(codes: Tables) -> list[tuple[str, int]]:
    """Returns name and version of each; an absent version is 1."""
    builtin = np.maximum(codes.numbers(0, "<i1"), codes.numbers(3, "<i4"))
    customs = codes.vectors(1, 1).texts()
    names = [operator_name(*pair) for pair in zip(builtin.tolist(), customs, strict=True)]
    return [*zip(names, np.maximum(codes.numbers(2, "<i4"), 1).tolist(), strict=True)]


def _buffer_bytes(buffers: Tables, most: int) -> tuple[int, ...]:
    """Returns the size of each buffer, whose data may also follow the flatbuffer."""
    offsets, sizes = (buffers.numbers(field, "<u8") for field in (1, 2))
    offsets, sizes = (np.where(offsets > 1, part, np.uint64(0)) for part in (offsets, sizes))
    ends = offsets + sizes  # may overflow
    if max(part.max(initial=0) for part in (offsets, sizes, ends)) > most:
        raise IndexError(f"a buffer of a file of {most} bytes ends at {ends.max()}")
    return tuple((buffers.vectors(0, 1).counts + sizes.astype(np.int64)).tolist())


def _subgraphs(
    graphs: Tables, codes: list[tuple[str, int]], num_buffers: int, path: pathlib.Path
) -> tuple[Subgraph, ...]:
    """Checks every index of all subgraphs; tensors and operators are made when looked at."""
    tensors, operators = graphs.tables(0), graphs.tables(3)
    num_tensors, num_operators = (graphs.vectors(field, 4).counts for field in (0, 3))
    types, buffers = tensors.numbers(1, "<i1"), tensors.numbers(2, "<u4")
    in_blocks = (
        tensors.table_numbers(4, 4, "<u1") == schema.QuantizationDetails.BlockwiseQuantization
    )
    names = tensors.vectors(3, 1).copied()
    fixed, declared = (tensors.vectors(field, 4).copied() for field in (0, 7))
    kinds = operators.numbers(0, "<u4")
    ends = tuple(operators.vectors(field, 4).copied() for field in (1, 2))
    inputs, outputs = graphs.vectors(1, 4), graphs.vectors(2, 4)
    _check_below(num_buffers, buffers)
    _check_below(len(codes), kinds)
    for side in (inputs, outputs):
        _check_below(np.repeat(num_tensors, side.counts), side.numbers("<i4"))
    for side in ends:
        used, most = side.numbers("<i4"), np.repeat(num_tensors, num_operators)
        present = used != -1  # an optional input that is absent
        _check_below(np.repeat(most, side.counts)[present], used[present])

    def tensor(index: int) -> TensorInfo:
        shape = tuple((declared if declared.counts[index] else fixed).of(index))
        with _raising_damage(path):
            name = names.text(index)
        dtype, buffer = dtype_name(int(types[index])), int(buffers[index])
        return TensorInfo(name, dtype, shape, buffer, bool(in_blocks[index]))

    def operator(index: int) -> OperatorInfo:
        name, version = codes[kinds[index]]
        read, written = (tuple(side.of(index)) for side in ends)
        return OperatorInfo(name, read, written, version)

    bounds = [np.cumsum([0, *counts]).tolist() for counts in (num_tensors, num_operators)]
    return tuple(
        Subgraph(
            _Values(range(*bounds[0][index : index + 2]), tensor),
            tuple(inputs.of(index)),
            tuple(outputs.of(index)),
            _Values(range(*bounds[1][index : index + 2]), operator),
        )
        for index in range(len(graphs))
    )


class _Values(Sequence[_Value]):
    """Values that are made when somebody looks at them."""

    def __init__(self, places: range, make: Callable[[int], _Value]) -> None:
        self._places, self._make = places, functools.cache(make)

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> _Value: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Value]: ...
    def __getitem__(self, index: int | slice) -> _Value | Sequence[_Value]:
        places = self._places[index]
        return self._make(places) if isinstance(places, int) else [*map(self._make, places)]


def _signatures(entries: Tables, subgraphs: Sequence[Subgraph]) -> tuple[Signature, ...]:
    keys, graphs = entries.vectors(2, 1).texts(), entries.numbers(4, "<u4")
    _check_below(len(subgraphs), graphs)
    sides: list[list[list[tuple[int, str]]]] = []
    for field in (0, 1):  # inputs, outputs
        items = entries.tables(field)
        tensors, names = items.numbers(1, "<u4").tolist(), items.vectors(0, 1).texts()
        rest = zip(tensors, names, strict=True)
        counts = entries.vectors(field, 4).counts.tolist()
        sides.append([[*itertools.islice(rest, count)] for count in counts])
    return tuple(
        Signature(
            key,
            index,
            _ends(subgraphs[index], named[0], subgraphs[index].inputs),
            _ends(subgraphs[index], named[1], subgraphs[index].outputs),
        )
        for key, index, *named in zip(keys, graphs.tolist(), *sides, strict=True)
    )


def _ends(
    graph: Subgraph, named: Sequence[tuple[int, str]], ends: Sequence[int]
) -> tuple[Tensor, ...]:
    """One side of a signature, of (tensor, name), in the order of the subgraph."""
    _check_below(len(graph.tensors), np.array([index for index, _ in named], np.int64))
    order = {index: place for place, index in enumerate(ends)}
    ordered = sorted(named, key=lambda item: order.get(item[0], len(order)))
    return tuple(_end(graph, name, index) for index, name in ordered)
