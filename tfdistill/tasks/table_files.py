"""The content of a table's file, by its format: rows of cells, each with its line."""

from __future__ import annotations

import codecs
import csv
import datetime
import io
import itertools
import json
import math
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfdistill import errors
from tfdistill.io import files, reading
from tfdistill.tasks import parquet, sheets, table_limits

SUFFIXES = (".tsv", ".csv", ".jsonl", ".parquet", ".xlsx")
"""The suffixes of a table's file; `.txt` is read as a table too, where plain text is not meant."""
LIST_MARK = "\x1f"  # the unit separator of ASCII: no text holds it
NULL = "\x1e"  # a value that is absent; a blank to str.strip()

# What may separate cells, and its name.
_SEPARATORS = {",": "comma", "\t": "tab", ";": "semicolon", "|": "vertical bar"}
_EXCEL_SEPARATOR = re.compile(r'"?sep=(.)"?\r?\Z')
_OTHER_FORMATS = (
    "Unpack an archive. Save a table of another program as .csv in UTF-8, as .xlsx or as .parquet, "
    "and JSON as .jsonl, an object a line. Words with tags are columns of CoNLL: kind='token'."
)
# How files begin that are no text: zip archives, files of Excel, gzip, Parquet, Arrow.
_PACKED = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0", b"\x1f\x8b", b"PAR1", b"ARROW1")
# A cell in quotation marks as Excel writes it between tabs.
_EXCEL_CELL = re.compile(r'(?m)(?:^|(?<=\t))"([^"]*(?:""[^"]*)*)"(?=\t|$)')
_LONGEST_CELL = 2**31 - 1  # a text may be long; the file is in memory anyway
_BATCH = 100  # rows of cells that are split at once
_LINE_END = re.compile(r"\r\n?")
_NUMBER = re.compile(r"[-+]?[\d.,]+\Z")


class Rows(NamedTuple):
    """The rows of a file."""

    # The first row of a file of cells; of objects all keys, in order of appearance.
    names: list[str]
    # The line of each row, from 1, and its cells, read once, as they are asked for; a blank line
    # has none.
    rows: Iterable[tuple[int, list[Any]]]
    header_line: int = 0  # the line of `names`; 0 for objects, whose names have no line
    separator: str = ""  # of cells; "" for objects and sheets


def check_file(path: pathlib.Path) -> None:
    """Refuses a file that is absent, or no table by its name: another program's format."""
    suffix = path.suffix.lower()
    if suffix not in (*SUFFIXES, ".txt"):
        raise errors.DataError(
            f"data file {path}",
            f"one of {', '.join(SUFFIXES)}",
            suffix or "a name without suffix",
            _OTHER_FORMATS,
        )
    if not path.is_file():
        raise errors.DataError("data file", "a file", f"{path}: not there")


def read_rows(path: pathlib.Path) -> Rows:
    """Reads the rows of a table; see `tables.read_table` for the formats.

    What is wrong with a row is raised when it is reached.
    """
    check_file(path)
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".parquet"):
        return _of_objects(path)
    if suffix == ".xlsx":
        return _with_header(path, sheets.read_sheet(path), "")
    text = read_text(path)
    if not text or text.isspace():
        raise errors.DataError(f"data file {path}", "rows", "an empty file")
    return _read_cells(path, text)


def read_text(path: pathlib.Path, encoding: str = "utf-8") -> str:
    """Reads a text file without its byte order mark; line breaks become line feeds."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        raise errors.ConfigError(
            "encoding", "one that Python knows, such as utf-8", repr(encoding)
        ) from None
    if not path.is_file():
        raise errors.DataError("data file", "a file", f"{path}: not there")
    content = reading.read_bytes(path, errors.DataError, f"{path}")
    if content.startswith(_PACKED):
        remedy = "Rename it after its format, or write the table as CSV in UTF-8."
        what = "a packed file (zip, Excel, gzip, Parquet or Arrow)"
        raise errors.DataError(f"{path}", f"{encoding.upper()} text", what, remedy)
    text = reading.decode(content, f"{path}", encoding=name)
    if name == "utf-8" and "\0" in text:
        wide = reading.wide_encoding(content)
        line = text[: text.index("\0")].count("\n") + 1
        remedy = f"Convert the file with `iconv -f {wide} -t utf-8`." if wide else "Remove it."
        raise errors.DataError(f"{path}, line {line}", "UTF-8 text", "a NUL character", remedy)
    # Those of Windows, or of an old Mac, all of which are CR.
    return text.replace("\r\n" if "\n" in text else "\r", "\n")


def line_feeds(text: str) -> str:
    """A text of JSON or Parquet with line feeds for its other line ends, as a file of cells has."""
    return _LINE_END.sub("\n", text)


def read_objects(path: pathlib.Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Reads the rows of JSON Lines, a JSON array or Parquet.

    Yields the line or the number of each row, from 1, and its object; a blank line has an empty
    one.
    """
    if path.suffix.lower() == ".parquet":
        yield from enumerate(parquet.read_parquet(path), start=1)
        return
    text, is_array = read_text(path), path.suffix.lower() == ".json"
    rows: Any = reading.parse_json(text, f"{path}") if is_array else text.split("\n")
    if not isinstance(rows, list):
        remedy = "Name a file with an object a line .jsonl."
        raise errors.DataError(f"{path}", "a JSON array of objects", type(rows).__name__, remedy)
    for number, row in enumerate(rows, start=1):
        where = f"{path}, {'record' if is_array else 'line'} {number}"
        if not is_array:
            blank = not row.strip()
            row = {} if blank else reading.parse_json(row, where, expected="a JSON object")
        if not isinstance(row, dict):
            raise errors.DataError(where, "a JSON object", type(row).__name__)
        yield number, row


def _of_objects(path: pathlib.Path) -> Rows:
    objects = list(read_objects(path))
    if not any(row for _, row in objects):
        raise errors.DataError(f"data file {path}", "rows", "an empty file")
    names = list(dict.fromkeys(name for _, row in objects for name in row))
    table_limits.check_sparsity(
        path, len(names) * len(objects), sum(len(row) for _, row in objects)
    )
    rows = [(line, [row.get(name) for name in names] if row else []) for line, row in objects]
    return Rows(names, rows)


def _read_cells(path: pathlib.Path, text: str) -> Rows:
    """Reads cells between commas, tabs, semicolons or vertical bars; `sep=;` may say which."""
    first, _, rest = text.partition("\n")
    chosen = _EXCEL_SEPARATOR.match(first)
    header = next((line for line in _lines_of(text) if line.strip()), "")
    separator = chosen[1] if chosen else separator_of(header, path.suffix.lower())
    if separator not in _SEPARATORS:
        marks = ", ".join(f"a {name}" for name in _SEPARATORS.values())
        raise errors.DataError(f"{path}, line 1", f"sep= with {marks}", repr(first))
    rows = split_rows(path, rest if chosen else text, separator)
    return _with_header(path, ((line + bool(chosen), cells) for line, cells in rows), separator)


def _with_header(path: pathlib.Path, rows: Iterable[tuple[int, list[Any]]], separator: str) -> Rows:
    rest = iter(rows)
    line, cells = next((row for row in rest if row[1]), (0, []))
    if not cells:
        raise errors.DataError(f"data file {path}", "rows", "blank lines only")
    names = [str(cell) for cell in cells]
    if separator == "\t" and all(len(n) > 1 and n[0] == n[-1] == '"' for n in names):
        names = [name[1:-1] for name in names]
    return Rows(names, rest, line, separator)


def _lines_of(text: str) -> Iterator[str]:
    """The lines of a text with their line feeds, without a list of all of them.

    Not splitlines(): a text may hold U+2028, U+0085 or a form feed.
    """
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def separator_of(header: str, suffix: str) -> str:
    """The separator of cells: the mark that splits the first line into the most of them.

    Marks within quotation marks do not count. A `.tsv` file has tabs if its first line has one, so
    that it may begin with a text; without any mark the suffix decides.
    """
    if suffix == ".tsv" and "\t" in header:
        return "\t"
    bare = re.sub(r'"(?:[^"]|"")*"', "", header)
    usual = "\t" if suffix == ".tsv" else ","
    return max((usual, *_SEPARATORS), key=bare.count)


def write_cells(file: Any, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes rows between commas so that `read_rows` reads them back, with line feeds in texts.

    The names are in quotation marks where another mark in them would count as the separator.
    """
    odd = separator_of(",".join(header), ".csv") != ","
    quoting = csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    csv.writer(file, lineterminator="\n", quoting=quoting).writerow(header)
    csv.writer(file, lineterminator="\n").writerows(
        [line_feeds(cell) if isinstance(cell, str) else cell for cell in row] for row in rows
    )


def write_table(path: pathlib.Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Writes the table of `write_cells`, whole or not at all."""
    with files.atomic_write(path) as part, part.open("w", encoding="utf-8", newline="") as file:
        write_cells(file, header, rows)


def split_rows(path: pathlib.Path, text: str, separator: str) -> Iterator[tuple[int, list[str]]]:
    """Splits a text into rows of cells, one after the other; see `tables.read_table`.

    The line and the cells of each row; a blank line has no cells. Messages name the path.
    """
    if separator == "\t" and not ('"' in text and _has_excel_marks(path, text)):
        for line, row in enumerate(_lines_of(text), start=1):
            yield line, row.removesuffix("\n").split("\t") if row.strip() else []
        return
    # A carriage return that is left ends a line, too, but for cells between tabs.
    odd = "\r" in text and separator != "\t"
    lines = io.StringIO(text, newline="") if odd else _lines_of(text)
    spaced = separator != "\t" and f"{separator} " in text.partition("\n")[0]  # as in "text, label"
    reader = csv.reader(lines, strict=True, delimiter=separator, skipinitialspace=spaced)
    line, batch, fault = 1, [(0, [""])], None
    while batch and not fault:
        batch = []
        usual = csv.field_size_limit(_LONGEST_CELL)  # other readers of the process keep theirs
        try:
            for cells in itertools.islice(reader, _BATCH):
                batch.append((line, cells))
                line = reader.line_num + 1
        except csv.Error as error:
            fault = error
        finally:
            csv.field_size_limit(usual)
        for first, cells in batch:
            yield first, cells if any(map(str.strip, cells)) else []
    if fault:
        expected = f"{_SEPARATORS[separator]}-separated cells (RFC 4180)"
        raise errors.DataError(f"{path}, line {line}", expected, f"a fault: {fault}")


def _has_excel_marks(path: pathlib.Path, text: str) -> bool:
    """Whether quotation marks between tabs are around cells; otherwise they are text.

    Excel and pandas put the cells in quotation marks that hold a tab, a line break or such a mark,
    which is then doubled; other programs all cells, or all that are no numbers. So every mark of
    the file must be one of these, every row must have the cells of the first, and either a cell
    needs its marks or all of these cells have them. In GLUE's files marks are text.
    """
    quoted = (match[1] for match in _EXCEL_CELL.finditer(text))
    needed = sum(any(mark in cell for mark in '\t\n"') for cell in quoted)
    bare = _EXCEL_CELL.sub(lambda match: "0" + LIST_MARK * match[0].count("\n"), text)
    above, stray, _ = bare.partition('"')
    if stray:
        if needed > bare.count("\n") / 2 and needed > 1:
            raise errors.DataError(
                f"{path}, line {above.count(chr(10)) + above.count(LIST_MARK) + 1}",
                "cells in quotation marks, marks inside them doubled",
                "other marks",
                f"{needed} cells are written so: write this one so, too.",
            )
        return False
    if len({row.count("\t") for row in _lines_of(bare) if row.strip()}) > 1:
        return False
    return needed > 0 or all(
        _NUMBER.match(cell.strip())
        for row in _lines_of(bare)
        for cell in row.split("\t")
        if cell.strip()
    )


def as_text(value: Any, *, lists: bool = False) -> str:
    """A cell as text: numbers and booleans as JSON writes them, `NULL` where there is no value.

    With `lists` a list becomes its items, each followed by `LIST_MARK`. Anything else raises
    ValueError with the name of its type.
    """
    if isinstance(value, str):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NULL
    if isinstance(value, (bool, int, float)):
        return json.dumps(value)
    if lists and isinstance(value, (list, tuple)):
        return "".join(as_text(item) + LIST_MARK for item in value)
    if isinstance(value, (datetime.date, datetime.time, datetime.timedelta)):
        raise ValueError(f"a date, {value} (spreadsheets make one of 6-10): write the cell as text")
    if isinstance(value, (Mapping, list, tuple, bytes)):
        raise ValueError(type(value).__name__)
    return str(value)  # decimals
