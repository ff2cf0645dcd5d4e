"""Words with tags: CoNLL files and the entities in them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

from tfdistill import errors
from tfdistill.tasks import tables

SUFFIXES = (".txt", ".conll", ".tsv", ".bio", ".iob", ".iob2")
_DOCUMENT = "-DOCSTART-"
_CONLL_U = 10  # columns
_NO_WORD = re.compile(r"\d+[-.]\d+")


class TaggedSentences(NamedTuple):
    """The sentences of a file: words, tags, and the lines of the words, from 1."""

    words: list[list[str]]
    tags: list[list[str]]
    lines: list[list[int]]


def read_sentences(
    path: pathlib.Path,
    *,
    word_column: int = 0,
    tag_column: int = -1,
    encoding: str = "utf-8",
) -> TaggedSentences:
    """Reads a CoNLL file: a word a line, its columns between blanks, sentences between empty lines.

    Columns are separated by tabs if the line has one, else by spaces, and counted from 0 or, if
    negative, from the end. Where words and tags are counted from different ends, all lines have as
    many. Lines that mark a document (-DOCSTART-) end a sentence and are left out; so are, of
    CoNLL-U, comments, ranges of words (ids such as 1-2) and words that are not in the text (1.1).
    The first CoNLL files are in latin-1. Returns at least one sentence; none is empty.
    """
    text = tables.read_text(path, encoding)
    sentences = TaggedSentences([[]], [[]], [[]])
    columns = max(n + 1 if n >= 0 else -n for n in (word_column, tag_column))
    from_both_ends = (word_column < 0) != (tag_column < 0)
    first = 0, 0  # line and number of columns
    for number, line in enumerate(text.split("\n"), start=1):
        cells = [cell.strip() for cell in line.rstrip().split("\t" if "\t" in line else " ")]
        if not from_both_ends or "\t" not in line:  # else an empty cell keeps its place
            cells = [cell for cell in cells if cell]
        if not any(cells) or cells[0] == _DOCUMENT:
            if sentences.words[-1]:
                for part in sentences:
                    part.append([])
            continue
        if word_column and (
            (line.startswith("#") and "\t" not in line)
            or (len(cells) == _CONLL_U and _NO_WORD.fullmatch(cells[0]))
        ):
            continue
        # A word alone is its own last column.
        one = word_column != tag_column and (word_column - tag_column) % len(cells) == 0
        if one or len(cells) < columns:
            raise errors.DataError(
                f"{path}, line {number}",
                f"at least {max(columns, len(cells) + one)} columns",
                f"{len(cells)}: {line!r}",
                "Separate sentences by empty lines; a word holds no blank.",
            )
        first = first if first[0] else (number, len(cells))
        there = cells[word_column] and cells[tag_column]
        if from_both_ends and not (there and len(cells) == first[1]):
            raise errors.DataError(
                f"{path}, line {number}",
                f"{first[1]} columns, as in line {first[0]}",
                f"{len(cells)}: {line!r}",
                "A line without a tag, or a comment? Complete it, or remove it.",
            )
        sentences.words[-1].append(cells[word_column])
        sentences.tags[-1].append(cells[tag_column])
        sentences.lines[-1].append(number)
    if not sentences.words[-1]:
        for part in sentences:
            part.pop()
    if not sentences.words:
        raise errors.DataError(f"data file {path}", "words with tags", "a file without any")
    return sentences


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Finds the entities of a sentence as the CoNLL evaluation does, in IOB1 as in IOB2.

    An entity begins at B-TYPE, and at I-TYPE unless the tag before is of the same type; it extends
    over the I-TYPE that follow. Returns (type, first word, one past the last word) of each.
    """
    spans, begin, inside = set(), 0, ""
    for position, tag in enumerate([*tags, "O"]):
        name = tag[2:] if tag[:2] in ("B-", "I-") else ""
        if inside and (name != inside or tag[:2] == "B-"):
            spans.add((inside, begin, position))
            inside = ""
        if name and not inside:
            begin, inside = position, name
    return spans


def ordered_tags(tags: set[str]) -> list[str]:
    """Tags in order, with both tags of each entity type: a type may begin only in other files."""
    types = {tag[2:] for tag in tags if tag[:2] in ("B-", "I-")}
    if not types:
        return sorted(tags)
    others = sorted(tag for tag in tags if tag[:2] not in ("B-", "I-") and tag != "O")
    return ["O", *others, *(begin + name for name in sorted(types) for begin in ("B-", "I-"))]
