"""Rows of Parquet files, read within bounds (a value that repeats takes no bytes), and frames."""

from __future__ import annotations

import os
import pathlib
import re
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tfdistill import errors, files
from tfdistill.tasks import table_limits

if TYPE_CHECKING:
    import pyarrow.parquet

_BATCH_ROWS = 1_000
_INDEX = re.compile(r"__index_level_\d+__")  # row numbers that pandas writes, no column of a user's


@runtime_checkable
class Frame(Protocol):
    """A table in memory: a DataFrame of pandas, or a Dataset of Hugging Face's datasets."""

    def to_parquet(self, path: str) -> Any:
        """Writes the table as a Parquet file."""


def path_of(table: files.Path | Frame, folder: pathlib.Path) -> files.Path:
    """The path of a table: a frame is written into `folder`, a path is returned as it is.

    Raises:
      DataError: If it is neither.
    """
    if isinstance(table, Frame):
        path = folder / "data.parquet"
        table.to_parquet(str(path))
        return path
    if isinstance(table, str | os.PathLike):
        return table
    raise errors.DataError(
        "path", "a path, a pandas DataFrame or a Dataset of Hugging Face", type(table).__name__,
        "Of a DatasetDict take one split.",
    )  # fmt: skip


def read_names(path: pathlib.Path) -> list[str]:
    """Reads the names of the columns.

    Raises:
      DataError: If the file is malformed.
    """
    import pyarrow.parquet

    try:
        with files.local_copy(path) as local:
            return _columns(pyarrow.parquet.read_schema(local).names)
    except (OSError, ValueError) as fault:
        raise errors.DataError(f"{path}", "a Parquet file", fault) from None


def read_parquet(path: pathlib.Path) -> list[dict[str, Any]]:
    """Reads the rows, each as an object by column.

    Raises:
      DataError: If the file is malformed, or unpacks to more than `table_limits` allows.
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
    table_limits.check_cells(path, sum(column.num_values for column in columns))
    table_limits.check_unpacked(path, sum(column.total_uncompressed_size for column in columns))
    rows, num_bytes = [], 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=_columns(names)):
        num_bytes += batch.nbytes
        table_limits.check_unpacked(path, num_bytes)
        rows += batch.to_pylist()
    return rows


def _columns(names: list[str]) -> list[str]:
    return [name for name in names if not _INDEX.fullmatch(name)]
