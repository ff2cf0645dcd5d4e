"""Tables as plain cells: HTML, Markdown and CSV show the same ones. Pure."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence

from tfdistill.report import format as fmt


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell: what it says, and a quieter second line.

    Attributes:
      text: What it says.
      detail: The second line.
      value: The number that is meant, for CSV; None where the text is all.
      unit: Of the number.
      interval: The 95% interval of the number.
    """

    text: str
    detail: str = ""
    value: float | None = None
    unit: str = ""
    interval: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: what it is about, its cells, whether it stands out and whether it opens a group."""

    head: Cell
    cells: tuple[Cell, ...]
    strong: bool = False
    opens: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption that says what it holds.

    Attributes:
      key: Anchor, unique in the report.
      caption: One sentence.
      columns: Titles, that of the row heads first.
      rows: The rows.
      notes: Sentences to stand below.
    """

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()


def milliseconds(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A duration, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    detail = fmt.milliseconds_interval(value, *ends) if ends and value is not None else ""
    return Cell(fmt.milliseconds(value), detail, value, "ms", ends)


def ratio(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A factor, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    return Cell(fmt.ratio(value), fmt.interval(*ends) if ends else "", value, interval=ends)


def size(value: float | None, detail: str = "") -> Cell:
    """A number of bytes."""
    return Cell(fmt.size(value), detail, value, "bytes")


def number(value: float | None, detail: str = "") -> Cell:
    """A count."""
    return Cell(fmt.ABSENT if value is None else f"{value:,}", detail, value)


def metric(name: str, value: float | None, detail: str = "") -> Cell:
    """A metric of a task."""
    return Cell(fmt.metric(name, value), detail, value)


def share(value: float | None) -> Cell:
    """A share of examples, in percent."""
    return Cell(fmt.ABSENT if value is None else f"{100 * value:.2f}%", value=value)


def decibels(value: float | None) -> Cell:
    """A ratio of signal to noise; None where two things are equal bit for bit."""
    return Cell("equal" if value is None else f"{value:.1f} dB", value=value, unit="dB")


def without_empty(table: Table) -> Table:
    """Leaves out columns of which every cell is absent."""
    kept = [
        i
        for i in range(len(table.columns) - 1)
        if any(row.cells[i].text != fmt.ABSENT for row in table.rows)
    ]
    return dataclasses.replace(
        table,
        columns=(table.columns[0], *(table.columns[i + 1] for i in kept)),
        rows=tuple(
            dataclasses.replace(row, cells=tuple(row.cells[i] for i in kept)) for row in table.rows
        ),
    )


def plain(table: Table) -> list[list[str]]:
    """The cells as single strings, details in parentheses."""
    return [
        [f"{c.text} ({c.detail})" if c.detail else c.text for c in (row.head, *row.cells)]
        for row in table.rows
    ]


def shortened(table: Table, limit: int, where: str) -> Table:
    """Leaves out rows beyond a limit and says where they are."""
    if len(table.rows) <= limit:
        return table
    note = f"{len(table.rows) - limit:,} more rows are in {where}."
    return dataclasses.replace(table, rows=table.rows[:limit], notes=(*table.notes, note))


def render_csv(table: Table) -> str:
    """Writes a table as CSV: numbers bare and in full, units in the head, absent values empty.

    A column of which a cell has an interval is followed by its two ends; one of which a cell has a
    second line of other kind by a column of these.

    Args:
      table: The table.

    Returns:
      Lines that end in a line feed.
    """
    columns = list(zip(*([row.head, *row.cells] for row in table.rows), strict=True))
    heads: list[str] = []
    written: list[list[str]] = []
    for title, cells in zip(table.columns, columns or [()] * len(table.columns), strict=True):
        unit = next((cell.unit for cell in cells if cell.unit), "")
        name = f"{title} ({unit})" if unit else title
        heads.append(name)
        written.append([_bare(cell) for cell in cells])
        if any(cell.interval for cell in cells):
            for end, side in enumerate(("from", "to")):
                heads.append(f"{name}, 95% {side}")
                written.append([f"{c.interval[end]:.12g}" if c.interval else "" for c in cells])
        elif any(cell.detail for cell in cells):
            heads.append(f"{title}, detail")
            written.append([_safe(cell.detail) for cell in cells])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(_safe, heads))
    writer.writerows(zip(*written, strict=True))
    return out.getvalue()


def _bare(cell: Cell) -> str:
    if cell.value is not None:
        return f"{cell.value:.12g}"
    return "" if cell.text == fmt.ABSENT else _safe(cell.text)


def _safe(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    flat = " ".join(text.split())
    return f"'{flat}" if flat.startswith(("=", "+", "-", "@")) else flat
