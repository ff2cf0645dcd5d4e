"""The largest part of a teacher within a budget, with as few files measured as it takes."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from tfdistill import config, errors, models
from tfdistill.benchmark.settings import Settings
from tfdistill.budget import costs, measuring, shapes
from tfdistill.budget.shapes import Candidate
from tfdistill.results import quantities

_ROUNDS = 5  # files that are measured at most
_WORDS = 1000  # of the files that are measured: a table is looked up in, whatever its size
# What a unit of `costs.work` takes beside a multiply-add of a quantized product: the first guess,
# which each measured file corrects.
_RELATIVE = np.array([7e6, 3e6, 1, 3, 2, 300, 100])
_SETTINGS = Settings(min_seconds=0.5, repetitions=3)


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a student may cost: of one inference, and of the file in units of 1,000,000 bytes.

    `size_mb` is None for any size.
    """

    latency_ms: float
    size_mb: float | None = None

    def allows(self, latency_ms: float, size_bytes: float) -> bool:
        """Whether a student is within the budget."""
        small = self.size_mb is None or size_bytes <= self.size_mb * 1e6
        return small and latency_ms <= self.latency_ms


@dataclasses.dataclass(frozen=True)
class FittedShape:
    """A student that keeps a budget; `latency_ms` None: the budget says nothing of it.

    `size_bytes` is that of its file, whose word table is made smaller where the budget asks for it.
    """

    part: config.PrunedShape
    config: models.EncoderConfig
    size_bytes: float
    latency_ms: float | None = None


def largest(
    teacher: models.EncoderConfig,
    budget: Budget,
    *,
    measure: measuring.Measure,
    length: int,
    num_lengths: int,
    quantize: str,
    threads: int = 1,
    head: str = "sequence",
    convert: measuring.Convert | None = None,
) -> FittedShape:
    """Chooses the part of a teacher with the most parameters that keeps a budget.

    Sizes follow from the shapes, each with the smallest table of words. Latencies are measured,
    with random weights, at the longest length: the largest shape that should keep the budget first,
    then the largest by that measurement, until one keeps it. If none does, the ConfigError names
    the nearest.
    """
    every = shapes.ladder(teacher, quantize)
    sizes = {
        candidate.name: costs.small_bytes(candidate.config, length, num_lengths, quantize)
        for candidate in every
    }
    small_enough = [c for c in every if budget.allows(0.0, sizes[c.name])]
    if not small_enough:
        name = min(sizes, key=lambda name: sizes[name])
        raise errors.ConfigError(
            "--size-mb", "a size that a part of the teacher can have", f"{budget.size_mb:g}",
            f"The smallest is {name}: {quantities.size(sizes[name])}, most of it the word table.",
        )  # fmt: skip

    def fitted(chosen: Candidate, latency_ms: float | None = None) -> FittedShape:
        whole = costs.file_bytes(chosen.config, length, num_lengths, quantize)
        size_bytes = whole if budget.size_mb is None else min(whole, 1e6 * budget.size_mb)
        return FittedShape(chosen.part, chosen.config, size_bytes, latency_ms)

    if math.isinf(budget.latency_ms):
        return fitted(small_enough[0])
    few_words = {c.name: c for c in shapes.ladder(teacher.replace(vocab_size=_WORDS), quantize)}
    work = {c.name: float(costs.work(c.config, length, head) @ _RELATIVE) for c in small_enough}
    bench = measuring.StudentBench(
        measure,
        convert or measuring.converter(quantize, (length,), head),
        dataclasses.replace(_SETTINGS, threads=(threads,), lengths=(length,), texts=False),
    )
    following = small_enough[len(small_enough) // 2]
    for _ in range(_ROUNDS):
        scale = bench.measure(few_words[following.name]) / work[following.name]
        fast_enough = [c for c in small_enough if work[c.name] * scale <= budget.latency_ms]
        cheapest = min(small_enough, key=lambda c: work[c.name])
        best = next(iter(fast_enough), cheapest)
        if best.name in bench.latency_ms:
            break
        following = best
    latencies = bench.latency_ms
    within = [c for c in small_enough if latencies.get(c.name, math.inf) <= budget.latency_ms]
    if not within:
        name = min(latencies, key=lambda name: latencies[name])
        raise errors.ConfigError(
            "--latency-ms", "a latency that a part of the teacher can have",
            f"{budget.latency_ms:g}",
            f"The fastest that was measured is {name}: {latencies[name]:.3g} ms for {length} "
            "tokens.",
        )  # fmt: skip
    return fitted(within[0], latencies[within[0].name])
