"""Scalable vector graphics as escaped text, and the arithmetic of axes. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence

from markupsafe import Markup, escape

_LARGEST = 1.4  # times its own size: beyond, text is too large


def element(tag: str, *children: str | Markup, **attributes: object) -> Markup:
    """Writes one element; text and attribute values are escaped."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    inside = Markup("").join(children)
    return Markup(f"<{tag}{written}>{inside}</{tag}>" if inside else f"<{tag}{written}/>")


def picture(
    key: str, width: float, height: float, title: str, description: str, parts: Sequence[Markup]
) -> Markup:
    """Writes a graphic that a screen reader announces by title and description."""
    return element(
        "svg",
        element("title", title, id=f"{key}-title"),
        element("desc", description, id=f"{key}-desc"),
        element("g", *parts, aria_hidden="true"),  # the description says it in words
        xmlns="http://www.w3.org/2000/svg",
        role="img",
        viewBox=f"0 0 {_value(width)} {_value(height)}",
        aria_labelledby=f"{key}-title",
        aria_describedby=f"{key}-desc",
        style=f"max-width: {_value(width * _LARGEST)}px",
    )


def text(x: float, y: float, content: str, *, class_: str = "", anchor: str = "start") -> Markup:
    """Writes text with its baseline at (x, y)."""
    return element("text", content, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Draws a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]]) -> str:
    """Returns the path through points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def icon(size: int, *parts: Markup) -> Markup:
    """Writes a small graphic for a legend, which a screen reader skips."""
    box = f"0 0 {size} {size}"
    return element("svg", *parts, viewBox=box, width=size, height=size, aria_hidden="true")


def tick_words(show: Callable[[float], str], tick: float) -> str:
    """Writes a round value without trailing zeros."""
    head, _, unit = show(tick).partition(" ")
    if "." in head:
        head = head.rstrip("0").rstrip(".")
    return f"{head} {unit}".strip()


@dataclasses.dataclass(frozen=True)
class Scale:
    """Maps values to positions, linearly or by logarithm."""

    low: float  # value at `start`
    high: float  # value at `end`
    start: float  # position of `low`
    end: float  # position of `high`
    log: bool = False  # whether positions follow the logarithm

    def __call__(self, value: float) -> float:
        """Returns the position of a value."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, number: int = 4) -> list[float]:
        """Returns round values inside the scale."""
        if self.log:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            fine = [m * 10.0**p for p in powers for m in (1, 2, 5)]
            inside = [v for v in fine if self.low <= v <= self.high]
            return inside[:: max(1, math.ceil(len(inside) / number))]
        return round_ticks(self.low, self.high, number)


def round_ticks(low: float, high: float, number: int = 4) -> list[float]:
    """Returns about `number` multiples of 1, 2 or 5 times a power of ten in [low, high]."""
    if not high > low:
        return [low]
    rough = (high - low) / max(number, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def padded(values: Sequence[float], share: float = 0.08) -> tuple[float, float]:
    """Returns the range of the values, widened by a share of it on both sides."""
    low, high = min(values), max(values)
    margin = (high - low) * share or abs(high) * share or 1.0
    return low - margin, high + margin


def thinned(points: Sequence[tuple[float, float]], limit: int = 200) -> list[tuple[float, float]]:
    """Reduces a curve to at most `limit` points: means of equal groups, with both ends kept."""
    if len(points) <= limit:
        return list(points)
    inner = points[1:-1]
    groups = limit - 2
    reduced = [points[0]]
    for i in range(groups):
        part = inner[i * len(inner) // groups : (i + 1) * len(inner) // groups]
        xs, ys = zip(*part, strict=True)
        reduced.append((sum(xs) / len(xs), sum(ys) / len(ys)))
    return [*reduced, points[-1]]


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
