"""Files of rows as columns: JSON Lines, CSV, TSV, Parquet and NumPy archives, read and written.

What the columns of a teacher's answers mean is said in `given_answers`.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import lzma
import math
import pathlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, storage
from tfdistill.tasks import table_files, tables

_ARRAY = ".npy"
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
# Of NumPy and zipfile, where an archive is damaged; RuntimeError where it is encrypted. Those of
# the second line are of headers, which are Python literals.
_ARCHIVE_FAULTS = (
    *(OSError, ValueError, EOFError, KeyError, RuntimeError, struct.error),
    *(SyntaxError, TypeError, AttributeError, IndexError, ArithmeticError, MemoryError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError),
)
# A column, and "FILE, line N" of its rows.
Column = Sequence[Any]
Columns = tuple[dict[str, Column], list[str]]


@dataclasses.dataclass(frozen=True)
class _Wanted:
    """The columns to read; see `read_columns`."""

    names: Sequence[str]
    prefixes: tuple[str, ...]
    lists: Sequence[str]

    def __call__(self, name: str) -> bool:
        return name in self.names or name in self.lists or name.startswith(self.prefixes)


def read_columns(
    path: files.Path,
    *,
    names: Sequence[str] = (),
    prefixes: tuple[str, ...] = ("",),
    lists: Sequence[str] = (),
) -> Columns:
    """Reads columns of a file; its suffix says the format.

    A mapping in a cell (JSON Lines, Parquet) becomes a column for each of its names:
    ``{"logits": {"good": 1.5}}`` is the column ``logits.good``. An ``.npz`` archive holds an array
    a column; one of two axes becomes a column for each of the names in its array ``labels``, or is
    the rows of a column in `lists`.

    Args:
      path: A .jsonl, .csv, .tsv, .parquet or .npz file, or the address of one.
      names: Columns to read.
      prefixes: How the names of further columns to read begin; the default reads all.
      lists: Further columns, whose cells are lists (in a .csv or .tsv file text).

    Returns:
      Name -> n cells, None where a row has none, in JSON Lines and Parquet an empty list of a
      column that is not to be read; and the place of each row, for messages.

    Raises:
      DataError: If the file is missing, empty, malformed or of another format.
    """
    path = storage.located(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise errors.DataError(f"{path}", f"one of {', '.join(_READERS)}", path.suffix or "none")
    if not path.is_file():
        raise errors.DataError(f"{path}", "a file", "none")
    columns, places = reader(path, _Wanted(names, prefixes, lists))
    if not places:
        raise errors.DataError(f"{path}", "at least one row", "none")
    return columns, places


def _read_objects(path: pathlib.Path, wanted: _Wanted) -> Columns:
    rows = [(number, row) for number, row in table_files.read_objects(path) if row]
    name = "row" if path.suffix.lower() == ".parquet" else "line"
    places = [f"{path}, {name} {number}" for number, _ in rows]
    return _flattened([row for _, row in rows], wanted), places


def _flattened(rows: Sequence[Mapping[str, Any]], wanted: _Wanted) -> dict[str, Column]:
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            inner = value if isinstance(value, Mapping) else None
            cells = {name: value} if inner is None else {f"{name}.{k}": inner[k] for k in inner}
            for column, cell in cells.items():
                if column not in columns:
                    columns[column] = [None] * len(rows) if wanted(column) else []
                if columns[column]:
                    columns[column][number] = cell
    return dict(columns)


def _read_cells(path: pathlib.Path, wanted: _Wanted) -> Columns:
    del wanted  # every row has a cell of every column
    table = tables.read_table(path, tables.column_names(path))
    return dict(table.columns), [f"{path}, line {line}" for line in table.lines]


def _read_archive(path: pathlib.Path, wanted: _Wanted) -> Columns:
    try:
        with files.local_copy(path) as local, zipfile.ZipFile(local) as archive:
            arrays: dict[str, Any] = {
                member.filename.removesuffix(_ARRAY): _array(member.filename, archive.read(member))
                for member in archive.infolist()
            }
    except _ARCHIVE_FAULTS as fault:
        raise errors.DataError(f"{path}", "NumPy arrays without Python objects", fault) from None
    labels = arrays.pop("labels", np.array([], str))
    if labels.ndim != 1:
        raise errors.DataError(f"{path}, array 'labels'", "names, (labels,)", labels.shape)
    names = [str(name) for name in labels]
    columns: dict[str, Column] = {}
    for name, array in arrays.items():
        if array.ndim == (2 if name in wanted.lists else 1):
            columns[name] = array
            continue
        if array.ndim != 2 or array.shape[1] != len(names):
            raise errors.DataError(
                f"{path}, array {name!r}",
                f"(rows,), or (rows, {len(names)}) with names of its columns in the array 'labels'",
                array.shape,
            )
        columns |= {f"{name}.{label}": array[:, index] for index, label in enumerate(names)}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1:
        shapes = {name: array.shape for name, array in arrays.items()}
        raise errors.DataError(f"{path}", "arrays with a row for each text", shapes)
    return columns, _numbered(path, *lengths)


def _array(name: str, content: bytes) -> np.ndarray:
    """An array of an archive, once its header agrees with the bytes that are there."""
    if not name.endswith(_ARRAY):
        raise ValueError(f"the member {name!r}")
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"format {version} of {name!r}")
    shape, _, dtype = _HEADERS[version](file)
    size, there = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if dtype.hasobject or dtype.itemsize == 0 or size != there:
        raise ValueError(f"{there} bytes for {shape} of {dtype} in {name!r}")
    file.seek(0)
    return np.lib.format.read_array(file, allow_pickle=False)


def _numbered(path: pathlib.Path, count: int = 0) -> list[str]:
    return [f"{path}, row {number}" for number in range(1, count + 1)]


_READERS: dict[str, Callable[[pathlib.Path, _Wanted], Columns]] = {
    ".jsonl": _read_objects,
    ".csv": _read_cells,
    ".tsv": _read_cells,
    ".parquet": _read_objects,
    ".npz": _read_archive,
}


def write_columns(
    path: files.Path,
    texts: Mapping[str, Sequence[str]],
    name: str,
    values: np.ndarray,
    labels: Sequence[str] | None,
) -> None:
    """Writes rows that `read_columns` reads back to the same float32 numbers, whole or not at all.

    Args:
      path: A .jsonl, .csv, .parquet or .npz file.
      texts: Name -> n cells.
      name: What the values are: "logits", "answer" for numbers without labels, or "vector".
      values: float32 (n, labels), or (n, 1) without labels.
      labels: The name of each column of `values`; empty for numbers; None writes a row as a list.

    Raises:
      DataError: If the suffix is another one.
    """
    writer = _WRITERS[check_writable(path)]
    columns = {column: list(cells) for column, cells in texts.items()}
    with files.atomic_write(storage.located(path)) as temporary:
        writer(temporary, _Rows(columns, name, np.asarray(values, np.float32), labels))


def write_rows(path: files.Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows whose cells may be lists, or mappings of lists, whole or not at all.

    Args:
      path: A .jsonl or .parquet file.
      rows: Name -> cell.
    """
    with files.atomic_write(storage.located(path)) as temporary:
        if pathlib.Path(path).suffix.lower() == ".parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), temporary)
            return
        with temporary.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def check_writable(path: files.Path) -> str:
    """Returns the suffix of a file that `write_columns` can write.

    Raises:
      DataError: If it cannot.
    """
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise errors.DataError(f"{path}", f"one of {', '.join(_WRITERS)}", suffix or "no suffix")
    return suffix


@dataclasses.dataclass(frozen=True)
class _Rows:
    """What is written; see `write_columns`."""

    texts: dict[str, list[str]]
    name: str
    values: np.ndarray
    labels: Sequence[str] | None

    def flat(self) -> dict[str, list[Any]]:
        """Every column by name."""
        if self.labels is None:
            return self.texts | {self.name: self.values.tolist()}
        names = [f"{self.name}.{label}" for label in self.labels] or [self.name]
        return self.texts | {n: self.values[:, i].tolist() for i, n in enumerate(names)}


def _write_json_lines(path: pathlib.Path, rows: _Rows) -> None:
    with path.open("w", encoding="utf-8") as file:
        for *cells, row in zip(*rows.texts.values(), rows.values.tolist(), strict=True):
            answer = row if rows.labels is None else row[0]
            if rows.labels:
                answer = dict(zip(rows.labels, row, strict=True))
            line = {**dict(zip(rows.texts, cells, strict=True)), rows.name: answer}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_csv(path: pathlib.Path, rows: _Rows) -> None:
    flat = rows.flat()
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(flat)
        writer.writerows(zip(*flat.values(), strict=True))


def _write_parquet(path: pathlib.Path, rows: _Rows) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(rows.flat()), path)


def _write_archive(path: pathlib.Path, rows: _Rows) -> None:
    arrays = {column: np.array(cells) for column, cells in rows.texts.items()}
    if rows.labels:
        arrays |= {rows.name: rows.values, "labels": np.array(rows.labels)}
    else:
        arrays[rows.name] = rows.values if rows.labels is None else rows.values[:, 0]
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


_WRITERS: dict[str, Callable[[pathlib.Path, _Rows], None]] = {
    ".jsonl": _write_json_lines,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_archive,
}
