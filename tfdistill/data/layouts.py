"""How the files of a task may lie, and which labels are in them."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

from tfdistill import errors
from tfdistill.data import conll, folders, squad, tables

Path = str | os.PathLike[str]

# The layouts of each kind of task, the usual one first.
LAYOUTS_OF: Mapping[str, tuple[str, ...]] = {
    "classification": ("table", "folders"),
    "regression": ("table",),
    "multi_label": ("table",),
    "token": ("conll",),
    "span": ("squad",),
}


@dataclasses.dataclass(frozen=True)
class Layout:
    """How the files of one task lie; `spec.TaskSpec` documents the fields.

    Attributes:
      name: "table", "conll", "folders" or "squad".
      task: How messages call the task.
      text_column: Of a CoNLL file the number of the words' column.
      label_column: Where the labels stand.
      label_separator: What stands between several labels of an example; None where there is one.
      header: Column names of files without a header line.
      skip_short_rows: Whether broken rows are left out.
      encoding: Of CoNLL files.
    """

    name: str
    task: str
    text_column: str
    label_column: str
    label_separator: str | None
    header: tuple[str, ...]
    skip_short_rows: bool
    encoding: str

    def split_file(self, source: Path, split: str) -> pathlib.Path:
        """Finds the file of a split, for "folders" its folder.

        Raises:
          DataError: If there is none, or more than one.
        """
        if self.name == "folders":
            return folders.split_folder(source, split)
        if self.name == "conll":
            return tables.split_file(source, split, suffixes=conll.SUFFIXES)
        if self.name == "squad":
            return tables.split_file(
                source, split, suffixes=squad.SUFFIXES, versions=squad.VERSIONS
            )
        return tables.split_file(source, split)

    def labels_in(self, source: Path) -> tuple[set[str], pathlib.Path]:
        """Reads which labels occur in the train split, for labels that have names.

        Args:
          source: A folder with a train split, or the training file.

        Returns:
          The labels as the files spell them, and where they were found.

        Raises:
          DataError: If the files are unusable.
        """
        path = self.split_file(source, "train")
        if self.name == "folders":
            return folders.labels_in(path), path
        if self.name == "conll":
            return {tag for tags in self.read_sentences(path).tags for tag in tags}, path
        separator = self.label_separator
        table = tables.read_table(
            path,
            [self.label_column],
            header=self.header,
            skip_short_rows=self.skip_short_rows,
            lists=separator is not None,
        )
        values = table.columns[self.label_column]
        if separator is not None:
            return {name for value in values for name in names_in(value, separator)}, path
        return set(values), path

    def read_sentences(self, path: pathlib.Path) -> conll.Sentences:
        """Reads a CoNLL file.

        Raises:
          ConfigError: If a column of the task is no number.
          DataError: If the file is unusable.
        """
        return conll.read_sentences(
            path,
            word_column=self._number(self.text_column),
            tag_column=self._number(self.label_column),
            encoding=self.encoding,
        )

    def _number(self, column: str) -> int:
        try:
            return int(column)
        except ValueError:
            raise errors.ConfigError(
                f"task {self.task!r}, column of a CoNLL file",
                "its number, from 0 or, if negative, from the end",
                repr(column),
            ) from None


def names_in(value: str, separator: str) -> Sequence[str]:
    """Splits a cell with several labels; an empty one holds none."""
    if value.endswith(tables.LIST_MARK):
        return value[: -len(tables.LIST_MARK)].split(tables.LIST_MARK)
    return [name.strip() for name in value.split(separator)] if value.strip() else []
