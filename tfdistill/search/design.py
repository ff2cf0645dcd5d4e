"""Which files to measure: few that differ in what they do. Pure.

The blocks that a latency is fitted to have one to four layers, so that full layers are known from
differences and files are small. What the fit is judged by are whole students of the space that it
has not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import models
from tfdistill.search import work
from tfdistill.search.space import Candidate

_DEPTHS = (1, 2, 4)
# Measured again and again: identifies a device and its drift, whatever is searched.
ANCHOR = Candidate(
    "gelu",
    models.EncoderConfig(
        family="tinybert", num_layers=2, hidden_size=192, num_heads=12, intermediate_size=768
    ),
)


def blocks(
    space: Sequence[Candidate], length: int, *, head: str, count: Mapping[bool, int]
) -> list[Candidate]:
    """Chooses the files that the latency is fitted to.

    Starting at the cheapest, each next one is farthest from all chosen in the logarithms of its
    work, so that every feature is seen small and large, and independently of the others.

    Args:
      space: All candidates.
      length: Tokens.
      head: See `work.work`.
      count: How many of MobileBERT's blocks (True) and of BERT's layers (False).

    Returns:
      The blocks, of unique names.
    """
    chosen: list[Candidate] = []
    for mobile, wanted in count.items():
        found = {
            block.name: block
            for candidate in space
            if isinstance(candidate.config, models.MobileBertConfig) == mobile
            for block in (candidate.with_layers(depth) for depth in _DEPTHS)
        }
        chosen += _far_apart(list(found.values()), length, head, wanted)
    return chosen


def near_budget(
    space: Sequence[Candidate],
    latency_ms: Sequence[float],
    budget_ms: float,
    *,
    count: int,
    seed: int = 0,
) -> list[Candidate]:
    """Draws whole students near the budget, which the answer is about.

    Args:
      space: All candidates.
      latency_ms: Their predictions.
      budget_ms: The budget.
      count: How many.
      seed: Of the draw.

    Returns:
      Candidates predicted at 0.3 to 1.2 of the budget, or the nearest where there are too few, in
      random order: any part of them is a sample too.
    """
    ratios = np.log(np.maximum(np.asarray(latency_ms), 1e-9) / budget_ms)
    inside = np.flatnonzero((ratios > np.log(0.3)) & (ratios < np.log(1.2)))
    if len(inside) < count:
        inside = np.argsort(np.abs(ratios), kind="stable")[:count]
    drawn = np.random.default_rng(seed).permutation(inside)[:count]
    return [space[i] for i in drawn]


def _far_apart(blocks: list[Candidate], length: int, head: str, count: int) -> list[Candidate]:
    if not blocks:
        return []
    counts = work.matrix([block.config for block in blocks], length, head=head)
    points = np.log1p(counts / np.maximum(np.median(counts, axis=0), 1))
    distance = np.full(len(blocks), np.inf)
    chosen: list[int] = []
    following = int(np.argmin(counts.sum(axis=1)))
    while len(chosen) < min(count, len(blocks)):
        chosen.append(following)
        distance = np.minimum(distance, np.linalg.norm(points - points[following], axis=1))
        following = int(np.argmax(distance))
    return [blocks[i] for i in chosen]
