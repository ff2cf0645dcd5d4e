"""A teacher's answers about words and places of texts in files: read and written.

A row is a text with a list of words, or of ranges of characters, and lists of numbers as long. No
tokenizer is in it; `placed_answers` says which pieces of a student they meet.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfdistill import errors, files, storage
from tfdistill.data import answer_files, given_answers
from tfdistill.data.given_answers import AnswerFile, Given, Key
from tfdistill.tasks import Examples, conll
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.spec import TaskSpec

KINDS = ("token", "span")
ENDS = ("start", "end")
# Logit of what has no chance at any temperature, as padding has none.
NO_CHANCE = -1e30
_LISTS = (".jsonl", ".parquet")
_CHOICES: tuple[Given, ...] = ("logits", "probabilities")


def read_answers(path: files.Path, spec: TaskSpec, *, key: str | None = None) -> AnswerFile:
    """Reads the answers of a teacher about words, or about answers inside texts.

    Words ("token"): a row has ``words``, or ``text`` with ``offsets``, the [first character, one
    past the last] of each word; and ``logits.LABEL`` or ``probabilities.LABEL`` for every label, or
    ``answer``: a list with a number (a label) for each word.

    Spans ("span"): a row has the question and its context, or `key`; ``offsets``, ranges of
    characters of the context, [0, 0] for "no answer"; and for each range how it answers: with
    ``logits.start`` and ``logits.end`` that an answer starts with its first character and ends with
    its last one, with ``logits`` alone that it is the answer. ``probabilities`` likewise; they sum
    to 1 over the ranges of a row.

    Args:
      path: A .jsonl or .parquet file.
      spec: The task, with its labels.
      key: Of spans: "id"; None: joined by the texts.

    Returns:
      The rows, with `AnswerFile.bounds`.

    Raises:
      DataError: If the file is unusable; see `given_answers.read_answers`. Also if a list has
        another length than the words or ranges, or a range is none of its text.
    """
    path = storage.located(path)
    check_suffix(path)
    words = spec.kind == "token"
    named = [key] if key is not None else [spec.text_column, spec.pair_column or ""]
    columns, places = answer_files.read_columns(
        path,
        names=("words", "text", "answer") if words else (*named, *_CHOICES),
        prefixes=("offsets", *(f"{given}." for given in _CHOICES)),
    )
    if words:
        keys = _words(path, columns, places)
        bounds = _bounds(keys)
        offsets = None
    else:
        cells = [given_answers.column(path, columns, name) for name in named]
        keys = [given_answers.question_key(row) for row in zip(*cells, strict=True)]
        offsets, bounds = _ranges(path, columns, places)
        if key is None:
            _check_ranges(offsets, bounds, [len(row[1]) for row in keys], places)
    units = _UnitPlaces(places, bounds, "word" if words else "range")
    reader = _word_logits if words else _range_logits
    given, logits = reader(path, columns, units, spec)
    parts = np.split(logits if offsets is None else np.hstack([offsets, logits]), bounds[1:-1])
    rows = given_answers.exact_rows(keys, parts, places, spec)
    spellings = given_answers.spellings_of(keys, parts, spec) if words else {}
    return AnswerFile(path, given, logits, rows, spellings, bounds, offsets)


def check_suffix(path: files.Path) -> None:
    """Raises DataError if a file of this name cannot hold the lists of words or ranges."""
    suffix = pathlib.Path(path).suffix.lower()
    if suffix not in _LISTS:
        raise errors.DataError(
            f"{path}", f"one of {', '.join(_LISTS)}, which hold lists", suffix or "no suffix"
        )


def write_answers(
    path: files.Path, examples: Examples, encoded: EncodedExamples, logits: np.ndarray
) -> None:
    """Writes answers that `read_answers` reads back to the bit.

    Of questions each piece is a range, with its logits in the window that shows most around it;
    "no answer" has those of [CLS] in the window where their sum is least; see `spans.decode`.

    Args:
      path: A .jsonl or .parquet file.
      examples: The examples.
      encoded: Their pieces; of words labelled, whatever the labels.
      logits: float32 (tokens, labels).
    """
    check_suffix(path)
    if examples.words is not None:
        answer_files.write_rows(path, _rows_of_words(examples, encoded, logits))
    else:
        answer_files.write_rows(path, _rows_of_questions(examples, encoded, logits))


class _UnitPlaces(Sequence[str]):
    """Where each word or range of a file is, for messages; made when asked for."""

    def __init__(self, places: Sequence[str], bounds: np.ndarray, name: str):
        self.rows, self.bounds, self._name = places, bounds, name

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        row = int(np.searchsorted(self.bounds, index, side="right")) - 1
        return f"{self.rows[row]}, {self._name} {index - self.bounds[row] + 1}"

    def flat(self, cells: Sequence[Any], name: str) -> list[Any]:
        """The lists of a column, one after the other.

        Raises:
          DataError: If one is no list, or of another length.
        """
        counts = np.diff(self.bounds).tolist()
        for cell, count, where in zip(cells, counts, self.rows, strict=True):
            length = len(_list(cell, where, name))
            if length != count:
                raise errors.DataError(
                    f"{where}, {name!r}", f"{count} entries, one a {self._name}", length
                )
        return list(itertools.chain.from_iterable(cells))


def _list(cell: Any, where: str, name: str) -> Sequence[Any]:
    if not isinstance(cell, (list, tuple)) or not len(cell):
        raise errors.DataError(f"{where}, {name!r}", "a list that is not empty", _shown(cell))
    return cell


def _shown(cell: Any) -> str:
    return errors.shortened(repr(cell))


def _bounds(lists: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.cumsum([0, *map(len, lists)]).astype(np.int64)


def _words(path: pathlib.Path, columns: dict[str, Any], places: Sequence[str]) -> list[Key]:
    """The words of each row, as they are or cut out of its text."""
    if "words" in columns:
        listed = [
            _list(cell, where, "words")
            for cell, where in zip(columns["words"], places, strict=True)
        ]
        return [tuple(str(word).strip() for word in words) for words in listed]
    if "text" not in columns or "offsets" not in columns:
        found = ", ".join(columns)
        raise errors.DataError(f"{path}", "words, or text and offsets", f"the columns {found}")
    texts = [str(text) for text in columns["text"]]
    offsets, bounds = _ranges(path, columns, places)
    _check_ranges(offsets, bounds, [len(text) for text in texts], places, rising=True)
    parts = np.split(offsets, bounds[1:-1])
    return [
        tuple(text[begin:end].strip() for begin, end in part.tolist())
        for text, part in zip(texts, parts, strict=True)
    ]


def _ranges(
    path: pathlib.Path, columns: dict[str, Any], places: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Ranges of all rows, int64 (units, 2), and the bounds of the rows."""
    cells = given_answers.column(path, columns, "offsets")
    tables = []
    for cell, where in zip(cells, places, strict=True):
        listed = _list(cell, where, "offsets")
        whole = all(
            isinstance(pair, (list, tuple))
            and len(pair) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) for n in pair)
            for pair in listed
        )
        if not whole:
            raise errors.DataError(
                f"{where}, 'offsets'", "pairs [first character, one past the last]", _shown(cell)
            )
        tables.append(listed)
    return np.array([*itertools.chain(*tables)], np.int64).reshape(-1, 2), _bounds(tables)


def _check_ranges(
    offsets: np.ndarray,
    bounds: np.ndarray,
    lengths: Sequence[int],
    places: Sequence[str],
    *,
    rising: bool = False,
) -> None:
    """Refuses ranges that are none of their text, or, of words, that do not follow each other."""
    begin, end = offsets.T
    limits = np.repeat(lengths, np.diff(bounds))
    none = (begin == 0) & (end == 0) & (not rising)
    bad = ~none & ((begin < 0) | (end <= begin) | (end > limits))
    expected = "ranges inside"
    if rising and not bad.any():
        bad[1:] = begin[1:] < end[:-1]
        bad[bounds[1:-1]] = False
        expected = "words one after the other in"
    if bad.any():
        unit = int(np.flatnonzero(bad)[0])
        row = int(np.searchsorted(bounds, unit, side="right")) - 1
        raise errors.DataError(
            f"{places[row]}, 'offsets'",
            f"{expected} the {lengths[row]} characters of the text",
            offsets[unit].tolist(),
        )


def _word_logits(
    path: pathlib.Path, columns: dict[str, Any], units: _UnitPlaces, spec: TaskSpec
) -> tuple[Given, np.ndarray]:
    """Logits of all words, float32 (words, labels)."""
    flat = {
        name: units.flat(cells, name)
        for name, cells in columns.items()
        if len(cells) and name not in ("words", "text", "offsets")
    }
    return given_answers.labelled_logits(path, flat, units, spec)


def _range_logits(
    path: pathlib.Path, columns: dict[str, Any], units: _UnitPlaces, spec: TaskSpec
) -> tuple[Given, np.ndarray]:
    """Logits of all ranges, float32 (ranges, 2): of the start and of the end."""
    del spec
    for given in _CHOICES:
        both = [f"{given}.{end}" for end in ENDS]
        names = [given, given] if len(columns.get(given, ())) else both
        if all(len(columns.get(name, ())) for name in names):
            table = [
                given_answers.numbers(units.flat(columns[name], name), units, name)
                for name in dict.fromkeys(names)
            ]
            if given == "probabilities":
                table = [_log_probabilities(p, units) for p in table]
            return given, np.stack([table[0], table[-1]], axis=1).astype(np.float32)
    expected = "logits or probabilities, of ranges or with start and end"
    raise errors.DataError(f"{path}", expected, f"the columns {', '.join(columns)}")


def _log_probabilities(values: np.ndarray, units: _UnitPlaces) -> np.ndarray:
    """Logs of probabilities that sum to 1 over each row, `NO_CHANCE` of 0."""
    given_answers.check_shares(values, units)
    totals = np.add.reduceat(values, units.bounds[:-1])
    given_answers.check_totals(totals, units.rows, "logits")
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(values), NO_CHANCE)


def _rows_of_words(
    examples: Examples, encoded: EncodedExamples, logits: np.ndarray
) -> Iterator[dict[str, Any]]:
    assert examples.words is not None and encoded.labels is not None
    firsts = np.flatnonzero(encoded.labels != conll.UNLABELLED)
    bounds = _bounds(examples.words)
    for words, begin, end in zip(examples.words, bounds, bounds[1:], strict=False):
        values = logits[firsts[begin:end]]  # (words, labels)
        by_label = dict(zip(examples.spec.labels, values.T.tolist(), strict=True))
        yield {"words": words, "logits": by_label}


def _rows_of_questions(
    examples: Examples, encoded: EncodedExamples, logits: np.ndarray
) -> Iterator[dict[str, Any]]:
    sources, found = encoded.sources, encoded.span_sources
    assert sources is not None and found is not None and examples.questions is not None
    bounds = np.searchsorted(sources, np.arange(len(examples) + 1))  # windows of each question
    names = (examples.spec.text_column, examples.spec.pair_column or "context")
    for question, first, last in zip(examples.questions, bounds, bounds[1:], strict=False):
        heads = encoded.offsets[first:last]  # [CLS] of each window
        none = logits[heads[logits[heads].sum(axis=1, dtype=np.float64).argmin()]]
        tokens = np.arange(int(encoded.offsets[first]), int(encoded.offsets[last]))
        tokens = tokens[found.shown_best[tokens]]
        values = np.vstack([none, logits[tokens]])
        yield {
            **dict(zip(names, (question.question, question.context), strict=True)),
            "offsets": [[0, 0], *found.characters[tokens].tolist()],
            "logits": dict(zip(ENDS, values.T.tolist(), strict=True)),
        }
