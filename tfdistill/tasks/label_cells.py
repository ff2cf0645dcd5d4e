"""A column of labels, as all commands read it: recognised, and refused where it cannot be meant."""

from __future__ import annotations

import ast
import json
import pathlib
import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Any

from tfdistill import errors
from tfdistill.tasks import tables
from tfdistill.tasks.label_kinds import (
    MOST_CLASSES,
    PLAIN_NUMBER,
    LabelKind,
    kind_of,
    made_of_others,
    mostly_numbers,
    names_in,
    number_of,
    out_of_list,
)
from tfdistill.tasks.table_files import LIST_MARK, NULL

TaskSpec = Any  # `spec.TaskSpec`, whose module imports this one

_KEEP = (
    "Label these rows or remove them; to learn from their texts all the same, move these to a file "
    "for data.unlabelled."
)
_MISSING = frozenset("nan null <na> #n/a n/a nat #value! #ref! #div/0! #name? #null! #num!".split())
# What programs write for no label too, unless all other labels are of this form.
_MISSING_AMONG = {"None": re.compile(r"[A-Z]"), "NA": re.compile(r"[A-Z]{1,3}\Z")}
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")  # no format characters, no blanks
_JOINERS = "\u200c\u200d"  # part of words in Persian and Indic scripts, and of emoji
_DAMAGED = "\ufffd"
_LINE_ENDS = ("Cc", "Zl", "Zp", "Cs")  # categories: they end a line of a file, or damage it
_CONTROLS = {"\n": "LINE FEED", "\r": "CARRIAGE RETURN", "\t": "TAB", "\0": "NULL",
             "\v": "VERTICAL TAB", "\x85": "NEXT LINE"}  # fmt: skip
_TRUTHS = {"true": "1", "false": "0"}  # beside numbers
_BITS = frozenset("0 1 0.0 1.0 true false True False".split())
_COMMA_NUMBER = re.compile(r"[-+]?\d+,\d+\Z")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\D\d{3})+(?:[.,]\d+)?\Z")
_ENDLESS = re.compile(r"(?i)[-+]?inf(?:inity)?\Z")
_BRACKETS = ("[]", "()", "{}")
_QUOTED_PAIR = re.compile(r"""['"]\s+['"]""")


def judge(
    cells: Sequence[str],
    where: Sequence[str],
    kind: str | None = None,
    separator: str | None = None,
) -> tuple[list[str], LabelKind]:
    """Recognises what a column of labels holds, and refuses what cannot be meant.

    The cells are as the file has them, `NULL` for an absent one; `where` locates them for messages.
    Where the user named `kind` or `separator` only faults of cells are looked for. Returns the
    cells, lists as `LIST_MARK` separates their items, those of one label each as the label, and
    numbers with a decimal point; and the kind.
    """
    if separator == "":
        raise errors.ConfigError("label_separator", "at least one character", "none")
    cells = list(cells) if kind == "classification" else unpacked(cells, where)
    there = [cell for cell in cells if cell != NULL]  # an empty one is a list of none
    if kind != "multi_label" and all(out_of_list(cell) != cell for cell in there):
        cells = [out_of_list(cell) for cell in cells]
    _check_lists(cells, where, kind)
    points = cells
    if kind not in ("classification", "multi_label"):
        points = _points(cells, where, kind)
    recognised = kind_of(points)
    if points != cells:
        recognised = recognised._replace(why=f"{recognised.why}, written with a decimal comma")
    cells = points
    if kind is not None:
        mark = recognised.separator if kind == "multi_label" else ","
        recognised = recognised._replace(kind=kind, separator=mark, why="as given")
    if separator is not None:
        recognised = recognised._replace(separator=separator)
    whole = not any((number_of(cell) or 0) % 1 for cell in cells)
    if recognised.kind == "regression" and kind is None and whole:
        raise errors.ConfigError(
            f"{where[0].split(', line')[0]}, data.kind",
            "classification (the numbers name classes) or regression (they are amounts)",
            recognised.why,
            "Say which: kind='classification' or kind='regression'.",
        )
    if recognised.kind != "regression":
        several = recognised.kind == "multi_label"
        first: dict[str, int] = {}  # row of each name
        for index, cell in enumerate(cells):
            for name in names_in(cell, recognised.separator) if several else [cell]:
                first.setdefault(name, index)
        for name, index in first.items():
            check_name(name, where[index], first)
        if kind != "classification":
            used = separator is not None and any(separator in cell for cell in cells)
            _check_made_of_others(cells, where, first, few_parts=not used)
    return cells, recognised


def names_in_table(spec: TaskSpec, path: pathlib.Path, *, stated: bool) -> set[str]:
    """Reads the labels of a task in a table, as it spells them.

    Unless the user `stated` the kind, the labels must look like it.
    """
    traits, column, separator = spec.traits, spec.label_column, spec.label_separator
    table = tables.read_table(
        path, [column], header=spec.header, skip_short_rows=spec.skip_short_rows, lists=[column]
    )
    values, judged = judge(
        table.columns[column],
        tables.Places(table, column),
        traits.column if stated else None,
        separator if traits.many_classes and separator != "," else None,
    )
    if stated and traits.many_classes and judged.separator != separator:
        raise errors.ConfigError(
            f"{path}, column {column!r}, data.label_separator",
            repr(judged.separator),
            repr(separator),
            f"Add {separator_option(judged.separator)}.",
        )
    if judged.kind != traits.column:
        mark = "" if judged.separator == "," else f" {separator_option(judged.separator)}"
        raise errors.ConfigError(
            f"{path}, column {column!r}, data.kind",
            f"the kind of these labels, {judged.kind} or {spec.kind}",
            f"none, and {judged.why}",
            f"Add kind={judged.kind!r}{mark}, or kind={spec.kind!r} if they are meant so.",
        )
    return {name for value in values for name in traits.names_in(value, separator)}


def check_name(name: str, where: str, names: Collection[str] = ()) -> None:
    """Refuses what is no name of a label; `names` are all that stand beside it."""
    expected, received, remedy = "", repr(name), "Remove the character."
    for index, character in enumerate(name):
        around = name[max(index - 1, 0) : index] + name[index + 1 : index + 2]
        joined = character in _JOINERS and len(around) == 2 and not around.isascii()
        category = unicodedata.category(character)
        if (category == "Cf" or character in _INVISIBLE) and not joined:
            expected = "labels of characters that can be seen"
        elif category in _LINE_ENDS or character == _DAMAGED:
            expected = "labels of one line of text"
        if expected:
            usual = _CONTROLS.get(character, unicodedata.name(character, "CONTROL CHARACTER"))
            received = f"U+{ord(character):04X} ({usual}) in {name!r}"
            break
    if missing := _missing(name, names):
        expected, received, remedy = "a label in every row", missing, _KEEP
    elif not expected and name != name.strip() and name.strip() not in names:
        # Beside the bare name `same_label` tells of them.
        expected = "labels without blanks around them"
        remedy = "Remove the blanks between the label and the separators."
    if expected:
        raise errors.DataError(where, expected, received, remedy)


def _missing(name: str, names: Collection[str]) -> str:
    """No label: blank, or what programs write for one. "none" in small letters is a word.

    "None" and "NA" are labels where the others are written like them: Anger, None; or DE, NA.
    """
    if name == NULL:
        return "null"
    bare = name.strip()
    if not bare:
        return "an empty cell"
    if bare in _MISSING_AMONG:
        others = [other.strip() for other in names if other.strip() not in ("", bare)]
        missing = not others or not all(map(_MISSING_AMONG[bare].match, others))
    else:
        missing = bare.casefold() in _MISSING
    return repr(name) if missing else ""


def same_label(name: str) -> str:
    """The key of a label, whatever its case, blanks, form of Unicode or form of a number.

    "1", "1.0", "01", "+1", "1e0" and "true" are one number.
    """
    plain = unicodedata.normalize("NFKC", name).replace("\u2212", "-")  # a minus sign
    key = "".join(c for c in plain if not 0xFE00 <= ord(c) <= 0xFE0F).casefold()
    key = " ".join(key.split())
    key = _TRUTHS.get(key, key)
    if not PLAIN_NUMBER.match(key):
        return key
    if "e" in key:
        key = f"{float(key):f}"
    whole, _, decimals = key.lstrip("+-").partition(".")  # exact: ids may have many digits
    digits = f"{whole.lstrip('0') or '0'}.{decimals.rstrip('0')}"
    return f"-{digits}" if key[0] == "-" and digits != "0." else digits


def separator_option(mark: str) -> str:
    """The keyword that names a separator of several labels."""
    return f"label_separator={mark!r}"


def _shown(cell: str) -> str:
    return ", ".join(names_in(cell, "")) if cell.endswith(LIST_MARK) else cell


def _several_forms(
    cells: Sequence[str], where: Sequence[str], odd: int, usual: int
) -> errors.DataError:
    """The fault of a cell whose form differs from one beside it."""
    line = re.search(r"line \d+", where[usual])
    return errors.DataError(
        where[odd],
        "cells of one form in the column",
        f"{_shown(cells[odd])!r} beside {_shown(cells[usual])!r} in {line[0] if line else usual}",
        "Clean the cells; if they are meant so, name the kind, such as kind='classification'.",
    )


def unpacked(cells: Sequence[str], where: Sequence[str]) -> list[str]:
    """Lists that pandas or JSON wrote as text, such as ['anger', 'joy'], become lists.

    All or none: an object, or a list in some of the rows, is refused; names in brackets are names.
    """
    bare = [cell.strip() for cell in cells]
    filled = [index for index, cell in enumerate(bare) if cell]
    written = [i for i in filled if len(bare[i]) > 1 and bare[i][0] + bare[i][-1] in _BRACKETS]
    items = {index: _literal(bare[index]) for index in written}
    lists = {index: names for index, names in items.items() if isinstance(names, list)}
    if len(lists) == len(filled):
        unpacked_cells = list(cells)
        for index, names in lists.items():
            unpacked_cells[index] = "".join(f"{name}{LIST_MARK}" for name in names)
        return unpacked_cells
    structured = [index for index in written if items[index] is not None]
    if len(written) < len(filled):
        if not structured:
            return list(cells)  # names in brackets
        usual = next(index for index in filled if index not in items)
        raise _several_forms(cells, where, structured[0], usual)
    index = next(index for index in written if index not in lists)
    remedy = "Write ['anger', 'joy'], or anger|joy; for classes add kind='classification'."
    expected = "a list of labels in every row, as Python or JSON writes it"
    raise errors.DataError(where[index], expected, repr(bare[index]), remedy)


def _literal(cell: str) -> list[str] | bool | None:
    """The items of a list as Python or JSON writes it; False if it is something else of these."""
    if _QUOTED_PAIR.search(cell):  # NumPy's way, which Python would join: ['a' 'b']
        return False
    try:
        value = json.loads(cell)
    except (ValueError, RecursionError):
        try:
            value = ast.literal_eval(cell)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            return None
    if isinstance(value, set):
        value = sorted(value, key=str)
    if not isinstance(value, (list, tuple, dict)):
        return None
    if isinstance(value, dict) or not all(isinstance(item, (str, int, float)) for item in value):
        return False
    return [item if isinstance(item, str) else json.dumps(item) for item in value]


def _check_lists(cells: Sequence[str], where: Sequence[str], kind: str | None) -> None:
    """Refuses lists beside names, and lists of what are no names: places and probabilities."""
    rows = {i: names_in(cell, "") for i, cell in enumerate(cells) if cell.endswith(LIST_MARK)}
    if not rows:
        return
    first = next(iter(rows))
    if kind in ("classification", "regression"):
        remedy = "For several labels a text add kind='multi_label'."
        received = f"the list {_shown(cells[first])!r}"
        raise errors.DataError(where[first], "one label", received, remedy)
    names = [i for i, cell in enumerate(cells) if cell.strip() and i not in rows]
    if names and kind is None:
        raise _several_forms(cells, where, names[0], first)
    expected, received = "names of labels", repr(_shown(cells[first]))
    lengths = {len(row) for row in rows.values()}
    repeated = any(len(set(row)) < len(row) for row in rows.values())
    placed = repeated or (len(lengths) == 1 and lengths != {1})
    if placed and not names and all(_BITS.issuperset(row) for row in rows.values()):
        remedy = "Write the names of the labels that hold, such as anger|joy, not 0 and 1 by place."
        raise errors.DataError(where[first], expected, received, remedy)
    for index, row in rows.items():
        if any(PLAIN_NUMBER.match(name) and float(name) % 1 for name in row):
            remedy = "A teacher's probabilities are read by `tfdistill distill --answers FILE`."
            raise errors.DataError(where[index], expected, repr(_shown(cells[index])), remedy)


def _points(cells: list[str], where: Sequence[str], kind: str | None) -> list[str]:
    """Decimal commas become points where all cells are numbers; refuses what is none beside them.

    Of numbers with decimals or of many, nine in ten cells, all must be numbers; of others those
    that only look like one are refused. 1,234 may be a thousand, and 1,2 the labels 1 and 2.
    """
    first: dict[str, int] = {}
    for index, cell in enumerate(cells):
        first.setdefault(cell.strip(), index)
    numbers = {cell: number for cell in first if (number := number_of(cell)) is not None}
    commas = [cell for cell in first if _COMMA_NUMBER.match(cell)]
    pointed = next((cell for cell in numbers if "." in cell), None)
    others = [cell for cell in first if cell and cell not in numbers and cell not in commas]
    usual = next(iter(numbers), commas[0] if commas else None)
    if usual is None:
        return cells
    measured = len(numbers) > MOST_CLASSES or any(number % 1 for number in numbers.values())
    # What is missing has a rule of its own.
    measured = bool(others) and measured and not any(_missing(cell, ()) for cell in others)
    measured = measured and mostly_numbers(cells)
    for cell in others:
        if measured or _THOUSANDS.match(cell) or _ENDLESS.match(cell):
            raise _several_forms(cells, where, first[cell], first[usual])
    if others or not commas:
        return cells
    if pointed:
        raise _several_forms(cells, where, first[commas[0]], first[pointed])
    if all(map(_THOUSANDS.match, commas)):
        expected = "numbers without marks between thousands, or with a decimal point"
        raise errors.DataError(
            where[first[commas[0]]], expected, repr(commas[0]), "Write 1234 or 1.234."
        )
    if kind is None and {part for cell in commas for part in cell.split(",")} & {*numbers}:
        raise errors.ConfigError(
            f"{where[first[commas[0]]]}, data.kind",
            "regression (a decimal comma) or multi_label (two labels)",
            f"{commas[0]!r} among numbers that also occur alone",
        )
    return [cell.strip().replace(",", ".") for cell in cells]


def _check_made_of_others(
    cells: Sequence[str], where: Sequence[str], names: Collection[str], *, few_parts: bool
) -> None:
    joined = made_of_others(names, few_parts=few_parts)
    if joined is None:
        return
    name, mark, received = joined
    index = next(i for i, cell in enumerate(cells) if name in cell)
    raise errors.ConfigError(
        f"{where[index]}, data.kind",
        "names of labels that are not made of one another",
        received,
        "For one class of this name add kind='classification'; for several labels add "
        f"kind='multi_label' {separator_option(mark)}, or another mark.",
    )
