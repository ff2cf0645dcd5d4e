"""Busy: the speed-up of two files beside a spinning process on each core, against the quiet one.

On the clock, the ratio of a long inference and a short one grows several times: programs take turns
of some milliseconds, which the short one escapes. The benchmark must show nearly the quiet ratio,
or none. Weights are random: time does not depend on them.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import inference
import record

from tfdistill.benchmark import cores, schema
from tfdistill.benchmark.settings import Settings

_TARGET = 0.87  # a ratio within 15%
_COLUMNS = {
    *("model", "sequence_length", "threads", "repetition", "block_runs"),
    *("samples_ms", "processor_ms", "waits", "preemptions"),
}


def measure(*, quick: bool) -> record.Outcome:
    """Exports two files, and compares them without other work, then beside it."""
    from tfdistill.benchmark import host

    presets, length = {"slow": "bert_small", "fast": "bert_mini"}, 64
    settings: dict[str, Any] = {"threads": (1, 2), "runs": 20, "min_seconds": 0.1, "rounds": 5}
    if quick:
        presets, length = {"slow": "bert_mini", "fast": "bert_tiny"}, 16
        settings |= {"runs": 4, "min_seconds": 0.0, "rounds": 2}
    settings |= {"lengths": (length,), "repetitions": 3, "texts": False}
    formats = {"slow": "float32", "fast": "dynamic_wi8_afp32"}
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        files = {
            name: inference.export(preset, formats[name], (length,), folder, quick=quick)
            for name, preset in presets.items()
        }
        with undisturbed():
            quiet = host.compare(files, settings=Settings(**settings))
        with spinning():
            loaded = host.compare(files, settings=Settings(**settings))
    (before, _), (after, withheld) = quiet.comparisons, loaded.comparisons
    change = after.speedup / before.speedup
    shown = f"{withheld.speedup:.2f}x" if withheld.speedup_ci else "withheld"
    return record.Outcome(
        title=f"busy: {presets['fast']} against {presets['slow']} beside a spinning process a core",
        figures=[
            record.Figure(
                "agreement of the speed-ups, one thread",
                min(change, 1 / change),
                _TARGET,
                note=f"{before.speedup:.2f}x quiet, {after.speedup:.2f}x beside other work",
            )
        ],
        details=[
            ("the same on the clock", f"{clock_ratio(quiet):.2f}x, {clock_ratio(loaded):.2f}x"),
            ("marked as busy", f"quiet {before.busy}, beside other work {after.busy}"),
            ("two threads beside other work", shown),
        ],
        settings={"presets": presets, **quiet.settings},
        samples={"quiet": samples(quiet), "loaded": samples(loaded)},
        notes=[f"beside other work: {note}" for note in loaded.notes],
    )


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Gives this process and its children real-time priority, where the system lets it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except (AttributeError, PermissionError):  # the machine has to be quiet by itself
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@contextlib.contextmanager
def spinning() -> Iterator[None]:
    """Runs a process on each usable core that does nothing but compute."""
    command = [sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as stack:
        for _ in cores.usable():
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
        yield


def clock_ratio(result: schema.Result) -> float:
    """The ratio of the medians of one thread as the clock saw them."""
    samples_ms: dict[str, list[float]] = {"slow": [], "fast": []}
    for row in result.measurements:
        if row.threads == 1:
            samples_ms[row.model] += row.samples_ms
    return statistics.median(samples_ms["slow"]) / statistics.median(samples_ms["fast"])


def samples(result: schema.Result) -> list[dict[str, Any]]:
    """The samples of a result, with what they had of the processor."""
    return [row.model_dump(mode="json", include=_COLUMNS) for row in result.measurements]
