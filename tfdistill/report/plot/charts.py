"""Charts of single values: dots and bars, and the marks of all charts. Pure.

Colours come from the page's style by class (``s0`` is the teacher, ``s1`` and on are students), so
that they follow its light and dark form. Every series also has a mark of its own shape, since not
everybody sees colours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from markupsafe import Markup

from tfdistill.benchmark import schema
from tfdistill.report import format as fmt
from tfdistill.report.plot import labels, svg

_WIDTH, _BAR_ROW, _MOST_OPERATORS = 350.0, 31.0, 7


@dataclasses.dataclass(frozen=True)
class Dots:
    """A row of the metric chart: single values and the text at its end."""

    label: str
    written: str
    values: tuple[float, ...]
    series: int


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar: its name, the text at its end, its length, and a tail such as a percentile."""

    label: str
    written: str
    value: float
    series: int
    tail: float | None = None


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
      most: The largest possible value; no tick is above it.

    Returns:
      The chart.
    """
    width, row_height, edge = 380.0, 47.0, 4.0
    rows = [row for row in rows if row.values]
    low, high = svg.padded([value for row in rows for value in row.values])
    scale = svg.Scale(low, high, edge, width - edge)
    bottom = row_height * len(rows)
    parts: list[Markup] = []
    for tick in scale.ticks(5):
        if most is None or tick <= most:
            x = scale(tick)
            parts.append(svg.line(x, 0.0, x, bottom, "grid"))
            parts.append(labels.centred(x, bottom + 17, show(tick), width))
    teacher = scale(sum(rows[0].values) / len(rows[0].values)) if rows else edge
    for i, row in enumerate(rows):
        y = row_height * i + 32
        mean = scale(sum(row.values) / len(row.values))
        if i > 0:  # not through the words above the dots
            end = y + 14 if i < len(rows) - 1 else bottom
            parts.append(svg.line(teacher, y - 11, teacher, end, "reference s0"))
        room = width - labels.width_of(row.written) - 10
        parts += [
            svg.text(edge, y - 15, labels.fitted(row.label, room), class_="label"),
            svg.text(width - edge, y - 15, row.written, class_="value", anchor="end"),
            svg.line(edge, y, width - edge, y, "track"),
            svg.line(mean, y - 9, mean, y + 9, f"mean {style(row.series)}"),
            *(mark(scale(value), y, row.series, 5.5) for value in row.values),
        ]
    description = "; ".join(f"{row.label}: {row.written}" for row in rows)
    return svg.picture(key, width, bottom + 24, title, description, parts)


def bars(key: str, title: str, groups: Sequence[tuple[str, Sequence[Bar]]]) -> Markup:
    """Draws bars from zero under their names, grouped under headings.

    A thin line reaches to the tail. One far beyond the longest bar would make all bars short: it
    ends in an arrow.

    Args:
      key: Unique in the page.
      title: What it is.
      groups: Heading (may be empty) and bars; at least one bar.

    Returns:
      The chart.
    """
    every = [bar for _, group in groups for bar in group]
    longest = max(bar.value for bar in every)
    beyond = 1.2 if any(bar.tail for bar in every) else 1.0
    across = svg.Scale(0.0, longest * beyond, 2.0, _WIDTH - 4)
    parts: list[Markup] = []
    y = 12.0
    for heading, group in groups:
        if heading:
            parts.append(svg.text(2, y, heading, class_="label"))
            y += 20
        for bar in group:
            room = _WIDTH - 14 - labels.width_of(bar.written, labels.PLAIN)
            name = labels.fitted(bar.label, room, labels.PLAIN)
            parts.append(svg.text(2, y, name, class_="value"))
            parts.append(svg.text(_WIDTH - 4, y, bar.written, class_="value", anchor="end"))
            parts.append(_box(y + 5, _WIDTH - 6, "rail"))
            end = max(across(bar.value), 3.5)
            parts.append(_box(y + 5, end - 2, f"bar {style(bar.series)}"))
            if bar.tail is not None and across(bar.tail) > end + 1:
                stop = min(across(bar.tail), _WIDTH - 4)
                cap = "m0 -4v8" if stop == across(bar.tail) else "m-4 -3l4 3l-4 3"  # cut: an arrow
                d = f"M{end:.1f} {y + 8.5:.1f}H{stop:.1f}{cap}"
                parts.append(svg.element("path", d=d, class_=f"tail {style(bar.series)}"))
            y += _BAR_ROW
        y += 6 if heading else 0
    description = "; ".join(
        ", ".join(filter(None, (heading, f"{bar.label}: {bar.written}")))
        for heading, group in groups
        for bar in group
    )
    return svg.picture(key, _WIDTH, y - 8, title, description, parts)


def operator_bars(key: str, title: str, part: schema.Operators, series: int) -> Markup | None:
    """Draws the largest kinds of operators and the rest together, as shares of the whole.

    Args:
      key: Unique in the page.
      title: What it is.
      part: The operators of one file.
      series: Number of the file's colour.

    Returns:
      The chart, or None where no time was measured.
    """
    listed = sorted((o for o in part.operators if o.ms > 0), key=lambda o: -o.ms)
    rows = [(operator.type, operator.ms) for operator in listed[:_MOST_OPERATORS]]
    rest = listed[_MOST_OPERATORS:]
    if rest:
        rows.append((f"{len(rest)} other kinds", sum(operator.ms for operator in rest)))
    whole = sum(ms for _, ms in rows)
    if not whole:
        return None
    drawn = [
        Bar(name, f"{100 * ms / whole:.1f}% · {fmt.milliseconds(ms)}", ms, series)
        for name, ms in rows
    ]
    return bars(key, title, [("", drawn)])


def legend_mark(series: int) -> Markup:
    """Draws the mark of a series for a legend."""
    return svg.icon(14, mark(7.0, 7.0, series, 5.0))


def mark(x: float, y: float, series: int, size: float) -> Markup:
    """A circle, square, diamond or triangle (up or down), by the number of the series."""
    class_ = f"mark {style(series)}"
    if series % 5 == 0:
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


def style(series: int) -> str:
    """Returns the style class of a series: the teacher's own, then six in turn for students."""
    return "s0" if series == 0 else f"s{(series - 1) % 6 + 1}"


def _box(y: float, width: float, class_: str) -> Markup:
    return svg.element("rect", x=2, y=y, width=width, height=7, rx=3, class_=class_)
