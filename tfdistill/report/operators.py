"""Where the time of one inference goes, as bars. Pure."""

from __future__ import annotations

from markupsafe import Markup

from tfdistill.benchmark import schema
from tfdistill.report import charts, labels, svg
from tfdistill.report import format as fmt

_WIDTH, _ROW, _MOST = 350.0, 31.0, 7


def bars(key: str, title: str, operators: schema.Operators, series: int) -> Markup | None:
    """Draws the largest kinds of operators and the rest together, as shares of the whole.

    Args:
      key: Unique in the page.
      title: What it is.
      operators: Of one file at one place.
      series: Number of the file's colour.

    Returns:
      The chart, or None where no time was measured.
    """
    listed = sorted((o for o in operators.operators if o.ms > 0), key=lambda o: -o.ms)
    whole = sum(operator.ms for operator in listed)
    if not whole:
        return None
    rows = [(operator.type, operator.ms) for operator in listed[:_MOST]]
    rest = listed[_MOST:]
    if rest:
        rows.append((f"{len(rest)} other kinds", sum(operator.ms for operator in rest)))
    across = svg.Scale(0.0, max(ms for _, ms in rows), 2.0, _WIDTH - 4)
    parts: list[Markup] = []
    said = []
    for i, (name, ms) in enumerate(rows):
        y = _ROW * i + 12
        written = f"{100 * ms / whole:.1f}% · {fmt.milliseconds(ms)}"
        room = _WIDTH - 14 - labels.width_of(written, labels.PLAIN)
        parts.append(svg.text(2, y, labels.fitted(name, room, labels.PLAIN), class_="value"))
        parts.append(svg.text(_WIDTH - 4, y, written, class_="value", anchor="end"))
        parts.append(
            svg.element("rect", x=2, y=y + 5, width=_WIDTH - 6, height=7, rx=3, class_="rail")
        )
        parts.append(
            svg.element(
                "rect",
                x=2,
                y=y + 5,
                width=max(across(ms) - 2, 1.5),
                height=7,
                rx=3,
                class_=f"bar {charts.style(series)}",
            )
        )
        said.append(f"{name}: {written}")
    return svg.picture(key, _WIDTH, _ROW * len(rows) + 4, title, "; ".join(said), parts)
