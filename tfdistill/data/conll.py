"""Words with tags: CoNLL files, and the tags on the first pieces of the words."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.data import tables
from tfdistill.data.encoded import EncodedExamples, spans

if TYPE_CHECKING:
    from tfdistill.data.tokenize import Tokenizer

SUFFIXES = (".txt", ".conll", ".tsv", ".bio", ".iob", ".iob2")
UNLABELLED = -100
_DOCUMENT = "-DOCSTART-"


class TaggedSentences(NamedTuple):
    """The sentences of a file.

    Attributes:
      words: The words of each sentence.
      tags: The tag of each word.
      lines: The line of each word in its file, from 1.
    """

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

    Columns are separated by tabs if the line has one, else by spaces. Lines that mark a
    document (-DOCSTART-) end a sentence and are left out.

    Args:
      path: The file.
      word_column: The column of the words, from 0 or, if negative, from the end.
      tag_column: The column of the tags.
      encoding: The file's encoding; the first CoNLL files are in latin-1.

    Returns:
      At least one sentence; none is empty.

    Raises:
      ConfigError: If there is no such encoding.
      DataError: If the file is missing or malformed; the message names the line.
    """
    text = tables.read_text(path, encoding)
    found = TaggedSentences([[]], [[]], [[]])
    columns = max(_needed(word_column), _needed(tag_column))
    for number, line in enumerate(text.split("\n"), start=1):
        cells = line.split("\t") if "\t" in line else line.split(" ")
        cells = [cell.strip() for cell in cells if cell.strip()]
        if not cells or cells[0] == _DOCUMENT:
            if found.words[-1]:
                for part in found:
                    part.append([])
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
        found.words[-1].append(cells[word_column])
        found.tags[-1].append(cells[tag_column])
        found.lines[-1].append(number)
    if not found.words[-1]:
        for part in found:
            part.pop()
    if not found.words:
        raise errors.DataError(f"data file {path}", "words with tags", "a file without any")
    return found


def _needed(column: int) -> int:
    return column + 1 if column >= 0 else -column


def encode_words(
    words: Sequence[Sequence[str]],
    tags: Sequence[np.ndarray] | None,
    tokenizer: Tokenizer,
    max_length: int,
) -> EncodedExamples:
    """Tokenizes words one by one and puts each word's tag on its first piece.

    A word without a piece (such as a lone control character) becomes [UNK], so that every word is
    answered for. A sentence that is longer than `max_length` becomes several rows of whole words;
    only a single word that is longer by itself is cut.

    Args:
      words: The words of n sentences.
      tags: int (words,) for each sentence, or None.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of a row, [CLS] and [SEP] included.

    Returns:
      The rows: labels are int32 (tokens,), `UNLABELLED` where a token is not the first piece of
      its word; `sources` says which sentence a row is of.

    Raises:
      DataError: If `max_length` has no room for a piece.
    """
    if max_length < 3:
        raise errors.DataError(
            "max_length", "at least 3, room for [CLS], a piece and [SEP]", max_length
        )
    distinct = sorted({word for sentence in words for word in sentence})
    ids, counts = tokenizer.pieces(distinct)
    starts = np.cumsum(counts) - counts
    ids = np.append(ids, tokenizer.unk_id)  # the piece of a word without pieces
    starts = np.where(counts == 0, len(ids) - 1, starts)
    counts = np.clip(counts, 1, max_length - 2)
    number = {word: index for index, word in enumerate(distinct)}
    row_ids, row_labels, sizes, sources = [], [], [], []
    for source, sentence in enumerate(words):
        known = np.fromiter((number[word] for word in sentence), np.int64, len(sentence))
        for begin, end in _rows(counts[known].tolist(), max_length - 2):
            chosen = known[begin:end]
            pieces = ids[spans(starts[chosen], counts[chosen])]
            labels = np.full(len(pieces) + 2, UNLABELLED, np.int32)
            if tags is not None:
                labels[1 + np.cumsum(counts[chosen]) - counts[chosen]] = tags[source][begin:end]
            row_ids += [[tokenizer.cls_id], pieces, [tokenizer.sep_id]]
            row_labels.append(labels)
            sizes.append(len(labels))
            sources.append(source)
    flat = np.concatenate(row_ids).astype(np.int32)
    return EncodedExamples(
        ids=flat,
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        types=np.zeros(len(flat), np.uint8),
        labels=None if tags is None else np.concatenate(row_labels),
        token_labels=True,
        sources=np.array(sources, np.int64),
        pad_id=tokenizer.pad_id,
    )


def _rows(counts: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Cuts words with so many pieces into the fewest runs that fit, each as long as can be."""
    rows, begin, used = [], 0, 0
    for position, count in enumerate(counts):
        if used + count > room:
            rows.append((begin, position))
            begin, used = position, 0
        used += count
    return [*rows, (begin, len(counts))]


def entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Finds the entities of a sentence as the CoNLL evaluation does, in IOB1 as in IOB2.

    An entity begins at B-TYPE, and at I-TYPE unless the tag before is of the same type; it extends
    over the I-TYPE that follow.

    Args:
      tags: O, B-TYPE or I-TYPE for each word.

    Returns:
      (type, first word, one past the last word) of each.
    """
    found, begin, inside = set(), 0, ""
    for position, tag in enumerate([*tags, "O"]):
        name = tag[2:] if tag[:2] in ("B-", "I-") else ""
        if inside and (name != inside or tag[:2] == "B-"):
            found.add((inside, begin, position))
            inside = ""
        if name and not inside:
            begin, inside = position, name
    return found


def ordered_tags(found: set[str]) -> list[str]:
    """Tags in order, with both tags of each entity type: a type may begin only in other files."""
    types = {tag[2:] for tag in found if tag[:2] in ("B-", "I-")}
    if not types:
        return sorted(found)
    others = sorted(tag for tag in found if tag[:2] not in ("B-", "I-") and tag != "O")
    return ["O", *others, *(begin + name for name in sorted(types) for begin in ("B-", "I-"))]
