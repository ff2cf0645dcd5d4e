"""Bars, and the marks of all charts. Pure.

A colour means the same in every chart of a page: 0 is the teacher and its files, 1 the student, 2
its file, 3 a baseline, and what has none of these roles is numbered from 4. Colours come from the
page's style by class (``s0`` to ``s9``), so that they follow its light and dark form. Every series
also has a mark of its own shape, since not everybody sees colours.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from markupsafe import Markup

from tfdistill.report.plot import labels, svg

TEACHER, STUDENT, FILE, BASELINE, OTHERS = range(5)
_TURNS = 6  # colours of the others
_WIDTH, _BAR_ROW = 260.0, 31.0


@dataclasses.dataclass(frozen=True)
class Bar:
    """A bar: its name, the text at its end, and its length."""

    label: str
    written: str
    value: float
    series: int


def bars(key: str, title: str, rows: Sequence[Bar], most: float | None = None) -> Markup:
    """Draws bars from zero, each under its name."""
    across = svg.Scale(0.0, most or max(bar.value for bar in rows) or 1.0, 0.0, _WIDTH)
    parts: list[Markup] = []
    for i, bar in enumerate(rows):
        y = 12.0 + _BAR_ROW * i
        room = _WIDTH - 12 - labels.width_of(bar.written, labels.PLAIN)
        name = labels.fitted(bar.label, room, labels.PLAIN)
        parts += [
            svg.text(0, y, name, class_="value"),
            svg.text(_WIDTH, y, bar.written, class_="value", anchor="end"),
            _box(y + 5, _WIDTH, "rail"),
            _box(y + 5, max(across(bar.value), 3.5), f"bar {style(bar.series)}"),
        ]
    description = "; ".join(f"{bar.label}: {bar.written}" for bar in rows)
    return svg.picture(key, _WIDTH, _BAR_ROW * len(rows) - 4, title, description, parts)


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
    """Returns the style class of a series: one for each role, then six in turn for others."""
    return f"s{series if series < OTHERS else (series - OTHERS) % _TURNS + OTHERS}"


def _box(y: float, width: float, class_: str) -> Markup:
    return svg.element("rect", x=0, y=y, width=width, height=7, rx=3, class_=class_)
