"""Tables of plain text, aligned and as wide as the terminal, and foreign text in other tables."""

from __future__ import annotations

import itertools
import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Sequence

BUSY = "busy machine"  # next to every figure that other programs disturbed
_GAP = "  "  # between the columns of a table
_NARROWEST = 16  # no column becomes narrower than this, or than its longest word if that is shorter


def marked(figure: str, busy: bool) -> str:
    """Writes a figure, with the mark of a busy machine where it has one."""
    return f"{figure} ({BUSY})" if busy else figure


def table(
    rows: Sequence[Sequence[str]], *, left: int = 1, indent: int = 0, width: int | None = None
) -> list[str]:
    """Aligns rows under a head, and wraps cells at words where the terminal is too narrow.

    The first `left` columns are aligned to the left, the others to the right. `width` is by default
    that of the terminal, or no limit where standard output is none; lines are longer only where
    words are.
    """
    if width is None and sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    if width is not None:
        widths = _shrunk(columns, widths, width - indent - len(_GAP) * (len(widths) - 1))
    lines = [[_GAP.join("-" * wide for wide in widths)]]
    for row in rows:
        cells = [
            textwrap.wrap(cell, wide, break_on_hyphens=False) if len(cell) > wide else [cell]
            for cell, wide in zip(row, widths, strict=True)
        ]
        lines.append([_aligned(parts, widths, left) for parts in itertools.zip_longest(*cells)])
    rule, head, *body = lines
    return [" " * indent + line for part in (head, rule, *body) for line in part]


def _aligned(cells: Sequence[str | None], widths: Sequence[int], left: int) -> str:
    padded = [
        (cell or "").ljust(wide) if i < left else (cell or "").rjust(wide)
        for i, (cell, wide) in enumerate(zip(cells, widths, strict=True))
    ]
    return _GAP.join(padded).rstrip()


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


def without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Drops the columns of a table that say nothing ("" or "-") in every row below the head."""
    columns = [i for i in range(len(rows[0])) if any(row[i] not in ("", "-") for row in rows[1:])]
    return [[row[i] for i in columns] for row in rows]
