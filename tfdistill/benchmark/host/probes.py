"""Where the time of an inference goes, operator by operator: a job of `host.worker`."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence
from typing import Any

from tfdistill.benchmark.host import profiler
from tfdistill.tflite.signature import Signature

_MOST_RUNS = 50  # each is followed by a page of text


def operators(job: dict[str, Any]) -> dict[str, Any]:
    """Measures where the time of an inference goes, operator by operator, as `mean_of_quiet` says.

    The job has file, signature, feeds, threads, delegate, warmup, runs.
    """
    signature = Signature.from_json(job["signature"])
    model = profiler.ProfiledModel(
        job["file"], signature.key, threads=job["threads"], delegate=job["delegate"]
    )
    names = [tensor.name for tensor in signature.inputs]
    feeds = [signature.padded(**feed) for feed in job["feeds"]]
    named = [dict(zip(names, values, strict=True)) for values in feeds]
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

    A run has name and milliseconds of every operator. Returns type, calls and ms of each kind of
    operator in one inference, the largest first.
    """
    quiet = sorted(runs, key=lambda rows: sum(ms for _, ms in rows))[: (len(runs) + 1) // 2]
    calls = collections.Counter(name for name, _ in quiet[0])
    spent: dict[str, float] = collections.defaultdict(float)
    for name, ms in itertools.chain.from_iterable(quiet):
        spent[name] += ms / len(quiet)
    rows = [
        {"type": name.removeprefix("Delegate/"), "calls": calls[name], "ms": round(ms, 6)}
        for name, ms in spent.items()
    ]
    return sorted(rows, key=lambda row: -row["ms"])
