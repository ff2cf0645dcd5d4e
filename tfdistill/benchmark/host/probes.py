"""What a worker finds out about a file without being timed: delegated nodes, time by operator.

Each probe is a job of `tfdistill.benchmark.host.worker`, in a process of its own.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

from tfdistill.benchmark.host import entries, profiler
from tfdistill.tflite import xnnpack

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
        counted = xnnpack.delegation(job["file"], entry["signature"])
        left = sum(counted.left_operators.values())
        found[str(entry["sequence_length"])] = {
            "delegated_nodes": counted.nodes - left if counted.partitions else 0,
            "nodes": counted.nodes,
            "partitions": counted.partitions,
        }
    return {"coverage": found}


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
