"""Tables for the terminal, Markdown and CSV, and what foreign text becomes in them.

A `Table` is built once. `table`, `Table.markdown` and `Table.csv` render it; for HTML the
macro `table` in the report's template does, whose engine escapes every value.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence

from tfdistill.results.quantities import ABSENT

BUSY = "busy machine"  # next to every figure that other programs disturbed
_GAP = "  "  # between the columns of a table
_NARROWEST = 16  # no column becomes narrower than this, or than its longest word if that is shorter


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


Line = Mapping[str, Cell | str]  # the cells of a row by the titles of their columns


@dataclasses.dataclass(frozen=True)
class Row:
    """A row: the cell that names it, the others, and how it stands out."""

    head: Cell
    cells: tuple[Cell, ...]
    strong: bool = False  # whether it is highlighted
    opens: bool = False  # whether it opens a group
    titles: tuple[str, ...] = ()  # of the columns, that of the head first

    @property
    def line(self) -> tuple[Cell, ...]:
        """All cells."""
        return (self.head, *self.cells)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table with a caption."""

    key: str  # anchor, unique in the report
    caption: str  # one sentence
    columns: tuple[str, ...]  # titles, that of the heads first
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()  # sentences below it

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each column."""
        columns = zip(*(row.line for row in self.rows), strict=True)
        units = (next((cell.unit for cell in column if cell.unit), "") for column in columns)
        return tuple(units) if self.rows else ("",) * len(self.columns)

    @property
    def heads(self) -> tuple[str, ...]:
        """The titles of the columns with their units."""
        pairs = zip(self.columns, self.units, strict=True)
        return tuple(f"{title}, {unit}" if unit else title for title, unit in pairs)

    @property
    def plain(self) -> list[list[str]]:
        """The cells as single strings, details in parentheses."""
        return [
            [f"{c.text} ({c.detail})" if c.detail else c.text for c in row.line]
            for row in self.rows
        ]

    def without_empty(self) -> Table:
        """Leaves out columns that say nothing in every row, but not the first."""
        columns = zip(*(row.cells for row in self.rows), strict=True)
        held = [any(cell.text not in ("", "-", ABSENT) for cell in column) for column in columns]
        return dataclasses.replace(
            self,
            columns=(self.columns[0], *itertools.compress(self.columns[1:], held)),
            rows=tuple(
                dataclasses.replace(row, cells=tuple(itertools.compress(row.cells, held)))
                for row in self.rows
            ),
        )

    def shortened(self, limit: int, where: str) -> Table:
        """Leaves out rows beyond a limit and notes where to find them."""
        if len(self.rows) <= limit:
            return self
        note = f"{len(self.rows) - limit:,} more rows are in {where}."
        return dataclasses.replace(self, rows=self.rows[:limit], notes=(*self.notes, note))

    def markdown(self) -> str:
        """Writes it with caption and notes; numbers are right-aligned."""
        lines = [list(map(markdown, self.heads))]
        for row, texts in zip(self.rows, self.plain, strict=True):
            first, *others = map(markdown, texts)
            lines.append([f"**{first}**" if row.strong else first, *others])
        head, *body = ("| " + " | ".join(line) + " |" for line in lines)
        rule = "|---|" + "---:|" * (len(self.columns) - 1)
        written = "\n".join([head, rule, *body])
        return "\n\n".join([f"{markdown(self.caption)}.", written, *map(markdown, self.notes)])

    def csv(self) -> str:
        """Writes it as CSV: numbers bare and in full, units in the head, absent values empty.

        A column with intervals is followed by their two ends; one with second lines but no
        intervals, by a column of these.
        """
        columns: list[list[str]] = []
        for i, (title, unit) in enumerate(zip(self.columns, self.units, strict=True)):
            cells = [row.line[i] for row in self.rows]
            name = f"{title} ({unit})" if unit else title
            columns.append([csv_cell(name), *map(_bare, cells)])
            if any(cell.interval for cell in cells):
                for end, side in enumerate(("from", "to")):
                    ends = [f"{c.interval[end]:.12g}" if c.interval else "" for c in cells]
                    columns.append([csv_cell(f"{name}, 95% {side}"), *ends])
            elif any(cell.detail for cell in cells):
                details = [csv_cell(cell.detail) for cell in cells]
                columns.append([csv_cell(f"{title}, detail"), *details])
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
        return out.getvalue()


def row(cells: Line, *, strong: bool = False, opens: bool = False) -> Row:
    """A row by the titles of its columns; a string is a cell of text alone."""
    written = [Cell(cell) if isinstance(cell, str) else cell for cell in cells.values()]
    return Row(written[0], tuple(written[1:]), strong, opens, tuple(cells))


def of_rows(
    key: str,
    caption: str,
    rows: Sequence[Row | Line],
    notes: Sequence[str] = (),
    *,
    drop_empty: bool = False,
) -> Table | None:
    """A table of rows with the same columns, or None; `drop_empty` leaves out those that are."""
    if not rows:
        return None
    listed = tuple(each if isinstance(each, Row) else row(each) for each in rows)
    whole = Table(key, caption, listed[0].titles, listed, tuple(notes))
    return whole.without_empty() if drop_empty else whole


def lines(rows: Sequence[Line]) -> list[str]:
    """Rows as lines for a terminal, without what is empty in all of them."""
    whole = of_rows("", "", rows, drop_empty=True)
    return [] if whole is None else table([whole.heads, *whole.plain])


def marked(figure: str, busy: bool) -> str:
    """Writes a figure, with the mark of a busy machine where it has one."""
    return f"{figure} ({BUSY})" if busy else figure


def table(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Aligns rows under a head, and wraps cells at words where the terminal is too narrow.

    The first `left` columns are aligned to the left, the others to the right.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if sys.stdout.isatty():
        room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
        widths = _shrunk(columns, widths, room)
    lines = [[_GAP.join("-" * wide for wide in widths)]]
    for row in rows:
        cells = [
            textwrap.wrap(cell, wide, break_on_hyphens=False) if len(cell) > wide else [cell]
            for cell, wide in zip(row, widths, strict=True)
        ]
        written = []
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            pairs = enumerate(zip(parts, widths, strict=True))
            padded = [c.ljust(wide) if i < left else c.rjust(wide) for i, (c, wide) in pairs]
            written.append(_GAP.join(padded).rstrip())
        lines.append(written)
    rule, head, *body = lines
    return [line for part in (head, rule, *body) for line in part]


def _shrunk(columns: Sequence[Sequence[str]], widths: list[int], room: int) -> list[int]:
    """Narrows the widest columns until all fit into `room`, or none can become narrower."""
    words = [[word for cell in column for word in cell.split()] for column in columns]
    least = [min(max(map(len, lengths), default=1), _NARROWEST) for lengths in words]
    widths = list(widths)
    while sum(widths) > room:
        wider = [(wide, i) for i, wide in enumerate(widths) if wide > least[i]]
        if not wider:
            break
        widths[max(wider)[1]] -= 1
    return widths


def csv_cell(text: str) -> str:
    """Text on one line that no spreadsheet evaluates as a formula; numbers belong in as numbers.

    Reference: OWASP, CSV injection.
    """
    flat = " ".join(text.split())
    return f"'{flat}" if flat.startswith(("=", "+", "-", "@")) else flat


def one_line(text: str) -> str:
    """Foreign text on one line, without what is invisible or turns the direction of writing.

    Control characters become U+FFFD; marks, embeddings and overrides of the direction go, since
    they would also move the text behind them. Joiners stay: they shape letters.
    """
    shown = []
    for character in " ".join(text.split()):
        category = unicodedata.category(character)
        if category == "Cc":
            shown.append("\ufffd")
        elif category != "Cf" or character in "\u200c\u200d":
            shown.append(character)
    return "".join(shown)


def markdown(text: str) -> str:
    """Foreign text as plain text in Markdown: one line, no markup, no HTML."""
    flat = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", flat)


def markdown_code(text: str) -> str:
    """Foreign text as code in Markdown, also in a table; a span of code knows no escapes."""
    return f"`{one_line(text).replace('`', '').replace('|', '/')}`"


def cut(text: str, longest: int = 600) -> str:
    """Shortens a foreign text, such as a command line."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _bare(cell: Cell) -> str:
    if cell.value is not None:
        return f"{cell.value:.12g}"
    return "" if cell.text == ABSENT else csv_cell(cell.whole or cell.text)
