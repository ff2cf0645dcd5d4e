"""Plain text as examples for general distillation and pre-training."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.data import textspans
from tfdistill.io import storage
from tfdistill.io.files import Path
from tfdistill.tasks import tables
from tfdistill.tasks.encoded import EncodedExamples, Runs, check_max_length, join, runs_of

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

# The end of a sentence: a mark, perhaps closing quotes or brackets, then space and a beginning.
_SENTENCE_END = re.compile(r"""(?<=[.!?])(["'”’)\]]*)\s+(?=["'“‘(\[]*[^\W_a-z])|(?<=[。！？])""")
_NO_LIMIT = np.iinfo(np.int32).max


def documents(paths: Path | Sequence[Path]) -> Iterator[list[str]]:
    """Reads the documents of UTF-8 text files, which blank lines separate, as lists of lines."""
    for path in textspans.as_list(paths):
        empty = True
        for lines in textspans.documents(tables.read_text(storage.located(path))):
            empty = False
            yield lines
        if empty:
            raise errors.DataError(f"corpus {path}", "text", "a file without any")


def split_sentences(line: str) -> list[str]:
    """Splits a paragraph after sentence marks that a capital, a digit or a quote follows.

    The rule is rough ("Dr. Bonnefille" is split): it decides where examples may begin, and all of
    the text but the space between sentences is kept.
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
    seed: int = 0,
) -> EncodedExamples:
    """Packs the sentences of a corpus into examples of at most `max_length` tokens.

    Whole sentences are put together, in order, while they fit; a sentence that is longer than an
    example alone is cut into pieces. No example holds text of two documents.

    About `max_tokens` are kept: examples drawn at random, in the order of the corpus, until they
    hold at least so many; None: all.
    """
    room = check_room(max_length)
    if max_tokens is not None and max_tokens < 1:
        raise errors.DataError("max_tokens", "at least 1", max_tokens)
    sentences = tokenize_sentences(documents(paths), tokenizer)
    blocks = pack(sentences, room)
    if not blocks:
        raise errors.DataError("corpus", "words", "none in all of the files")
    if max_tokens is not None:
        blocks = _draw(blocks, max_tokens, np.random.default_rng(seed))
    return assemble(blocks, sentences.ids, tokenizer)


class TokenizedSentences(NamedTuple):
    """The sentences of some documents as token ids."""

    ids: np.ndarray  # int32 (tokens,); with special tokens between two sentences
    begins: np.ndarray  # int64 (n,), where each sentence begins in `ids`
    lengths: np.ndarray  # int64 (n,), its tokens; 0 where a sentence has none
    documents: np.ndarray  # int64 (documents,), the sentence that begins each document


def tokenize_sentences(parts: Iterable[list[str]], tokenizer: Tokenizer) -> TokenizedSentences:
    """Splits documents, given by their lines, into sentences and tokenizes them whole."""
    sentences: list[str] = []
    starts: list[int] = []
    for lines in parts:
        starts.append(len(sentences))
        sentences += [sentence for line in lines for sentence in split_sentences(line)]
    pieces = tokenizer.encode_batch(sentences, None, _NO_LIMIT)
    return TokenizedSentences(
        ids=pieces.ids,
        begins=pieces.offsets[:-1] + 1,  # after [CLS]
        lengths=np.diff(pieces.offsets) - 2,  # without [CLS] and [SEP]
        documents=np.array(starts, np.int64),
    )


def check_room(max_length: int, *, paired: bool = False, separators: int = 1) -> int:
    """Returns the tokens of text that an example holds, at least one."""
    check_max_length(max_length, paired=paired, separators=separators)
    room = max_length - 2 - separators * paired
    if room < 1:
        raise errors.DataError("max_length", "room for a token of text", max_length)
    return room


# A block is the spans (begin, end) of its sentences in the flat ids.
Block = list[tuple[int, int]]


def pack(
    sentences: TokenizedSentences,
    room: int,
    *,
    short_probability: float = 0.0,
    generator: np.random.Generator | None = None,
) -> list[Block]:
    """Puts whole sentences of a document together while they fit; cuts those that alone do not.

    Blocks have at most `room` tokens; of a share of them, `short_probability`, the room is drawn
    from 2 to `room` instead, so that a model with learnt positions also sees short texts alone.
    """
    blocks: list[Block] = []
    block: Block = []
    used = 0
    document_starts = set(sentences.documents.tolist())

    def next_room() -> int:
        if generator is not None and room > 2 and generator.random() < short_probability:
            return int(generator.integers(2, room + 1))
        return room

    limit = next_room()
    pairs = zip(sentences.lengths.tolist(), sentences.begins.tolist(), strict=True)
    for index, (length, begin) in enumerate(pairs):
        if block and (used + length > limit or index in document_starts):
            blocks.append(block)
            block, used, limit = [], 0, next_room()
        end = begin + length
        while end - begin > limit:
            blocks.append([(begin, begin + limit)])
            begin += limit
            limit = next_room()
        if end > begin:
            block.append((begin, end))
            used += end - begin
    if block:
        blocks.append(block)
    return blocks


def _draw(blocks: list[Block], max_tokens: int, generator: np.random.Generator) -> list[Block]:
    sizes = np.array([sum(end - begin for begin, end in block) + 2 for block in blocks])
    order = generator.permutation(len(blocks))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), max_tokens)) + 1
    return [blocks[position] for position in np.sort(order[:enough])]


def assemble(blocks: list[Block], ids: np.ndarray, tokenizer: Tokenizer) -> EncodedExamples:
    """Writes blocks, at least one, which point into `ids`, as ``[CLS] a [SEP]``."""
    # In the flat ids, [SEP] [CLS] separate the sentences of a block.
    rows = [np.concatenate([ids[begin:end] for begin, end in block]) for block in blocks]
    nothing = Runs(ids[:0], np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64))
    return join(runs_of(rows), nothing, tokenizer.template, has_pair=np.zeros(len(rows), bool))
