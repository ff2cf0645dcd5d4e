"""A column of labels, as all commands read it: recognised, and refused where it cannot be meant."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Sequence

from tfdistill import errors
from tfdistill.tasks.label_kinds import (
    LabelKind,
    kind_of,
    made_of_others,
    names_in,
    number_of,
    out_of_list,
)
from tfdistill.tasks.label_rules import COLUMN_RULES, RULES, comma_number
from tfdistill.tasks.table_files import LIST_MARK, NULL

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
    lists = [index for index, cell in enumerate(cells) if cell.endswith(LIST_MARK)]
    if lists and kind in ("classification", "regression"):
        remedy = "For several labels a text add --kind multi_label."
        received = f"the list {_shown(cells[lists[0]])!r}"
        raise errors.DataError(where[lists[0]], "one label", received, remedy)
    names = [index for index, cell in enumerate(cells) if cell.strip() and LIST_MARK not in cell]
    if lists and names and kind is None:
        received = f"a list in {len(lists)} rows and {cells[names[0]]!r} here"
        remedy = "Write a list in every row, or in none."
        raise errors.DataError(where[names[0]], "a list of labels", received, remedy)
    for rule in COLUMN_RULES:
        index = rule.row(cells, kind)
        if index is not None:
            raise errors.DataError(
                where[index], rule.expected, repr(_shown(cells[index])), rule.remedy
            )
    points = cells if kind in ("classification", "multi_label") else _points(cells, where, kind)
    recognised = kind_of(points)
    if points != cells:
        recognised = recognised._replace(why=f"{recognised.why}, written with a decimal comma")
    cells = points
    if kind is not None:
        mark = recognised.separator if kind == "multi_label" else ","
        recognised = recognised._replace(kind=kind, separator=mark, why="as given")
    if separator is not None:
        recognised = recognised._replace(separator=separator)
    if recognised.kind == "regression" and kind is None:
        _check_asked(cells, where)
    if recognised.kind != "regression":
        check_names(cells, where, recognised)
        if kind != "classification":
            used = separator is not None and any(separator in cell for cell in cells)
            _check_made_of_others(cells, where, recognised, few_parts=not used)
    return cells, recognised


def check_names(cells: Sequence[str], where: Sequence[str], kind: LabelKind) -> None:
    """Applies `RULES` to the names in the cells."""
    several = kind.kind == "multi_label"
    first: dict[str, int] = {}
    for index, cell in enumerate(cells):
        for name in names_in(cell, kind.separator) if several else [cell]:
            first.setdefault(name, index)
    names = list(first)
    for rule in RULES:
        for name, index in first.items():
            received = rule.fault(name, names)
            if received:
                raise errors.DataError(where[index], rule.expected, received, rule.remedy)


def check_name(name: str, where: str) -> None:
    """Applies `RULES` to a name that is not among a task's."""
    for rule in RULES:
        if received := rule.fault(name, []):
            raise errors.DataError(where, rule.expected, received, rule.remedy)


def separator_option(mark: str) -> str:
    """What names a separator of several labels on the command line, quoted for the shell."""
    return f"--label-separator {shlex.quote(mark)}"


def _shown(cell: str) -> str:
    return ", ".join(names_in(cell, "")) if cell.endswith(LIST_MARK) else cell


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
    if not structured and len(written) < len(filled):
        return list(cells)  # names in brackets
    faulty = [index for index in written if index not in lists]
    index = faulty[0] if faulty else min(lists)
    expected = "a list of labels, as Python or JSON writes it" if faulty else "a list in every row"
    remedy = "Write ['anger', 'joy'], or anger|joy; for classes add --kind classification."
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


def _points(cells: list[str], where: Sequence[str], kind: str | None) -> list[str]:
    """Decimal commas become points, where all cells are numbers written so.

    Refuses 1,2 that may be the labels 1 and 2, which both occur alone.
    """
    bare = [cell.strip() for cell in cells]
    commas = [index for index, cell in enumerate(bare) if comma_number(cell)]
    if not commas or not all(
        comma_number(cell) or number_of(cell) is not None for cell in bare if cell
    ):
        return cells
    alone = {cell for cell in bare if not comma_number(cell)}
    parts = {part for index in commas for part in bare[index].split(",")}
    if kind is None and parts & alone:
        raise errors.ConfigError(
            f"{where[commas[0]]}, --kind",
            "regression (a decimal comma) or multi_label (two labels)",
            f"{bare[commas[0]]!r} among numbers that also occur alone",
        )
    return [cell.replace(",", ".") if comma_number(cell) else cell for cell in bare]


def _check_asked(cells: Sequence[str], where: Sequence[str]) -> None:
    numbers = [number_of(cell) for cell in cells if cell.strip()]
    if all(number is not None and number == round(number) for number in numbers):
        raise errors.ConfigError(
            f"{where[0].split(', line')[0]}, --kind",
            "classification (the numbers name classes) or regression (they are amounts)",
            f"{len(set(numbers))} different whole numbers",
            "Say which with --kind.",
        )


def _check_made_of_others(
    cells: Sequence[str], where: Sequence[str], kind: LabelKind, *, few_parts: bool
) -> None:
    several = kind.kind == "multi_label"
    joined = made_of_others(
        {
            name
            for cell in cells
            for name in (names_in(cell, kind.separator) if several else [cell])
        },
        few_parts=few_parts,
    )
    if joined is None:
        return
    name, mark, received = joined
    index = next(i for i, cell in enumerate(cells) if name in cell)
    raise errors.ConfigError(
        f"{where[index]}, --kind",
        "names of labels that are not made of one another",
        received,
        "For one class of this name add --kind classification; for several labels add --kind "
        f"multi_label {separator_option(mark)}, or another mark.",
    )
