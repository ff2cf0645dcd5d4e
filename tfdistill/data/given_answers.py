"""A teacher's answers that come in files: what they mean, and which text each belongs to."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import math
import pathlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tfdistill import errors, files, storage
from tfdistill.data import answer_files
from tfdistill.data.answer_logits import to_logits, to_probabilities
from tfdistill.data.unlabelled import normal_text
from tfdistill.tasks import Examples, tables
from tfdistill.tasks.label_kinds import names_in
from tfdistill.tasks.spec import TaskSpec

_OFF_ONE = 0.02  # of the sum of probabilities: they are often rounded to two digits
_SAME = 0.02  # between probabilities of one text that occurs twice; batches and float16 differ less
_LARGEST = 1e30  # of a number, so that no temperature makes float32 overflow
_INDEXED = re.compile(r"label_(\d+)", re.IGNORECASE)

Given = Literal["logits", "probabilities", "answer", "vector"]
Key = tuple[str, ...]
Answers = np.ndarray | Sequence[np.ndarray]  # a row, or a table of words or ranges, for each text


@dataclasses.dataclass(frozen=True, eq=False)
class AnswerFile:
    """The rows of a file.

    Attributes:
      path: The file.
      given: What it holds.
      logits: float32 (n, labels), in the order of the task's labels; of probabilities and labels
        see `answer_logits.to_logits`; the number itself, (n, 1), of a regression; the vectors,
        (n, width), of an embedding.
      rows: Key -> row; see `example_keys`.
      spellings: Of texts: key without differences of case and blanks -> row, -1 where rows with
        different answers share it.
      bounds: Of words and spans: row i has ``logits[bounds[i]:bounds[i + 1]]``, int64 (rows + 1,).
      offsets: Of spans: the characters of each range, int64 (n, 2).
    """

    path: pathlib.Path
    given: Given
    logits: np.ndarray
    rows: dict[Key, int]
    spellings: dict[Key, int]
    bounds: np.ndarray | None = None
    offsets: np.ndarray | None = None

    @property
    def starts(self) -> np.ndarray:
        """The bounds, of words and spans."""
        assert self.bounds is not None
        return self.bounds

    def find(self, keys: Sequence[Key]) -> np.ndarray:
        """The row of each key, int64 (n,), -1 where there is none.

        Raises:
          DataError: If texts that differ from one in case and blanks alone have other answers.
        """
        found = np.full(len(keys), -1, np.int64)
        for index, key in enumerate(keys):
            row = self.rows.get(key)
            if row is None:
                row = self.spellings.get(_normal(key))
                if row == -1:
                    raise errors.DataError(
                        f"{self.path}, text {shown(key)!r}",
                        "the text as it is in the data, or one answer to all its spellings",
                        "other spellings with different answers",
                    )
            found[index] = -1 if row is None else row
        return found

    def nearest(self, key: Key) -> Key | None:
        """A key of the file that differs in blanks, case and the cuts between words alone."""
        wanted = _joined(key)
        return next((other for other in self.rows if _joined(other) == wanted), None)


def read_answers(path: files.Path, spec: TaskSpec, *, key: str | None = None) -> AnswerFile:
    """Reads the answers of a teacher.

    Columns: those of the task's texts, or `key`, and either ``logits.LABEL`` or
    ``probabilities.LABEL`` for every label, in any order, or ``answer``: a label, several for
    "multi_label", a number for a regression. Labels are spelt as the task names them or as its
    files spell them; ``LABEL_0``, ``LABEL_1`` ... are the task's in order. Others are not read.

    Args:
      path: The file; see `answer_files.read_columns`.
      spec: The task, with its labels.
      key: The column that names the examples; None: the texts do.

    Returns:
      The rows.

    Raises:
      DataError: If the file is unusable: a column is missing, labels are not the task's, a number
        is not finite, probabilities do not sum to 1, or a key has two answers.
    """
    path = storage.located(path)
    wanted = [key] if key is not None else [spec.text_column, spec.pair_column]
    texts = [name for name in wanted if name is not None]
    columns, places = answer_files.read_columns(
        path, names=(*texts, "answer"), prefixes=("logits.", "probabilities.")
    )
    given, logits = labelled_logits(path, columns, places, spec)
    named = [column(path, columns, name) for name in texts]
    keys = [tuple(str(cell).strip() for cell in cells) for cells in zip(*named, strict=True)]
    rows = exact_rows(keys, logits, places, spec)
    spellings = {} if key is not None else spellings_of(keys, logits, spec)
    return AnswerFile(path, given, logits, rows, spellings)


def write_answers(path: files.Path, examples: Examples, logits: np.ndarray) -> None:
    """Writes answers that `read_answers` reads back to the bit, by text.

    Args:
      path: A .jsonl, .csv, .parquet or .npz file.
      examples: The texts, and the task.
      logits: float32 (n, labels), in the order of the task's labels.
    """
    spec = examples.spec
    texts = {spec.text_column: examples.texts}
    if spec.pair_column is not None and examples.pairs is not None:
        texts[spec.pair_column] = examples.pairs
    name = "answer" if spec.traits.one_number else "logits"
    answer_files.write_columns(path, texts, name, logits, spec.labels)


def example_keys(examples: Examples, key: str | None = None) -> list[Key]:
    """What examples are found by in a file: their texts, or the cell of a column of theirs.

    Of words these, of questions both texts, or their ids.

    Raises:
      DataError: If their file has no such column, or two of them have one key.
    """
    if key is None and examples.words is not None:
        return [tuple(word.strip() for word in words) for words in examples.words]
    if examples.questions is not None and key in (None, "id"):
        named = key is not None
        return [
            (q.key.strip(),) if named else question_key((q.question, q.context))
            for q in examples.questions
        ]
    if key is None:
        texts = [examples.texts] if examples.pairs is None else [examples.texts, examples.pairs]
        return [tuple(text.strip() for text in row) for row in zip(*texts, strict=True)]
    if examples.path is None or examples.lines is None:
        raise errors.DataError(
            "teacher.answers.key", "examples that are rows of a table", "others", "Join by text."
        )
    skips = examples.spec.skip_short_rows
    table = tables.read_table(
        examples.path, [key], header=examples.spec.header, skip_short_rows=skips
    )
    cells = dict(zip(table.lines, table.columns[key], strict=True))
    keys = [(cells[line].strip(),) for line in examples.lines]
    found, count = collections.Counter(keys).most_common(1)[0]
    if count > 1:
        raise errors.DataError(
            f"{examples.path}, column {key!r}", "another key in each row", f"{count} x {found[0]!r}"
        )
    return keys


def question_key(cells: Sequence[Any]) -> Key:
    """Question and context, or an id; the context as it is, since its characters are counted."""
    return (str(cells[0]).strip(), *map(str, cells[1:]))


def labelled_logits(
    path: pathlib.Path, columns: dict[str, Any], places: Sequence[str], spec: TaskSpec
) -> tuple[Given, np.ndarray]:
    """What a file gives, and its logits, float32 (n, labels); see `read_answers`."""
    number = spec.traits.one_number
    choices: tuple[Given, ...] = () if number else ("logits", "probabilities")
    for given in choices:
        names = [name.removeprefix(f"{given}.") for name in columns if name.startswith(f"{given}.")]
        if names:
            order = _order(path, names, spec)
            parts = [numbers(columns[f"{given}.{n}"], places, f"{given}.{n}") for n in order]
            table = np.stack(parts, axis=1)  # (n, labels)
            if given == "logits":
                return given, table.astype(np.float32)
            return given, to_logits(_checked_probabilities(table, places, spec), spec.kind)
    if "answer" not in columns:
        expected = "a column answer" if number else "logits.LABEL, probabilities.LABEL or answer"
        raise errors.DataError(f"{path}", expected, f"the columns {', '.join(columns)}")
    if number:
        return "answer", numbers(columns["answer"], places, "answer").astype(np.float32)[:, None]
    known = {name.casefold(): index for index, name in enumerate(spec.labels)}
    known |= {name.casefold(): index for index, name in enumerate(spec.label_values)}
    several = spec.traits.many_classes
    sure = np.zeros((len(places), spec.num_labels))
    for row, (cell, place) in enumerate(zip(columns["answer"], places, strict=True)):
        listed = cell if isinstance(cell, (list, tuple)) else [str(cell)]
        if several and not isinstance(cell, (list, tuple)):
            listed = names_in("" if cell is None else str(cell), spec.label_separator)
        found = [known.get(str(name).strip().casefold(), -1) for name in listed]
        if -1 in found or (len(found) != 1 and not several):
            raise errors.DataError(
                f"{place}, 'answer'", f"one of {', '.join(spec.labels)}", repr(cell)
            )
        sure[row, found] = 1.0
    return "answer", to_logits(sure, spec.kind)


def _order(path: pathlib.Path, names: list[str], spec: TaskSpec) -> list[str]:
    """The names of a file's labels in the order of the task's."""
    by_name = {name.strip().casefold(): name for name in names}
    for labels in (spec.labels, spec.label_values):
        wanted = [label.casefold() for label in labels]
        if len(names) == len(wanted) and set(wanted) == set(by_name):
            return [by_name[name] for name in wanted]
    indexed = [_INDEXED.fullmatch(name) for name in names]
    by_index = {int(match[1]): match[0] for match in indexed if match is not None}
    if (
        all(indexed)
        and sorted(by_index) == list(range(spec.num_labels))
        and len(names) == len(by_index)
    ):
        return [by_index[index] for index in range(spec.num_labels)]
    raise errors.DataError(
        f"labels of {path}, for {spec.name}", f"the names {list(spec.labels)}", names
    )


def numbers(cells: Any, places: Sequence[str], name: str) -> np.ndarray:
    """The numbers of a column, float64 (n,).

    Raises:
      DataError: If one is none, or not finite.
    """
    found = np.empty(())
    if not (isinstance(cells, np.ndarray) and np.iscomplexobj(cells)):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            found = np.asarray(cells, np.float64)
    if found.ndim != 1:  # a cell holds no number, or several
        found = np.array([_number(cell) for cell in cells])
    bad = np.flatnonzero(~(np.abs(found) <= _LARGEST))  # NaN, too
    if len(bad):
        cell = cells[bad[0]]
        received = repr(cell.item() if isinstance(cell, np.generic) else cell)
        raise errors.DataError(f"{places[bad[0]]}, {name!r}", "a finite number", received)
    return found


def _number(cell: Any) -> float:
    try:
        single = np.ndim(cell) == 0 and not np.iscomplexobj(cell)
        return float(cell) if single else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _checked_probabilities(table: np.ndarray, places: Sequence[str], spec: TaskSpec) -> np.ndarray:
    check_shares(table, places)
    if spec.traits.many_classes:
        return np.minimum(table, 1.0)
    totals = table.sum(axis=1)
    check_totals(totals, places, "logits.LABEL")
    return table / totals[:, None]


def check_shares(table: np.ndarray, places: Sequence[str]) -> None:
    """Raises DataError if a number of a row, (n, ...), is no probability."""
    outside = (table < 0) | (table > 1 + _OFF_ONE)
    rows = np.flatnonzero(outside.reshape(len(table), -1).any(axis=1))
    if len(rows):
        received = table[rows[0]].tolist()
        raise errors.DataError(places[rows[0]], "probabilities from 0 to 1", received)


def check_totals(totals: np.ndarray, places: Sequence[str], free: str) -> None:
    """Raises DataError if a sum of probabilities, (n,), is not 1; the columns `free` need none."""
    off = np.flatnonzero(np.abs(totals - 1) > _OFF_ONE)
    if len(off):
        raise errors.DataError(
            places[off[0]],
            "probabilities that sum to 1",
            f"{totals[off[0]]:.4g}, in {len(off)} row(s)",
            f"Columns {free} may hold any numbers.",
        )


def column(path: pathlib.Path, columns: dict[str, Any], name: str) -> Any:
    """The cells of a column that joins answers with texts.

    Raises:
      DataError: If the file has none.
    """
    if name not in columns:
        raise errors.DataError(
            f"{path}", f"a column {name!r}", f"the columns {', '.join(columns)}",
            "Name the texts as the data does, or the examples by a column of both "
            "(--set teacher.answers.key=COLUMN).",
        )  # fmt: skip
    return columns[name]


def _alike(first: np.ndarray, second: np.ndarray, spec: TaskSpec) -> bool:
    if first.shape != second.shape:
        return False
    if spec.kind == "span" and (first[:, :2] != second[:, :2]).any():  # other ranges
        return False
    if spec.traits.vectors:
        return bool(np.linalg.norm(first - second) <= _SAME * np.linalg.norm(first))
    if spec.kind not in ("regression", "span"):
        first, second = (to_probabilities(row, spec.kind) for row in (first, second))
    return np.allclose(first, second, rtol=_SAME, atol=_SAME)


def exact_rows(
    keys: Sequence[Key], answers: Answers, places: Sequence[str], spec: TaskSpec
) -> dict[Key, int]:
    """Key -> row.

    Raises:
      DataError: If a key has two answers.
    """
    rows: dict[Key, int] = {}
    for row, key in enumerate(keys):
        first = rows.setdefault(key, row)
        if first != row and not _alike(answers[first], answers[row], spec):
            raise errors.DataError(
                f"{places[row]}", f"the answer of {places[first]}, which has the same text or key",
                f"another one to {shown(key)!r}", "Keep one of them.",
            )  # fmt: skip
    return rows


def spellings_of(keys: Sequence[Key], answers: Answers, spec: TaskSpec) -> dict[Key, int]:
    """Key without differences of case and blanks -> row; see `AnswerFile`."""
    rows: dict[Key, int] = {}
    for row, key in enumerate(keys):
        first = rows.setdefault(_normal(key), row)
        if first not in (row, -1) and not _alike(answers[first], answers[row], spec):
            rows[_normal(key)] = -1
    return rows


def shown(key: Key) -> str:
    """A key for messages."""
    return errors.shortened(" ".join(key))


def _normal(key: Key) -> Key:
    return tuple(map(normal_text, key))


def _joined(key: Key) -> str:
    return "".join("".join(key).casefold().split())
