"""What is measured to fit to, what every other student then costs, and which are worth more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfdistill import models, pareto
from tfdistill.search import costs, result
from tfdistill.search.measuring import MeasuredStudent, StudentBench
from tfdistill.search.shapes import Candidate

_ANCHOR_DEPTH = 4  # files of few layers are small, and full layers follow from differences


@dataclasses.dataclass(frozen=True)
class Effort:
    """How much is measured to fit to: files spread over all shapes, and files near the budget."""

    anchors: int = 10
    near: int = 6


QUICK = Effort(anchors=6, near=4)


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a candidate costs by the fit, at the longest length."""

    candidate: Candidate
    latency_ms: float
    size_bytes: float

    @property
    def depth(self) -> int:
        """Layers."""
        return self.candidate.config.num_layers

    @property
    def capacity(self) -> int:
        """Parameters of the layers."""
        return costs.capacity(self.candidate.config)


@dataclasses.dataclass(frozen=True)
class Learned:
    """A fit to measured files: what every candidate costs, by name."""

    estimates: dict[str, Estimate]
    coefficients: tuple[float, ...]  # milliseconds a unit of `costs.work`
    errors: result.PredictionErrors  # of files near the budget, each by a fit without it
    files: dict[result.Role, list[MeasuredStudent]]


def learn(
    device: StudentBench,
    candidates: Sequence[Candidate],
    teacher: models.EncoderConfig,
    budget_ms: float,
    length: int,
    head: str,
    effort: Effort,
) -> Learned:
    """Measures the teacher, shapes that differ and shapes near the budget, and fits to them."""
    counts = np.array([costs.work(c.config, length, head) for c in candidates])
    contents = np.array([costs.stored(c.config, length) for c in candidates])
    whole = next(i for i, c in enumerate(candidates) if c.config == teacher)
    small = [i for i, c in enumerate(candidates) if c.config.num_layers <= _ANCHOR_DEPTH]
    cheapest = int(np.argmin(counts[small].sum(axis=1)))
    apart = [small[i] for i in costs.far_apart(counts[small], effort.anchors, cheapest)]
    anchors = [whole, *(i for i in apart if i != whole)]
    spread = device.measure([candidates[i] for i in anchors], "anchors")
    latency_ms = [file.p50_ms[length] for file in spread]
    first = counts @ costs.fit_latency(counts[anchors], latency_ms)
    others = np.setdiff1d(np.arange(len(candidates)), anchors)
    drawn = others[costs.near_budget(first[others], budget_ms, effort.near)].tolist()
    near = device.measure([candidates[i] for i in drawn], "near") if drawn else []
    latency_ms += [file.p50_ms[length] for file in near]
    fitted = [*anchors, *drawn]
    # What the answer is about are students near the budget, not the outermost ones.
    judged = range(len(anchors) if drawn else 0, len(fitted))
    wrong = costs.left_out_errors(counts[fitted], latency_ms, judged)
    coefficients = costs.fit_latency(counts[fitted], latency_ms)
    sizes = costs.fit_size(contents[fitted], [file.size_bytes for file in [*spread, *near]])
    estimated = zip(candidates, counts @ coefficients, contents @ sizes, strict=True)
    return Learned(
        {c.name: Estimate(c, float(ms), float(size)) for c, ms, size in estimated},
        tuple(coefficients.tolist()),
        result.PredictionErrors(
            n=len(wrong), median=float(np.median(wrong)), worst=float(wrong.max())
        ),
        {"teacher": spread[:1], "anchor": spread[1:], "near": near},
    )


def front(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Those that no other beats: faster, smaller, with more parameters in layers, deeper."""
    choices = [
        [pareto.exact(cost) for cost in (e.latency_ms, e.size_bytes, -e.capacity, -e.depth)]
        for e in estimates
    ]
    return [e for e, is_best in zip(estimates, pareto.front(choices), strict=True) if is_best]


def by_depth(estimates: Sequence[Estimate]) -> list[Estimate]:
    """The richest of each depth first, then the second of each: what depth does is known least."""
    ordered = sorted(estimates, key=lambda e: (-e.capacity, -e.depth))
    rank: dict[str, int] = {}
    seen: dict[int, int] = {}
    for estimate in ordered:
        rank[estimate.candidate.name] = seen[estimate.depth] = seen.get(estimate.depth, -1) + 1
    return sorted(ordered, key=lambda estimate: rank[estimate.candidate.name])
