"""What XNNPACK, LiteRT's fast path on processors, takes over of a file.

It takes over chains of operators, each as one partition; between them LiteRT's own kernels run, and
tensors are handed over. LiteRT decides this when it opens the file, and reports it for the first
subgraph only. A damaged file may end the process: open foreign files in a child process.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator

from ai_edge_litert import interpreter as litert

from tfdistill.tflite import reader


@dataclasses.dataclass(frozen=True)
class Delegation:
    """What XNNPACK takes over of one subgraph.

    Attributes:
      nodes: Operators of the subgraph in the file.
      partitions: Chains of them that XNNPACK takes over.
      left_operators: Operators that LiteRT runs itself: name -> how often.
    """

    nodes: int
    partitions: int
    left_operators: dict[str, int]


def delegation(file: str, signature: str | None) -> Delegation:
    """Opens a file and counts what XNNPACK takes over of a signature.

    Args:
      file: A .tflite file.
      signature: Key of the signature; None for the only subgraph of a file without.

    Raises:
      ModelFileError: If it is no TFLite file.
      ValueError: If LiteRT cannot open it; of other faults RuntimeError.
    """
    with interpreter(file, signature) as opened:
        return count(opened)


def delegations(file: str) -> dict[str | None, Delegation]:
    """Counts what XNNPACK takes over of each signature by itself.

    Args:
      file: A .tflite file.

    Returns:
      By key of the signature; by None for the only subgraph of a file without signatures. A
      signature that runs several subgraphs, as loops do, is left out.

    Raises:
      ModelFileError: If it is no TFLite file.
      ValueError: If LiteRT cannot open it; of other faults RuntimeError.
    """
    litert.Interpreter(file, num_threads=1)  # refuses what is no model before it is read as one
    model = reader.read(file)
    subgraphs: dict[str | None, int] = {entry.key: entry.subgraph for entry in model.signatures}
    if not subgraphs and len(model.subgraphs) == 1:
        subgraphs = {None: 0}
    return {
        key: delegation(file, key)
        for key, index in subgraphs.items()
        if not model.subgraphs[index].runs_others
    }


def count(opened: litert.Interpreter) -> Delegation:
    """Counts the partitions of an interpreter's first subgraph.

    LiteRT lists the operators of the file and then one for each partition; those that a partition
    has taken over stay in the list, but nothing that is still run needs them. So the operators that
    do run are those that are reached from the outputs.
    """
    opened.allocate_tensors()
    operators = opened._get_ops_details()
    # A tensor's last producer is the partition, where one has taken its operator over.
    producers = {tensor: operator for operator in operators for tensor in operator["outputs"]}
    waiting = [detail["index"] for detail in opened.get_output_details()]
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
def interpreter(file: str, signature: str | None) -> Iterator[litert.Interpreter]:
    """Opens a file with a signature's subgraph first: LiteRT only lists the operators of that one.

    The offsets of two subgraphs are exchanged in a temporary copy. It is for inspection only: its
    signatures no longer fit their subgraphs.

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
        for position, offset in swaps.items():
            copy.seek(position)
            copy.write(struct.pack("<I", offset))
        copy.flush()
        path = f"/dev/fd/{copy.fileno()}"
        if os.path.exists(path):  # mapped, where the system has such paths
            yield litert.Interpreter(path, num_threads=1)
        else:
            copy.seek(0)
            yield litert.Interpreter(model_content=copy.read(), num_threads=1)


def _swaps(file: str, signature: str | None) -> dict[int, int]:
    """Returns which offsets of a flatbuffer to replace: position in bytes -> new value."""
    found = {entry.key: entry.subgraph for entry in reader.read(file).signatures}
    chosen = 0 if signature is None else found.get(signature, 0)
    if not chosen:
        return {}
    with reader.open_flatbuffer(file) as (model, content):
        table = model._tab
        start = table.Vector(table.Offset(8))  # field 2 of Model: the subgraphs
        positions = (start, start + 4 * chosen)
        targets = [p + struct.unpack_from("<I", content, p)[0] for p in positions]
    return {p: target - p for p, target in zip(positions, reversed(targets), strict=True)}
