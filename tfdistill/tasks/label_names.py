"""Which labels occur in a table, of tasks whose labels have names."""

from __future__ import annotations

import pathlib

from tfdistill import errors
from tfdistill.tasks import label_cells, parquet, tables
from tfdistill.tasks.kind import kind_named


def declared_order(path: pathlib.Path, column: str) -> tuple[str, ...]:
    """The labels in the order that the file states, see `parquet`; empty where it states none."""
    return parquet.class_names(path, column) if path.suffix.lower() == ".parquet" else ()


def of_table(
    path: pathlib.Path,
    column: str,
    kind: str,
    *,
    header: tuple[str, ...],
    skip_short_rows: bool,
    separator: str,
    stated: bool,
) -> set[str]:
    """Reads the labels of a table, as it spells them.

    Unless the user `stated` the kind, the labels must look like it. `header` has the columns of a
    file without a line of names; `separator` stands between the labels of a cell with several.
    """
    traits = kind_named(kind)
    table = tables.read_table(
        path, [column], header=header, skip_short_rows=skip_short_rows, lists=[column]
    )
    values, judged = label_cells.judge(
        table.columns[column],
        tables.Places(table, column),
        traits.column if stated else None,
        separator if traits.many_classes and separator != "," else None,
    )
    if stated and traits.many_classes and judged.separator != separator:
        raise errors.ConfigError(
            f"{path}, column {column!r}, data.label_separator",
            repr(judged.separator),
            repr(separator),
            f"Add {label_cells.separator_option(judged.separator)}.",
        )
    if judged.kind != traits.column:
        option = label_cells.separator_option(judged.separator)
        mark = "" if judged.separator == "," else f" {option}"
        raise errors.ConfigError(
            f"{path}, column {column!r}, --kind",
            f"the kind of these labels, {judged.kind} or {kind}",
            f"none, and {judged.why}",
            f"Add --kind {judged.kind}{mark}, or --kind {kind} if they are meant so.",
        )
    return {name for value in values for name in traits.names_in(value, separator)}
