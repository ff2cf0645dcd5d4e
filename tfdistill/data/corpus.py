"""Plain text as examples for general distillation and pre-training."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.data import tables, truncation
from tfdistill.data.encoded import EncodedExamples

if TYPE_CHECKING:
    from tfdistill.data.tokenize import Tokenizer

Path = str | os.PathLike[str]

# The end of a sentence: a mark, perhaps closing quotes or brackets, then space and a beginning.
_SENTENCE_END = re.compile(r"""(?<=[.!?])(["'”’)\]]*)\s+(?=["'“‘(\[]*[^\W_a-z])|(?<=[。！？])""")
_NO_LIMIT = np.iinfo(np.int32).max


def documents(paths: Path | Sequence[Path]) -> Iterator[list[str]]:
    """Reads documents, which blank lines separate.

    Args:
      paths: One or several UTF-8 text files.

    Yields:
      The lines of a document.

    Raises:
      DataError: If a file is missing, not UTF-8, or holds no text.
    """
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        lines: list[str] = []
        empty = True
        for line in [*tables.read_text(pathlib.Path(path)).split("\n"), ""]:
            stripped = line.strip()
            if stripped:
                lines.append(stripped)
                empty = False
            elif lines:
                yield lines
                lines = []
        if empty:
            raise errors.DataError(errors.explain(f"corpus {path}", "text", "a file without any"))


def split_sentences(line: str) -> list[str]:
    """Splits a paragraph after sentence marks that a capital, a digit or a quote follows.

    The rule is rough ("Dr. Bonnefille" is split): it decides where examples may begin, and all
    of the text is kept.

    Args:
      line: A paragraph.

    Returns:
      Its sentences in order, without the space between them.
    """
    sentences, start = [], 0
    for match in _SENTENCE_END.finditer(line):
        end = match.end(1) if match.group(1) is not None else match.end()
        sentences.append(line[start:end].strip())
        start = match.end()
    sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def encode_corpus(
    paths: Path | Sequence[Path],
    tokenizer: Tokenizer,
    max_length: int = 128,
    *,
    max_tokens: int | None = None,
    pair_fraction: float = 0.0,
    seed: int = 0,
) -> EncodedExamples:
    """Packs the sentences of a corpus into examples of at most `max_length` tokens.

    Whole sentences are put together, in order, while they fit; a sentence that is longer than an
    example alone is cut into pieces. No example holds text of two documents.

    Args:
      paths: One or several text files; documents are separated by blank lines.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of an example, special ones included.
      max_tokens: About how many tokens to keep: examples drawn at random, in the order of the
        corpus, until they hold at least so many. None: all.
      pair_fraction: The share of examples (of those with two sentences or more) that become a
        pair ``[CLS] a [SEP] b [SEP]``, cut at a random sentence end, so that a student also
        learns the second token type.
      seed: Seed of the draws.

    Returns:
      Examples without labels.

    Raises:
      DataError: If a file is unusable or an option is out of range.
    """
    paired = pair_fraction > 0
    truncation.check_max_length(max_length, paired=paired)
    if not 0 <= pair_fraction <= 1:
        raise errors.DataError(errors.explain("pair_fraction", "0 to 1", pair_fraction))
    if max_tokens is not None and max_tokens < 1:
        raise errors.DataError(errors.explain("max_tokens", "at least 1", max_tokens))
    room = max_length - (3 if paired else 2)
    if room < 1:
        raise errors.DataError(errors.explain("max_length", "room for a token of text", max_length))
    sentences: list[str] = []
    starts: list[int] = []  # the sentence that begins each document
    for lines in documents(paths):
        starts.append(len(sentences))
        sentences += [sentence for line in lines for sentence in split_sentences(line)]
    pieces = tokenizer.encode_batch(sentences, None, _NO_LIMIT)
    lengths = np.diff(pieces.offsets) - 2  # without [CLS] and [SEP]
    blocks = _pack(lengths, pieces.offsets[:-1] + 1, set(starts), room)
    if not blocks:
        raise errors.DataError(errors.explain("corpus", "words", "none in all of the files"))
    generator = np.random.default_rng(seed)
    if max_tokens is not None:
        blocks = _draw(blocks, max_tokens, generator)
    return _assemble(blocks, pieces.ids, tokenizer, pair_fraction, generator)


# A block is the spans (begin, end) of its sentences in the flat ids.
_Block = list[tuple[int, int]]


def _pack(
    lengths: np.ndarray, begins: np.ndarray, document_starts: set[int], room: int
) -> list[_Block]:
    blocks: list[_Block] = []
    block: _Block = []
    used = 0
    for index, (length, begin) in enumerate(zip(lengths.tolist(), begins.tolist(), strict=True)):
        if block and (used + length > room or index in document_starts):
            blocks.append(block)
            block, used = [], 0
        end = begin + length
        while end - begin > room:
            blocks.append([(begin, begin + room)])
            begin += room
        if end > begin:
            block.append((begin, end))
            used += end - begin
    if block:
        blocks.append(block)
    return blocks


def _draw(blocks: list[_Block], max_tokens: int, generator: np.random.Generator) -> list[_Block]:
    sizes = np.array([sum(end - begin for begin, end in block) + 2 for block in blocks])
    order = generator.permutation(len(blocks))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), max_tokens)) + 1
    return [blocks[place] for place in np.sort(order[:enough])]


def _assemble(
    blocks: list[_Block],
    ids: np.ndarray,
    tokenizer: Tokenizer,
    pair_fraction: float,
    generator: np.random.Generator,
) -> EncodedExamples:
    cls = np.array([tokenizer.cls_id], np.int32)
    sep = np.array([tokenizer.sep_id], np.int32)
    parts: list[np.ndarray] = []
    types: list[np.ndarray] = []
    sizes = np.empty(len(blocks), np.int64)
    for place, block in enumerate(blocks):
        # The sentences of a block lie apart by [SEP] [CLS] in the flat ids.
        words = [ids[begin:end] for begin, end in block]
        cut = len(words)
        if pair_fraction and len(words) > 1 and generator.random() < pair_fraction:
            cut = int(generator.integers(1, len(words)))
        row = [cls, *words[:cut], sep]
        first = sum(map(len, row))
        if cut < len(words):
            row += [*words[cut:], sep]
        sizes[place] = sum(map(len, row))
        parts += row
        types.append((np.arange(sizes[place]) >= first).astype(np.uint8))
    return EncodedExamples(
        ids=np.concatenate(parts),
        offsets=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        types=np.concatenate(types),
        pad_id=tokenizer.pad_id,
    )
