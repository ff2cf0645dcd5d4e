"""What a cell of labels may hold: the rules, each with what was expected and what to do.

`RULES` are about the name of a label, `COLUMN_RULES` about the cells of a column; `label_cells`
applies both for all commands.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tfdistill.tasks.label_kinds import PLAIN_NUMBER, mostly_numbers, names_in, number_of
from tfdistill.tasks.table_files import LIST_MARK, NULL

_MOST_CLASSES = 20  # whole numbers of more different values may be a regression
_KEEP = (
    "Label these rows or remove them; to learn from their texts all the same, move these to a file "
    "for --unlabelled (data.unlabelled)."
)
_MISSING = frozenset("nan null <na> #n/a n/a nat #value! #ref! #div/0! #name? #null! #num!".split())
_MARKS_FOR_NONE = frozenset("- -- --- \u2013 \u2014 ? ?? ???".split())
_SEPARATORS = frozenset(";|,")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")  # no format characters, no blanks
_JOINERS = "\u200c\u200d"  # part of words in Persian and Indic scripts, and of emoji
# Marks that differ by the keyboard; small letters of Cyrillic and Greek with a Latin shape.
_TWINS = {
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2212"), "-"),
    **dict.fromkeys(map(ord, "\u2018\u2019\u02bc`\u00b4"), "'"),
    **dict.fromkeys(map(ord, "\u201c\u201d\u201e"), '"'),
    **dict(zip(map(ord, "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf\u03bd"),
               "aeopcyxijsov", strict=True)),
}  # fmt: skip
_TRUTHS = {"true": "1", "false": "0"}  # beside numbers
_MULTI_HOT = re.compile(r"[01](?:\.0)?(?:[ ,;|/]+[01](?:\.0)?)+\Z|[01]{2,}\Z")
_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+\Z")
_MEASURE = re.compile(
    r"(?P<before>[^\w\s+-]*)\s*[-+]?\d+(?:[.,]\d+)?\s*(?P<after>\D*|(?:/|of|out of)\s*\d+)\Z"
)
_GROUPED = re.compile(r"[-+]?\d{1,3}(?:[,.' _\u00a0\u202f\u2019]\d{3})+(?:[.,]\d+)?\Z")
_NAMES_REMEDY = (
    "Write the names of the labels that hold into the cell, such as anger|joy; the place of a "
    "number does not say what it means."
)


class LabelRule(NamedTuple):
    """A rule about the name of a label."""

    # What was received, of a name and all names; "" where nothing is wrong.
    fault: Callable[[str, Sequence[str]], str]
    expected: str
    remedy: str


def _missing(name: str, names: Sequence[str]) -> str:
    """No label: blank, or what programs write for one. "none" in small letters is a word.

    "None" and "NA" are labels where the others are written like them: Anger, None; or DE, NA.
    A dash or a question mark is one where another label has no letter and no digit either: +, -.
    """
    if name == NULL:
        return "null"
    bare = name.strip()
    if not bare:
        return "an empty cell"
    if bare not in ("None", "NA", *_MARKS_FOR_NONE) and bare.casefold() not in _MISSING:
        return ""  # of most names, which may be many
    others = [other.strip() for other in names if other.strip() not in ("", bare)]
    capitals = all(other[:1].isupper() for other in others)
    codes = all(other.isupper() and len(other) <= 3 for other in others)
    as_others = {"None": capitals and others, "NA": codes and others}
    missing = bare.casefold() in _MISSING or (bare in as_others and not as_others[bare])
    if bare in _MARKS_FOR_NONE:
        missing = bool(others) and all(any(map(str.isalnum, other)) for other in others)
    return repr(name) if missing else ""


def _unseen(name: str, names: Sequence[str]) -> str:
    """Characters that nobody sees: format characters and fillers; a joiner within a script is."""
    for index, character in enumerate(name):
        around = name[max(index - 1, 0) : index] + name[index + 1 : index + 2]
        if character in _JOINERS and len(around) == 2 and not around.isascii():
            continue
        if character in _INVISIBLE or unicodedata.category(character) == "Cf":
            return f"{_character(character)} in {name!r}"
    return ""


def _unprintable(name: str, names: Sequence[str]) -> str:
    """Characters that end a line in one of the files that labels are written to, or damage it."""
    for character in name:
        if unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs") or character == "\ufffd":
            return f"{_character(character)} in {name!r}"
    return ""


def _surrounded(name: str, names: Sequence[str]) -> str:
    """Blanks around a name, which nobody sees; beside the bare name `same_label` tells of them."""
    return repr(name) if name != name.strip() and name.strip() not in names else ""


def _in_marks(name: str, names: Sequence[str]) -> str:
    """Quotation marks around all names: those of a file that another program reads otherwise."""
    marked = all(len(other) > 2 and other[0] == other[-1] in "\"'`" for other in names or [name])
    return repr(name) if marked else ""


def _separated(name: str, names: Sequence[str]) -> str:
    """A separator after all names: those of a form that takes several answers."""
    marked = name[-1:] in _SEPARATORS and all(other.endswith(name[-1]) for other in names)
    return repr(name) if marked else ""


def _character(character: str) -> str:
    usual = {"\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\t": "TAB", "\0": "NULL",
             "\v": "VERTICAL TAB", "\x85": "NEXT LINE"}  # fmt: skip
    name = usual.get(character, unicodedata.name(character, "CONTROL CHARACTER"))
    return f"U+{ord(character):04X} ({name})"


RULES: tuple[LabelRule, ...] = (
    LabelRule(_missing, "a label in every row", _KEEP),
    LabelRule(
        _unseen,
        "labels of characters that can be seen",
        "Remove the character; it makes a class of its own.",
    ),
    LabelRule(
        _unprintable,
        "labels of one line of text",
        "Remove the character; labels are written one a line into the files of an app.",
    ),
    LabelRule(
        _surrounded,
        "labels without blanks around them",
        "Remove the blanks between the label and the separators.",
    ),
    LabelRule(
        _in_marks,
        "labels without quotation marks",
        'Put double marks (") around cells, next to the separators, or none.',
    ),
    LabelRule(
        _separated,
        "labels without a separator behind them",
        "Remove it; for several labels a text add --kind multi_label --label-separator ';'.",
    ),
)
"""The rules about the name of a label, in the order in which they are applied."""


def same_label(name: str) -> str:
    """What makes labels the same to a person: no case, blanks, forms of Unicode, forms of a number.

    "1", "1.0", "01", "+1", "1e0" and "true" are one number; dashes are hyphens, and letters of
    other scripts the Latin ones of their shape.
    """
    plain = unicodedata.normalize("NFKC", name)
    key = "".join(c for c in plain if not 0xFE00 <= ord(c) <= 0xFE0F).casefold().translate(_TWINS)
    key = " ".join(key.split())
    key = _TRUTHS.get(key, key)
    if not PLAIN_NUMBER.match(key):
        return key
    if "e" in key:
        key = f"{float(key):f}"
    whole, _, decimals = key.lstrip("+-").partition(".")  # exact: ids may have many digits
    digits = f"{whole.lstrip('0') or '0'}.{decimals.rstrip('0')}"
    return f"-{digits}" if key[0] == "-" and digits != "0." else digits


def _multi_hot(cells: Sequence[str], kind: str | None) -> int | None:
    """Zeros and ones, a place for each label: lists, or digits with or without marks between."""
    if kind in ("classification", "regression"):
        return None
    filled = [index for index, cell in enumerate(cells) if cell.strip() or LIST_MARK in cell]
    if not filled:
        return None
    if all(cells[index].endswith(LIST_MARK) for index in filled):
        lists = [list(names_in(cells[index], "")) for index in filled]
        bits = all(name in ("0", "1", "0.0", "1.0", "true", "false", "True", "False")
                   for row in lists for name in row)  # fmt: skip
        repeated = any(len(set(row)) < len(row) for row in lists)
        lengths = {len(row) for row in lists}
        return filled[0] if bits and (repeated or lengths == {max(lengths)} != {1}) else None
    lengths = {len(cells[index].strip()) for index in filled}
    written = all(_MULTI_HOT.match(cells[index].strip()) for index in filled)
    begins = {cells[index].strip()[0] for index in filled}
    varied = len({cells[index] for index in filled}) > 1
    return filled[0] if written and len(lengths) == 1 and begins == {"0", "1"} and varied else None


def _probabilities(cells: Sequence[str], kind: str | None) -> int | None:
    """Lists of numbers with decimals: a teacher's answers, no labels."""
    for index, cell in enumerate(cells):
        if cell.endswith(LIST_MARK) and any(
            PLAIN_NUMBER.match(name) and "." in name and float(name) % 1
            for name in names_in(cell, "")
        ):
            return index
    return None


def _stray(cells: Sequence[str], kind: str | None) -> int | None:
    """A cell that is no number in a column of numbers, such as inf."""
    if kind in ("classification", "multi_label"):
        return None
    filled = [index for index, cell in enumerate(cells) if cell.strip()]
    others = [index for index in filled if number_of(cells[index]) is None]
    if not others or len(others) == len(filled):
        return None
    numbers = {number_of(cells[index]) for index in filled} - {None}
    endless = [
        index for index in others if re.fullmatch(r"[-+]?inf(inity)?", cells[index].strip().lower())
    ]
    if endless and len(endless) == len(others):
        return endless[0]
    measured = len(numbers) > _MOST_CLASSES or any(n != round(n) for n in numbers if n is not None)
    missing = [index for index in others if _missing(cells[index], [])]
    if (
        missing
        or not (measured and mostly_numbers(cells))
        or all(comma_number(cells[index]) for index in others)
    ):
        return None  # missing labels have a rule of their own
    return others[0]


def _thousands(cells: Sequence[str], kind: str | None) -> int | None:
    """A number with marks between thousands: 1'234, or 1,234 where no cell is surely a decimal."""
    if kind in ("classification", "multi_label"):
        return None
    filled = [index for index, cell in enumerate(cells) if cell.strip()]
    others = [index for index in filled if number_of(cells[index]) is None]
    marked = [index for index in others if _GROUPED.match(cells[index].strip())]
    if not marked or not all(comma_number(cells[i]) or i in set(marked) for i in others):
        return None
    for index in marked:
        if not comma_number(cells[index]):
            return index
    return marked[0] if len(marked) == len(others) else None  # 1,234 beside 0,5 is a decimal


def _two_marks(cells: Sequence[str], kind: str | None) -> int | None:
    """A decimal comma in a column that also has decimal points."""
    if kind in ("classification", "multi_label"):
        return None
    filled = [index for index, cell in enumerate(cells) if cell.strip()]
    commas = [index for index in filled if comma_number(cells[index])]
    points = any("." in cells[index] for index in filled)
    others = all(number_of(cells[index]) is not None for index in set(filled) - set(commas))
    return commas[0] if commas and points and others else None


def _measures(cells: Sequence[str], kind: str | None) -> int | None:
    """Amounts that all have one sign or unit, such as 5%, $5 or 5/100: as names, many classes."""
    if kind in ("classification", "multi_label"):
        return None
    first = next((index for index, cell in enumerate(cells) if cell.strip()), None)
    unit = None if first is None else _unit(cells[first])
    if unit in (None, ("", "")):
        return None
    distinct = {cell.strip() for cell in cells} - {""}
    if any(_unit(cell) != unit for cell in distinct):
        return None
    decimals = any(re.search(r"\d[.,]\d", cell) for cell in distinct)
    return first if decimals or len(distinct) > _MOST_CLASSES else None


def _unit(cell: str) -> tuple[str, str] | None:
    """What stands before and behind the number of a cell; None without a number."""
    match = _MEASURE.match(cell.strip())
    return None if match is None else (match["before"], match["after"])


def comma_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal comma."""
    return _COMMA_NUMBER.match(cell.strip()) is not None


class ColumnRule(NamedTuple):
    """A rule about the cells of a column."""

    # Cells and the kind that the user named, or None -> the first row at fault, or None.
    row: Callable[[Sequence[str], str | None], int | None]
    expected: str
    remedy: str


COLUMN_RULES: tuple[ColumnRule, ...] = (
    ColumnRule(_multi_hot, "names of labels", _NAMES_REMEDY),
    ColumnRule(
        _probabilities,
        "names of labels",
        "Probabilities of a teacher are read from files: `tfdistill distill --answers FILE`.",
    ),
    ColumnRule(
        _thousands,
        "a number with a decimal point or a decimal comma, and no marks between thousands",
        "Write 1234, or 1.234; for classes or several labels name the --kind.",
    ),
    ColumnRule(
        _measures,
        "a number without a sign or unit",
        "Write 5 for 5%, $5 or 5 kg; for classes add --kind classification.",
    ),
    ColumnRule(
        _two_marks,
        "a decimal point, as in other rows",
        "Write all numbers with a point, or all with a comma.",
    ),
    ColumnRule(
        _stray,
        "a finite number, as in the other rows",
        "Correct or remove the row; for classes add --kind classification.",
    ),
)
"""The rules about the cells of a column, in the order in which they are applied."""
