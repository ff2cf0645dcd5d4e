"""What XNNPACK, LiteRT's fast path on processors, takes over of a file.

It takes chains of operators, each as one partition; between them LiteRT's own kernels run, and
numbers are handed over. LiteRT decides when it opens the file, and tells it of the first subgraph
only. A damaged file may take the process along: look in one that may end.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import mmap
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from typing import Any

from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema

# Kind of an operator's options -> the class that reads them.
_OPTIONS = {
    value: getattr(schema, name)
    for name, value in vars(schema.BuiltinOptions).items()
    if name.endswith("Options")
}


@dataclasses.dataclass(frozen=True)
class Delegation:
    """What happens to one subgraph.

    Attributes:
      nodes: Operators that it has in the file.
      partitions: Chains of them that XNNPACK takes over.
      left_operators: Operators that LiteRT runs itself: name -> how often.
    """

    nodes: int
    partitions: int
    left_operators: dict[str, int]


def look(file: str, signature: str | None) -> Delegation:
    """Opens a file and counts what XNNPACK takes over of a signature.

    Args:
      file: A .tflite file.
      signature: Key of the signature; None for the only subgraph of a file without.

    Raises:
      ValueError: If LiteRT cannot open it; of other faults RuntimeError.
    """
    with opened_first(file, signature) as interpreter:
        return count(interpreter)


def look_at_all(file: str) -> dict[str | None, Delegation]:
    """Counts what XNNPACK takes over of each signature by itself.

    Args:
      file: A .tflite file.

    Returns:
      By key of the signature; by None for the only subgraph of a file without signatures. A
      signature that runs several subgraphs, as loops do, is left out.

    Raises:
      ValueError: If LiteRT cannot open it; of other faults RuntimeError.
    """
    litert.Interpreter(file, num_threads=1)  # refuses what is no model before it is read as one
    with _model(file) as (model, _):
        places: dict[str | None, int] = {**_places(model)}
        if not places and model.SubgraphsLength() == 1:
            places = {None: 0}
        alone = [key for key, place in places.items() if not _runs_others(model, place)]
    return {key: look(file, key) for key in alone}


def count(interpreter: Any) -> Delegation:
    """Walks from the outputs back to the inputs, through what XNNPACK runs where it runs it.

    LiteRT lists the operators of the file and then one for each partition; those that a partition
    has taken over stay in the list, but nothing that is still run needs them.
    """
    interpreter.allocate_tensors()
    operators = interpreter._get_ops_details()
    # A tensor's last producer is the partition, where one has taken its operator over.
    producers = {tensor: operator for operator in operators for tensor in operator["outputs"]}
    waiting = [detail["index"] for detail in interpreter.get_output_details()]
    reached: dict[int, str] = {}
    while waiting:
        operator = producers.get(waiting.pop())
        if operator is not None and operator["index"] not in reached:
            reached[operator["index"]] = operator["op_name"]
            waiting += [tensor for tensor in operator["inputs"] if tensor >= 0]
    left = collections.Counter(reached.values())
    partitions = left.pop("DELEGATE", 0)
    nodes = sum(operator["op_name"] != "DELEGATE" for operator in operators)
    return Delegation(nodes, partitions, dict(left))


@contextlib.contextmanager
def opened_first(file: str, signature: str | None) -> Iterator[Any]:
    """Opens a file with a signature's subgraph in front: LiteRT only shows the first one's nodes.

    Two places in the list of subgraphs are exchanged in a copy, which vanishes with this process.
    It can be looked at, but its signatures no longer fit.

    Args:
      file: A .tflite file.
      signature: Key of the signature; None for the only subgraph of a file without.

    Yields:
      The interpreter.
    """
    swaps = _swaps(file, signature)
    if not swaps:
        yield litert.Interpreter(file, num_threads=1)
        return
    with tempfile.TemporaryFile() as copy, open(file, "rb") as original:
        shutil.copyfileobj(original, copy)
        for place, offset in swaps.items():
            copy.seek(place)
            copy.write(struct.pack("<I", offset))
        copy.flush()
        path = f"/dev/fd/{copy.fileno()}"
        if os.path.exists(path):  # mapped, where the system has such paths
            yield litert.Interpreter(path, num_threads=1)
        else:
            copy.seek(0)
            yield litert.Interpreter(model_content=copy.read(), num_threads=1)


@contextlib.contextmanager
def _model(file: str) -> Iterator[tuple[Any, mmap.mmap]]:
    with (
        open(file, "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        yield schema.Model.GetRootAsModel(content, 0), content


def _places(model: Any) -> dict[str, int]:
    definitions = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
    return {entry.SignatureKey().decode(): entry.SubgraphIndex() for entry in definitions}


def _runs_others(model: Any, place: int) -> bool:
    graph = model.Subgraphs(place)
    kinds = {graph.Operators(i).BuiltinOptionsType() for i in range(graph.OperatorsLength())}
    options = [_OPTIONS[kind] for kind in kinds if kind in _OPTIONS]
    return any(name.endswith("SubgraphIndex") for kind in options for name in vars(kind))


def _swaps(file: str, signature: str | None) -> dict[int, int]:
    """Says which offsets of a flatbuffer to replace: place in bytes -> new value."""
    with _model(file) as (model, content):
        chosen = 0 if signature is None else _places(model).get(signature, 0)
        if not chosen:
            return {}
        table = model._tab
        start = table.Vector(table.Offset(8))  # field 2 of Model: the subgraphs
        places = (start, start + 4 * chosen)
        targets = [place + struct.unpack_from("<I", content, place)[0] for place in places]
        return {
            place: target - place for place, target in zip(places, reversed(targets), strict=True)
        }
