"""The part of a file that XNNPACK, LiteRT's fast path on processors, takes over.

It takes over chains of operators, each as one partition; between them LiteRT's own kernels run, and
tensors are handed over. LiteRT decides this when it opens the file, and reports it for the first
subgraph only. A damaged file may end the process: open foreign files in a child process.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import os
from collections.abc import Iterator

from ai_edge_litert import interpreter as litert

from tfdistill.io import files
from tfdistill.tflite import editing, reader


@dataclasses.dataclass(frozen=True)
class Delegation:
    """The part of one subgraph that XNNPACK takes over."""

    nodes: int  # operators of the subgraph in the file
    partitions: int  # chains of them that XNNPACK takes over
    left_operators: dict[str, int]  # operators that LiteRT runs itself: name -> how often


def delegations(file: str) -> dict[str | None, Delegation]:
    """Counts what XNNPACK takes over of each signature by itself; by None without signatures.

    A signature that runs several subgraphs, as loops do, is left out. Raises ValueError or
    RuntimeError if LiteRT cannot open the file.
    """
    # Refuses what is no model before it is read as one.
    litert.Interpreter(os.fsencode(file), num_threads=1)
    model = reader.read(file)
    subgraphs: dict[str | None, int] = {entry.key: entry.subgraph for entry in model.signatures}
    if not subgraphs and len(model.subgraphs) == 1:
        subgraphs = {None: 0}
    counted: dict[str | None, Delegation] = {}
    for key, index in subgraphs.items():
        if not model.subgraphs[index].runs_others:
            with interpreter(file, key) as opened:
                counted[key] = count(opened)
    return counted


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
    """Opens the subgraph of a signature: LiteRT lists the operators of the first subgraph only.

    Where another subgraph comes first, the signature is cut out into a temporary file.
    """
    subgraphs = {entry.key: entry.subgraph for entry in reader.read(file).signatures}
    if signature is None or not subgraphs.get(signature):
        yield litert.Interpreter(os.fsencode(file), num_threads=1)
        return
    with files.temporary_folder("signature") as folder:
        model = editing.read(file)
        editing.keep_signature(model, signature)
        editing.write(model, folder / "signature.tflite")
        yield litert.Interpreter(str(folder / "signature.tflite"), num_threads=1)
