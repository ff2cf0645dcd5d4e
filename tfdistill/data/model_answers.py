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
from tfdistill.tasks.answer_cells import ABSTAINED, UNANSWERED, read_answers, text_of

ANSWER, GOLD, COUNT = "model_answer", "gold_label", "count"
"""Columns of the files that `quickstart` writes: the answer, a gold label, requests of the text."""
PROBABILITIES, LABEL, SCORE = "probabilities", "label", "score"
"""Columns of a file in which no column of answers is named."""
KIND = "classification"

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
        `promise_rows.promise_examples`.
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
    texts = soft_labels.text_columns(spec)
    values = [column.partition(".")[0], GOLD, PROBABILITIES, LABEL, SCORE]
    for file in map(pathlib.Path, [named, *(abstained_files(named) if path is None else [])]):
        table = tables.read_table(file, texts, [COUNT], values=values)
        classes, note = _classes(table, declared, spec.labels)
        where, blank = tables.Places(table, column), [""] * len(table)
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


def _classes(
    table: tables.DataTable, declared: config.ModelAnswersConfig, labels: Sequence[str]
) -> tuple[np.ndarray, str]:
    """The answers of a table, (n,), in the declared column or as `read_answered_file` finds them.

    With what to say of those that are no label.
    """
    column, where = declared.answer_column, tables.Places(table, declared.answer_column)
    if column == ANSWER and column not in table.values:
        names, shares = read_shares(table, where)
        if not names and PROBABILITIES in table.values:
            return np.full(len(table), UNANSWERED), ""
        if names:
            soft = by_label(names, shares, labels, declared.abstains, table.path)
            classes = np.append(np.arange(len(labels)), ABSTAINED)[soft.argmax(axis=1)]
            return np.where(soft.any(axis=1), classes, UNANSWERED), ""
        column = LABEL if {LABEL, SCORE} <= table.values.keys() else column
    if column not in table.values:
        expected = f"a column {column!r}, probabilities, or a label beside its score"
        remedy = f"{errors.nearest(column, table.names)} Name the answers with --answer-column."
        raise errors.DataError(f"{table.path}", expected, "none", remedy)
    return read_answers(table.values[column], labels, where, declared.abstains)


def by_label(
    names: Sequence[str],
    shares: np.ndarray,
    labels: Sequence[str],
    abstains: str | None,
    path: pathlib.Path,
) -> np.ndarray:
    """The probabilities of the labels and, last, of the answer that none is known.

    `shares` are those of `names`, (n, names), which are summed by label; returns (n, labels + 1).
    Raises DataError if a name is no label.
    """
    heads = [f"{path}, line 1, column {name!r}" for name in names]
    classes, _ = read_answers(names, labels, heads, abstains)
    if UNANSWERED in classes:
        name = names[classes.tolist().index(UNANSWERED)]
        expected = f"one of {errors.shortened(', '.join(labels))}"
        raise errors.DataError(f"{path}, {PROBABILITIES}", expected, repr(name))
    width = len(labels)
    return shares @ np.eye(width + 1)[np.where(classes == ABSTAINED, width, classes)]


def read_shares(raw: tables.DataTable, where: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The names of probabilities, and these, (n, names); 0 in rows that have none."""
    cells = soft_label_values.columns_of(PROBABILITIES, raw.values, lambda row: where[row])
    by_row = enumerate(zip(*cells.values(), strict=True))
    rows = [row for row, of_row in by_row if any(map(text_of, of_row))]
    shares, place = np.zeros((len(raw), len(cells))), lambda number: str(where[rows[number]])
    for number, (name, column) in enumerate(cells.items()):
        part = [column[row] for row in rows]
        shares[rows, number] = soft_label_values.numbers(part, place, f"{PROBABILITIES}.{name}")
    if cells:
        shares[rows] = soft_label_values.checked_probabilities(shares[rows], place, KIND)
    return [*cells], shares
