"""The largest part of a teacher within a budget, with as few files measured as it takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdistill import errors, models
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


class Fit(NamedTuple):
    """A student within a budget, its latency where that was measured, and its quantization."""

    student: Candidate
    latency_ms: float | None
    quantize: str


def largest(
    teacher: models.EncoderConfig,
    *,
    latency_ms: float | None,
    size_mb: float | None,
    formats: Sequence[str],
    **options: Any,
) -> Fit:
    """Chooses the part of a teacher that is worth most and keeps a budget.

    The budget is that of one inference, and of the file in units of 1,000,000 bytes; None for any.
    Of `formats`, which are quantizations, it takes the one that holds the part worth most, the
    first of equals: twice as many weights in four bits are worth more than those in eight.
    `options` are those of `largest_in`.

    Reference: Dettmers and Zettlemoyer 2023, The case for 4-bit precision, arXiv 2212.09720.
    """
    fits, refusal = [], None
    for quantize in formats:
        try:
            budget = {"latency_ms": latency_ms, "size_mb": size_mb}
            fits.append(largest_in(teacher, quantize=quantize, **budget, **options))
        except errors.ConfigError as error:
            refusal = error
    if refusal is not None and not fits:
        raise refusal
    return max(fits, key=lambda fit: fit.student.worth)


def largest_in(
    teacher: models.EncoderConfig,
    *,
    latency_ms: float | None,
    size_mb: float | None,
    measure: measuring.Measure,
    lengths: Sequence[int],
    quantize: str,
    least_table: Callable[[models.EncoderConfig, str], float] = costs.small_table_bytes,
    at_least: models.EncoderConfig | None = None,
    threads: int = 1,
    head: str = "sequence",
    convert: measuring.Convert | None = None,
) -> Fit:
    """The part of a teacher that is worth most in a quantization.

    Sizes follow from the shapes, each with the smallest table of words, whose bytes `least_table`
    gives for a shape and a quantization; none has fewer layers or is narrower than `at_least`.
    Latencies are measured, with random weights, at the longest length: the largest shape that
    should keep the budget first, then the largest by that measurement, until one keeps it. If none
    does, the ConfigError names the nearest.
    """

    def smallest(shape: models.EncoderConfig) -> float:
        rest = costs.file_bytes(shape, lengths, quantize) - costs.table_bytes(shape, quantize)
        return rest + least_table(shape, quantize)

    every, length = shapes.ladder(teacher, quantize), max(lengths)
    if at_least is not None:
        depth, width = at_least.num_layers, at_least.hidden_size
        every = [c for c in every if c.config.num_layers >= depth and c.config.hidden_size >= width]
    sizes = {candidate.name: smallest(candidate.config) for candidate in every}
    small_enough = [c for c in every if size_mb is None or sizes[c.name] <= 1e6 * size_mb]
    if not small_enough:
        name = min(sizes, key=lambda name: sizes[name])
        raise errors.ConfigError(
            "--size-mb", "a size that a part of the teacher can have", f"{size_mb:g}",
            f"The smallest is {name}: {quantities.size(sizes[name])}.",
        )  # fmt: skip

    if latency_ms is None:
        return Fit(small_enough[0], None, quantize)
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
        fast_enough = [c for c in small_enough if work[c.name] * scale <= latency_ms]
        cheapest = min(small_enough, key=lambda c: work[c.name])
        best = next(iter(fast_enough), cheapest)
        if best.name in bench.latency_ms:
            break
        following = best
    latencies = bench.latency_ms
    within = [c for c in small_enough if latencies.get(c.name, math.inf) <= latency_ms]
    if not within:
        name = min(latencies, key=lambda name: latencies[name])
        raise errors.ConfigError(
            "--latency-ms", "a latency that a part of the teacher can have",
            f"{latency_ms:g}",
            f"The fastest that was measured is {name}: {latencies[name]:.3g} ms for {length} "
            "tokens.",
        )  # fmt: skip
    return Fit(within[0], latencies[within[0].name], quantize)
