"""Accuracy against latency, and against size, with the Pareto front. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report import labels, svg
from tfdistill.report.pareto import Point

_WIDTH, _HEIGHT = 350.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 10.0, 26.0, 44.0
_LEAST_RANGE = 0.01  # of accuracies: chance alone moves them by so much
_NAMED = 10  # with more points only those on the front go by their names,
_NAMED_FRONT = 6  # and with more of these all go by their numbers
_LONGEST_NAME = 160.0  # pixels


def accuracy_chart(
    key: str,
    points: Sequence[Point],
    front: Sequence[bool],
    *,
    against: str,
    metric: str,
    title: str,
) -> Markup:
    """Draws accuracy over latency or size, the points of the front filled and named.

    Args:
      key: Unique in the page.
      points: The points, of which nothing is missing; at least one.
      front: Which are on the front.
      against: "latency" or "size".
      metric: Name of the metric.
      title: What the chart is.

    Returns:
      The chart.
    """
    show = fmt.milliseconds if against == "latency" else fmt.size
    xs = [_x(point, against) for point in points]
    ys = [point.accuracy or 0.0 for point in points]
    log = min(xs) > 0 and max(xs) / min(xs) > 4
    low, high = (min(xs) / 1.35, max(xs) * 1.35) if log else svg.padded(xs, 0.14)
    across = svg.Scale(max(low, 0.0) if not log else low, high, _LEFT, _WIDTH - _RIGHT, log)
    least = _LEAST_RANGE if fmt.is_share(metric) else 0.0
    up = svg.Scale(*_widened(svg.padded(ys, 0.14), least), _HEIGHT - _BOTTOM, _TOP)
    parts = _axes(
        across, up, show, lambda value: fmt.metric_tick(metric, value), fmt.is_share(metric)
    )
    name = fmt.metric_title(metric)
    what = ("Latency" if against == "latency" else "File size") + (" (log scale)" if log else "")
    parts.append(svg.text(0, 13, f"↑ {name}", class_="tick"))
    parts.append(svg.text(_WIDTH - _RIGHT, _HEIGHT - 4, f"{what} →", class_="tick", anchor="end"))
    order = sorted(range(len(points)), key=lambda i: (not front[i], xs[i]))
    places = [(across(xs[i]), up(ys[i])) for i in order]
    frame = (_LEFT - 6, _TOP - 10, _WIDTH, _HEIGHT - _BOTTOM + 4)
    named = len(points) <= _NAMED
    names_front = named or sum(front) <= _NAMED_FRONT
    texts = [
        [labels.fitted(points[i].label, _LONGEST_NAME), f"{points[i].number}"]
        if named or (front[i] and names_front)
        else [f"{points[i].number}"]
        for i in order
    ]
    whiskers = [_whisker(points[i], across) if against == "latency" else None for i in order]
    taken = [
        (ends[0], y - 1, ends[1], y + 1)
        for ends, (_, y) in zip(whiskers, places, strict=True)
        if ends is not None
    ]
    placed = labels.place(places, texts, frame, obstacles=taken)
    for i, (x, y), label, ends in zip(order, places, placed, whiskers, strict=True):
        if ends is not None:
            parts.append(svg.element("line", x1=ends[0], x2=ends[1], y1=y, y2=y, class_="whisker"))
        parts.append(_mark(x, y, points[i], front[i]))
        if label is not None:
            style = "value front-name" if front[i] else "value"
            parts.append(svg.text(label.x, label.y, label.text, class_=style, anchor=label.anchor))
    said = "; ".join(
        f"{point.label}: {fmt.metric(metric, point.accuracy)} at {show(x)}"
        + (", on the front" if on else "")
        + (", throttled" if point.throttled else "")
        for point, x, on in list(zip(points, xs, front, strict=True))[:60]
    )
    return svg.picture(key, _WIDTH, _HEIGHT, title, said, parts)


def legend(points: Sequence[Point], front: Sequence[bool]) -> list[tuple[Markup, str]]:
    """The marks that occur and what they mean."""
    point = Point("", 0.0, 1.0, None, 1)
    rows = [(_alone(point, True), "on the front: no other file is as good in all three")]
    if not all(front):
        rows.append((_alone(point, False), "another file is as good in all and better in one"))
    if any(other.throttled for other in points):
        hot = dataclasses.replace(point, throttled=True)
        rows.append((_alone(hot, False), "a triangle: the device slowed down (throttled)"))
    return rows


def _alone(point: Point, on: bool) -> Markup:
    return svg.element(
        "svg",
        _mark(8.0, 8.0, point, on),
        viewBox="0 0 16 16",
        width=16,
        height=16,
        aria_hidden="true",
    )


def _mark(x: float, y: float, point: Point, on: bool) -> Markup:
    """A disc on the front, a ring elsewhere; a triangle where the device throttled."""
    style = "point on" if on else "point"
    hover = svg.element("title", point.label) if point.label else Markup()
    if point.throttled:
        d = f"M{x:.1f} {y - 6:.1f}l6 10.5h-12z"
        return svg.element("path", hover, d=d, class_=style)
    return svg.element("circle", hover, cx=x, cy=y, r=5.0, class_=style)


def _whisker(point: Point, across: svg.Scale) -> tuple[float, float] | None:
    """Where the interval of the median starts and ends; None where the mark hides it."""
    if point.interval_ms is None:
        return None
    start, end = (
        min(max(across(max(value, 1e-9)), _LEFT), _WIDTH - _RIGHT) for value in point.interval_ms
    )
    return (start, end) if end - start >= 12 else None


def _axes(
    across: svg.Scale,
    up: svg.Scale,
    show_x: Callable[[float], str],
    show_y: Callable[[float], str],
    share: bool,
) -> list[Markup]:
    parts: list[Markup] = []
    bottom = _HEIGHT - _BOTTOM
    for tick in up.ticks(5):
        if share and not 0 <= tick <= 1:
            continue
        y = up(tick)
        parts.append(svg.element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(svg.text(_LEFT - 7, y + 4, show_y(tick), class_="tick", anchor="end"))
    for tick in across.ticks(4):
        x, written = across(tick), tick_words(show_x, tick)
        half = labels.width_of(written) / 2 + 3
        parts.append(svg.element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid"))
        x = min(max(x, half), _WIDTH - half)
        parts.append(svg.text(x, bottom + 17, written, class_="tick", anchor="middle"))
    return parts


def tick_words(show: Callable[[float], str], tick: float) -> str:
    """Writes a round value without the zeros that its digits would have."""
    head, _, unit = show(tick).partition(" ")
    if "." in head:
        head = head.rstrip("0").rstrip(".")
    return f"{head} {unit}".strip()


def _widened(ends: tuple[float, float], least: float) -> tuple[float, float]:
    missing = max(least - (ends[1] - ends[0]), 0.0)
    return ends[0] - missing / 2, ends[1] + missing / 2


def _x(point: Point, against: str) -> float:
    value = point.latency_ms if against == "latency" else point.size_bytes
    assert value is not None
    return float(value)
