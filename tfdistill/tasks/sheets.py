"""The sheet of an Excel file, read within bounds: a cell may stand anywhere in it."""

from __future__ import annotations

import contextlib
import importlib
import math
import pathlib
import zipfile
from typing import Any

from tfdistill import errors
from tfdistill.tasks import table_limits


def read_sheet(path: pathlib.Path) -> list[tuple[int, list[Any]]]:
    """Reads the only sheet that has cells: the line of each row, from 1, and its cells.

    Rows end where the header does, or with a value; a blank row has no cells.
    """
    try:
        openpyxl = importlib.import_module("openpyxl")
    except ImportError:
        raise errors.EnvironmentFault(
            f"{path}", "the package openpyxl", "none", "Install it: pip install 'tfdistill[excel]'."
        ) from None
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
        table_limits.check_size(path, unpacked, table_limits.MAX_UNPACKED, "bytes")
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        with contextlib.closing(book):
            sheets = {sheet.title: _sheet_rows(path, sheet) for sheet in book.worksheets}
    except errors.DataError:
        raise
    except Exception as fault:  # openpyxl lets many through: KeyError, BadZipFile, its own
        raise errors.DataError(f"{path}", "an Excel file (.xlsx)", fault) from None
    filled = {name: rows for name, rows in sheets.items() if any(rows)}
    if len(filled) != 1:
        listed = f"{len(filled)} of them with cells: {', '.join(map(repr, filled))}"
        remedy = "Save the sheet of the table as a file of its own."
        raise errors.DataError(f"{path}", "one sheet", listed if filled else "none", remedy)
    (rows,) = filled.values()
    width = len(next(filter(None, rows)))
    table_limits.check_sparsity(path, width * sum(map(bool, rows)), sum(map(len, rows)))
    padded = [cells + [""] * (width - len(cells)) if cells else [] for cells in rows]
    return list(enumerate(padded, start=1))


def _sheet_rows(path: pathlib.Path, sheet: Any) -> list[list[Any]]:
    """The cells of each row up to its last value; numbers without a fraction as integers."""
    sheet.reset_dimensions()  # what the file says of its size, which may be anything
    rows: list[list[Any]] = []
    num_cells = num_values = 0
    for row in sheet.iter_rows():
        cells = [_sheet_value(cell) for cell in row]
        while cells and not str(cells[-1]).strip():
            cells.pop()
        rows.append(cells)
        num_cells += len(cells)
        num_values += sum(cell != "" for cell in cells)
        table_limits.check_sparsity(path, num_cells, num_values)
    return rows


def _sheet_value(cell: Any) -> Any:
    if cell.value is None:
        return ""
    if cell.data_type == "e":
        return math.nan
    if isinstance(cell.value, float) and cell.value.is_integer():
        return int(cell.value)
    return cell.value
