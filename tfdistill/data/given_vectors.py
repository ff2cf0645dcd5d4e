"""A teacher's vectors of texts in files, for tasks of kind embedding: read, checked, written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, reading, storage
from tfdistill.data import answer_files, given_answers
from tfdistill.data.given_answers import AnswerFile
from tfdistill.tasks import Examples
from tfdistill.tasks.spec import TaskSpec

KIND = "embedding"
COLUMN = "vector"
_LENGTHS = (1e-12, 1e15)  # of vectors: float32 holds their squares and divides by them
_LISTED = "a list of numbers"
_UNIT = 1e-3  # from 1, the length of a normalised vector in float16


def read_answers(path: files.Path, spec: TaskSpec, *, key: str | None = None) -> AnswerFile:
    """Reads a teacher's vectors.

    Columns: the first text column of the task, which holds both texts of a pair in rows of their
    own, and ``vector``: a list of numbers, in an .npz archive an array (rows, width), in a .csv or
    .tsv file a JSON list. Others are not read.

    Args:
      path: The file; see `answer_files.read_columns`.
      spec: The task, of kind "embedding".
      key: None: vectors are joined by text.

    Returns:
      The rows.

    Raises:
      DataError: If the file is unusable: a column is missing, a vector has another width than the
        first one, no length or a number that is not finite, or a text has two vectors.
    """
    assert key is None
    path = storage.located(path)
    columns, places = answer_files.read_columns(
        path, names=(spec.text_column,), prefixes=(), lists=(COLUMN,)
    )
    if not {spec.text_column, COLUMN} <= columns.keys():
        raise errors.DataError(
            f"{path}",
            f"the columns {spec.text_column!r} and {COLUMN!r}, {_LISTED}",
            f"the columns {', '.join(columns)}",
            "Both texts of a pair are in the first one, each in a row of its own.",
        )
    keys = [(str(text).strip(),) for text in columns[spec.text_column]]
    vectors = _vectors(columns[COLUMN], places)
    rows = given_answers.exact_rows(keys, vectors, places, spec)
    spellings = given_answers.spellings_of(keys, vectors, spec)
    return AnswerFile(path, "vector", vectors, rows, spellings)


def write_answers(path: files.Path, examples: Examples, vectors: np.ndarray) -> None:
    """Writes vectors that `read_answers` reads back to the bit.

    Args:
      path: A .jsonl, .csv, .parquet or .npz file.
      examples: n texts, and the task.
      vectors: float32 (n, width).
    """
    texts = {examples.spec.text_column: examples.texts}
    answer_files.write_columns(path, texts, COLUMN, vectors, labels=None)


def are_normalised(vectors: np.ndarray) -> bool:
    """Whether all vectors, (n, width), have length 1, rounded."""
    return bool(np.all(np.abs(_lengths(vectors) - 1) <= _UNIT))


def _vectors(cells: Sequence[Any], places: Sequence[str]) -> np.ndarray:
    """The vectors of a column, float32 (n, width)."""
    first = _numbers(cells[0], places[0])
    vectors = np.empty((len(cells), len(first)), np.float32)
    for row, (cell, place) in enumerate(zip(cells, places, strict=True)):
        found = _numbers(cell, place)
        if len(found) != len(first):
            raise errors.DataError(
                f"{place}, {COLUMN!r}",
                f"{len(first)} numbers, the width of the first vector",
                f"{len(found)}",
                "Vectors of several widths are those of several models: keep one of them.",
            )
        vectors[row] = found
    lengths = _lengths(vectors)
    outside = np.flatnonzero((lengths < _LENGTHS[0]) | (lengths > _LENGTHS[1]))
    if len(outside):
        row = outside[0]
        raise errors.DataError(
            f"{places[row]}, {COLUMN!r}",
            f"a vector whose length is from {_LENGTHS[0]:g} to {_LENGTHS[1]:g}",
            f"{lengths[row]:g}",
            "A vector without length has no direction: leave out texts that have none.",
        )
    return vectors


def _numbers(cell: Any, place: str) -> np.ndarray:
    what = f"{place}, {COLUMN!r}"
    if isinstance(cell, str):
        cell = reading.parse_json(cell, what, expected=_LISTED)
    if not isinstance(cell, (list, np.ndarray)) or not len(cell):
        raise errors.DataError(what, _LISTED, repr(cell))
    return given_answers.numbers(cell, [place] * len(cell), COLUMN)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    return np.linalg.norm(vectors.astype(np.float64), axis=1)
