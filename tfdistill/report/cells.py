"""Tables of text cells, the same for HTML, Markdown and CSV, and their CSV. Pure."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence

from tfdistill.report import format as fmt
from tfdistill.results import quantities
from tfdistill.results.tables import csv_cell


@dataclasses.dataclass(frozen=True)
class Cell:
    """A cell: its text, and a quieter second line."""

    text: str  # the first line, without its unit
    detail: str = ""  # the second line
    value: float | None = None  # the number behind the text, for CSV; None where there is none
    unit: str = ""  # of text and value, for the head of the column: one unit a column
    interval: tuple[float, float] | None = None  # the 95% interval of the number
    shade: int = 0  # from 0, none, to 4, the darkest background
    whole: str = ""  # the text before it was shortened, for CSV and as a tooltip


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: its head, its cells, whether it is highlighted and whether it opens a group."""

    head: Cell
    cells: tuple[Cell, ...]
    strong: bool = False
    opens: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption."""

    key: str  # anchor, unique in the report
    caption: str  # one sentence
    columns: tuple[str, ...]  # titles, that of the row heads first
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()  # sentences below it

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each column, that of the row heads first."""
        columns = zip(*([row.head, *row.cells] for row in self.rows), strict=True)
        units = (next((cell.unit for cell in column if cell.unit), "") for column in columns)
        return tuple(units) if self.rows else ("",) * len(self.columns)

    @property
    def heads(self) -> tuple[str, ...]:
        """The titles of the columns with their units."""
        pairs = zip(self.columns, self.units, strict=True)
        return tuple(f"{title}, {unit}" if unit else title for title, unit in pairs)


def row(head: Cell | str, *cells: Cell | str, strong: bool = False, opens: bool = False) -> Row:
    """A row of cells; a string is a cell of text alone."""
    first, *rest = [Cell(cell) if isinstance(cell, str) else cell for cell in (head, *cells)]
    return Row(first, tuple(rest), strong, opens)


def table(
    key: str,
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Row],
    notes: Sequence[str] = (),
    *,
    drop_empty: bool = False,
) -> Table | None:
    """A table, or None if it has no rows; `drop_empty` leaves out columns without a value."""
    if not rows:
        return None
    whole = Table(key, caption, tuple(columns), tuple(rows), tuple(notes))
    return without_empty(whole) if drop_empty else whole


def name(text: str, detail: str = "", longest: int = 60) -> Cell:
    """A name that others chose, such as a label: shortened in its middle where it is too long."""
    shown = fmt.shortened(text, longest)
    return Cell(shown, detail, whole="" if shown == text else text)


def quantity(value: float | None, unit: str, detail: str = "") -> Cell:
    """A number with three digits and the unit of its column."""
    return Cell(fmt.ABSENT if value is None else quantities.digits(value), detail, value, unit)


def milliseconds(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A duration, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    cell = quantity(value, "ms", fmt.interval(*ends) if ends else "")
    return dataclasses.replace(cell, interval=ends)


def ratio(value: float | None, interval: Sequence[float] | None = None) -> Cell:
    """A factor, with its 95% interval where there is one."""
    ends = (interval[0], interval[1]) if interval else None
    return Cell(fmt.ratio(value), fmt.interval(*ends) if ends else "", value, interval=ends)


def size(value: float | None, detail: str = "") -> Cell:
    """A number of bytes, in megabytes."""
    return quantity(None if value is None else value / 1e6, "MB", detail)


def millions(value: float | None) -> Cell:
    """A number of weights or operations, in millions."""
    return quantity(None if value is None else value / 1e6, "M")


def number(value: float | None, detail: str = "") -> Cell:
    """A count."""
    return Cell(fmt.ABSENT if value is None else f"{value:,}", detail, value)


def metric(name: str, value: float | None, detail: str = "") -> Cell:
    """A metric of a task."""
    return Cell(fmt.metric(name, value), detail, value)


def share(value: float | None, digits: int = 2) -> Cell:
    """A share of a whole, in percent."""
    return Cell(fmt.ABSENT if value is None else f"{100 * value:.{digits}f}%", value=value)


def seconds(value: float | None) -> Cell:
    """A duration of seconds to hours."""
    return quantity(value, "s")


def decibels(value: float | None) -> Cell:
    """A ratio of signal to noise; None where two things are equal bit for bit."""
    return Cell("equal" if value is None else f"{value:.1f}", value=value, unit="dB")


def without_empty(table: Table) -> Table:
    """Leaves out columns of which every cell is absent."""
    filled = [
        i
        for i in range(len(table.columns) - 1)
        if any(row.cells[i].text not in ("", fmt.ABSENT) for row in table.rows)
    ]
    return dataclasses.replace(
        table,
        columns=(table.columns[0], *(table.columns[i + 1] for i in filled)),
        rows=tuple(
            dataclasses.replace(row, cells=tuple(row.cells[i] for i in filled))
            for row in table.rows
        ),
    )


def plain(table: Table) -> list[list[str]]:
    """The cells as single strings, details in parentheses."""
    return [
        [f"{c.text} ({c.detail})" if c.detail else c.text for c in (row.head, *row.cells)]
        for row in table.rows
    ]


def shortened(table: Table, limit: int, where: str) -> Table:
    """Leaves out rows beyond a limit and notes where to find them."""
    if len(table.rows) <= limit:
        return table
    note = f"{len(table.rows) - limit:,} more rows are in {where}."
    return dataclasses.replace(table, rows=table.rows[:limit], notes=(*table.notes, note))


def render_csv(table: Table) -> str:
    """Writes a table as CSV: numbers bare and in full, units in the head, absent values empty.

    A column with intervals is followed by their two ends; one with second lines but no intervals,
    by a column of these.
    """
    columns = list(zip(*([row.head, *row.cells] for row in table.rows), strict=True))
    heads: list[str] = []
    written: list[list[str]] = []
    for title, unit, cells in zip(
        table.columns, table.units, columns or [()] * len(table.columns), strict=True
    ):
        name = f"{title} ({unit})" if unit else title
        heads.append(name)
        written.append([_bare(cell) for cell in cells])
        if any(cell.interval for cell in cells):
            for end, side in enumerate(("from", "to")):
                heads.append(f"{name}, 95% {side}")
                written.append([f"{c.interval[end]:.12g}" if c.interval else "" for c in cells])
        elif any(cell.detail for cell in cells):
            heads.append(f"{title}, detail")
            written.append([csv_cell(cell.detail) for cell in cells])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(csv_cell, heads))
    writer.writerows(zip(*written, strict=True))
    return out.getvalue()


def _bare(cell: Cell) -> str:
    if cell.value is not None:
        return f"{cell.value:.12g}"
    return "" if cell.text == fmt.ABSENT else csv_cell(cell.whole or cell.text)
