"""Which columns of a table are texts and labels, and what kind of task they make."""

from __future__ import annotations

import dataclasses
import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.data import tables

_TEXT_NAMES = frozenset(
    "body comment content document input message post prompt query question review sentence text "
    "tweet utterance".split()
)
_LABEL_NAMES = frozenset(
    "category class emotion gold_label intent kind label labels output polarity quality rating "
    "score sentiment stars tags target topic y".split()
)
# Names of the two texts of a pair; besides them, names that differ in a number or a letter.
_PAIR_NAMES = (
    {"premise", "hypothesis"},
    {"question", "sentence"},
    {"question", "context"},
    {"question", "answer"},
    {"query", "document"},
    {"query", "passage"},
)
_NUMBERED = re.compile(r"(?i)(.*?)[ _#]*(?:[12]|[ab])\b(.*)")
_ID_NAME = re.compile(r"(?i)(^|[_ #\d])(id|idx|index|uid|uuid|guid|row|nr|no)$")
_TAGS_REMEDY = (
    "Words with tags: columns of CoNLL, for `tfdistill finetune --kind token` and `distill`."
)
_OTHER_FORMATS = {
    ".json": "Write an object a line, for example with `jq -c '.[]' data.json > data.jsonl`.",
    ".conll": _TAGS_REMEDY,
}
_MARKS = ("|", ";", ",")  # that may separate the labels of a cell
_MOST_CLASSES = 20  # whole numbers of more different values are a regression
_MOST_NAMES = 500  # different names that a column of labels may have
_LONG_TEXT = 12  # characters of a text without blanks
_LEAST_VARIED = 0.3  # share of different values in a column of texts


@dataclasses.dataclass(frozen=True)
class RawTable:
    """All columns of a file.

    Attributes:
      path: The file.
      columns: Name -> cells, one a row.
      lines: The line of each row, from 1.
      blank_lines: The empty lines between rows.
      separator: What separates its cells; "" in JSON Lines.
    """

    path: pathlib.Path
    columns: dict[str, list[str]]
    lines: list[int]
    blank_lines: tuple[int, ...]
    separator: str

    def __len__(self) -> int:
        """Returns the number of rows."""
        return len(self.lines)


class Roles(NamedTuple):
    """The columns of a task: its text, the second text or None, its label."""

    text: str
    pair: str | None
    label: str


class LabelKind(NamedTuple):
    """What a column of labels holds.

    Attributes:
      kind: "classification", "regression" or "multi_label".
      separator: What separates several labels; "," where there are none.
      why: How it was recognised, for a person.
    """

    kind: str
    separator: str
    why: str


def read_columns(path: pathlib.Path) -> RawTable:
    """Reads all columns of a file, whatever separates its cells.

    Args:
      path: A file of cells between commas, tabs, semicolons or vertical bars, with the names of the
        columns in its first row, or JSON Lines.

    Returns:
      The table; a column without a name is left out.

    Raises:
      DataError: If the file is missing, in another encoding or format, or has no header.
    """
    if path.is_dir():
        remedy = "Files of train and dev that are split already: `tfdistill finetune`, `distill`."
        raise errors.DataError(
            f"data file {path}", "one file of labelled texts", "a folder", remedy
        )
    if path.suffix.lower() not in (*tables.SUFFIXES, ".txt"):
        raise errors.DataError(
            f"data file {path}",
            f"one of {', '.join(tables.SUFFIXES)}",
            path.suffix or "a name without suffix",
            _OTHER_FORMATS.get(
                path.suffix.lower(), "Save tables of other programs as CSV in UTF-8."
            ),
        )
    text = tables.read_text(path)
    if path.suffix.lower() == ".jsonl":
        return _read_json_lines(path)
    separator = _separator_of(text.split("\n", 1)[0])
    rows = [row for row in tables.split_rows(path, text, separator)]
    filled = [(line, cells) for line, cells in rows if cells]
    if len(filled) < 2:
        raise errors.DataError(f"data file {path}", "a header and rows", f"{len(filled)} row(s)")
    names = [name.strip() for name in filled[0][1]]
    _check_header(path, names, [cells for _, cells in filled[1:]])
    for line, cells in filled[1:]:
        if len(cells) < len(names) or any(cells[len(names) :]):
            raise errors.DataError(
                f"{path}, line {line}",
                f"{len(names)} cells ({', '.join(names)})",
                len(cells),
                "A cell that holds the separator or a line break needs quotation marks around it.",
            )
    columns = {
        name: [cells[index] for _, cells in filled[1:]] for index, name in enumerate(names) if name
    }
    lines = [line for line, _ in filled[1:]]
    blank = tuple(line for line, cells in rows if not cells and line < lines[-1])
    return RawTable(path, columns, lines, blank, separator)


def _separator_of(header: str) -> str:
    """The mark that splits the header into the most cells; a comma where none does."""
    return max((",", "\t", ";", "|"), key=header.count)


def _check_header(path: pathlib.Path, names: list[str], rows: list[list[str]]) -> None:
    """Refuses a first row that is data: it looks so, or a name is a common value below it."""
    shown = ", ".join(map(repr, names[:4]))
    repeated = [
        name
        for index, name in enumerate(names)
        if name and sum(len(cells) > index and cells[index].strip() == name for cells in rows) > 1
    ]
    if repeated or tables.looks_like_data(names):
        why = f", and {repeated[0]!r} occurs again below" if repeated else ""
        raise errors.DataError(
            f"{path}, line 1",
            "the names of the columns",
            f"what looks like data: {errors.shortened(shown)}{why}",
            "Put a line with names such as text,label on top of the file.",
        )


def _read_json_lines(path: pathlib.Path) -> RawTable:
    columns, table, fault = {}, None, None
    for name in tables.column_names(path):
        try:
            table = tables.read_table(path, [name], lists=True)
        except errors.DataError as error:  # a column of another type, or absent in some rows
            fault = error
            continue
        columns[name] = table.columns[name]
    if table is None:
        raise fault or errors.DataError(f"data file {path}", "objects with keys", "an empty one")
    return RawTable(path, columns, table.lines, table.blank_lines, "")


def choose_roles(
    table: RawTable, text: str | None = None, pair: str | None = None, label: str | None = None
) -> Roles:
    """Finds the columns of texts and labels by their values, then by their names.

    Args:
      table: The table.
      text: The column of the text, where it is known.
      pair: The column of the second text, where it is known.
      label: The column of the label, where it is known.

    Returns:
      The columns.

    Raises:
      ConfigError: If a column is not there, or it is not clear which one is meant; the message
        names the option to give.
      DataError: If the texts are lists, such as those of words.
    """
    given = {"--text-column": text, "--pair-column": pair, "--label-column": label}
    for option, name in given.items():
        if name is not None and name not in table.columns:
            hint = errors.nearest(name, table.columns)
            listed = ", ".join(table.columns)
            raise errors.ConfigError(option, f"one of the columns {listed}", repr(name), hint)
    free = [name for name in table.columns if name not in given.values()]
    texts = [name for name in free if _holds_texts(table.columns[name])]
    if not texts:  # of single words, or of a script without blanks
        named = [name for name in free if not _ID_NAME.search(name)]
        texts = [name for name in named if _holds_texts(table.columns[name], least_words=0)]
    lists = [name for name in table.columns if _holds_lists(table.columns[name])]
    if {text, pair} & {*lists} or (text is None and lists and not texts):
        raise errors.DataError(
            f"{table.path}", "texts", f"lists in {', '.join(map(repr, lists))}", _TAGS_REMEDY
        )
    if text is None:
        text, second = _choose_texts(texts, None if pair is None else [])
        pair = pair or second
        free = [name for name in free if name not in (text, pair)]
        if text is None:
            also = "--pair-column" if pair is None and texts else None
            raise _unclear(table, "--text-column", texts or free, "texts", also)
    if label is None:
        others = [name for name in free if name not in texts and not _is_id(name, table)]
        others = [name for name in others if len(set(table.columns[name])) > 1] or others
        label = _choose_label(others)
        if label is None:
            likely = sorted(others or free, key=lambda name: not _ends_as_label(name))
            raise _unclear(table, "--label-column", likely, "labels")
    return Roles(text, pair, label)


def _choose_texts(texts: list[str], pairs: list[str] | None) -> tuple[str | None, str | None]:
    """The text, and the second text of a pair; (None, None) where it is not clear."""
    if len(texts) == 1:
        return texts[0], None
    if pairs is None and len(texts) == 2 and _are_pair(*texts):
        return texts[0], texts[1]
    known = [name for name in texts if name.casefold() in _TEXT_NAMES]
    return (known[0], None) if len(known) == 1 and len(texts) == len(known) else (None, None)


def _are_pair(first: str, second: str) -> bool:
    names = {first.casefold(), second.casefold()}
    if any(names == known for known in _PAIR_NAMES):
        return True
    parts = [_NUMBERED.fullmatch(name) for name in (first, second)]
    return all(parts) and parts[0].groups() == parts[1].groups()  # type: ignore[union-attr]


def _choose_label(others: list[str]) -> str | None:
    if len(others) == 1:
        return others[0]
    known = [name for name in others if name.casefold() in _LABEL_NAMES]
    return known[0] if len(known) == 1 else None


def _ends_as_label(name: str) -> bool:
    """Whether the last word of a name is one of labels, as in "airline_sentiment"."""
    return re.split(r"[ _-]", name.casefold())[-1] in _LABEL_NAMES


def _unclear(
    table: RawTable, option: str, candidates: Sequence[str], what: str, also: str | None = None
) -> errors.ConfigError:
    shown = ", ".join(
        f"{name} (such as {errors.shortened(next(filter(None, table.columns[name]), ''))!r})"
        for name in candidates
    )
    received = f"{len(candidates)} that may be: {shown}" if len(candidates) > 1 else shown
    example = candidates[0] if candidates else "NAME"
    hint = f"Name it, such as {option} {example!r}"
    if also and len(candidates) > 1:
        hint += f"; if two are read together, also {also} {candidates[1]!r}"
    marked = [name for name in candidates if {*table.columns[name]} == {"0", "1"}]
    if what == "labels" and len(marked) > 1:
        hint += (
            ". For several labels a text, write the names of the columns that hold 1 into one "
            "column, with | between them"
        )
    return errors.ConfigError(
        f"{table.path}",
        f"one column of {what}",
        received or f"the columns {', '.join(table.columns)}",
        f"{hint}.",
    )


def _holds_texts(cells: Sequence[str], least_words: float = 1.5) -> bool:
    """Whether cells are mostly different, no numbers, and of several words or of some length."""
    filled = [cell for cell in cells if cell.strip()]
    if not filled or _holds_lists(filled) or _numbers(filled) is not None:
        return False
    varied = len(set(filled)) / len(filled)
    words = np.mean([len(cell.split()) for cell in filled])
    characters = np.mean([len(cell) for cell in filled])
    long = words > least_words or characters > _LONG_TEXT
    return bool(varied > _LEAST_VARIED and long)


def _holds_lists(cells: Sequence[str]) -> bool:
    return any(cell.endswith(tables.LIST_MARK) for cell in cells)


def _is_id(name: str, table: RawTable) -> bool:
    """Whether a column counts or names the rows."""
    cells = table.columns[name]
    if _ID_NAME.search(name):
        return True
    distinct = len(set(cells))
    if _numbers(cells) is None:
        return distinct > _MOST_NAMES or distinct == len(cells)
    return distinct == 1


def _numbers(cells: Sequence[str]) -> np.ndarray | None:
    """The cells as numbers, float (n,); None if one is none."""
    try:
        numbers = np.array([float(cell) for cell in cells])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def kind_of(labels: Sequence[str]) -> LabelKind:
    """Recognises classes, numbers and several labels in a cell.

    Numbers with decimals, or whole numbers of more than 20 different values, are a regression.
    Several labels: lists of JSON, or cells of which some hold a separator and whose parts occur
    alone, too.

    Args:
      labels: Cells; empty ones are not looked at.

    Returns:
      The kind.
    """
    cells = [cell for cell in labels if cell.strip()]
    if _holds_lists(cells):
        return LabelKind("multi_label", ",", "lists of labels")
    numbers = _numbers(cells)
    if numbers is not None:
        distinct = len(np.unique(numbers))
        if (numbers != np.round(numbers)).any():
            return LabelKind("regression", ",", "numbers with decimals")
        if distinct > _MOST_CLASSES:
            return LabelKind("regression", ",", f"{distinct} different whole numbers")
        return LabelKind("classification", ",", f"{distinct} different whole numbers")
    whole = set(cells)
    for mark in _MARKS:
        several = [cell for cell in whole if mark in cell]
        parts = {part.strip() for cell in whole for part in cell.split(mark)}
        alone = sum(part in whole for part in parts)
        if several and len(parts) <= len(whole) and alone >= len(parts) / 2:
            return LabelKind("multi_label", mark, f"several labels with {mark!r} between")
    return LabelKind("classification", ",", f"{len(whole)} different names")
