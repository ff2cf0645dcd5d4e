"""The texts that an index is made of, from a table or plain text; repetitions are named."""

from __future__ import annotations

import dataclasses
import pathlib

from tfdistill import errors
from tfdistill.tasks import tables

MOST_CHARACTERS = 100_000  # of a text; the app's fields take as many
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class IndexRows:
    """Texts with their answers."""

    texts: list[str]  # without blanks around them
    answers: list[str] | None
    lines: list[int]  # of each, from 1
    notes: tuple[str, ...]  # what was left out, in sentences that name the first lines


def read_rows(
    path: tables.Path, text_column: str | None = None, answer_column: str | None = None
) -> IndexRows:
    """Reads texts, each with its answer where there is a column of them.

    The file is a table (`tables.SUFFIXES`), by default with a column "text", or plain text, one a
    line. A row that repeats an earlier one, text and answer, is left out, and so is one without a
    text.
    """
    file = pathlib.Path(path)
    answers = None
    if file.suffix.lower() in tables.SUFFIXES:
        if text_column is None and "text" not in (names := tables.column_names(file)):
            listed_names = ", ".join(map(repr, names))
            raise errors.DataError(
                f"{file}",
                "a column 'text'",
                f"the columns {listed_names}",
                "Name the column of the texts: text_column='NAME'.",
            )
        text_column = text_column or "text"
        columns = [text_column] if answer_column is None else [text_column, answer_column]
        table = tables.read_table(file, columns)
        texts = [text.strip() for text in table.columns[text_column]]
        lines = table.lines
        if answer_column is not None:
            answers = [answer.strip() for answer in table.columns[answer_column]]
    elif text_column or answer_column:
        raise errors.ConfigError(
            "--text-column, --answer-column", f"a table ({', '.join(tables.SUFFIXES)})", file
        )
    else:
        texts, lines = tables.read_lines(file, "text")
    seen: dict[tuple[str, str], int] = {}
    rows, empty, repeated = [], [], []
    for index, text in enumerate(texts):
        if len(text) > MOST_CHARACTERS:
            raise errors.DataError(
                f"{file}, line {lines[index]}",
                f"a text of at most {MOST_CHARACTERS:,} characters",
                f"{len(text):,}",
            )
        key = (text, "" if answers is None else answers[index])
        if not text:
            empty.append(f"line {lines[index]}")
        elif key in seen:
            repeated.append(f"line {lines[index]} as line {seen[key]}")
        else:
            seen[key] = lines[index]
            rows.append(index)
    if not rows:
        raise errors.DataError(f"texts {file}", "at least one text", "none")
    return IndexRows(
        [texts[index] for index in rows],
        None if answers is None else [answers[index] for index in rows],
        [lines[index] for index in rows],
        tuple(
            f"{what}: {listed(places)}"
            for what, places in (
                ("left out, without a text", empty),
                ("left out, repeated", repeated),
            )
            if places
        ),
    )


def listed(places: list[str]) -> str:
    """Names the first places and counts the others."""
    more = f", and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
    return ", ".join(places[:_SHOWN]) + more
