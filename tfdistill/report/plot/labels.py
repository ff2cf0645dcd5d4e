"""Positions of text in charts: names of points and lines do not cover one another. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report.plot import svg

PLAIN, BOLD = 7.4, 8.3  # width of a letter of 12.5 pixels, in wide fonts
_HEIGHT = 15.0
_REACH = 6.0  # of a mark around its point
Box = tuple[float, float, float, float]  # left, top, right, bottom


@dataclasses.dataclass(frozen=True)
class Placed:
    """A text and its position: `x`, `y` of its baseline, and the anchor of SVG."""

    text: str
    x: float
    y: float
    anchor: str


def width_of(text: str, letter: float = BOLD) -> float:
    """About how wide a text is, in pixels, rather too wide than too narrow."""
    return letter * len(text)


def centred(x: float, y: float, text: str, width: float) -> Markup:
    """Writes the text of a tick below x, moved so that a chart of this width does not cut it."""
    half = width_of(text) / 2 + 3
    return svg.text(min(max(x, half), width - half), y, text, class_="tick", anchor="middle")


def fitted(text: str, width: float, letter: float = BOLD) -> str:
    """Shortens a text in its middle: names often differ at their ends."""
    return fmt.shortened(text, max(int(width / letter), 5))


def place(
    points: Sequence[tuple[float, float]],
    texts: Sequence[Sequence[str]],
    frame: Box,
    obstacles: Sequence[Box] = (),
) -> list[Placed | None]:
    """Finds a free position next to each point for its name."""
    taken: list[Box] = [(x - _REACH, y - _REACH, x + _REACH, y + _REACH) for x, y in points]
    taken += obstacles
    placed: list[Placed | None] = []
    for i, (x, y) in enumerate(points):
        others = taken[:i] + taken[i + 1 :]
        free = (
            (label, box)
            for text in texts[i]
            for label, box in _around(text, x, y)
            if _inside(box, frame) and not any(overlap(box, other) for other in others)
        )
        label, box = next(free, (None, None))
        placed.append(label)
        taken += [box] if box is not None else []
    return placed


def spread(ys: Sequence[float], low: float, high: float, gap: float = _HEIGHT) -> list[float]:
    """Separates heights so that lines of text fit, each as close to its own as possible."""
    order = sorted(range(len(ys)), key=lambda i: ys[i])
    moved = [min(max(ys[i], low), high) for i in order]
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    for i in reversed(range(len(moved))):  # what was pushed out of the frame comes back
        moved[i] = min(moved[i], high if i == len(moved) - 1 else moved[i + 1] - gap)
    heights = [0.0] * len(ys)
    for i, y in zip(order, moved, strict=True):
        heights[i] = y
    return heights


def _around(text: str, x: float, y: float) -> list[tuple[Placed, Box]]:
    """Positions around a point: right, left, above, below, then the corners."""
    width, away = width_of(text), _REACH + 4
    offsets = [
        ("start", away, 4.0),
        ("end", -away, 4.0),
        ("middle", 0.0, -away - 1),
        ("middle", 0.0, away + 10),
        ("start", away - 2, -away + 2),
        ("start", away - 2, away + 8),
        ("end", -away + 2, -away + 2),
        ("end", -away + 2, away + 8),
    ]
    positions = []
    for anchor, dx, dy in offsets:
        left = x + dx - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
        baseline = y + dy
        box = (left, baseline - 11, left + width, baseline + 3)
        positions.append((Placed(text, x + dx, baseline, anchor), box))
    return positions


def _inside(box: Box, frame: Box) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share an area."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
