"""What a model answered to the texts of a set, beside their labels, in the files of the splits."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import config, errors, tasks
from tfdistill.data import soft_label_values, soft_labels
from tfdistill.io import files
from tfdistill.tasks import tables
from tfdistill.tasks.answer_cells import UNANSWERED, read_answers

ANSWER, GOLD, COUNT = "model_answer", "gold_label", "count"
"""Columns of the files that `quickstart` writes: the answer, a gold label, requests of the text."""

_MOST = 2**53  # requests of a text


def counts_of(cells: Sequence[Any], where: Sequence[str]) -> np.ndarray:
    """The requests of each text, float64 (n,); raises DataError if one is no whole number."""
    counts = soft_label_values.numbers(cells, lambda row: where[row], COUNT)
    bad = np.flatnonzero((counts < 1) | (counts > _MOST) | (counts % 1 > 0))
    if len(bad):
        place, received = f"{where[bad[0]]}, {COUNT!r}", repr(cells[bad[0]])
        raise errors.DataError(place, "a whole number, at least 1", received)
    return counts


@dataclasses.dataclass(frozen=True, eq=False)
class ModelAnswers:
    """The answers of a model to n examples, and what else their file says of them."""

    # int32 (n,): a class, `UNANSWERED`, or `ABSTAINED` where the model says that it knows none.
    classes: np.ndarray
    gold: np.ndarray  # int32 (n,): a class, `UNANSWERED` where no gold label is known
    counts: np.ndarray | None  # int64 (n,): requests of each text, None where nobody counted
    note: str = ""  # about answers that are no label, for a person
    answered_by: str | None = None  # the model, with its version


ABSTAINED_SUFFIX = "_abstained"


def abstained_files(path: files.Path) -> list[str]:
    """The file of a set's texts to which the model says that it knows no answer, if there is one.

    Of promise.csv it is promise_abstained.csv.
    """
    path = pathlib.Path(path)
    beside = path.with_name(f"{path.stem}{ABSTAINED_SUFFIX}{path.suffix}")
    return [str(beside)] if beside.is_file() else []


def read_model_answers(
    settings: config.DataConfig, examples: tasks.Examples, path: files.Path | None = None
) -> ModelAnswers | None:
    """Reads the answers of the model that a data section declares to some examples, by their text.

    Args:
      settings: The data section.
      examples: Labelled examples of a task with one class a text, from `tasks.load_examples` or
        `from_config.promise_examples`.
      path: The file of the answers, a table with the text columns of the task, such as newer
        answers; None: that of the examples, and its `abstained_files`.

    Returns:
      The answers, in the order of the examples; those that the file lacks are unanswered. None
      where the section declares no model.

    Raises:
      DataError: If a column is missing, or more than 5% of the answers are no label.
    """
    declared, spec = settings.model_answers, examples.spec
    if declared is None:
        return None
    named = examples.path if path is None else pathlib.Path(path)
    assert named is not None
    read: dict[soft_labels.Key, tuple[int, int, int]] = {}
    notes, counted, column = [], False, declared.answer_column
    texts, values = soft_labels.text_columns(spec), [column.partition(".")[0], GOLD]
    for file in map(pathlib.Path, [named, *(abstained_files(named) if path is None else [])]):
        table = tables.read_table(file, texts, [COUNT], values=values)
        if column not in table.values:
            remedy = errors.nearest(column, table.names)
            raise errors.DataError(f"{file}", f"a column {column!r}", "none", remedy)
        where, blank = tables.Places(table, column), [""] * len(table)
        classes, note = read_answers(table.values[column], spec.labels, where, declared.abstains)
        gold, _ = read_answers(table.values.get(GOLD, blank), spec.labels, where)
        counts = counts_of(table.columns.get(COUNT, ["1"] * len(table)), where)
        counted = counted or COUNT in table.columns
        notes += [note] if note else []
        keys = soft_labels.keys_of([table.columns[name] for name in texts])
        rows = zip(classes.tolist(), gold.tolist(), counts.astype(int).tolist(), strict=True)
        read |= dict(zip(keys, rows, strict=True))
    lacking = (UNANSWERED, UNANSWERED, 1)
    values_of = [read.get(key, lacking) for key in soft_labels.example_keys(examples)]
    values_read = np.array(values_of, np.int64).reshape(-1, 3)
    classes, gold = values_read[:, :2].T.astype(np.int32)
    counts = values_read[:, 2] if counted else None
    return ModelAnswers(classes, gold, counts, " ".join(notes), declared.answered_by)
