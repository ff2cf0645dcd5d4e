"""The roles of a table's columns: its texts, its labels, and the kind of task they make."""

from __future__ import annotations

import contextlib
import math
import pathlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfdistill import errors
from tfdistill.tasks import tables
from tfdistill.tasks.table_files import LIST_MARK, NULL

if TYPE_CHECKING:
    from tfdistill.tasks import Examples

_TEXT_NAMES = frozenset(
    "body comment content document input message post prompt query question review sentence text "
    "tweet utterance".split()
)
LABEL_NAMES = frozenset(
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
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[^\W\d_a-zA-Z]+")  # of a name, also in camelCase
# Last words of names: of columns that number the rows or say more about them, of such as are rarely
# a label, and of conversations, which are no texts yet.
_BESIDE = frozenset(
    "id idx index uid uuid guid row audio author created date datetime email file filename link "
    "path phone time timestamp updated uri url user username".split()
)
_SPLIT_WORDS = frozenset("dev fold partition split subset test train".split())
_RARELY_LABEL = _SPLIT_WORDS | frozenset("lang language locale source".split())
_CONVERSATIONS = frozenset("chat conversation conversations dialog dialogue messages turns".split())
_TAGS_REMEDY = (
    "Words with tags: `ner_tags` beside the lists of words, or columns of CoNLL (kind='token')."
)
_LONGEST_NAME = 5  # words of the name of a column; more are a sentence
_LOOKED_AT = 100_000  # cells, spread over the column
_LEAST_WORDS = 1.5  # of a text, on average
_WORD_LENGTH = 4  # characters of a script without blanks that count as a word
LANGUAGE = ("language", "lang")
"""Names of a column of languages."""
_LEAST_VARIED = 0.3  # share of different values in a column of texts


class Roles(NamedTuple):
    """The columns of a task: its text, the second text or None, its label."""

    text: str
    pair: str | None
    label: str


def read_columns(path: pathlib.Path, values: Sequence[str] = ()) -> tables.DataTable:
    """Reads all columns of a table with a header, and `values`; see `tables.read_table`."""
    if path.is_dir():
        remedy = "A folder with train and dev is --data-dir of `tfdistill finetune` and `distill`."
        raise errors.DataError(
            f"data file {path}", "one file of labelled texts", "a folder", remedy
        )
    table = tables.read_table(path, None, values=values)
    _check_header(table)
    return table


def languages_of(examples: Examples) -> list[str] | None:
    """The languages of texts, as a column of their file names them; None where none does."""
    if examples.path is None or examples.lines is None or len(examples.lines) != len(examples):
        return None
    with contextlib.suppress(errors.DataError):  # no table with a header
        table, spec = read_columns(examples.path), examples.spec
        roles = (spec.text_column, spec.pair_column, spec.label_column)
        name = next((n for n in LANGUAGE if n in table.columns and n not in roles), None)
        if name is not None:
            cells = dict(zip(table.lines, table.columns[name], strict=True))
            return [cells.get(line, "").strip() for line in examples.lines]
    return None


def _check_header(table: tables.DataTable) -> None:
    """Refuses a name that occurs twice, and a first row that is data.

    It is data if it looks so, or if a name is a common value below it.
    """
    names, repeated = table.names, []
    if table.path.suffix.lower() in (".jsonl", ".parquet"):
        return
    for name, cells in table.columns.items():
        if sum(cell.strip() == name for cell in cells) > 1:
            repeated.append(f", and {name!r} occurs again below")
    named = [*filter(None, names)]
    if repeated or not named or any(map(_is_data, named)):
        shown = errors.shortened(", ".join(map(repr, names[:4])))
        raise errors.DataError(
            f"{table.path}, line 1",
            "the names of the columns",
            f"what looks like data: {shown}{''.join(repeated[:1])}",
            "Put a line with names such as text,label on top of the file.",
        )
    for name in named:
        if names.count(name) > 1:
            raise errors.DataError(
                f"{table.path}, line 1", f"one column {name!r}", f"{names.count(name)} of them"
            )


def _is_data(cell: str) -> bool:
    """Whether a cell can hardly be the name of a column: a number, or a sentence."""
    try:
        float(cell)
    except ValueError:
        return len(cell.split()) > _LONGEST_NAME or cell.endswith((".", "!"))
    return True


def choose_roles(
    table: tables.DataTable,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
) -> Roles:
    """Finds the columns of texts and labels that are not named, by their names and values.

    A column that is called text or label is never passed over for another one in silence: not
    because its values repeat, or could not be read. Where it is not clear which
    column is meant the message names the one to give; texts that are lists, such as those of
    words, and cells that cannot be read are refused.
    """
    named_columns = {"text_column": text, "pair_column": pair, "label_column": label}
    for option, name in named_columns.items():
        if name is not None and name not in table.columns:
            hint = errors.nearest(name, table.columns)
            listed = ", ".join(table.columns)
            if name in table.unusable:
                raise errors.DataError(table.unusable[name])
            raise errors.ConfigError(
                f"data.{option}", f"one of the columns {listed}", repr(name), hint
            )
    for name, fault in table.unusable.items():
        of_texts = _says_text(name) or _last_word(name) in _CONVERSATIONS
        if (of_texts and text is None) or (_names_labels(name) and label is None):
            raise errors.DataError(fault)
    free = [name for name in table.columns if name not in named_columns.values()]
    texts = _text_columns(table, free)
    lists = [name for name in table.columns if _holds_lists(table.columns[name])]
    if {text, pair} & {*lists} or (text is None and lists and not texts):
        raise errors.DataError(
            f"{table.path}", "texts", f"lists in {', '.join(map(repr, lists))}", _TAGS_REMEDY
        )
    if text is None:
        text, second = _choose_texts(texts, None if pair is None else [])
        pair = pair or second
        free = [name for name in free if name not in (text, pair)]
        blank = [name for name in free if _says_text(name) and not any(table.columns[name])]
        if text is None or (blank and not _says_text(text)):
            also = "pair_column" if pair is None and texts else None
            likely = texts or [name for name in free if not _names_labels(name)]
            likely = sorted([*likely, *blank], key=lambda name: not _says_text(name))
            raise _unclear(table, "text_column", likely, "texts", also)
    if label is None:
        others = [name for name in free if name not in texts and not _is_beside(name)]
        others = [name for name in others if len(set(table.columns[name])) > 1] or others
        label = _choose_label(others)
        if label is None or (len(free) > 1 and _last_word(label) in _RARELY_LABEL):
            likely = sorted(others or free, key=lambda name: _last_word(name) in _RARELY_LABEL)
            likely = sorted(likely, key=lambda name: not _names_labels(name))
            raise _unclear(table, "label_column", likely, "labels")
    return Roles(text, pair, label)


def _text_columns(table: tables.DataTable, free: Sequence[str]) -> list[str]:
    """The columns that may be texts: by their names, or by their values if these do not say no."""
    cells = table.columns
    texts = [
        name
        for name in free
        if (_says_text(name) and any(cells[name]) and not _holds_lists(cells[name]))
        or (_last_word(name) not in _BESIDE and _holds_texts(cells[name]))
    ]
    return [name for name in texts if not _names_labels(name)] or texts


def _choose_texts(texts: list[str], pairs: list[str] | None) -> tuple[str | None, str | None]:
    """The text, and the second text of a pair; (None, None) where it is not clear."""
    if len(texts) == 1:
        return texts[0], None
    if pairs is None and len(texts) == 2 and _are_pair(*texts):
        return texts[0], texts[1]
    named_texts = [name for name in texts if name.casefold() in _TEXT_NAMES]
    return (texts[0] if len(named_texts) == len(texts) == 1 else None), None


def _are_pair(first: str, second: str) -> bool:
    names = {first.casefold(), second.casefold()}
    if any(names == pair_names for pair_names in _PAIR_NAMES):
        return True
    parts = [_NUMBERED.fullmatch(name) for name in (first, second)]
    return all(parts) and parts[0].groups() == parts[1].groups()  # type: ignore[union-attr]


def _choose_label(others: list[str]) -> str | None:
    if len(others) == 1:
        return others[0]
    named_labels = [name for name in others if name.casefold() in LABEL_NAMES]
    return named_labels[0] if len(named_labels) == 1 else None


def _last_word(name: str) -> str:
    """The last word of a name, in lower case: "id" of "userId" and of "user_id"."""
    return ([*_WORD.findall(name)] or [""])[-1].casefold()


def is_split(name: str) -> bool:
    """Whether a name is one of a column that says which set a row is of, as "is_test"."""
    return _last_word(name) in _SPLIT_WORDS


def _names_labels(name: str) -> bool:
    """Whether a word of a name is one of labels, as in "label_id"."""
    return not {word.casefold() for word in _WORD.findall(name)}.isdisjoint(LABEL_NAMES)


def _says_text(name: str) -> bool:
    """Whether a name is one of texts, as "text" and "review_text"; not "label_text"."""
    return _last_word(name) in _TEXT_NAMES and not _names_labels(name)


def _unclear(
    table: tables.DataTable,
    option: str,
    candidates: Sequence[str],
    what: str,
    also: str | None = None,
) -> errors.ConfigError:
    shown = ", ".join(
        f"{name} (such as {errors.shortened(_first_of(table.columns[name]))!r})"
        for name in candidates
    )
    received = f"{len(candidates)} that may be: {shown}" if len(candidates) > 1 else shown
    example = candidates[0] if candidates else "NAME"
    hint = f"Name it, such as {option}={example!r}"
    if also and len(candidates) > 1:
        hint += f"; if two are read together, also {also}={candidates[1]!r}"
    marked = [name for name in candidates if {*table.columns[name]} == {"0", "1"}]
    if what == "labels" and len(marked) > 1:
        hint += (
            ". For several labels a text, write the names of the columns that hold 1 into one "
            "column, with | between them"
        )
    if table.unusable:
        hint = f"{hint}. Left out: {next(iter(table.unusable.values()))}".rstrip(".")
    return errors.ConfigError(
        f"{table.path}",
        f"one column of {what}",
        received or f"the columns {', '.join(table.columns)}",
        f"{hint}.",
    )


def _first_of(cells: Sequence[str]) -> str:
    first = next((cell for cell in cells if cell not in ("", NULL)), "")
    return first.rstrip(LIST_MARK).replace(LIST_MARK, ", ")


def _holds_texts(cells: Sequence[str]) -> bool:
    """Whether cells are mostly different and of several words with letters, on average."""
    filled = [cell for cell in cells if cell.strip()]
    filled = filled[:: math.ceil(len(filled) / _LOOKED_AT) or 1]
    if len(set(filled)) <= _LEAST_VARIED * len(filled) or _holds_lists(cells):
        return False
    return sum(map(_num_words, filled)) > _LEAST_WORDS * len(filled)


def _num_words(cell: str) -> float:
    words = sum(any(map(str.isalpha, word)) for word in cell.split())
    letters = 0 if cell.isascii() else sum(character > "\x7f" for character in cell)
    return words + letters / _WORD_LENGTH


def _holds_lists(cells: Sequence[str]) -> bool:
    return any(cell.endswith(LIST_MARK) for cell in cells)


def _is_beside(name: str) -> bool:
    """Whether a name is one of a column that says more about a row; not "label_id"."""
    return _last_word(name) in _BESIDE and not _names_labels(name)
