"""What a worker finds out about a file without being timed: delegated nodes, time by operator.

Each probe is a job of `tfdistill.benchmark.host.worker`, in a process of its own.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import mmap
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from ai_edge_litert import interpreter as litert
from ai_edge_litert import schema_py_generated as schema

from tfdistill.benchmark.host import entries, profiler

_MOST_RUNS = 50  # each is followed by a page of text


def look(job: dict[str, Any]) -> dict[str, Any]:
    """Does one job and returns its answer.

    Args:
      job: kind "coverage" (file, entries) or "operators" (file, entry, feeds, threads, delegate,
        warmup, runs).
    """
    return {"coverage": coverage, "operators": operators}[job["kind"]](job)


def coverage(job: dict[str, Any]) -> dict[str, Any]:
    """Counts what XNNPACK takes over of each signature.

    Returns:
      "coverage": sequence length -> delegated_nodes, nodes, partitions.
    """
    found = {}
    for entry in job["entries"]:
        with opened_first(job["file"], entry["signature"]) as interpreter:
            found[str(entry["sequence_length"])] = _count(interpreter)
    return {"coverage": found}


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


def _swaps(file: str, signature: str | None) -> dict[int, int]:
    """Says which offsets of a flatbuffer to replace: place in bytes -> new value."""
    with (
        open(file, "rb") as opened,
        mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        model: Any = schema.Model.GetRootAsModel(content, 0)
        definitions = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
        graphs = {d.SignatureKey().decode(): d.SubgraphIndex() for d in definitions}
        chosen = graphs.get(signature, 0)
        if not chosen:
            return {}
        table = model._tab
        start = table.Vector(table.Offset(8))  # field 2 of Model: the subgraphs
        places = (start, start + 4 * chosen)
        targets = [place + struct.unpack_from("<I", content, place)[0] for place in places]
        return {
            place: target - place for place, target in zip(places, reversed(targets), strict=True)
        }


def _count(interpreter: Any) -> dict[str, int]:
    """Walks from the outputs back to the inputs, through what XNNPACK runs where it runs it.

    LiteRT lists the nodes of the file and then one for each partition; those that a partition has
    taken over stay in the list, but nothing that is still run needs them.
    """
    interpreter.allocate_tensors()
    nodes = interpreter._get_ops_details()
    producers = {tensor: node for node in nodes for tensor in node["outputs"]}  # the last counts
    waiting = [detail["index"] for detail in interpreter.get_output_details()]
    reached: dict[int, str] = {}
    while waiting:
        node = producers.get(waiting.pop())
        if node is not None and node["index"] not in reached:
            reached[node["index"]] = node["op_name"]
            waiting += [tensor for tensor in node["inputs"] if tensor >= 0]
    own = [node for node in nodes if node["op_name"] != "DELEGATE"]
    partitions = sum(name == "DELEGATE" for name in reached.values())
    left = len(reached) - partitions
    delegated = len(own) - left if partitions else 0
    return {"delegated_nodes": delegated, "nodes": len(own), "partitions": partitions}


def operators(job: dict[str, Any]) -> dict[str, Any]:
    """Measures where the time of an inference goes, operator by operator.

    Returns:
      "operators": see `mean_of_quiet`.
    """
    entry = job["entry"]
    model = profiler.ProfiledModel(
        job["file"], entry["signature"], threads=job["threads"], delegate=job["delegate"]
    )
    names = {role: tensor["name"] for role, tensor in entry["inputs"].items()}
    feeds = [entries.padded(entry, **feed) for feed in job["feeds"]]
    named = [{names[role]: values for role, values in feed.items()} for feed in feeds]
    for i in range(max(job["warmup"], 1)):
        model.run(named[i % len(named)])
    runs = []
    for i in range(min(job["runs"], _MOST_RUNS)):
        with model.profile() as rows:
            model.run(named[i % len(named)])
        runs.append(rows)
    return {"operators": mean_of_quiet(runs)}


def mean_of_quiet(runs: Sequence[Sequence[tuple[str, float]]]) -> list[dict[str, Any]]:
    """Averages profiled runs over the faster half of them: shares add up, pauses do not count.

    Args:
      runs: Of each, name and milliseconds of every operator that ran.

    Returns:
      type, calls and ms of each kind of operator in one inference, the largest first.
    """
    quiet = sorted(runs, key=lambda rows: sum(ms for _, ms in rows))[: (len(runs) + 1) // 2]
    calls = collections.Counter(name for name, _ in quiet[0])
    spent: dict[str, float] = collections.defaultdict(float)
    for name, ms in itertools.chain.from_iterable(quiet):
        spent[name] += ms / len(quiet)
    found = [
        {"type": name.removeprefix("Delegate/"), "calls": calls[name], "ms": round(ms, 6)}
        for name, ms in spent.items()
    ]
    return sorted(found, key=lambda row: -row["ms"])
