"""How the files of a task may lie, and which labels are in them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tfdistill import errors
from tfdistill.data import conll, folders, squad, tables

if TYPE_CHECKING:
    from tfdistill.data.spec import TaskSpec

Path = str | os.PathLike[str]

# The layouts of each kind of task, the usual one first.
LAYOUTS_OF: Mapping[str, tuple[str, ...]] = {
    "classification": ("table", "folders"),
    "regression": ("table",),
    "multi_label": ("table",),
    "token": ("conll",),
    "span": ("squad",),
}


def split_file(spec: TaskSpec, source: Path, split: str) -> pathlib.Path:
    """Finds the file of a split in the layout of a task, for "folders" its folder.

    Raises:
      DataError: If there is none, or more than one.
    """
    if spec.layout == "folders":
        return folders.split_folder(source, split)
    if spec.layout == "conll":
        return tables.split_file(source, split, suffixes=conll.SUFFIXES)
    if spec.layout == "squad":
        return tables.split_file(source, split, suffixes=squad.SUFFIXES, versions=squad.VERSIONS)
    return tables.split_file(source, split)


def labels_in(spec: TaskSpec, source: Path) -> tuple[set[str], pathlib.Path]:
    """Reads which labels occur in the train split.

    Args:
      spec: A task whose labels have names.
      source: A folder with a train split, or the training file.

    Returns:
      The labels as the files spell them, and where they were found.

    Raises:
      DataError: If the files are unusable.
    """
    path = split_file(spec, source, "train")
    if spec.layout == "folders":
        return folders.labels_in(path), path
    if spec.layout == "conll":
        return {tag for tags in read_sentences(spec, path).tags for tag in tags}, path
    several = spec.kind == "multi_label"
    table = tables.read_table(
        path,
        [spec.label_column],
        header=spec.header,
        skip_short_rows=spec.skip_short_rows,
        lists=several,
    )
    values = table.columns[spec.label_column]
    if several:
        return {name for value in values for name in names_in(value, spec.label_separator)}, path
    return set(values), path


def read_sentences(spec: TaskSpec, path: pathlib.Path) -> conll.Sentences:
    """Reads a CoNLL file with the columns of a task.

    Raises:
      ConfigError: If a column of the task is no number.
      DataError: If the file is unusable.
    """
    return conll.read_sentences(
        path,
        word_column=_column(spec, spec.text_column),
        tag_column=_column(spec, spec.label_column),
        encoding=spec.encoding,
    )


def names_in(value: str, separator: str) -> Sequence[str]:
    """Splits a cell with several labels; an empty one holds none."""
    if value.endswith(tables.LIST_MARK):
        return value[: -len(tables.LIST_MARK)].split(tables.LIST_MARK)
    return [name.strip() for name in value.split(separator)] if value.strip() else []


def _column(spec: TaskSpec, column: str) -> int:
    try:
        return int(column)
    except ValueError:
        raise errors.ConfigError(
            errors.explain(
                f"task {spec.name!r}, column of a CoNLL file",
                "its number, from 0 or, if negative, from the end",
                repr(column),
            )
        ) from None
