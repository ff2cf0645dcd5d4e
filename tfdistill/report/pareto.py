"""Which files are worth a look: none is at least as good in accuracy, latency and size. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Point:
    """What a file costs and what it is worth.

    Attributes:
      label: Unique in its chart.
      accuracy: The task's metric, higher is better; None where it is not known.
      latency_ms: Median of one inference.
      interval_ms: Its 95% interval; None where there is none.
      size_bytes: Of the file.
      series: Number of its colour and mark.
      throttled: Whether the device throttled.
      number: What it is called where its label has no room.
    """

    label: str
    accuracy: float | None
    latency_ms: float | None
    interval_ms: tuple[float, float] | None
    size_bytes: int | None
    series: int = 1
    throttled: bool = False
    number: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """What is not known of it."""
        known = {
            "accuracy": self.accuracy,
            "latency": self.latency_ms,
            "size": self.size_bytes,
        }
        return tuple(name for name, value in known.items() if value is None)


def dominates(one: Point, other: Point) -> bool:
    """Says whether one point is as good as another in everything and better in something.

    A latency is better or worse only where the intervals do not touch; without intervals, where
    the medians differ.

    Args:
      one: A point of which nothing is missing.
      other: Another.

    Returns:
      Whether nobody has a reason to prefer `other`.
    """
    assert one.accuracy is not None and one.size_bytes is not None
    assert other.accuracy is not None and other.size_bytes is not None
    (low, high), (other_low, other_high) = _interval(one), _interval(other)
    if one.accuracy < other.accuracy or one.size_bytes > other.size_bytes or low > other_high:
        return False
    better = one.accuracy > other.accuracy or one.size_bytes < other.size_bytes
    return better or high < other_low


def front(points: Sequence[Point]) -> tuple[bool, ...]:
    """Says of each point whether it is on the Pareto front.

    Args:
      points: The points; one of which something is missing is never on the front and keeps no
        other from it.

    Returns:
      A truth value for each. Equal points are on the front together.
    """
    whole = [point for point in points if not point.missing]
    return tuple(
        not point.missing and not any(dominates(other, point) for other in whole)
        for point in points
    )


def _interval(point: Point) -> tuple[float, float]:
    assert point.latency_ms is not None
    if point.interval_ms is None:
        return point.latency_ms, point.latency_ms
    return point.interval_ms
