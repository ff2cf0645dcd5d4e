"""Accuracy against latency, and against size, with the Pareto front. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report.document import Legend
from tfdistill.report.plot import charts, labels, svg
from tfdistill.report.tradeoff import NAMED, Point
from tfdistill.results import quantities

_WIDTH, _HEIGHT = 350.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 48.0, 10.0, 26.0, 44.0
_LEAST_RANGE = 0.01  # of accuracies: chance alone changes them by as much
_NAMED_FRONT = 6  # with more points than `NAMED` and of these on the front, all are numbered
_LONGEST_NAME = 160.0  # pixels


def accuracy_chart(
    key: str,
    points: Sequence[Point],
    *,
    against: str,
    metric: str,
    title: str,
) -> Markup:
    """Draws accuracy over latency or size, the points of the front filled and named."""
    show = fmt.milliseconds if against == "latency" else quantities.size
    xs = [_x(point, against) for point in points]
    ys = [point.accuracy for point in points]
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
    order = sorted(range(len(points)), key=lambda i: (not points[i].on_front, xs[i]))
    places = [(across(xs[i]), up(ys[i])) for i in order]
    frame = (_LEFT - 6, _TOP - 10, _WIDTH, _HEIGHT - _BOTTOM + 4)
    named = len(points) <= NAMED
    names_front = named or sum(point.on_front for point in points) <= _NAMED_FRONT
    texts = [
        [labels.fitted(points[i].label, _LONGEST_NAME), f"{points[i].number}"]
        if named or (points[i].on_front and names_front)
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
            parts.append(svg.line(ends[0], y, ends[1], y, "whisker"))
        style = f"point {charts.style(points[i].series)}" + (" on" if points[i].on_front else "")
        parts.append(_mark(x, y, style, marked=bool(points[i].marks), name=points[i].label))
        if label is not None:
            style = "value front-name" if points[i].on_front else "value"
            parts.append(svg.text(label.x, label.y, label.text, class_=style, anchor=label.anchor))
    description = "; ".join(
        f"{point.label}: {fmt.metric(metric, point.accuracy)} at {show(x)}"
        + (", on the front" if point.on_front else "")
        + (f", {point.marks}" if point.marks else "")
        for point, x in list(zip(points, xs, strict=True))[:60]
    )
    return svg.picture(key, _WIDTH, _HEIGHT, title, description, parts)


def legend(points: Sequence[Point]) -> Legend:
    """Returns the marks that occur and their meanings."""
    rows = [("point on", False, "on the front")] if len(points) > 1 else []
    if not all(point.on_front for point in points):
        rows.append(("point", False, "not on it"))
    if marks := dict.fromkeys(point.marks for point in points if point.marks):
        rows.append(("point", True, "; ".join(marks)))
    return tuple(
        (svg.icon(16, _mark(8.0, 8.0, style, marked=marked)), meaning)
        for style, marked, meaning in rows
    )


def _mark(x: float, y: float, style: str, *, marked: bool, name: str = "") -> Markup:
    """A disc on the front, a ring elsewhere; a triangle where the measurement was disturbed."""
    hover = svg.element("title", name) if name else Markup()
    if marked:
        d = f"M{x:.1f} {y - 6:.1f}l6 10.5h-12z"
        return svg.element("path", hover, d=d, class_=style)
    return svg.element("circle", hover, cx=x, cy=y, r=5.0, class_=style)


def _whisker(point: Point, across: svg.Scale) -> tuple[float, float] | None:
    """Both ends of the interval of the median; None where the mark hides it."""
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
        parts.append(svg.line(_LEFT, y, _WIDTH - _RIGHT, y, "grid"))
        parts.append(svg.text(_LEFT - 7, y + 4, show_y(tick), class_="tick", anchor="end"))
    for tick in across.ticks(4):
        x = across(tick)
        parts.append(svg.line(x, _TOP, x, bottom, "grid"))
        parts.append(labels.centred(x, bottom + 17, svg.tick_words(show_x, tick), _WIDTH))
    return parts


def _widened(ends: tuple[float, float], least: float) -> tuple[float, float]:
    missing = max(least - (ends[1] - ends[0]), 0.0)
    return ends[0] - missing / 2, ends[1] + missing / 2


def _x(point: Point, against: str) -> float:
    return point.latency_ms if against == "latency" else float(point.size_bytes)
