"""The roles of a signature's inputs: token ids, mask, token types. Nothing is guessed."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite import reader
from tfdistill.tflite.signature import ROLES, Signature, Tensor

OUTPUT_ROLES = (
    *("logits", "scores", "start_logits", "end_logits"),
    *("last_hidden_state", "pooler_output", "embedding"),
)
_DTYPES = ("int32", "int64", "float32")
# Operators between the ids and their lookup that do not change a value.
_TRANSPARENT = ("CAST", "RESHAPE", "SQUEEZE", "EXPAND_DIMS")
_LOOKUPS = {"GATHER": (0, 1), "EMBEDDING_LOOKUP": (1, 0)}  # positions of the table, of the ids


def read_signatures(
    path: files.Path, *, roles: Mapping[str, str] | None = None
) -> dict[int, Signature]:
    """Finds the signatures of a .tflite file that take tokens, by length, with the roles of inputs.

    `roles` tells what names do not: of inputs name, or position from 0, -> one of `ROLES`; of
    outputs name -> one of `OUTPUT_ROLES`. The shortest is first. Where two have the same length,
    the one named `len<length>` is taken, else the first. Raises BenchmarkError if inputs cannot be
    told apart, or one is not (1, length); a batch that is only known when the model runs counts as
    1.
    """
    return by_length(reader.read(path), f"model file {path}", roles)


def by_length(
    model: reader.ModelFile, what: str, roles: Mapping[str, str] | None = None
) -> dict[int, Signature]:
    """Does what `read_signatures` does, for a file that is read; `what` names it in messages."""
    if not model.subgraphs:
        raise errors.ModelFileError(what, "a graph", "none", "Export it again.")
    signatures = [with_roles(model, entry, what, roles) for entry in model.runnable]
    outputs = dict.fromkeys(tensor.name for entry in signatures for tensor in entry.outputs)
    for name, role in (roles or {}).items():
        if role in OUTPUT_ROLES and name not in outputs:
            raise errors.BenchmarkError(
                f"outputs of {what}", f"--roles of {', '.join(outputs)}", f"{name}={role}"
            )
    chosen: dict[int, Signature] = {}
    for entry in sorted(signatures, key=lambda entry: entry.sequence_length):
        length = entry.sequence_length
        if length not in chosen or entry.key == f"len{length}":
            chosen[length] = entry
    return chosen


def role_of(name: str, *, alone: bool = False) -> str | None:
    """Says what an input such as "serving_default_input_word_ids:0" is for, of `ROLES`, or None.

    An input that is `alone` can only be the ids.
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


def parse(text: str) -> dict[str, str]:
    """Reads ``args_0=input_ids,args_1=attention_mask``; no tensor may be named twice."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    roles = {name: role for name, _, role in pairs}
    if not all(roles) or len(roles) < max(len(pairs), 1):
        raise errors.ConfigError("roles", "NAME=ROLE,... with each name once", repr(text))
    for role in roles.values():
        if role not in (*ROLES, *OUTPUT_ROLES):
            raise errors.ConfigError(
                "roles",
                ", ".join((*ROLES, *OUTPUT_ROLES)),
                repr(role),
                errors.nearest(role, (*ROLES, *OUTPUT_ROLES)),
            )
    return roles


def with_roles(
    model: reader.ModelFile,
    signature: Signature,
    what: str,
    roles: Mapping[str, str] | None = None,
) -> Signature:
    """Returns a signature with the roles of its inputs and the rows of its table of words."""
    where = f"inputs of {what}, signature {signature.key}"
    named = _by_position(signature, roles or {}, where)
    alone = len(signature.inputs) == 1
    inputs = tuple(
        dataclasses.replace(tensor, role=named.get(i) or role_of(tensor.name, alone=alone))
        for i, tensor in enumerate(signature.inputs)
    )
    _check_roles(inputs, where)
    ids = next(tensor for tensor in inputs if tensor.role == "input_ids")
    for tensor in inputs:
        _check_shape(tensor, ids, where)
    rows = _table_rows(model.subgraphs[signature.subgraph], ids.index)
    return dataclasses.replace(signature, inputs=inputs, vocabulary_rows=rows)


def _by_position(signature: Signature, roles: Mapping[str, str], where: str) -> dict[int, str]:
    """Finds the inputs that roles are given for: by a name that only one has, or by position."""
    counts = collections.Counter(tensor.name for tensor in signature.inputs)
    places = {tensor.name: i for i, tensor in enumerate(signature.inputs)}
    named = {}
    for name, role in roles.items():
        if role not in ROLES:
            continue  # of an output
        position = int(name) if name.isdecimal() else places.get(name, len(signature.inputs))
        if position >= len(signature.inputs) or (not name.isdecimal() and counts[name] > 1):
            raise errors.BenchmarkError(
                where,
                "--roles of "
                + ", ".join(f"{t.name} ({i})" for i, t in enumerate(signature.inputs)),
                f"{name}={role}",
                "Name inputs of one name by their position.",
            )
        named[position] = role
    return named


def _check_roles(inputs: Sequence[Tensor], where: str) -> None:
    """Refuses inputs of unknown or equal roles, of other types, and a signature without ids."""
    counts = collections.Counter(tensor.role for tensor in inputs)
    wrong = [t for t in inputs if t.role is None or counts[t.role] > 1 or t.dtype not in _DTYPES]
    if wrong or not counts["input_ids"]:
        named = ", ".join(f"{t.name} ({i}, {t.dtype})" for i, t in enumerate(inputs)) or "none"
        first = min((tensor.name for tensor in inputs), default="NAME")
        raise errors.BenchmarkError(
            where,
            f"numbers named like {', '.join(ROLES)}, ids among them",
            named,
            f"Say what each is for: --roles {first}=input_ids,...; or by position: "
            "--roles 0=input_ids,...",
        )


def _check_shape(tensor: Tensor, ids: Tensor, where: str) -> None:
    """Refuses an input that is not one row of as many numbers as the ids have."""
    length = ids.shape[1] if len(ids.shape) == 2 else -1
    if length < 1 or tensor.shape not in ((1, length), (-1, length)):
        expected = f"(1, {length}), as the ids have" if length > 0 else "a static shape (1, length)"
        raise errors.BenchmarkError(
            f"{where}, {tensor.name}",
            expected,
            tensor.shape,
            "Export with one signature per length.",
        )


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
