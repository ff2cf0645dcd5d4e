"""The answers of a model as it wrote them -> classes: in quotation marks, JSON, any case."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tasks.label_cells import same_label
from tfdistill.tasks.table_files import as_text

UNANSWERED, ABSTAINED = -1, -2
"""In the place of a class: no answer that can be read, and the answer that none is known."""
_MOST_UNREADABLE = 0.05  # share of the cells that are filled
_MOST_LISTED = 5
_AROUND = " \t\n\r.\u3002`'\"\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb\u2039\u203a"


def read_answers(
    cells: Sequence[Any],
    labels: Sequence[str],
    where: Sequence[str],
    abstains: str | None = None,
) -> tuple[np.ndarray, str]:
    """Reads each answer as the label from which only quotes, JSON, case or a full stop differ.

    Of a JSON object the value of ``label`` counts, or its only value. What is none of the labels is
    unanswered.

    Args:
      cells: n cells, as the file holds them; blank and absent ones are unanswered.
      labels: The labels, in the order of the classes.
      where: The place of each cell, for messages.
      abstains: The answer that none is known; it may be written as freely.

    Returns:
      int32 (n,), classes, `UNANSWERED` or `ABSTAINED`; and a sentence about what is no label.

    Raises:
      DataError: If more than 5% of the filled cells are none of the labels.
    """
    names = {} if abstains is None else {abstains: ABSTAINED}
    names |= {name: index for index, name in enumerate(labels)}
    by_fold: dict[str, int | None] = {}
    for name, index in names.items():
        key = folded_label(name)
        by_fold[key] = index if by_fold.get(key, index) == index else None  # "US" and "us"
    classes = np.full(len(cells), UNANSWERED, np.int32)
    rows_of: dict[str, list[int]] = {}
    for row, cell in enumerate(cells):
        if text := text_of(cell):
            rows_of.setdefault(text, []).append(row)
    unreadable: dict[str, list[int]] = {}
    for text, rows in rows_of.items():
        forms = (name for form in _forms(text) for name in (form, form.strip(_AROUND)))
        read = (names.get(name, by_fold.get(folded_label(name))) for name in forms)
        index = next((index for index in read if index is not None), None)
        if index is None:
            unreadable[text] = rows
        else:
            classes[rows] = index
    if not unreadable:
        return classes, ""
    listed = sorted(unreadable.items(), key=lambda item: -len(item[1]))[:_MOST_LISTED]
    shown = ", ".join(
        f"{errors.shortened(text)!r} {len(rows)} times, first in "
        + where[rows[0]].rpartition(", column ")[0].rpartition(", ")[2]
        for text, rows in listed
    )
    number, filled = (sum(map(len, rows.values())) for rows in (unreadable, rows_of))
    told = f"{number} of {filled} that are no label: {shown}"
    if number > _MOST_UNREADABLE * filled:
        what, expected = f"{where[0].partition(', line')[0]}, answers", ", ".join(names)
        remedy = "Name all labels with --labels, and with --abstains the answer that none is known."
        raise errors.DataError(what, f"one of {errors.shortened(expected, 200)}", told, remedy)
    return classes, f"unanswered: {told}"


def folded_label(name: str) -> str:
    """A label without what may differ in an answer."""
    return same_label(name.strip(_AROUND))


def text_of(cell: Any) -> str:
    """A cell as text without blanks around it: an object or a list as JSON, nothing as ""."""
    if isinstance(cell, (dict, list)):
        return json.dumps(cell, ensure_ascii=False, default=str)
    return as_text(cell).strip()


def bare_answer(cell: Any) -> str:
    """A cell without JSON, quotes and a full stop, as a label is named; "" of a blank one."""
    text = text_of(cell)
    return [*_forms(text)][-1].strip(_AROUND) if text else ""


def _forms(text: str) -> Iterator[str]:
    """The text, and what it holds as JSON."""
    yield text
    value = None
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text) if text[0] in '{["' else None
    while isinstance(value, (dict, list)) and value:
        items = list(value.values()) if isinstance(value, dict) else value
        only = items[0] if len(items) == 1 else None
        value = value.get("label", only) if isinstance(value, dict) else only
    if isinstance(value, (str, int)):
        yield text_of(value)
