"""Tasks and the examples in their files: GLUE by name, or any columns of your own."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.data import tables
from tfdistill.data.glue import GLUE
from tfdistill.data.spec import METRICS, TaskSpec
from tfdistill.data.tables import split_file

__all__ = [
    "METRICS",
    "SPLITS",
    "Examples",
    "TaskSpec",
    "load_examples",
    "split_file",
    "task",
    "tasks",
]

SPLITS = ("train", "dev", "test")

_HIDDEN = {"-1", "-1.0", ""}  # what stands for a hidden label in a test split

Path = str | os.PathLike[str]


@dataclasses.dataclass(frozen=True)
class Examples:
    """Texts with their labels.

    Attributes:
      spec: The task, with its labels.
      texts: n first texts.
      pairs: n second texts, or None.
      labels: int32 (n,) class indices, float32 (n,) for a regression, or None where hidden.
      skipped: Broken rows that were left out.
    """

    spec: TaskSpec
    texts: list[str]
    pairs: list[str] | None
    labels: np.ndarray | None
    skipped: int = 0

    def __len__(self) -> int:
        """Returns n."""
        return len(self.texts)

    def select(self, indices: Sequence[int] | np.ndarray) -> Examples:
        """Returns the examples at `indices`, in that order."""
        index = np.asarray(indices, np.int64)
        return dataclasses.replace(
            self,
            texts=[self.texts[i] for i in index],
            pairs=None if self.pairs is None else [self.pairs[i] for i in index],
            labels=None if self.labels is None else self.labels[index],
        )


def task(name: str) -> TaskSpec:
    """Returns a GLUE task by its name.

    Args:
      name: sst2, cola, mrpc, stsb, rte, qnli, qqp, mnli or wnli; case and hyphens do not matter.

    Returns:
      The task, labels in the order of Hugging Face's GLUE.

    Raises:
      ConfigError: If there is no such task.
    """
    key = name.lower().replace("-", "").replace("_", "")
    if key not in GLUE:
        raise errors.ConfigError(
            errors.explain(
                "task",
                "a GLUE task, or columns of your own files",
                repr(name),
                errors.nearest(key, GLUE),
            )
        )
    return GLUE[key]


def tasks() -> list[str]:
    """Returns the names that `task` knows."""
    return list(GLUE)


def load_examples(
    spec: TaskSpec, source: Path, split: str, *, labelled: bool | None = None
) -> Examples:
    """Reads the examples of a split.

    Args:
      spec: The task. If it is a classification without label names, they come from the train
        split in the same folder; a single file gives them only if it is the train split itself.
      source: A folder with splits, or a file.
      split: See `split_file`.
      labelled: Whether labels must be there (True), are not read (False), or must be there
        except in a test split (None). GLUE hides the labels of its test splits.

    Returns:
      The examples.

    Raises:
      DataError: If a file or a column is missing, or a label is outside the set; the message
        names the line and the value.
    """
    path = split_file(source, split)
    if labelled is not False:
        hidden_allowed = labelled is None and split.startswith("test")
    else:
        hidden_allowed = True
    texts = [column for column in (spec.text_column, spec.pair_column) if column is not None]
    table = tables.read_table(
        path,
        texts if hidden_allowed else [*texts, spec.label_column],
        [spec.label_column] if hidden_allowed and labelled is not False else [],
        header=spec.header,
        skip_short_rows=spec.skip_short_rows,
    )
    values = table.columns.get(spec.label_column)
    if hidden_allowed and values is not None and set(values) <= _HIDDEN:
        values = None
    labels = None
    if values is not None:
        if path == pathlib.Path(source) and split != "train" and not spec.num_labels:
            raise errors.DataError(
                errors.explain(
                    f"{path}, split {split!r}",
                    "a task that names its labels, or a folder with a train split",
                    "a single file",
                    "A class that is missing here would shift the others' indices.",
                )
            )
        spec = spec.with_labels_of(source)
        labels = _parse_labels(spec, values, table.lines, path)
    pairs = None if spec.pair_column is None else table.columns[spec.pair_column]
    return Examples(spec, table.columns[spec.text_column], pairs, labels, table.skipped)


def _parse_labels(
    spec: TaskSpec, values: Sequence[str], lines: Sequence[int], path: pathlib.Path
) -> np.ndarray:
    if spec.regression:
        numbers = np.empty(len(values), np.float32)
        for row, value in enumerate(values):
            try:
                number = float(value)
            except ValueError:
                number = float("nan")
            if not np.isfinite(number):
                raise errors.DataError(
                    errors.explain(
                        f"{path}, line {lines[row]}, column {spec.label_column!r}",
                        "a finite number",
                        repr(value),
                    )
                )
            numbers[row] = number
        return numbers
    index = {value: place for place, value in enumerate(spec.label_values or spec.labels)}
    for row, value in enumerate(values):
        if value not in index:
            raise errors.DataError(
                errors.explain(
                    f"{path}, line {lines[row]}, column {spec.label_column!r}",
                    f"one of {', '.join(map(repr, index))}",
                    repr(value),
                    f"These are the labels of task {spec.name!r}.",
                )
            )
    return np.fromiter((index[value] for value in values), np.int32, len(values))
