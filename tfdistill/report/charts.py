"""The charts of the report: values in, one svg element out. Pure.

Colours come from the page's style by class (``s0`` is the teacher, ``s1`` and on are students), so
that they follow its light and dark form. Every series also has a mark of its own shape: colour
alone tells nobody apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from markupsafe import Markup

from tfdistill.report import format as fmt
from tfdistill.report import svg

_TEXT_HEIGHT = 13


@dataclasses.dataclass(frozen=True)
class Dots:
    """A row of the metric chart: single values and what is written beside them."""

    label: str
    written: str
    values: tuple[float, ...]
    series: int


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar of the latency chart; `tail` is a higher percentile, `written` stands at its end."""

    label: str
    written: str
    value: float
    tail: float | None
    series: int


@dataclasses.dataclass(frozen=True)
class Line:
    """A curve."""

    label: str
    points: tuple[tuple[float, float], ...]
    series: int


def metric_dots(
    key: str,
    title: str,
    rows: Sequence[Dots],
    show: Callable[[float], str],
    *,
    most: float | None = None,
) -> Markup:
    """Draws one row of dots per variant, a bar at their mean, and a line down from the first row.

    Args:
      key: Unique in the page.
      title: What it is.
      rows: The teacher first, so that the line is the teacher's value.
      show: Writes a value at a tick.
      most: The largest possible value; no tick lies above it.

    Returns:
      The chart.
    """
    width, row_height, top, left, right = 380.0, 47.0, 0.0, 4.0, 4.0
    rows = [row for row in rows if row.values]
    low, high = svg.padded([value for row in rows for value in row.values])
    scale = svg.Scale(low, high, left, width - right)
    bottom = top + row_height * len(rows)
    parts: list[Markup] = []
    for tick in _possible(scale.ticks(5), most):
        x, label = scale(tick), show(tick)
        parts.append(svg.element("line", x1=x, x2=x, y1=top, y2=bottom, class_="grid"))
        half = 4.6 * len(label)  # about half its width: it must not be cut off at the edge
        x = min(max(x, half), width - half)
        parts.append(svg.text(x, bottom + _TEXT_HEIGHT + 4, label, class_="tick", anchor="middle"))
    teacher = scale(sum(rows[0].values) / len(rows[0].values)) if rows else left
    for i, row in enumerate(rows):
        y = top + row_height * i + 32
        mean = sum(row.values) / len(row.values)
        if i > 0:  # not through the words above the dots
            end = y + 14 if i < len(rows) - 1 else bottom
            parts.append(
                svg.element(
                    "line", x1=teacher, x2=teacher, y1=y - 11, y2=end, class_="reference s0"
                )
            )
        parts += [
            svg.text(left, y - 15, fitted(row.label, row.written), class_="label"),
            svg.text(width - right, y - 15, row.written, class_="value", anchor="end"),
            svg.element("line", x1=left, x2=width - right, y1=y, y2=y, class_="track"),
            svg.element(
                "line",
                x1=scale(mean),
                x2=scale(mean),
                y1=y - 9,
                y2=y + 9,
                class_=f"mean {style(row.series)}",
            ),
            *(mark(scale(value), y, row.series, 5.5) for value in row.values),
        ]
    description = "; ".join(f"{row.label}: {row.written}" for row in rows)
    return svg.picture(key, width, bottom + 24, title, description, parts)


def latency_bars(key: str, title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> Markup:
    """Draws bars from zero, grouped under headings, with a thin line up to the tail.

    A tail far beyond the longest bar would press the bars together: it ends in an arrow.

    Args:
      key: Unique in the page.
      title: What it is.
      groups: Heading and bars, values in milliseconds.

    Returns:
      The chart.
    """
    width, bar_height, left, right = 380.0, 20.0, 4.0, 128.0
    longest = max(bar.value for _, bars in groups for bar in bars)
    scale = svg.Scale(0.0, longest * 1.2, left, width - right)
    y = 4.0
    parts: list[Markup] = []
    for heading, bars in groups:
        y += 15
        parts.append(svg.text(left, y, heading, class_="label"))
        y += 7
        for bar in bars:
            end = max(scale(bar.value), left + 2)
            parts.append(
                svg.element(
                    "rect",
                    x=left,
                    y=y,
                    width=end - left,
                    height=bar_height - 5,
                    rx=3,
                    class_=f"bar {style(bar.series)}",
                )
            )
            middle = y + (bar_height - 5) / 2
            if bar.tail is not None and scale(bar.tail) > end + 1:
                start, end = end, min(scale(bar.tail), width - right)
                cap = "m0 -4v8" if end == scale(bar.tail) else "m-4 -3l4 3l-4 3"  # cut: an arrow
                d = f"M{start:.1f} {middle:.1f}H{end:.1f}{cap}"
                parts.append(svg.element("path", d=d, class_=f"tail {style(bar.series)}"))
            parts.append(svg.text(end + 7, middle + 4.5, bar.written, class_="value"))
            y += bar_height
        y += 9
    description = "; ".join(
        f"{heading}, {bar.label}: {bar.written}" for heading, bars in groups for bar in bars
    )
    return svg.picture(key, width, y, title, description, parts)


def curve_panel(
    key: str,
    title: str,
    lines: Sequence[Line],
    *,
    x_title: str = "epoch",
    show: Callable[[float], str] = lambda value: f"{value:g}",
    most: float | None = None,
) -> Markup:
    """Draws curves over a common x, with a logarithmic y where values span a factor of 20.

    Args:
      key: Unique in the page.
      title: What y is.
      lines: The curves; one of a single point is drawn as its mark.
      x_title: What x is.
      show: Writes a y value.
      most: The largest possible y; no tick lies above it.

    Returns:
      The chart.
    """
    width, height, left, right, top, bottom = 300.0, 190.0, 46.0, 12.0, 30.0, 35.0
    lines = [dataclasses.replace(e, points=tuple(svg.thinned(e.points))) for e in lines if e.points]
    xs = sorted({x for line in lines for x, _ in line.points})
    ys = [y for line in lines for _, y in line.points]
    log = min(ys) > 0 and max(ys) / min(ys) > 20
    low, high = (min(ys) / 1.2, max(ys) * 1.2) if log else svg.padded(ys)
    across = svg.Scale(*_wide(xs[0], xs[-1]), left + 8, width - right - 8)
    up = svg.Scale(low, high, height - bottom, top, log)
    parts = [svg.text(0, 14, title + (" (log scale)" if log else ""), class_="label")]
    for tick in _possible(up.ticks(4), most):
        y = up(tick)
        parts.append(svg.element("line", x1=left, x2=width - right, y1=y, y2=y, class_="grid"))
        parts.append(svg.text(left - 6, y + 4, show(tick), class_="tick", anchor="end"))
    ends = xs if len(xs) <= 5 else [xs[0], xs[-1]]
    for x in ends:
        parts.append(
            svg.text(across(x), height - bottom + 17, f"{x:,.4g}", class_="tick", anchor="middle")
        )
    parts.append(
        svg.text((left + width - right) / 2, height - 2, x_title, class_="tick", anchor="middle")
    )
    for line in lines:
        path = "M" + "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in line.points)
        if len(line.points) > 1:
            parts.append(svg.element("path", d=path, class_=f"curve {style(line.series)}"))
        if len(line.points) <= 12:
            parts += [mark(across(x), up(y), line.series, 3.4) for x, y in line.points]
    description = "; ".join(
        f"{line.label}: {show(line.points[0][1])} at first, {show(line.points[-1][1])} at last"
        for line in lines
    )
    return svg.picture(key, width, height, title, description, parts)


def legend_mark(series: int) -> Markup:
    """Draws the mark of a series for a legend; the name stands beside it."""
    return svg.element(
        "svg",
        mark(7.0, 7.0, series, 5.0),
        viewBox="0 0 14 14",
        width=14,
        height=14,
        aria_hidden="true",
    )


def mark(x: float, y: float, series: int, size: float) -> Markup:
    """A circle, square, diamond or triangle (up or down), by the number of the series."""
    class_ = f"mark {style(series)}"
    if series == 0 or series % 5 == 0:
        return svg.element("circle", cx=x, cy=y, r=size, class_=class_)
    reach = size * (0.9, 1.25, 1.2, 1.2)[series % 5 - 1]
    if series % 5 == 1:
        d = f"M{x - reach:.1f} {y - reach:.1f}h{2 * reach:.1f}v{2 * reach:.1f}h{-2 * reach:.1f}z"
    elif series % 5 == 2:
        d = f"M{x:.1f} {y - reach:.1f}l{reach:.1f} {reach:.1f}l{-reach:.1f} {reach:.1f}"
        d += f"l{-reach:.1f} {-reach:.1f}z"
    else:
        up = 1 if series % 5 == 3 else -1
        d = f"M{x:.1f} {y - up * reach:.1f}l{reach:.1f} {1.9 * up * reach:.1f}h{-2 * reach:.1f}z"
    return svg.element("path", d=d, class_=class_)


def fitted(label: str, written: str = "", room: int = 44) -> str:
    """Shortens a label that would run into what is written at the other end of its row."""
    room = max(room - len(written), 4)
    return label if len(label) <= room else label[: room - 1].rstrip() + "…"


def _possible(ticks: list[float], most: float | None) -> list[float]:
    return [tick for tick in ticks if most is None or tick <= most]


def _wide(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low else (low - 1, high + 1)


def style(series: int) -> str:
    """The style class of a series: the teacher's own, and six that the students take in turn."""
    return "s0" if series == 0 else f"s{(series - 1) % 6 + 1}"


def short(value: float) -> str:
    """Writes a loss at a tick: at most three digits."""
    if value == 0 or abs(value) >= 1:
        return f"{value:.3g}"
    return fmt.digits(value, 3).rstrip("0")
