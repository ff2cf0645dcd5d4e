"""Files of rows as columns: JSON Lines, CSV, TSV, Parquet and NumPy archives, read and written.

What the columns of a teacher's answers mean is said in `given_answers`.
"""

from __future__ import annotations

import csv
import importlib
import json
import pathlib
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, reading
from tfdistill.data import tables

# Of NumPy and zipfile, where an archive is damaged; RuntimeError where it is encrypted.
_ARCHIVE_FAULTS = (
    *(OSError, ValueError, EOFError, KeyError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)
# A column, and "FILE, line N" of its rows.
Column = Sequence[Any]
Columns = tuple[dict[str, Column], list[str]]


def read_columns(path: files.Path) -> Columns:
    """Reads all columns of a file; its suffix says the format.

    A mapping in a cell (JSON Lines, Parquet) becomes a column for each of its names:
    ``{"logits": {"good": 1.5}}`` is the column ``logits.good``. An ``.npz`` archive holds an array
    a column; one of two axes becomes a column for each of the names in its array ``labels``.

    Args:
      path: A .jsonl, .csv, .tsv, .parquet or .npz file.

    Returns:
      Name -> n cells, None where a row has none; and the place of each row, for messages.

    Raises:
      DataError: If the file is missing, empty, malformed or of another format.
      EnvironmentFault: If a Parquet file needs a package that is not installed.
    """
    path = pathlib.Path(path)
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise errors.DataError(f"{path}", f"one of {', '.join(_READERS)}", path.suffix or "none")
    if not path.is_file():
        raise errors.DataError(f"{path}", "a file", "none")
    columns, places = reader(path)
    if not places:
        raise errors.DataError(f"{path}", "at least one row", "none")
    return columns, places


def _read_json_lines(path: pathlib.Path) -> Columns:
    rows, places = [], []
    for number, line in enumerate(tables.read_text(path).split("\n"), start=1):
        if line.strip():
            place = f"{path}, line {number}"
            row = reading.parse_json(line, place, expected="a JSON object")
            if not isinstance(row, dict):
                raise errors.DataError(place, "a JSON object", type(row).__name__)
            rows.append(row)
            places.append(place)
    return _flattened(rows), places


def _flattened(rows: Sequence[Mapping[str, Any]]) -> dict[str, Column]:
    columns: dict[str, list[Any]] = {}
    for number, row in enumerate(rows):
        for name, value in row.items():
            inner = value if isinstance(value, Mapping) else None
            cells = {name: value} if inner is None else {f"{name}.{k}": inner[k] for k in inner}
            for column, cell in cells.items():
                if column not in columns:
                    columns[column] = [None] * len(rows)
                columns[column][number] = cell
    return dict(columns)


def _read_cells(path: pathlib.Path) -> Columns:
    table = tables.read_table(path, tables.column_names(path))
    return dict(table.columns), [f"{path}, line {line}" for line in table.lines]


def _read_parquet(path: pathlib.Path) -> Columns:
    try:
        rows = _pyarrow("parquet").read_table(path, memory_map=False).to_pylist()
    except (OSError, ValueError) as fault:  # ArrowInvalid is a ValueError
        raise errors.DataError(f"{path}", "a Parquet file", fault) from None
    return _flattened(rows), _numbered(path, len(rows))


def _pyarrow(module: str = "") -> Any:
    name = f"pyarrow.{module}" if module else "pyarrow"
    try:
        return importlib.import_module(name)
    except ImportError:
        raise errors.EnvironmentFault(
            "Parquet", "the package pyarrow", "none", "Install it: pip install pyarrow."
        ) from None


def _read_archive(path: pathlib.Path) -> Columns:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise ValueError("one array, no archive")
            arrays = {name: archive[name] for name in archive.files}
    except _ARCHIVE_FAULTS as fault:
        raise errors.DataError(f"{path}", "NumPy arrays without Python objects", fault) from None
    names = [str(name) for name in arrays.pop("labels", ())]
    columns: dict[str, Column] = {}
    for name, array in arrays.items():
        if array.ndim == 1:
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


def _numbered(path: pathlib.Path, count: int = 0) -> list[str]:
    return [f"{path}, row {number}" for number in range(1, count + 1)]


_READERS: dict[str, Callable[[pathlib.Path], Columns]] = {
    ".jsonl": _read_json_lines,
    ".csv": _read_cells,
    ".tsv": _read_cells,
    ".parquet": _read_parquet,
    ".npz": _read_archive,
}


def write_columns(
    path: files.Path,
    texts: Mapping[str, Sequence[str]],
    name: str,
    values: np.ndarray,
    labels: Sequence[str],
) -> None:
    """Writes rows that `read_columns` reads back to the same float32 numbers, whole or not at all.

    Args:
      path: A .jsonl, .csv, .parquet or .npz file.
      texts: Name -> n cells.
      name: What the values are: "logits", or "answer" for numbers without labels.
      values: float32 (n, labels), or (n, 1) without labels.
      labels: The name of each column of `values`; empty for numbers.

    Raises:
      DataError: If the suffix is another one.
      EnvironmentFault: If a Parquet file needs a package that is not installed.
    """
    writer = _WRITERS.get(check_writable(path))
    assert writer is not None
    columns: dict[str, Any] = {column: list(cells) for column, cells in texts.items()}
    with files.atomic_write(path) as temporary:
        writer(pathlib.Path(temporary), columns, name, np.asarray(values, np.float32), labels)


def check_writable(path: files.Path) -> str:
    """Returns the suffix of a file that `write_columns` can write.

    Raises:
      DataError: If it cannot.
    """
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise errors.DataError(f"{path}", f"one of {', '.join(_WRITERS)}", suffix or "no suffix")
    return suffix


def _write_json_lines(
    path: pathlib.Path,
    columns: dict[str, Any],
    name: str,
    values: np.ndarray,
    labels: Sequence[str],
) -> None:
    texts = list(columns)
    with path.open("w", encoding="utf-8") as file:
        for *cells, row in zip(*columns.values(), values.tolist(), strict=True):
            answer = dict(zip(labels, row, strict=True)) if labels else row[0]
            line = {**dict(zip(texts, cells, strict=True)), name: answer}
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _write_csv(
    path: pathlib.Path,
    columns: dict[str, Any],
    name: str,
    values: np.ndarray,
    labels: Sequence[str],
) -> None:
    flat = columns | _flat(name, values, labels)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(flat)
        writer.writerows(zip(*flat.values(), strict=True))


def _write_parquet(
    path: pathlib.Path,
    columns: dict[str, Any],
    name: str,
    values: np.ndarray,
    labels: Sequence[str],
) -> None:
    table = _pyarrow().table(columns | _flat(name, values, labels))
    _pyarrow("parquet").write_table(table, path)


def _write_archive(
    path: pathlib.Path,
    columns: dict[str, Any],
    name: str,
    values: np.ndarray,
    labels: Sequence[str],
) -> None:
    arrays: dict[str, np.ndarray] = {column: np.array(cells) for column, cells in columns.items()}
    arrays |= {name: values, "labels": np.array(labels)} if labels else {name: values[:, 0]}
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _flat(name: str, values: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    names = [f"{name}.{label}" for label in labels] or [name]
    return {column: values[:, index].tolist() for index, column in enumerate(names)}


_WRITERS: dict[str, Callable[..., None]] = {
    ".jsonl": _write_json_lines,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    ".npz": _write_archive,
}
