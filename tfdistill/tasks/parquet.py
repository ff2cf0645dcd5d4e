"""Rows of Parquet files, read within bounds (a value that repeats takes no bytes), and frames.

A Dataset of Hugging Face has numbers in a column of classes (`ClassLabel`), and their names in the
schema, under the key `huggingface`, "info", "features", COLUMN, "names". Rows have the names.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tfdistill import errors
from tfdistill.io import files, reading
from tfdistill.tasks import table_limits

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

_BATCH_ROWS = 1_000
_FEATURES = b"huggingface"  # of a schema's metadata
_LISTS = ("Sequence", "List", "LargeList")  # the features that hold another one
_FAULTS = (ValueError, TypeError, OverflowError)  # beside those of Arrow
_UNLABELLED = -1  # in a column of classes: no label, as in the test sets of the hub
_INDEX = re.compile(r"__index_level_\d+__")  # row numbers that pandas writes, no column of a user's


@runtime_checkable
class Frame(Protocol):
    """A table in memory: a DataFrame of pandas, or a Dataset of Hugging Face's datasets."""

    def to_parquet(self, path: str) -> Any:
        """Writes the table as a Parquet file."""


def path_of(table: files.Path | Frame, folder: pathlib.Path) -> files.Path:
    """The path of a table: a frame is written into `folder`, a path is returned as it is."""
    if isinstance(table, Frame):
        import pyarrow

        path = folder / "data.parquet"
        try:
            try:
                table.to_parquet(str(path))
            except pyarrow.ArrowException:
                _with_text(table).to_parquet(str(path))
        except (pyarrow.ArrowException, AttributeError, *_FAULTS) as fault:
            expected = "columns that Parquet can hold, each of one type and with its own name"
            remedy = "Convert such a column, as by frame[NAME].astype(str), or leave it out."
            raise errors.DataError("path", expected, fault, remedy) from None
        return path
    if isinstance(table, str | os.PathLike):
        return table
    raise errors.DataError(
        "path", "a path, a pandas DataFrame or a Dataset of Hugging Face", type(table).__name__,
        "Of a DatasetDict take one split.",
    )  # fmt: skip


def _with_text(frame: Any) -> Frame:
    """A DataFrame whose numbers are text in the columns that hold text, too."""
    frame = frame.copy()
    for name in frame.columns:
        types = {*map(type, frame[name].dropna())}
        if str in types and types <= {str, int, float, bool}:
            frame[name] = frame[name].map(str, na_action="ignore")
    return frame


def read_names(path: pathlib.Path) -> list[str]:
    """Reads the names of the columns."""
    return _columns(_read_schema(path).names)


def class_names(path: pathlib.Path, column: str) -> tuple[str, ...]:
    """Reads the names of a column of classes, in the order of their numbers.

    Empty where the file does not say that the column is one of classes, and of other formats.
    """
    if path.suffix.lower() != ".parquet":
        return ()
    return _class_names(path, _read_schema(path)).get(column, ())


def read_parquet(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the rows, each as an object by column, classes by their names.

    Refuses numbers of no class, and what unpacks to more than `table_limits` allows.
    """
    import pyarrow.parquet

    try:
        with (
            files.local_copy(path) as local,
            pyarrow.parquet.ParquetFile(local, memory_map=False) as file,
        ):
            return _rows(path, file)
    except (OSError, ValueError, MemoryError) as fault:  # as those of Arrow are
        if isinstance(fault, errors.DataError):
            raise
        raise errors.DataError(f"{path}", "a Parquet file", fault) from None


def _rows(path: pathlib.Path, file: pyarrow.parquet.ParquetFile) -> list[dict[str, Any]]:
    """The rows, in batches: a value that repeats takes no bytes in the file, but in memory."""
    groups = [file.metadata.row_group(group) for group in range(file.metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    names = file.schema_arrow.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise errors.DataError(f"{path}", f"one column {twice!r}", f"{names.count(twice)} of them")
    num_values = sum(column.num_values for column in columns)
    table_limits.check_size(path, num_values, table_limits.MAX_CELLS, "values")
    unpacked = sum(column.total_uncompressed_size for column in columns)
    table_limits.check_size(path, unpacked, table_limits.MAX_UNPACKED, "bytes")
    rows, num_bytes = [], 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=_columns(names)):
        num_bytes += batch.nbytes
        table_limits.check_size(path, num_bytes, table_limits.MAX_UNPACKED, "bytes")
        rows += batch.to_pylist()
    for column, classes in _class_names(path, file.schema_arrow).items():
        for number, row in enumerate(rows, start=1):
            try:
                row[column] = _named(row[column], classes)
            except ValueError as fault:
                raise errors.DataError(
                    f"{path}, line {number}, {column!r}",
                    f"a class from 0 to {len(classes) - 1}, or {_UNLABELLED}",
                    fault,
                ) from None
    return rows


def _named(value: Any, names: tuple[str, ...]) -> Any:
    """The name of a class, or the names in a list; None without a label."""
    if isinstance(value, list):
        return [_named(item, names) for item in value]
    if type(value) is not int:
        return value
    if value == _UNLABELLED:
        return None
    if not 0 <= value < len(names):
        raise ValueError(value)
    return names[value]


def _read_schema(path: pathlib.Path) -> pyarrow.Schema:
    import pyarrow.parquet

    try:
        with files.local_copy(path) as local:
            return pyarrow.parquet.read_schema(local)
    except (OSError, ValueError) as fault:
        raise errors.DataError(f"{path}", "a Parquet file", fault) from None


def _class_names(path: pathlib.Path, schema: pyarrow.Schema) -> dict[str, tuple[str, ...]]:
    """The names of classes by column, of the columns that hold classes or lists of them."""
    text = (schema.metadata or {}).get(_FEATURES)
    described: Any = None
    if text is not None:
        described = reading.parse_json(text, f"{path}, {_FEATURES.decode()} of its schema")
    for key in ("info", "features"):
        described = described.get(key) if isinstance(described, Mapping) else None
    features = described if isinstance(described, Mapping) else {}
    named = {column: _names_in(features.get(column)) for column in _columns(schema.names)}
    return {column: names for column, names in named.items() if names}


def _names_in(feature: Any) -> tuple[str, ...]:
    """The names of the classes that a column holds by itself or in lists; empty for others."""
    if isinstance(feature, list):  # how a list was described in earlier versions
        return _names_in(feature[0]) if len(feature) == 1 else ()
    if not isinstance(feature, Mapping):
        return ()
    if feature.get("_type") in _LISTS:
        return _names_in(feature.get("feature"))
    names = feature.get("names") if feature.get("_type") == "ClassLabel" else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def _columns(names: list[str]) -> list[str]:
    return [name for name in names if not _INDEX.fullmatch(name)]
