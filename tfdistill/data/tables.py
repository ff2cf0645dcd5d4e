"""The file of a split, and its rows: TSV, CSV and JSON Lines, each row with its line number."""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tfdistill import errors, reading

SUFFIXES = (".tsv", ".csv", ".jsonl")
# What may separate cells: its name, and the suffix of files that it separates.
_SEPARATORS = {
    "\t": ("tabs", ".tsv"),
    ",": ("commas", ".csv"),
    ";": ("semicolons", ""),
    "|": ("vertical bars", ""),
}
_LONGEST_NAME = 5  # words of the name of a column; more are a sentence
_EXTRA_CELL = {
    ".csv": "A text with a comma needs quotation marks around it.",
    ".tsv": "A text may not hold a tab; use JSON Lines for such texts.",
}
LIST_MARK = "\x1f"  # the unit separator of ASCII: no text holds it
# Other names under which a split is looked for, after its own.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "dev": ("dev_matched", "validation", "valid", "val"),
    "test": ("test_matched",),
}

Path = str | os.PathLike[str]


class Columns(NamedTuple):
    """The columns that were asked for.

    Attributes:
      columns: Name -> cells, one a row. A column that was asked for and is absent has no entry.
      lines: The line of each row in its file, from 1.
      skipped: Rows left out because they had too few cells (only with `skip_short_rows`).
      blank_lines: The lines between rows that are empty.
    """

    columns: dict[str, list[str]]
    lines: list[int]
    skipped: int
    blank_lines: tuple[int, ...] = ()


def split_file(
    source: Path,
    split: str,
    *,
    suffixes: Sequence[str] = SUFFIXES,
    versions: Sequence[str] = ("",),
) -> pathlib.Path:
    """Finds the file of a split.

    Args:
      source: A folder, or the file itself.
      split: "train", "dev", "test", or the name of a file without its suffix, such as
        "dev_mismatched".
      suffixes: What the file may end in.
      versions: What may come between the name and the suffix.

    Returns:
      The file.

    Raises:
      DataError: If there is none, or more than one.
    """
    folder = pathlib.Path(source)
    if folder.is_file():
        return folder
    if not folder.is_dir():
        raise errors.DataError("data", "a folder with splits, or a file", f"{folder}: not there")
    for stem in (split, *_ALIASES.get(split, ())):
        found = [folder / (stem + version + end) for version in versions for end in suffixes]
        found = [path for path in found if path.is_file()]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(path.name for path in found)
            raise errors.DataError(f"{folder}, split {split!r}", "one file", names, "Remove one.")
    there = sorted(path.name for path in folder.iterdir() if path.suffix in suffixes)
    raise errors.DataError(
        f"{folder}, split {split!r}",
        " or ".join(split + version + end for version in versions for end in suffixes),
        ", ".join(there) or "a folder without data files",
    )


def read_table(
    path: pathlib.Path,
    required: Sequence[str],
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] = (),
    skip_short_rows: bool = False,
    lists: bool = False,
) -> Columns:
    r"""Reads named columns of a file; its suffix says the format.

    - `.tsv`: cells between tabs, rows between line feeds, nothing quoted (the form of GLUE: a
      quotation mark is text).
    - `.csv`: RFC 4180, so a quoted cell may hold commas, line breaks and doubled quotes.
    - `.jsonl`: one object a line; numbers and booleans become strings as JSON writes them.

    All are UTF-8; a byte order mark is dropped.

    Args:
      path: The file.
      required: Columns that must be there.
      optional: Columns to read if they are there.
      header: Column names of a TSV or CSV file whose first line is already a row. A first line
        that holds all required names is taken as a header all the same.
      skip_short_rows: Whether to leave out (and count) rows with too few cells, instead of
        refusing the file.
      lists: Whether a cell of a `.jsonl` file may be a list; it becomes its items, each followed
        by `LIST_MARK`.

    Returns:
      The columns; at least one row.

    Raises:
      DataError: If the file is missing, empty or malformed, or lacks a column.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise errors.DataError(f"data file {path}", f"one of {', '.join(SUFFIXES)}", path.suffix)
    text = read_text(path)
    if not text.strip():
        raise errors.DataError(f"data file {path}", "rows", "an empty file")
    if path.suffix.lower() == ".jsonl":
        table = _read_json_lines(path, text, required, optional, lists)
    else:
        table = _read_cells(path, text, required, optional, header, skip_short_rows)
    if not table.lines:
        raise errors.DataError(f"data file {path}", "at least one row", "only a header")
    return table


def read_lines(path: pathlib.Path) -> tuple[list[str], list[int]]:
    """Reads a file of plain text, one text a line; empty lines are left out.

    Returns:
      The texts, without blanks around them, and the line of each, from 1.

    Raises:
      DataError: If the file is missing or is no text.
    """
    rows = list(enumerate(read_text(path).split("\n"), start=1))
    kept = [(line.strip(), number) for number, line in rows if line.strip()]
    return [text for text, _ in kept], [number for _, number in kept]


def column_names(path: pathlib.Path) -> list[str]:
    """Reads the names of a file's columns off its first row; see `read_table`.

    Raises:
      DataError: If the file is missing, empty or malformed.
    """
    if not path.is_file():
        raise errors.DataError("data file", "a file", f"{path}: not there")
    with path.open("rb") as raw:
        if b"\0" in (start := raw.readline()) or start != start.decode(errors="ignore").encode():
            read_text(path)  # says what is wrong with it
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        suffix = path.suffix.lower()
        if suffix == ".csv":
            return [name.strip() for name in next(csv.reader(file), [])]
        line = file.readline().rstrip("\r\n")
    if suffix != ".jsonl":
        return [name.strip() for name in line.split("\t")]
    row = reading.parse_json(line, f"{path}, line 1", expected="a JSON object")
    if not isinstance(row, dict):
        raise errors.DataError(f"{path}, line 1", "a JSON object", f"a {type(row).__name__}")
    return list(row)


def header_remedy(path: pathlib.Path, names: Sequence[str]) -> str:
    """Says what to do about a first row that cannot hold the names of columns.

    Args:
      path: A file.
      names: The cells of its first row.

    Returns:
      A sentence where the cells are between other characters than the suffix says, or where the
      row looks like data; otherwise "".
    """
    suffix = path.suffix.lower()
    own = {".tsv": "\t", ".csv": ","}.get(suffix)
    if own is None:
        return ""
    for mark, (name, right) in _SEPARATORS.items():
        if mark != own and len(names) == 1 and mark in names[0]:
            received = f"The cells are between {name}; in {suffix} files they are between"
            remedy = f"rename the file to {right}" if right else "save it with these"
            return f"{received} {_SEPARATORS[own][0]}: {remedy}."
    if looks_like_data(names):
        example = repr(own.join(("text", "label")))
        return f"The first row looks like data: put a line with names such as {example} on top."
    return ""


def looks_like_data(cells: Sequence[str]) -> bool:
    """Whether a row can hardly hold names of columns: numbers, sentences, or a cell twice."""
    named = [cell.strip() for cell in cells if cell.strip()]
    return len(set(named)) < len(named) or any(map(_is_data, named)) or not named


def _is_data(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return len(cell.split()) > _LONGEST_NAME or cell.endswith((".", "!"))
    return True


def read_text(path: pathlib.Path, encoding: str = "utf-8") -> str:
    """Reads a text file without its byte order mark; line breaks become line feeds.

    Args:
      path: The file.
      encoding: A name that Python knows, such as "latin-1".

    Returns:
      Its text.

    Raises:
      ConfigError: If there is no such encoding.
      DataError: If it is not a file, or not in this encoding; the message says on which line.
    """
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise errors.ConfigError(
            "encoding", "one that Python knows, such as utf-8", repr(encoding)
        ) from None
    if not path.is_file():
        raise errors.DataError("data file", "a file", f"{path}: not there")
    return reading.read_text(path, encoding=name).replace("\r\n", "\n")


def _read_cells(
    path: pathlib.Path,
    text: str,
    required: Sequence[str],
    optional: Sequence[str],
    header: Sequence[str],
    skip_short_rows: bool,
) -> Columns:
    parted = split_rows(path, text, "," if path.suffix.lower() == ".csv" else "\t")
    rows = [row for row in parted if row[1]]
    if not rows:
        raise errors.DataError(f"data file {path}", "rows", "blank lines only")
    blank = tuple(line for line, cells in parted if not cells and line < rows[-1][0])
    first = rows[0][1]
    names = [name.strip() for name in first]
    if header and not set(required) <= set(names):
        names = list(header)
        if len(first) < len(names):
            raise errors.DataError(
                f"{path}, line 1",
                f"the {len(names)} cells {', '.join(names)}",
                f"{len(first)} cells",
            )
    else:
        rows = rows[1:]
    _check_columns(path, required, names, header_remedy(path, names))
    positions = {name: names.index(name) for name in (*required, *optional) if name in names}
    columns: dict[str, list[str]] = {name: [] for name in positions}
    lines: list[int] = []
    skipped = 0
    last = max(positions.values())
    for line, cells in rows:
        if len(cells) <= last:
            if skip_short_rows:
                skipped += 1
                continue
            raise errors.DataError(
                f"{path}, line {line}",
                f"{len(names)} cells ({', '.join(names)})",
                f"{len(cells)}",
                "A text may not hold a tab or a line break; use JSON Lines for such texts.",
            )
        if any(cells[len(names) :]):
            raise errors.DataError(
                f"{path}, line {line}",
                f"{len(names)} cells ({', '.join(names)})",
                len(cells),
                _EXTRA_CELL[path.suffix.lower()],
            )
        for name, position in positions.items():
            columns[name].append(cells[position])
        lines.append(line)
    return Columns(columns, lines, skipped, blank)


def split_rows(path: pathlib.Path, text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Splits a text into rows of cells; see `read_table`.

    Args:
      path: The file, for messages.
      text: Its text.
      separator: What separates cells. Between tabs nothing is quoted.

    Returns:
      The line and the cells of each row; a blank line has no cells.

    Raises:
      DataError: If quotation marks are not in pairs.
    """
    if separator == "\t":
        # Not splitlines(): a text may hold U+2028, U+0085 or a form feed.
        lines = enumerate(text.split("\n"), start=1)
        return [(line, row.split("\t") if row.strip() else []) for line, row in lines]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    rows, line = [], 1
    try:
        for cells in reader:
            rows.append((line, cells if any(map(str.strip, cells)) else []))
            line = reader.line_num + 1
    except csv.Error as error:
        name = _SEPARATORS[separator][0].removesuffix("s")
        raise errors.DataError(
            f"{path}, line {line}", f"{name}-separated cells (RFC 4180)", f"a fault: {error}"
        ) from None
    return rows


def _read_json_lines(
    path: pathlib.Path,
    text: str,
    required: Sequence[str],
    optional: Sequence[str],
    lists: bool,
) -> Columns:
    present: list[str] = list(required)
    columns: dict[str, list[str]] = {}
    lines: list[int] = []
    blank: list[int] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            blank.append(number)
            continue
        row = reading.parse_json(line, f"{path}, line {number}", expected="a JSON object")
        if not isinstance(row, dict):
            raise errors.DataError(f"{path}, line {number}", "a JSON object", type(row).__name__)
        if not lines:
            present += [name for name in optional if name in row]
            columns = {name: [] for name in present}
        _check_columns(f"{path}, line {number}", present, list(row), "")
        for name in present:
            columns[name].append(_json_cell(f"{path}, line {number}", name, row[name], lists))
        lines.append(number)
    between = tuple(number for number in blank if lines and number < lines[-1])
    return Columns(columns, lines, 0, between)


def _json_cell(where: str, name: str, value: object, lists: bool) -> str:
    if lists and isinstance(value, list):
        return "".join(_json_cell(where, name, item, False) + LIST_MARK for item in value)
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    raise errors.DataError(f"{where}, {name!r}", "a string or a number", type(value).__name__)


def _check_columns(
    where: object, required: Sequence[str], found: Sequence[str], remedy: str
) -> None:
    for name in required:
        if found.count(name) == 1:
            continue
        if name in found:
            raise errors.DataError(
                f"{where}", f"one column {name!r}", f"{found.count(name)} of them"
            )
        raise errors.DataError(
            f"{where}",
            f"a column {name!r}",
            f"the columns {', '.join(map(repr, found))}",
            remedy or errors.nearest(name, found),
        )
