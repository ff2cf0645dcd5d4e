"""Soft labels in files: tables of texts beside a teacher's logits, probabilities, labels, vectors.

A row belongs to a text, a pair of texts, or the words of a sentence. `soft_label_values` says what
its numbers mean.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from tfdistill import errors
from tfdistill.data import soft_label_values
from tfdistill.data.soft_label_values import numbers, to_logits
from tfdistill.io import files, storage
from tfdistill.tasks import KINDS, Examples, table_files, tables
from tfdistill.tasks.encoded import spans
from tfdistill.tasks.label_kinds import names_in
from tfdistill.tasks.spec import TaskSpec

WORDS = "words"
LABEL = "label"
VECTOR = "vector"
_SUFFIXES = (".jsonl", ".csv", ".parquet")
_OF_LISTS = (".jsonl", ".parquet")

Key = tuple[str, ...]
Holds = Literal["logits", "probabilities", "label", "vector"]
Place = Callable[[int], str]  # where a row, or a word of a row, is in its file


@dataclasses.dataclass(frozen=True, eq=False)
class SoftLabelFile:
    """The rows of a file."""

    path: pathlib.Path
    holds: Holds
    # Float32 (units, width), a row for each text or for each word: logits in the order of the
    # task's labels, the number of a regression, or a vector.
    values: np.ndarray
    rows: dict[Key, int]  # key -> row; see `example_keys`
    bounds: np.ndarray  # int64 (rows + 1,); row i has ``values[bounds[i]:bounds[i + 1]]``

    def find(self, keys: Sequence[Key]) -> np.ndarray:
        """The row of each key, int64 (n,), -1 where there is none."""
        return np.array([self.rows.get(key, -1) for key in keys], np.int64)

    def of_rows(self, rows: np.ndarray) -> np.ndarray:
        """The values of rows one after the other, float32 (units, width)."""
        begins = self.bounds[rows]
        return self.values[spans(begins, self.bounds[rows + 1] - begins)]

    def nearest(self, key: Key) -> Key | None:
        """A key of the file that differs in blanks, case and the cuts between words alone."""
        letters = _letters(key)
        return next((other for other in self.rows if _letters(other) == letters), None)


def _letters(key: Key) -> str:
    return "".join("".join(key).casefold().split())


def check_task(spec: TaskSpec) -> None:
    """Raises ConfigError for spans: their scores belong to the pieces of one tokenizer."""
    if spec.traits.decodes_spans:
        raise errors.ConfigError(
            f"soft labels for task {spec.name!r}",
            "a task over texts or words",
            "answers inside texts",
            "Name a teacher model: --teacher.",
        )


def text_columns(spec: TaskSpec) -> list[str]:
    """The columns that say which example of a task a row belongs to."""
    if spec.traits.over_tokens:
        return [WORDS]
    paired = spec.pair_column is not None and not spec.traits.vectors
    return [spec.text_column, *([spec.pair_column or ""] if paired else [])]


def example_keys(examples: Examples) -> list[Key]:
    """The text, both texts or the words of each example, without blanks at their ends."""
    if (of_words := examples.words) is not None:
        return [tuple(word.strip() for word in words) for words in of_words]
    columns = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
    return keys_of(columns)


def keys_of(columns: Sequence[Sequence[str]]) -> list[Key]:
    """The texts of each row; a line end is one, however the file of the row writes it."""
    rows = zip(*columns, strict=True)
    return [tuple(table_files.line_feeds(text.strip()) for text in row) for row in rows]


def read(path: files.Path, spec: TaskSpec) -> SoftLabelFile:
    """Reads the soft labels of a teacher.

    Columns: those of `text_columns`, and either ``logits.LABEL`` or ``probabilities.LABEL`` for
    every label (also objects ``probabilities``), or ``label``: a label, several for "multi_label",
    a number for a regression. For "token" the cells are lists, an entry a word. For "embedding" the
    column ``vector`` holds lists of numbers, and both texts of a pair have rows of their own.
    Labels are named as the task or its files name them, or ``LABEL_0``, ``LABEL_1`` ... in the
    task's order.
    """
    check_task(spec)
    path = storage.located(path)
    columns = text_columns(spec)
    table = tables.read_table(
        path, columns, lists=[WORDS], values=("logits", "probabilities", LABEL, VECTOR)
    )
    lines = [f"{path}, line {line}" for line in table.lines]
    cells, place = table.values, lines.__getitem__
    bounds = np.arange(len(lines) + 1)
    if spec.traits.over_tokens:
        keys = [_words(cell, line) for cell, line in zip(table.columns[WORDS], lines, strict=True)]
        bounds = np.cumsum([0, *map(len, keys)])
        cells = {name: _flat(part, bounds, lines, name) for name, part in cells.items()}
        place = _places_of_words(lines, bounds)
    else:
        keys = keys_of([table.columns[name] for name in columns])
    holds, values = _values(path, cells, place, spec)
    rows = _rows(keys, np.split(values, bounds[1:-1]), lines, spec.kind)
    return SoftLabelFile(path, holds, values, rows, bounds)


def _words(cell: str, line: str) -> Key:
    if not cell.endswith(table_files.LIST_MARK):
        raise errors.DataError(f"{line}, {WORDS!r}", "a list that is not empty", repr(cell))
    return tuple(word.strip() for word in cell.split(table_files.LIST_MARK)[:-1])


def _flat(cells: Sequence[Any], bounds: np.ndarray, lines: Sequence[str], name: str) -> list[Any]:
    """The lists of a column, one after the other, an entry a word."""
    for cell, count, line in zip(cells, np.diff(bounds).tolist(), lines, strict=True):
        if not isinstance(cell, (list, tuple)) or len(cell) != count:
            received = len(cell) if isinstance(cell, (list, tuple)) else repr(cell)
            raise errors.DataError(
                f"{line}, {name!r}", f"a list of {count} entries, one a word", received
            )
    return list(itertools.chain.from_iterable(cells))


def _places_of_words(lines: Sequence[str], bounds: np.ndarray) -> Place:
    def place(unit: int) -> str:
        row = int(np.searchsorted(bounds, unit, side="right")) - 1
        return f"{lines[row]}, word {unit - bounds[row] + 1}"

    return place


def _values(
    path: pathlib.Path, cells: dict[str, list[Any]], place: Place, spec: TaskSpec
) -> tuple[Holds, np.ndarray]:
    """The content of a file, and float32 (units, width)."""
    number, embeds = spec.traits.one_number, spec.traits.vectors
    if embeds and VECTOR in cells:
        return VECTOR, soft_label_values.vectors(cells[VECTOR], place, VECTOR)
    for holds in () if number or embeds else ("logits", "probabilities"):
        if columns := soft_label_values.columns_of(holds, cells, place):
            order = _in_task_order(path, [*columns], spec)
            table = np.stack([numbers(columns[n], place, f"{holds}.{n}") for n in order], axis=1)
            if holds == "logits":
                table = soft_label_values.checked_logits(table, place, spec.kind)
                return holds, table.astype(np.float32)
            checked = soft_label_values.checked_probabilities(table, place, spec.kind)
            return holds, to_logits(checked, spec.kind)
    if LABEL not in cells or embeds:
        expected = "a list of numbers, vector" if embeds else LABEL
        if not number and not embeds:
            expected = "logits.LABEL, probabilities.LABEL or label"
        raise errors.DataError(
            f"{path}", f"a column {expected}", f"the columns {', '.join(tables.column_names(path))}"
        )
    if number:
        return LABEL, numbers(cells[LABEL], place, LABEL).astype(np.float32)[:, None]
    return LABEL, to_logits(_of_names(cells[LABEL], place, spec), spec.kind)


def _in_task_order(path: pathlib.Path, names: list[str], spec: TaskSpec) -> list[str]:
    """The names of a file's labels in the order of the task's."""
    differ = len({name.strip().casefold() for name in names}) == len(names)
    key = str.casefold if differ else str  # "US" and "us" may be two labels
    by_name = {key(name.strip()): name for name in names}
    numbered = [f"label_{index}" for index in range(spec.num_labels)]
    for spelling in (spec.labels, spec.label_values, numbered):
        order = [key(label) for label in spelling]
        if len(names) == len(order) and set(order) == set(by_name):
            return [by_name[name] for name in order]
    raise errors.DataError(
        f"labels of {path}, for {spec.name}", f"the names {list(spec.labels)}", names
    )


def _of_names(cells: Sequence[Any], place: Place, spec: TaskSpec) -> np.ndarray:
    """Probabilities that are certain of the labels in the cells, float64 (units, labels)."""
    spellings = (spec.labels, spec.label_values)
    exact = {name: index for names in spellings for index, name in enumerate(names)}
    folded: dict[str, int] = {}
    for name, index in exact.items():
        key = name.casefold()
        folded[key] = index if folded.get(key, index) == index else -1  # "US" and "us"
    several = spec.traits.many_classes
    sure = np.zeros((len(cells), spec.num_labels))
    for unit, cell in enumerate(cells):
        names = cell if isinstance(cell, (list, tuple)) else [str(cell)]
        if several and not isinstance(cell, (list, tuple)):
            names = names_in("" if cell is None else str(cell), spec.label_separator)
        names = [str(name).strip() for name in names]
        indices = [exact.get(name, folded.get(name.casefold(), -1)) for name in names]
        if -1 in indices or (len(indices) != 1 and not several):
            raise errors.DataError(
                f"{place(unit)}, {LABEL!r}", f"one of {', '.join(spec.labels)}", repr(cell)
            )
        sure[unit, indices] = 1.0
    return sure


def _rows(
    keys: Sequence[Key], values: Sequence[np.ndarray], lines: Sequence[str], kind: str
) -> dict[Key, int]:
    rows: dict[Key, int] = {}
    for row, key in enumerate(keys):
        first = rows.setdefault(key, row)
        if first != row and not soft_label_values.are_alike(values[first], values[row], kind):
            raise errors.DataError(
                lines[row], f"the soft labels of {lines[first]}, which has the same text",
                f"others of {shown(key)!r}", "Keep one of them.",
            )  # fmt: skip
    return rows


def shown(key: Key) -> str:
    """A key for messages."""
    return errors.shortened(" ".join(key))


def check_writable(path: files.Path, kind: str = "") -> str:
    """Returns the suffix of a file that `write` can write for a kind of task."""
    suffix = pathlib.Path(path).suffix.lower()
    lists = kind in KINDS and not KINDS[kind].row_a_text
    choices = _OF_LISTS if lists else _SUFFIXES
    if suffix not in choices:
        expected = f"one of {', '.join(choices)}{', which hold lists' if lists else ''}"
        raise errors.DataError(f"{path}", expected, suffix or "no suffix")
    return suffix


def write(path: files.Path, examples: Examples, values: np.ndarray) -> None:
    """Writes soft labels that `read` reads back to the bit, whole or not at all.

    `values` are float32 (texts or words, width): logits in the order of the task's labels, the
    number of a regression, or vectors.
    """
    suffix = check_writable(path, examples.spec.kind)
    columns = _columns(examples, np.asarray(values, np.float32))
    with files.atomic_write(storage.located(path)) as temporary:
        if suffix == ".parquet":
            import pyarrow
            import pyarrow.parquet

            pyarrow.parquet.write_table(pyarrow.table(columns), temporary)
            return
        rows = zip(*columns.values(), strict=True)
        with temporary.open("w", encoding="utf-8", newline="") as file:
            if suffix == ".csv":
                table_files.write_cells(file, list(columns), rows)
                return
            for row in rows:
                line = dict(zip(columns, row, strict=True))
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _columns(examples: Examples, values: np.ndarray) -> dict[str, list[Any]]:
    spec = examples.spec
    words = examples.words
    texts = [examples.texts, examples.pairs] if words is None else [words]
    columns: dict[str, list[Any]] = {
        name: list(cells or ()) for name, cells in zip(text_columns(spec), texts, strict=False)
    }
    if spec.traits.vectors:
        return {**columns, VECTOR: values.tolist()}
    names = [f"logits.{label}" for label in spec.labels] or [LABEL]
    for name, column in zip(names, values.T.tolist(), strict=True):
        columns[name] = column
        if words is not None:
            of_words = iter(column)
            columns[name] = [list(itertools.islice(of_words, len(w))) for w in words]
    return columns
