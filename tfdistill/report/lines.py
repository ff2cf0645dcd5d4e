"""Curves whose names stand at their ends: latency by length, by threads, over time. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from markupsafe import Markup

from tfdistill.benchmark import schema
from tfdistill.report import charts, device_tables, labels, scatter, svg
from tfdistill.report import format as fmt

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 350.0, 254.0, 52.0, 32.0, 40.0
_LONGEST_NAME = 100.0  # pixels
MOST_LINES = 8  # more cannot be told apart


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve of latencies.

    Attributes:
      label: Its name.
      short: What stands at its end.
      points: x and milliseconds.
      intervals: The 95% interval of each, or None.
      series: Number of its colour and mark.
      hollow: Which of the points are of a device that throttled.
    """

    label: str
    short: str
    points: tuple[tuple[float, float], ...]
    intervals: tuple[tuple[float, float] | None, ...]
    series: int
    hollow: tuple[bool, ...] = ()


def short_names(names: Sequence[str], numbers: Mapping[str, int]) -> dict[str, str]:
    """What stands at the end of each curve: its name, or a number where a name has no room.

    Args:
      names: Names of the curves.
      numbers: The number of each.

    Returns:
      Name -> what is written. All go by their names, or all by their numbers.
    """
    if all(_width(name) <= _LONGEST_NAME for name in names):
        return {name: name for name in names}
    return {name: f"{numbers[name]}" for name in names}


def latencies(key: str, title: str, lines: Sequence[Line], x_title: str) -> Markup:
    """Draws latency over a few values of x: lengths, or numbers of threads.

    Args:
      key: Unique in the page.
      title: What it is.
      lines: At most `MOST_LINES` curves, each with at least one point.
      x_title: What x is.

    Returns:
      The chart: from zero, or with a logarithmic y where latencies span a factor of 20.
    """
    right = _room([line.short for line in lines])
    xs = sorted({x for line in lines for x, _ in line.points})
    ys = [y for line in lines for _, y in line.points]
    log = min(ys) > 0 and max(ys) / min(ys) > 20
    ends = [end for line in lines for interval in line.intervals if interval for end in interval]
    most = max([max(ys), *(end for end in ends if end <= 1.6 * max(ys))])
    low, high = (min(ys) / 1.3, most * 1.3) if log else (0.0, most * 1.1)
    start, end = _LEFT + 10, _WIDTH - right
    spot = svg.Scale(xs[0], xs[-1], start, end) if len(xs) > 1 else None

    def across(x: float) -> float:
        return spot(x) if spot is not None else (start + end) / 2

    up = svg.Scale(low, high, _HEIGHT - _BOTTOM, _TOP, log)
    parts = _frame(up, end + 6, "Latency" + (" (log scale)" if log else ""))
    for x in xs if len(xs) <= 7 else [xs[0], xs[len(xs) // 2], xs[-1]]:
        place = svg.text(
            across(x), _HEIGHT - _BOTTOM + 17, f"{x:g}", class_="tick", anchor="middle"
        )
        parts.append(place)
    parts.append(svg.text((start + end) / 2, _HEIGHT - 4, x_title, class_="tick", anchor="middle"))
    for i, line in enumerate(lines):
        aside = 2.6 * (i - (len(lines) - 1) / 2)  # whiskers beside one another can be told apart
        for (x, _), interval in zip(line.points, line.intervals, strict=True):
            if interval is None:
                continue
            top, bottom = (up(min(max(value, low or 1e-9), high)) for value in interval)
            if abs(top - bottom) > 7:
                place = across(x) + aside
                style = f"whisker {charts.style(line.series)}"
                parts.append(
                    svg.element("line", x1=place, x2=place, y1=top, y2=bottom, class_=style)
                )
        parts += _curve([(across(x), up(y)) for x, y in line.points], line)
    parts += _names(lines, [(across(p[-1][0]), up(p[-1][1])) for p in (e.points for e in lines)])
    said = "; ".join(
        f"{line.label}: " + ", ".join(f"{fmt.milliseconds(y)} at {x:g}" for x, y in line.points)
        for line in lines
    )
    return svg.picture(key, _WIDTH, _HEIGHT, title, said, parts)


def sustained(
    key: str, title: str, runs: Sequence[tuple[str, str, int, Sequence[schema.Window]]]
) -> Markup:
    """Draws the median of each window of runs without pauses, the thermal status below each.

    Args:
      key: Unique in the page.
      title: What it is.
      runs: Name, what stands at the end, number of the colour, and windows (at least one).

    Returns:
      The chart.
    """
    right = _room([short for _, short, _, _ in runs])
    told = [(short, windows) for _, short, _, windows in runs if any(_status(w) for w in windows)]
    strip = 34.0 * len(told) + (6 if told else 0)
    ys = [w.p50_ms for *_, windows in runs for w in windows]
    tails = [w.p90_ms for *_, windows in runs for w in windows if w.p90_ms is not None]
    log = max(ys) / min(ys) > 20
    high = max([max(ys) * 1.1, *(t for t in tails if t <= 1.5 * max(ys))])
    low = min(ys) / 1.3 if log else 0.0
    longest = max(windows[-1].start_s for *_, windows in runs)
    start, end = _LEFT + 6, _WIDTH - right
    across = svg.Scale(0.0, longest or 1.0, start, end)
    minute = 60.0 if longest >= 120 else 1.0
    up = svg.Scale(low, high, _HEIGHT - _BOTTOM, _TOP, log)
    parts = _frame(up, end + 6, "Median of a window" + (" (log scale)" if log else ""))
    for tick in svg.round_ticks(0.0, (longest or 1.0) / minute, 4):
        x = across(tick * minute)
        parts.append(
            svg.text(x, _HEIGHT - _BOTTOM + 17, f"{tick:g}", class_="tick", anchor="middle")
        )
    unit = "minutes" if minute > 1 else "seconds"
    parts.append(svg.text((start + end) / 2, _HEIGHT - 4, unit, class_="tick", anchor="middle"))
    ends = []
    for label, short, series, windows in runs:
        tail = [(across(w.start_s), up(min(w.p90_ms, high))) for w in windows if w.p90_ms]
        if len(tail) > 1:
            d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in svg.thinned(tail))
            parts.append(svg.element("path", d=d, class_=f"tail {charts.style(series)}"))
        spots = svg.thinned([(across(w.start_s), up(w.p50_ms)) for w in windows])
        line = Line(label, short, tuple((w.start_s, w.p50_ms) for w in windows), (), series)
        parts += _curve(spots, line)
        ends.append(spots[-1])
    named = [Line(label, short, ((0.0, 1.0),), (), series) for label, short, series, _ in runs]
    parts += _names(named, ends)
    y = _HEIGHT + 12
    for label, windows in told:
        parts.append(
            svg.text(0, y, labels.fitted(f"Thermal status, {label}", _WIDTH - 8), class_="tick")
        )
        parts += _thermal(windows, across, y + 5, longest)
        y += 34
    said = "; ".join(
        f"{label}: {fmt.milliseconds(windows[0].p50_ms)} at first, "
        f"{fmt.milliseconds(windows[-1].p50_ms)} after {fmt.duration(windows[-1].start_s)}"
        + _heat(windows)
        for label, _, _, windows in runs
    )
    return svg.picture(key, _WIDTH, _HEIGHT + strip, title, said, parts)


def _thermal(
    windows: Sequence[schema.Window], across: svg.Scale, y: float, longest: float
) -> list[Markup]:
    """A strip of one box for each stretch of the same status, with its name inside."""
    parts: list[Markup] = []
    statuses = [w.conditions.thermal_status if w.conditions else None for w in windows]
    first = 0
    for i in range(1, len(windows) + 1):
        if i < len(windows) and statuses[i] == statuses[first]:
            continue
        stop = windows[i].start_s if i < len(windows) else max(longest, windows[-1].start_s)
        x, width = across(windows[first].start_s), across(stop) - across(windows[first].start_s)
        status = statuses[first]
        level = 0 if status is None else min(status, 3)
        parts.append(
            svg.element(
                "rect", x=x, y=y, width=max(width, 2.0), height=15, class_=f"thermal t{level}"
            )
        )
        word = device_tables.thermal_words(status)
        if _width(word) < width - 6:
            parts.append(svg.text(x + 5, y + 11.5, word, class_="tick on-thermal"))
        first = i
    return parts


def _status(window: schema.Window) -> bool:
    return window.conditions is not None and window.conditions.thermal_status is not None


def _heat(windows: Sequence[schema.Window]) -> str:
    found = [w.conditions.thermal_status for w in windows if w.conditions]
    known = [status for status in found if status is not None]
    return f", thermal status up to {device_tables.thermal_words(max(known))}" if known else ""


def _frame(up: svg.Scale, end: float, title: str) -> list[Markup]:
    parts = [svg.text(0, 13, f"↑ {title}", class_="tick")]
    for tick in up.ticks(4):
        y = up(tick)
        words = scatter.tick_words(fmt.milliseconds, tick) if tick else "0"
        parts.append(svg.element("line", x1=_LEFT, x2=end, y1=y, y2=y, class_="grid"))
        parts.append(svg.text(_LEFT - 6, y + 4, words, class_="tick", anchor="end"))
    return parts


def _curve(spots: Sequence[tuple[float, float]], line: Line) -> list[Markup]:
    style = charts.style(line.series)
    parts: list[Markup] = []
    if len(spots) > 1:
        d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        parts.append(svg.element("path", d=d, class_=f"curve {style}"))
    if len(spots) <= 12:
        for i, (x, y) in enumerate(spots):
            if line.hollow and line.hollow[i]:
                parts.append(svg.element("circle", cx=x, cy=y, r=4, class_=f"ring {style}"))
            else:
                parts.append(charts.mark(x, y, line.series, 3.4))
    return parts


def _names(lines: Sequence[Line], ends: Sequence[tuple[float, float]]) -> list[Markup]:
    """The name of each curve at its end, moved apart, with a thin line where it had to move."""
    heights = labels.spread([y for _, y in ends], _TOP, _HEIGHT - _BOTTOM)
    right = max(x for x, _ in ends)
    parts = []
    for line, (x, y), height in zip(lines, ends, heights, strict=True):
        if abs(height - y) > 3 or right - x > 3:
            d = f"M{x + 5:.1f} {y:.1f}L{right + 11:.1f} {height:.1f}"
            parts.append(svg.element("path", d=d, class_=f"leader {charts.style(line.series)}"))
        name = labels.fitted(line.short, _LONGEST_NAME, labels.PLAIN)
        parts.append(svg.text(right + 14, height + 4, name, class_="name"))
    return parts


def _room(names: Sequence[str]) -> float:
    """Width for the longest name at the right."""
    return 20 + min(max(map(_width, names)), _LONGEST_NAME)


def _width(name: str) -> float:
    return labels.width_of(name, labels.PLAIN)
