"""The file of a split, and its columns: TSV, CSV, JSON Lines, Parquet and Excel, one reader."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.io.files import Path
from tfdistill.tasks import parquet, table_files
from tfdistill.tasks.table_files import NULL, SUFFIXES, read_text

_TAB = "\t"
_BATCH = 10_000  # rows that are read before their cells go to the columns
_MOST_REPEATED = 10_000  # different cells of a column up to which equal ones are one object
# Other names under which a split is looked for, after its own.
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "dev": ("dev_matched", "validation", "valid", "val"),
    "test": ("test_matched",),
}


@dataclasses.dataclass(frozen=True)
class DataTable:
    """Columns of a file."""

    path: pathlib.Path
    names: list[str]  # of all columns of the file, in its order
    # Name -> cells, one a row; a value that is absent is `NULL`. A column that was asked for and is
    # absent has no entry.
    columns: dict[str, list[str]]
    lines: list[int]  # of each row in its file, from 1
    blank_lines: tuple[int, ...] = ()  # the lines between rows that are empty
    skipped: int = 0  # rows left out for too few cells (only with `skip_short_rows`)
    # Columns left out of "all", and why.
    unusable: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Name -> cells as the file holds them, of the columns that were asked for so.
    values: dict[str, list[Any]] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.lines)


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

    Raises:
      AbsentSplitError: If there is none.
      DataError: If there is more than one.
    """
    folder = pathlib.Path(source)
    if folder.is_file():
        return folder
    if not folder.is_dir():
        raise errors.DataError("data", "a folder with splits, or a file", f"{folder}: not there")
    for stem in (split, *_ALIASES.get(split, ())):
        paths = [folder / (stem + version + end) for version in versions for end in suffixes]
        paths = [path for path in paths if path.is_file()]
        if len(paths) == 1:
            return paths[0]
        if paths:
            names = ", ".join(path.name for path in paths)
            raise errors.DataError(f"{folder}, split {split!r}", "one file", names, "Remove one.")
    there = sorted(path.name for path in folder.iterdir() if path.suffix in suffixes)
    raise errors.AbsentSplitError(
        f"{folder}, split {split!r}",
        " or ".join(split + version + end for version in versions for end in suffixes),
        ", ".join(there) or "a folder without data files",
    )


def read_table(
    path: pathlib.Path,
    required: Sequence[str] | None,
    optional: Sequence[str] = (),
    *,
    header: Sequence[str] = (),
    skip_short_rows: bool = False,
    lists: Sequence[str] = (),
    values: Sequence[str] = (),
) -> DataTable:
    r"""Reads columns of a file, at least one row; its suffix says the format.

    - `.csv`, `.tsv`, `.txt`: cells between commas, tabs, semicolons or vertical bars, whichever
      splits the first row into the most cells; a first line `sep=;`, as Excel writes it, says
      which. Between tabs quotation marks are text, as in GLUE's files, unless all of them are as
      Excel writes them (`table_files._excel_rows`). Other cells follow RFC 4180: one in quotation
      marks may hold separators, line breaks and doubled quotation marks.
    - `.jsonl`: one object a line; numbers and booleans become strings as JSON writes them.
    - `.parquet`: the same of its rows, whose "line" is their number from 1.
    - `.xlsx`: the only sheet that has cells; dates become text.

    Text is UTF-8; a byte order mark is dropped.

    Args:
      path: The file.
      required: Columns that must be there; None for all columns that have a name and hold text,
        numbers or lists.
      optional: Columns to read if they are there.
      header: Column names of a file of cells whose first row is data already. A first row that
        holds all required names is taken as a header all the same.
      skip_short_rows: Whether to leave out (and count) rows with too few cells, instead of
        refusing the file.
      lists: Columns whose cells may be lists: the items, each followed by `LIST_MARK`. With
        `required` None these are all columns.
      values: Further columns to read if they are there, ``NAME`` and all ``NAME.ANYTHING``, whose
        cells stay as the file holds them: numbers, lists, in a file of cells text.
    """
    raw = table_files.read_rows(path)
    heading, names, rows = raw.names, [name.strip() for name in raw.names], iter(raw.rows)
    if header and raw.header_line and not set(required or ()) <= set(names):
        if len(raw.names) < len(header):
            raise errors.DataError(
                f"{path}, line {raw.header_line}",
                f"the {len(header)} cells {', '.join(header)}",
                f"{len(raw.names)} cells",
            )
        heading, names = list(header), list(header)
        rows = itertools.chain([(raw.header_line, list(raw.names))], rows)
    if required is None:
        chosen = [name for name in dict.fromkeys(names) if name]
    else:
        chosen = [name for name in dict.fromkeys((*required, *optional)) if name in names]
        _check_columns(path, (*required, *chosen), names)
    as_they_are = [name for name in dict.fromkeys(names) if name.partition(".")[0] in values]
    _check_columns(path, as_they_are, names)
    columns = {
        name: _Column(path, name, name in (required or ()), lists=required is None or name in lists)
        for name in chosen
    }
    cells: dict[str, list[Any]] = {name: [] for name in as_they_are}
    last = max([names.index(name) for name in (*chosen, *as_they_are)], default=-1)
    first_name = heading[0].strip().casefold()
    lines: list[int] = []
    blank: list[int] = []
    filled: list[list[Any]] = []
    skipped, unusable = 0, {}

    def fill_columns() -> None:
        for name, column in columns.items():
            position = names.index(name)
            try:
                if name not in unusable:
                    column.extend([row[position] for row in filled], lines[-len(filled) :])
            except errors.DataError as fault:
                if required is not None:
                    raise
                unusable[name] = str(fault)
        for name, values_of in cells.items():
            position = names.index(name)
            values_of += [row[position] for row in filled]
        filled.clear()

    for line, row in rows:
        if not row:
            blank.append(line)
        elif len(row) <= last and skip_short_rows:
            skipped += 1
        else:
            if len(row) != len(names) or str(row[0]).strip().casefold() == first_name:
                _check_row(path, line, row, raw, heading, last)
            filled.append(row)
            lines.append(line)
            if len(filled) == _BATCH:
                fill_columns()
    fill_columns()
    if not lines and not skipped:
        raise errors.DataError(f"data file {path}", "at least one row", "only a header")
    return DataTable(
        path,
        names,
        {name: column.cells for name, column in columns.items() if name not in unusable},
        lines,
        tuple(line for line in blank if lines and line < lines[-1]),
        skipped,
        unusable,
        cells,
    )


def _check_row(
    path: pathlib.Path,
    line: int,
    row: Sequence[Any],
    raw: table_files.Rows,
    heading: Sequence[str],
    last: int,
) -> None:
    """Refuses a row of too few or too many cells, and one that repeats the names of the columns.

    Names are compared in any case and with blanks, where there are several.
    """
    if len(row) <= last or any(row[len(heading) :]):
        raise errors.DataError(
            f"{path}, line {line}",
            f"{len(heading)} cells ({', '.join(name.strip() for name in heading)})",
            len(row),
            "A cell that holds the separator or a line break needs quotation marks around it; "
            "or use JSON Lines."
            if raw.separator
            else "Remove what is above and beside the table, such as titles and notes.",
        )
    if not raw.header_line or line == raw.header_line:
        return
    both = [list(heading), list(row)]
    if len(row) > 1:
        both = [[str(cell).strip().casefold() for cell in cells] for cells in both]
    if both[0] == both[1]:
        raise errors.DataError(
            f"{path}, line {line}",
            "a row",
            "the names of the columns again",
            "Files that were joined have a line of names each: remove those that follow.",
        )


class _Column:
    """A column that is read: its cells as text, equal ones as one object while they are few."""

    def __init__(self, path: pathlib.Path, name: str, required: bool, *, lists: bool) -> None:
        self.cells: list[str] = []
        self._path, self._name, self._required, self._lists = path, name, required, lists
        self._distinct: dict[str, str] | None = {}

    def extend(self, values: list[Any], lines: Sequence[int]) -> None:
        """Takes the values of rows, or refuses them."""
        for row, value in enumerate(values):
            if type(value) is not str or value == NULL or "\0" in value:
                values[row] = self._read(value, f"{self._path}, line {lines[row]}")
        if self._distinct is not None:
            values = [self._distinct.setdefault(cell, cell) for cell in values]
            if len(self._distinct) > _MOST_REPEATED:
                self._distinct = None
        self.cells += values

    def _read(self, value: Any, where: str) -> str:
        place = f"{where}, {self._name!r}"
        try:
            cell = table_files.as_text(value, lists=self._lists)
        except ValueError as fault:
            raise errors.DataError(place, "a string or a number", fault) from None
        if "\0" in cell:
            raise errors.DataError(place, "text", "U+0000 (NULL)", "Remove it.")
        if cell == NULL and self._required and not self._lists:
            raise errors.DataError(where, f"a value for {self._name!r}", "none")
        return cell


class Places(Sequence[str]):
    """The places of a column's cells, for messages: a text of each, made when it is asked for."""

    def __init__(self, table: DataTable, column: str) -> None:
        """Keeps the lines of a table and the name of a column."""
        self._path, self._lines, self._column = table.path, table.lines, column

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self._lines)

    def __getitem__(self, index: Any) -> Any:
        """Returns the place of a row, such as "train.tsv, line 17, column 'kind'"."""
        return f"{self._path}, line {self._lines[index]}, column {self._column!r}"


def read_lines(path: pathlib.Path, column: str) -> tuple[list[str], list[int]]:
    """Reads a file of plain text, one text a line; empty lines are left out.

    The texts, without blanks around them, and the line of each, from 1. A row of a table is
    refused, as is its heading, known by the name of its `column` of texts; see `check_line`.
    """
    rows = list(enumerate(read_text(path).split("\n"), start=1))
    lines = [(line.strip(), number) for number, line in rows if line.strip()]
    for text, number in lines:
        check_line(f"{path}, line {number}", text, [column] if number == lines[0][1] else ())
    return [text for text, _ in lines], [number for _, number in lines]


def check_line(where: str, line: str, columns: Sequence[str] = (), *, tabs: int = 0) -> None:
    """Refuses a line of plain text that is a row of a table: one with more tabs, or fewer.

    The first line may not hold the names of all `columns` either.
    """
    expected = "two texts with one tab between them" if tabs else "a text without tabs"
    received, shown = f"{line.count(_TAB)} tab(s)", line.replace(_TAB, " <tab> ")
    names = {cell.strip().strip('"').casefold() for cell in re.split(r"[\t,;|]", line)}
    if columns and names >= {column.casefold() for column in columns}:
        received = "the names of columns"
    elif line.count(_TAB) == tabs:
        return
    remedy = "Name a table .tsv or .csv: its columns are read by name. In a text write blanks."
    raise errors.DataError(where, expected, f"{received}: {errors.shortened(shown)!r}", remedy)


def column_names(path: pathlib.Path) -> list[str]:
    """Reads the names of a file's columns; see `read_table`."""
    if path.suffix.lower() == ".parquet":
        table_files.check_file(path)
        return parquet.read_names(path)
    return [name.strip() for name in table_files.read_rows(path).names]


def _check_columns(path: pathlib.Path, required: Sequence[str], names: Sequence[str]) -> None:
    for name in required:
        if names.count(name) == 1:
            continue
        if name in names:
            raise errors.DataError(
                f"{path}", f"one column {name!r}", f"{names.count(name)} of them"
            )
        raise errors.DataError(
            f"{path}",
            f"a column {name!r}",
            f"the columns {', '.join(map(repr, names))}",
            errors.nearest(name, names),
        )
