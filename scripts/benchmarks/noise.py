"""Noise: a file against itself, again and again; how often the interval of the ratio holds 1.

An honest 95% interval misses 1 about once in twenty. Weights are random: time does not depend on
them.
"""

from __future__ import annotations

import tempfile
from typing import Any

import inference
import record
import tqdm

from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings

NUM_COMPARISONS = 20
_TARGET = 19.0


def measure(*, quick: bool) -> record.Outcome:
    """Exports one file and compares it with itself, in runs with orders of their own."""
    from tfdistill.benchmark import host

    preset, length, count = "tinybert_4l_312d", 64, NUM_COMPARISONS
    settings: dict[str, Any] = {"lengths": (length,), "runs": 100, "min_seconds": 0.5}
    settings |= {"repetitions": 3, "texts": False}
    if quick:
        preset, length, count = "bert_tiny", 16, 2
        settings |= {"lengths": (length,), "runs": 10, "min_seconds": 0.0}
    results = []
    with tempfile.TemporaryDirectory(prefix="tfdistill-bench-") as folder:
        file = inference.export(preset, "dynamic_wi8_afp32", (length,), folder, quick=quick)
        for seed in tqdm.trange(count, desc="comparisons", disable=None):
            results.append(
                host.compare({"a": file, "b": file}, settings=Settings(seed=seed, **settings))
            )
    pairs = [comparison for result in results for comparison in result.comparisons]
    held = sum(holds_one(pair.speedup_ci) for pair in pairs)
    widths = sorted(high / low for low, high in (pair.speedup_ci for pair in pairs))
    p50_ms = sorted(row.p50_ms for result in results for row in result.summary)
    loads = [result.before.load_average for result in results if result.before is not None]
    measured_loads = [load for load in loads if load is not None]
    return record.Outcome(
        title=f"noise: {preset} against itself at {length} tokens, one thread, {count} times",
        figures=[record.Figure("intervals that hold 1", float(held), _TARGET)],
        details=[
            ("ratios", ", ".join(f"{pair.speedup:.3f}" for pair in pairs)),
            ("interval, high / low", f"median {widths[len(widths) // 2]:.3f}"),
            ("p50 ms of all", f"{p50_ms[0]:.3f} to {p50_ms[-1]:.3f}"),
            (
                "load average before a run",
                f"at most {max(measured_loads):.1f}" if measured_loads else "unknown",
            ),
        ],
        settings={"preset": preset, "comparisons": count, **results[0].settings},
        samples={"comparisons": [_samples(*one) for one in enumerate(results)]},
        notes=["Each comparison has fresh processes and an order of its own."],
    )


def _samples(seed: int, result: schema.Result) -> dict[str, Any]:
    """The durations of both sides, a list for each repetition, and what they say."""
    (pair,) = result.comparisons
    sides: dict[str, Any] = {pair.baseline: [], pair.candidate: []}
    for measurement in result.measurements:
        sides[measurement.model].append(measurement.samples_ms)
    said = {"speedup": pair.speedup, "speedup_ci": pair.speedup_ci}
    return {"seed": seed, **said, "samples_ms": sides}


def holds_one(interval: tuple[float, float]) -> bool:
    """Whether the interval of a ratio leaves open that both are equally fast."""
    low, high = interval
    return low <= 1.0 <= high
