"""Which files are measured first, what every other student then costs, and which are the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import models, pareto
from tfdistill.search import costs
from tfdistill.search.result import MeasuredShape
from tfdistill.search.shapes import Candidate

NUM_ANCHORS = 10  # files that differ; with the teacher more than the seven unknowns of the fit
_ANCHOR_DEPTH = 4  # files of few layers are small, and full layers follow from differences


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a candidate costs: measured, at the slowest of the lengths, or by the fit."""

    candidate: Candidate
    latency_ms: float
    size_bytes: float
    measured: bool

    @property
    def depth(self) -> int:
        """Layers."""
        return self.candidate.config.num_layers

    @property
    def capacity(self) -> int:
        """Parameters of the layers."""
        return costs.capacity(self.candidate.config)


class CostModel:
    """Counts of all candidates, and their costs by a fit to the files that are measured."""

    def __init__(self, candidates: Sequence[Candidate], length: int, head: str) -> None:
        self._candidates, self._length = candidates, length
        self._work = np.array([costs.work(c.config, length, head) for c in candidates])
        self._stored = np.array([costs.stored(c.config, length) for c in candidates])

    def anchors(self, teacher: models.EncoderConfig) -> list[Candidate]:
        """The teacher, and small files that differ."""
        small = [i for i, c in enumerate(self._candidates) if c.config.num_layers <= _ANCHOR_DEPTH]
        cheapest = int(np.argmin(self._work[small].sum(axis=1)))
        apart = costs.far_apart(self._work[small], NUM_ANCHORS, cheapest)
        whole = next(c for c in self._candidates if c.config == teacher)
        chosen = [self._candidates[small[i]] for i in apart]
        return [whole, *(candidate for candidate in chosen if candidate != whole)]

    def estimates(self, measured: Mapping[str, MeasuredShape]) -> list[Estimate]:
        """What each candidate costs; `measured` are files by their candidates' names."""
        rows = [i for i, c in enumerate(self._candidates) if c.name in measured]
        files = [measured[self._candidates[i].name] for i in rows]
        coefficients = costs.fit_latency(
            self._work[rows], [file.p50_ms[self._length] for file in files]
        )
        sizes = costs.fit_size(self._stored[rows], [file.size_bytes for file in files])
        fitted = zip(self._candidates, self._work @ coefficients, self._stored @ sizes, strict=True)
        estimates = [Estimate(c, float(ms), float(size), False) for c, ms, size in fitted]
        for row, file in zip(rows, files, strict=True):
            slowest = max(file.p50_ms.values())
            estimates[row] = Estimate(self._candidates[row], slowest, file.size_bytes, True)
        return estimates


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
