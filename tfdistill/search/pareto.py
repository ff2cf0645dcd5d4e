"""Which students are worth training: dominance, and few that differ. Pure.

Nothing is known of the accuracy of a student that was not trained. Its proxy is capacity:
the parameters of its layers, and their number. It says nothing across kinds (an activation or a
normalization can cost accuracy at the same size), so students dominate only others of their kind.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tfdistill import pareto
from tfdistill.search.space import Candidate

_LARGEST_RESERVE = 0.1  # of a prediction, below the budget
_WORTH = 0.7  # of the largest capacity of its kind and depth: less is no use of the budget


@dataclasses.dataclass(frozen=True)
class Estimate:
    """What a candidate costs, and the proxies of its accuracy.

    Attributes:
      candidate: The student.
      latency_ms: Predicted, at the longest length.
      interval_ms: It is inside in `fit.COVERAGE` of the cases.
      size_bytes: Predicted.
      capacity: Parameters of its layers, without tables and head.
      parameters: All of them.
      flops: Of one example at the longest length.
    """

    candidate: Candidate
    latency_ms: float
    interval_ms: tuple[float, float]
    size_bytes: int
    capacity: int
    parameters: int
    flops: int

    @property
    def depth(self) -> int:
        """Layers."""
        return self.candidate.config.num_layers


@dataclasses.dataclass(frozen=True)
class Budget:
    """What a student may cost.

    Attributes:
      latency_ms: Of one inference at the longest length. The upper end of a prediction's interval
        has to keep it, or a tenth above the prediction where that is less: what is chosen is
        measured in any case.
      size_mb: Of the file, in units of 1,000,000 bytes; None for any.
    """

    latency_ms: float
    size_mb: float | None = None

    def allows(self, estimate: Estimate) -> bool:
        """Whether a candidate is within the budget."""
        cautious = min(estimate.interval_ms[1], (1 + _LARGEST_RESERVE) * estimate.latency_ms)
        return cautious <= self.latency_ms and self.allows_size(estimate.size_bytes)

    def allows_size(self, size_bytes: float) -> bool:
        """Whether a file is small enough."""
        return self.size_mb is None or size_bytes <= self.size_mb * 1e6


def dominates(one: Estimate, other: Estimate) -> bool:
    """Whether `one` makes `other`, which is of the same kind, useless.

    `one` is at most as slow and as large and at least as deep and rich in parameters, and better
    in one of these.
    """
    same_kind = one.candidate.kind == other.candidate.kind
    return same_kind and pareto.dominates(_costs(one), _costs(other))


def front(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Returns those that no other of their kind dominates, in their order."""
    kept: set[int] = set()
    for kind in {estimate.candidate.kind for estimate in estimates}:
        same = [i for i, estimate in enumerate(estimates) if estimate.candidate.kind == kind]
        on = pareto.front([_costs(estimates[i]) for i in same])
        kept.update(i for i, is_on in zip(same, on, strict=True) if is_on)
    return [estimate for i, estimate in enumerate(estimates) if i in kept]


def diverse(estimates: Sequence[Estimate], count: int) -> list[Estimate]:
    """Chooses a few that differ, beginning with the largest capacity.

    Each next one is the one farthest from all chosen, in factors of latency, capacity, size and
    depth, and in kind. Those with less than 70% of the largest capacity of their kind and depth are
    chosen last.

    Args:
      estimates: The front.
      count: How many at most.

    Returns:
      The chosen ones; the earlier, the more they add.
    """
    best: dict[tuple[str, int], int] = {}
    for estimate in estimates:
        alike = (estimate.candidate.kind, estimate.depth)
        best[alike] = max(best.get(alike, 0), estimate.capacity)
    chosen: list[Estimate] = []
    for worth in (True, False):
        rest = [
            e
            for e in estimates
            if (e.capacity >= _WORTH * best[e.candidate.kind, e.depth]) == worth
        ]
        while rest and len(chosen) < count:
            if chosen:
                following = max(rest, key=lambda e: min(_distance(e, other) for other in chosen))
            else:
                following = max(rest, key=lambda e: (e.capacity, e.depth))
            rest.remove(following)
            chosen.append(following)
    return chosen


def _costs(estimate: Estimate) -> list[pareto.Cost]:
    costs = estimate.latency_ms, estimate.size_bytes, -estimate.capacity, -estimate.depth
    return [pareto.exact(cost) for cost in costs]


def _distance(one: Estimate, other: Estimate) -> float:
    factors = [
        one.latency_ms / other.latency_ms,
        one.capacity / other.capacity,
        one.size_bytes / other.size_bytes,
        (one.depth / other.depth) ** 2,  # what depth does is what is known least
    ]
    distance = math.hypot(*(math.log2(factor) for factor in factors))
    return distance + 0.5 * (one.candidate.kind != other.candidate.kind)
