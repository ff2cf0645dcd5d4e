"""Reads from a .tflite file how it wants to be fed, without running it.

Only the flatbuffer is parsed, in Python: a damaged file gives an error here instead of bringing
the process down.
"""

from __future__ import annotations

import dataclasses
import mmap
import pathlib
import struct
from typing import Any

from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors, files

ROLES = ("input_ids", "attention_mask", "token_type_ids")
_DTYPES = {
    schema.TensorType.INT32: "int32",
    schema.TensorType.INT64: "int64",
    schema.TensorType.FLOAT32: "float32",
}
# Operators that may stand between the ids and their lookup without changing a value.
_TRANSPARENT = {
    schema.BuiltinOperator.CAST,
    schema.BuiltinOperator.RESHAPE,
    schema.BuiltinOperator.SQUEEZE,
    schema.BuiltinOperator.EXPAND_DIMS,
}
_LOOKUPS = {schema.BuiltinOperator.GATHER: (0, 1), schema.BuiltinOperator.EMBEDDING_LOOKUP: (1, 0)}


@dataclasses.dataclass(frozen=True)
class Input:
    """One input tensor: its name in the signature (or in the graph), and its type."""

    name: str
    dtype: str


@dataclasses.dataclass(frozen=True)
class EntryPoint:
    """One way to run the file at one sequence length.

    Attributes:
      signature: The signature's key; None for a file that has no signatures.
      sequence_length: Tokens, padding included.
      inputs: `Input` by role: input_ids, and attention_mask and token_type_ids where they exist.
      vocabulary_rows: Rows of the table that the ids are looked up in; None if not found.
    """

    signature: str | None
    sequence_length: int
    inputs: dict[str, Input]
    vocabulary_rows: int | None


def read_entry_points(path: files.Path) -> dict[int, EntryPoint]:
    """Finds the entry points of a .tflite file.

    Args:
      path: The file.

    Returns:
      Entry point by sequence length, shortest first. Where two signatures have the same length,
      the one named `len<length>` is taken, else the first.

    Raises:
      BenchmarkError: If the file is missing, empty, no TFLite file, damaged, or takes inputs that
        cannot be told apart by name or are not static (1, length).
    """
    path = pathlib.Path(path)
    what = f"model file {path}"
    if not path.is_file():
        raise errors.BenchmarkError(
            errors.explain(what, "a .tflite file", "no such file", "`tfdistill export` writes one.")
        )
    with open(path, "rb") as file:
        head = file.read(8)
        if head[4:8] != b"TFL3":
            raise errors.BenchmarkError(
                errors.explain(
                    what, "the identifier TFL3 at byte 4", repr(head[4:8]), "It is no TFLite file."
                )
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                return _entry_points(schema.Model.GetRootAsModel(content, 0), what)
            except (
                struct.error,
                IndexError,
                TypeError,
                AttributeError,
                UnicodeDecodeError,
            ) as error:
                message = errors.explain(
                    what, "a readable flatbuffer", f"a damaged one ({error})", "Export it again."
                )
                raise errors.BenchmarkError(message) from error


def role_of(name: str, *, alone: bool = False) -> str | None:
    """Says what an input is for, from its name; None if the name does not tell.

    Args:
      name: Its name, for example "input_ids", "serving_default_input_word_ids:0", "segment_ids".
      alone: Whether it is the only input: then it can only be the ids.

    Returns:
      One of `ROLES`, or None.
    """
    lower = name.lower()
    if alone:
        return "input_ids"
    if "mask" in lower:
        return "attention_mask"
    if "type" in lower or "segment" in lower:
        return "token_type_ids"
    if "ids" in lower or "word" in lower or "token" in lower:
        return "input_ids"
    return None


def _entry_points(model: Any, what: str) -> dict[int, EntryPoint]:
    found: list[EntryPoint] = []
    for i in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(i)
        graph = model.Subgraphs(signature.SubgraphIndex())
        maps = [signature.Inputs(j) for j in range(signature.InputsLength())]
        named = {entry.Name().decode(): entry.TensorIndex() for entry in maps}
        key = signature.SignatureKey().decode()
        found.append(_entry_point(model, graph, key, named, what))
    if not found:
        graph = model.Subgraphs(0)
        indices = [graph.Inputs(j) for j in range(graph.InputsLength())]
        named = {graph.Tensors(index).Name().decode(): index for index in indices}
        found.append(_entry_point(model, graph, None, named, what))
    by_length: dict[int, EntryPoint] = {}
    for entry in sorted(found, key=lambda e: e.sequence_length):
        length = entry.sequence_length
        if length not in by_length or entry.signature == f"len{length}":
            by_length[length] = entry
    return by_length


def _entry_point(
    model: Any, graph: Any, signature: str | None, named: dict[str, int], what: str
) -> EntryPoint:
    inputs: dict[str, Input] = {}
    indices: dict[str, int] = {}
    for name, index in named.items():
        tensor = graph.Tensors(index)
        dtype = _DTYPES.get(tensor.Type(), f"type {tensor.Type()}")
        role = role_of(name, alone=len(named) == 1)
        if role is None or role in inputs or dtype not in _DTYPES.values():
            raise errors.BenchmarkError(
                errors.explain(
                    f"inputs of {what}, signature {signature}",
                    "numbers named like " + ", ".join(ROLES),
                    ", ".join(sorted(named)) + f" ({name}: {dtype})",
                )
            )
        inputs[role] = Input(name, dtype)
        indices[role] = index
    if "input_ids" not in inputs:
        raise errors.BenchmarkError(
            errors.explain(f"inputs of {what}", "token ids among them", ", ".join(named) or "none")
        )
    shape = _shape(graph.Tensors(indices["input_ids"]))
    if len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
        raise errors.BenchmarkError(
            errors.explain(
                f"ids of {what}, signature {signature}",
                "a static shape (1, length)",
                shape,
                "Export with one signature per length.",
            )
        )
    return EntryPoint(signature, shape[1], inputs, _rows(model, graph, indices["input_ids"]))


def _shape(tensor: Any) -> tuple[int, ...]:
    """The declared shape: -1 where a dimension is dynamic."""
    if tensor.ShapeSignatureLength():
        return tuple(tensor.ShapeSignature(i) for i in range(tensor.ShapeSignatureLength()))
    return tuple(tensor.Shape(i) for i in range(tensor.ShapeLength()))


def _rows(model: Any, graph: Any, ids: int) -> int | None:
    """Follows the ids to their lookup, and returns how many rows its table has."""
    reached = {ids}
    for i in range(graph.OperatorsLength()):  # operators come in execution order
        operator = graph.Operators(i)
        code = model.OperatorCodes(operator.OpcodeIndex())
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        if builtin in _LOOKUPS:
            table, looked_up = _LOOKUPS[builtin]
            if operator.Inputs(looked_up) in reached:
                return _shape(graph.Tensors(operator.Inputs(table)))[0]
        elif builtin in _TRANSPARENT and operator.Inputs(0) in reached:
            reached.add(operator.Outputs(0))
    return None
