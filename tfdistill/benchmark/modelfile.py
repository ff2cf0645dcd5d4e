"""Reads from a .tflite file which inputs it takes at which lengths, without running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from tfdistill import errors, files
from tfdistill.tflite import reader, word_rows

ROLES = ("input_ids", "attention_mask", "token_type_ids")
_DTYPES = ("int32", "int64", "float32")
# Operators between the ids and their lookup that do not change a value.
_TRANSPARENT = ("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
_LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}  # positions of the table, of the ids


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
      word_width: Features of the rows of words that it takes instead of ids; None where ids.
    """

    signature: str | None
    sequence_length: int
    inputs: dict[str, Input]
    vocabulary_rows: int | None
    word_width: int | None = None


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
    what = f"model file {path}"
    model = reader.read(path)
    if not model.subgraphs:
        raise errors.BenchmarkError(what, "a graph", "none", "Export it again.")
    found = [
        _entry_point(model.subgraphs[entry.subgraph], entry.key, entry.inputs, what)
        for entry in model.signatures
    ]
    if not found:
        graph = model.subgraphs[0]
        named = {graph.tensors[index].name: index for index in graph.inputs}
        found.append(_entry_point(graph, None, named, what))
    by_length: dict[int, EntryPoint] = {}
    for entry in sorted(found, key=lambda e: e.sequence_length):
        length = entry.sequence_length
        if length not in by_length or entry.signature == f"len{length}":
            by_length[length] = entry
    return by_length


def role_of(name: str, *, alone: bool = False) -> str | None:
    """Says what an input is for, from its name; None if the name does not tell.

    Args:
      name: Its name, for example "input_ids", "serving_default_input_word_ids:0", "segment_ids".
      alone: Whether it is the only input: then it can only be the ids.

    Returns:
      One of `ROLES`, "word_rows", or None.
    """
    lower = name.lower()
    if lower == word_rows.INPUT:
        return word_rows.INPUT
    if alone:
        return "input_ids"
    if "mask" in lower:
        return "attention_mask"
    if "type" in lower or "segment" in lower:
        return "token_type_ids"
    if "ids" in lower or "word" in lower or "token" in lower:
        return "input_ids"
    return None


def _entry_point(
    graph: reader.Subgraph, signature: str | None, named: Mapping[str, int], what: str
) -> EntryPoint:
    inputs: dict[str, Input] = {}
    indices: dict[str, int] = {}
    for name, index in named.items():
        dtype = graph.tensors[index].dtype
        role = role_of(name, alone=len(named) == 1)
        if role is None or role in inputs or dtype not in _DTYPES:
            raise errors.BenchmarkError(
                f"inputs of {what}, signature {signature}",
                "numbers named like " + ", ".join(ROLES),
                ", ".join(sorted(named)) + f" ({name}: {dtype})",
            )
        inputs[role] = Input(name, dtype)
        indices[role] = index
    if word_rows.INPUT in inputs and "input_ids" not in inputs:
        rows = graph.tensors[indices[word_rows.INPUT]].shape
        if len(rows) == 3 and rows[0] == 1 and min(rows) >= 1:
            return EntryPoint(signature, rows[1], inputs, None, rows[2])
    if "input_ids" not in inputs:
        raise errors.BenchmarkError(
            f"inputs of {what}", "token ids among them", ", ".join(named) or "none"
        )
    shape = graph.tensors[indices["input_ids"]].shape
    if len(shape) != 2 or shape[0] != 1 or shape[1] < 1:
        raise errors.BenchmarkError(
            f"ids of {what}, signature {signature}",
            "a static shape (1, length)",
            shape,
            "Export with one signature per length.",
        )
    return EntryPoint(signature, shape[1], inputs, _table_rows(graph, indices["input_ids"]))


def _table_rows(graph: reader.Subgraph, ids: int) -> int | None:
    """Follows the ids to their lookup, and returns how many rows its table has."""
    reached = {ids}
    for operator in graph.operators:  # in execution order
        if operator.name in _LOOKUPS and len(operator.inputs) > 1:
            table, looked_up = (operator.inputs[i] for i in _LOOKUPS[operator.name])
            if looked_up in reached:
                return next(iter(graph.tensors[table].shape), None)
        elif operator.name in _TRANSPARENT and reached.intersection(operator.inputs[:1]):
            reached.update(operator.outputs[:1])
    return None
