"""Line charts: training curves, latency by length. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report.plot import charts, labels, svg
from tfdistill.results import quantities

MOST_LINES = 8  # more cannot be distinguished
_LEFT, _TOP, _BOTTOM = 52.0, 32.0, 40.0
_LARGE = 350.0, 254.0  # pixels
_LONGEST_NAME = 100.0  # pixels


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve."""

    label: str  # its name
    points: tuple[tuple[float, float], ...]  # x and y, x ascending; at least one
    series: int  # number of its colour and mark
    short: str = ""  # the text at its end; empty for none
    # the 95% interval of each point, or None
    intervals: tuple[tuple[float, float] | None, ...] = ()
    hollow: tuple[bool, ...] = ()  # which of the points are marked, see `devices.marks`


@dataclasses.dataclass(frozen=True)
class _Frame:
    """The axes of a chart, and what was drawn of them."""

    across: svg.Scale
    up: svg.Scale
    parts: list[Markup]


def short_names(names: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
    """Returns the texts at the ends of curves: names, or numbers where a name does not fit."""
    if all(labels.width_of(name, labels.PLAIN) <= _LONGEST_NAME for name in names):
        return {name: name for name in names}
    return {name: f"{numbers[name]}" for name in names}


def curve_panel(
    key: str,
    title: str,
    lines: Sequence[Line],
    *,
    show: Callable[[float], str] = lambda value: f"{value:g}",
    most: float | None = None,
    x_title: str = "epoch",
) -> Markup:
    """Draws curves, with a logarithmic y where values span a factor of 20."""
    width, height = 300.0, 190.0
    ys = [y for line in lines for _, y in line.points]
    log = _is_log(ys)
    low, high = (min(ys) / 1.2, max(ys) * 1.2) if log else svg.padded(ys)
    frame = _frame(lines, (low, high), log, (width, height), title, x_title, show, most)
    for line in lines:
        frame.parts.extend(_curve(frame, line))
    description = "; ".join(
        f"{line.label}: {show(line.points[0][1])} at first, {show(line.points[-1][1])} at last"
        for line in lines
    )
    return svg.picture(key, width, height, title, description, frame.parts)


def latencies(key: str, title: str, lines: Sequence[Line]) -> Markup:
    """Draws latency over a few lengths."""
    ys = [y for line in lines for _, y in line.points]
    ends = [end for line in lines for interval in line.intervals if interval for end in interval]
    most, log, size = (
        max([*ys, *(end for end in ends if end <= 1.6 * max(ys))]),
        _is_log(ys),
        _LARGE,
    )
    low, high = (min(ys) / 1.3, most * 1.3) if log else (0.0, most * 1.1)
    frame = _frame(lines, (low, high), log, size, "↑ Latency", "tokens", _latency_tick)
    for i, line in enumerate(lines):
        aside = 2.6 * (i - (len(lines) - 1) / 2)  # so that whiskers do not cover one another
        for (x, _), interval in zip(line.points, line.intervals, strict=True):
            if interval is None:
                continue
            top, bottom = (frame.up(min(max(value, low or 1e-9), high)) for value in interval)
            if abs(top - bottom) > 7:
                x = frame.across(x) + aside
                style = f"whisker {charts.style(line.series)}"
                frame.parts.append(svg.line(x, top, x, bottom, style))
        frame.parts.extend(_curve(frame, line))
    frame.parts.extend(_names(frame, lines))
    description = "; ".join(
        f"{line.label}: " + ", ".join(f"{fmt.milliseconds(y)} at {x:g}" for x, y in line.points)
        for line in lines
    )
    return svg.picture(key, *size, title, description, frame.parts)


def loss(value: float) -> str:
    """Writes a loss at a tick: at most three digits."""
    if value == 0 or abs(value) >= 1:
        return f"{value:.3g}"
    return quantities.digits(value, 3).rstrip("0")


def _latency_tick(value: float) -> str:
    return svg.tick_words(fmt.milliseconds, value) if value else "0"


def _frame(
    lines: Sequence[Line],
    limits: tuple[float, float],
    log: bool,
    size: tuple[float, float],
    y_title: str,
    x_title: str,
    show: Callable[[float], str],
    most: float | None = None,
) -> _Frame:
    """Scales, grid, ticks and titles."""
    width, height = size
    xs = sorted({x for line in lines for x, _ in line.points})
    widest = max(labels.width_of(line.short, labels.PLAIN) for line in lines)
    right = width - (20 + min(widest, _LONGEST_NAME) if widest else 20)
    span = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] - 1, xs[0] + 1)
    across = svg.Scale(*span, _LEFT + 10, right)
    up = svg.Scale(*limits, height - _BOTTOM, _TOP, log)
    parts = [svg.text(0, 13, y_title + (" (log scale)" if log else ""), class_="tick")]
    for tick in up.ticks(4):
        if most is None or tick <= most:
            y = up(tick)
            parts.append(svg.line(_LEFT, y, right + 6, y, "grid"))
            parts.append(svg.text(_LEFT - 6, y + 4, show(tick), class_="tick", anchor="end"))
    for x in xs if len(xs) <= 6 else svg.round_ticks(*span, 4):
        tick = svg.text(
            across(x), height - _BOTTOM + 17, f"{x:,.4g}", class_="tick", anchor="middle"
        )
        parts.append(tick)
    middle = (_LEFT + 10 + right) / 2
    parts.append(svg.text(middle, height - 4, x_title, class_="tick", anchor="middle"))
    return _Frame(across, up, parts)


def _curve(frame: _Frame, line: Line) -> list[Markup]:
    style = charts.style(line.series)
    spots = [(frame.across(x), frame.up(y)) for x, y in svg.thinned(line.points)]
    parts = []
    if len(spots) > 1:
        parts.append(svg.element("path", d=svg.polyline(spots), class_=f"curve {style}"))
    if len(spots) <= 12:
        for i, (x, y) in enumerate(spots):
            if line.hollow and line.hollow[i]:
                parts.append(svg.element("circle", cx=x, cy=y, r=4, class_=f"ring {style}"))
            else:
                parts.append(charts.mark(x, y, line.series, 3.4))
    return parts


def _names(frame: _Frame, lines: Sequence[Line]) -> list[Markup]:
    """The name of each curve at its end, with a thin line where it had to be moved."""
    ends = [(frame.across(line.points[-1][0]), frame.up(line.points[-1][1])) for line in lines]
    heights = labels.spread([y for _, y in ends], frame.up.end, frame.up.start)
    right = max(x for x, _ in ends)
    parts = []
    for line, (x, y), height in zip(lines, ends, heights, strict=True):
        if abs(height - y) > 3 or right - x > 3:
            d = svg.polyline([(x + 5, y), (right + 11, height)])
            parts.append(svg.element("path", d=d, class_=f"leader {charts.style(line.series)}"))
        name = labels.fitted(line.short, _LONGEST_NAME, labels.PLAIN)
        parts.append(svg.text(right + 14, height + 4, name, class_="name"))
    return parts


def _is_log(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) / min(values) > 20
