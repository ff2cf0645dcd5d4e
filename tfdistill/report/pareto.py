"""The Pareto front of choices, whose costs may be intervals. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Cost = tuple[float, float]  # the interval of a cost, lower is better; both ends equal if exact


def exact(value: float) -> Cost:
    """Returns the interval of a cost that is known exactly."""
    return value, value


def front(choices: Sequence[Sequence[Cost]]) -> list[bool]:
    """Says of each choice whether no other dominates it: nowhere worse, somewhere better.

    All have the same number of costs. A cost is better or worse only where the intervals do not
    touch. Equal choices are on the front together.
    """
    costs = (
        np.asarray(choices, dtype=np.float64).reshape(len(choices), -1, 2)
        if choices
        else np.empty((0, 0, 2))
    )
    lows, highs = costs[..., 0], costs[..., 1]
    return [
        not ((lows <= high).all(axis=1) & (highs < low).any(axis=1)).any()
        for low, high in zip(lows, highs, strict=True)
    ]
