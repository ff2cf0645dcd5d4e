"""The largest table that a small file may hold."""

from __future__ import annotations

import pathlib

from tfdistill import errors

# Of a packed table (Parquet, Excel): a million rows of a hundred columns fit.
MAX_CELLS = 100_000_000
MAX_UNPACKED = 2**30  # bytes
# Objects whose keys differ: the table of all keys may have so many times the cells that hold a
# value, small ones apart.
MAX_SPARSITY, MIN_SPARSE_CELLS = 50, 1_000_000


def check_size(path: pathlib.Path, number: int, largest: int, what: str) -> None:
    """Refuses a table that packed few bytes into more cells or bytes than memory holds."""
    if number > largest:
        raise errors.DataError(
            f"data file {path}",
            f"at most {largest} {what}",
            f"{number} in a file of {path.stat().st_size} bytes",
            "Leave out the columns that are not needed, or split the file.",
        )


def check_sparsity(path: pathlib.Path, num_cells: int, num_values: int) -> None:
    """Refuses a table of hardly any value a cell: its file is small, what it becomes is not."""
    if num_cells > max(MIN_SPARSE_CELLS, MAX_SPARSITY * num_values):
        raise errors.DataError(
            f"data file {path}",
            "rows of the same columns",
            f"{num_values} values in a table of {num_cells} cells",
            "Remove cells far from the table, and put what differs from row to row into values, "
            "not into names of columns.",
        )
