"""The kind of task that a column of labels makes: classes, numbers or several labels in a cell."""

from __future__ import annotations

import collections
import functools
import re
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdistill.tasks.table_files import LIST_MARK, NULL

MARKS = ("|", ";", ",", "\n", "#", "/", "+", "&")  # that may separate the labels of a cell
PLAIN_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?\Z")
# Marks that stand inside one name rather than between two.
_OF_ONE_NAME = re.compile(r"[\s_]+|[.'\u2019()\[\]-]+\s*")
_MOSTLY = 0.9  # share of cells that are numbers in a column of numbers
MOST_CLASSES = 20  # whole numbers of more different values are amounts, or many classes


class LabelKind(NamedTuple):
    """The content of a column of labels."""

    kind: str  # "classification", "regression" or "multi_label"
    separator: str  # of several labels; "," where there are none
    why: str  # how it was recognised, for a person


@functools.lru_cache(maxsize=4096)  # cells of labels repeat
def number_of(cell: str) -> float | None:
    """The number in a cell, finite; None if it is none. Digits of all scripts count."""
    if "a" <= cell[:1].casefold() <= "z":  # of most cells
        return None
    bare = unicodedata.normalize("NFKC", cell).replace("\u2212", "-").strip()  # a minus sign
    if not PLAIN_NUMBER.match(bare):
        return None
    number = float(bare)
    return number if np.isfinite(number) else None


def mostly_numbers(cells: Sequence[str]) -> bool:
    """Whether nine in ten of the cells that are filled are numbers, also with a decimal comma."""
    filled = [cell for cell in cells if cell.strip()]
    numbers = sum(number_of(cell.replace(",", ".")) is not None for cell in filled)
    return numbers >= _MOSTLY * len(filled)


def kind_of(labels: Sequence[str]) -> LabelKind:
    """Recognises classes, numbers and several labels in a cell; empty cells are not looked at.

    Numbers with decimals, or whole numbers of more than 20 different values, are a regression.
    Several labels: lists, or cells of which some hold a separator and whose parts occur alone, too.
    """
    if any(cell.endswith(LIST_MARK) for cell in labels):
        return LabelKind("multi_label", ",", "lists of labels")
    cells = [cell for cell in labels if cell.strip()]
    whole = {cell.strip() for cell in cells}
    numbers = [number_of(cell) for cell in whole]
    if None not in numbers:
        if any(number % 1 for number in numbers if number is not None):
            return LabelKind("regression", ",", "numbers with decimals")
        kind = "regression" if len(whole) > MOST_CLASSES else "classification"
        return LabelKind(kind, ",", f"{len(whole)} different whole numbers")
    for mark in MARKS:
        split = [[part.strip() for part in cell.split(mark) if part.strip()] for cell in whole]
        parts = {part for names in split for part in names}
        alone = {names[0] for names in split if len(names) == 1}
        several = any(len(names) > 1 for names in split)
        if several and len(parts) <= len(whole) and len(parts & alone) >= len(parts) / 2:
            why = f"several labels with {mark!r} between; classes need the kind classification"
            return LabelKind("multi_label", mark, why)
    return LabelKind("classification", ",", f"{len(whole)} different names")


def made_of_others(
    names: Collection[str], *, few_parts: bool = True
) -> tuple[str, str, str] | None:
    """A name that is made of the other names or of their parts, what is between, and the tell.

    Either its parts are two or more of the other names; between may be a word such as "and". Or,
    with `few_parts`, marks are between parts that no name repeats, and two names have the same
    parts in another order, or no more parts than names make them, a third of these at several
    positions (`domain/intent` has each at one). None if there is none.
    """
    bare = {unicodedata.normalize("NFKC", name).strip().casefold(): name for name in sorted(names)}
    joined: dict[str, dict[str, list[str]]] = {}  # by mark, the parts of each name that has it
    for key, name in bare.items():
        if number_of(key) is not None:
            continue
        for match in re.finditer(r"\s*(?:[^\w\s]+|_+|\b(?:and|und|et|y|or)\b)\s*|\s+", key):
            parts = [part for part in key.split(match[0]) if part != ""]
            if len(parts) > 1 and all(part in bare for part in parts):
                return name, match[0], repr(name)
            if len(parts) > 1 and few_parts and not _OF_ONE_NAME.fullmatch(match[0]):
                joined.setdefault(match[0].strip(), {})[name] = [part.strip() for part in parts]
    for mark, parts_of in joined.items():
        positions = {(part, at) for parts in parts_of.values() for at, part in enumerate(parts)}
        counts = collections.Counter(part for part, _ in positions)
        moving = sum(count > 1 for count in counts.values())
        few = len(counts) <= len(parts_of) and 3 * moving >= len(counts)
        repeated = any(len(set(parts)) < len(parts) for parts in parts_of.values())
        if not repeated and (few or len(set(map(frozenset, parts_of.values()))) < len(parts_of)):
            name = next(iter(parts_of))
            ratio = f"{len(counts)} parts with {mark!r} between make {len(parts_of)} names"
            return name, mark, f"{name!r}: {ratio}"
    return None


def names_in(value: str, separator: str) -> Sequence[str]:
    """Splits a cell with several labels; an empty one holds none.

    A separator may also stand before the first label, as in "#joy #love", or after the last, as
    forms write it: "joy;love;".
    """
    if value.endswith(LIST_MARK):
        return value[: -len(LIST_MARK)].split(LIST_MARK)
    if value == NULL:
        return [NULL]
    if not value.strip():
        return []
    names = [name.strip() for name in value.split(separator)]
    filled = [place for place, name in enumerate(names) if name]
    return names[filled[0] : filled[-1] + 1] if filled else [""]


def out_of_list(cell: str) -> str:
    """The label in a list of one, such as annotation tools write; any other cell as it is."""
    return cell.removesuffix(LIST_MARK) if cell.count(LIST_MARK) == 1 else cell


def label_order(names: Collection[str]) -> Callable[[str], Any]:
    """The sort key of label names: numbers where all of them are numbers."""
    numbers = {name: number_of(name) for name in names}
    if None in numbers.values():
        return str
    return lambda name: (numbers[name], name)
