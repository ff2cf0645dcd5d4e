"""Pairs of text for next-sentence prediction, made as BERT makes them."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.data.corpus import TokenizedSentences
from tfdistill.tasks.encoded import EncodedExamples, join, runs_of

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer

FOLLOWS, RANDOM = 0, 1
_RANDOM_PAIR = 0.5

# The tokens of a sentence as a span (begin, end) of the flat ids.
_Span = tuple[int, int]


def sentence_pairs(
    sentences: TokenizedSentences,
    tokenizer: Tokenizer,
    room: int,
    *,
    short_probability: float,
    generator: np.random.Generator,
) -> EncodedExamples:
    """Makes examples ``[CLS] a [SEP] b [SEP]``, of label 0 where b follows a, else 1.

    Sentences of a document are gathered until they reach a target (`room`, or with
    `short_probability` a length drawn from 2 to `room`). They are cut at a random sentence end: the
    first part is a. With probability 1/2, and always where only one sentence was gathered, b begins
    at a random sentence of another document, and the sentences that it displaces are gathered
    again; otherwise b is the second part. A pair that is too long loses single tokens of its longer
    half, from either end at random. Fewer than two documents with words are refused.

    Reference: Devlin et al. 2019, BERT, section 3.1 and appendix A.2.
    """
    documents = _documents(sentences)
    if len(documents) < 2:
        raise errors.DataError(
            "next-sentence pairs",
            "two documents or more in each shard: b comes from another one",
            len(documents),
            "Separate documents by blank lines, or make larger shards (shard_bytes).",
        )
    pairs: list[tuple[list[_Span], list[_Span], int]] = []
    for index in range(len(documents)):
        pairs += _pairs_of(documents, index, room, short_probability, generator)
    return _assemble(pairs, sentences.ids, tokenizer, room, generator)


def _documents(sentences: TokenizedSentences) -> list[list[_Span]]:
    ends = (sentences.begins + sentences.lengths).tolist()
    spans = list(zip(sentences.begins.tolist(), ends, strict=True))
    cuts = [*sentences.documents.tolist(), len(spans)]
    pairs = [
        [span for span in spans[first:last] if span[1] > span[0]]
        for first, last in itertools.pairwise(cuts)
    ]
    return [document for document in pairs if document]


def _pairs_of(
    documents: list[list[_Span]],
    index: int,
    room: int,
    short_probability: float,
    generator: np.random.Generator,
) -> list[tuple[list[_Span], list[_Span], int]]:
    document = documents[index]
    pairs = []
    position = 0
    while position < len(document):
        target = room
        if generator.random() < short_probability:
            target = int(generator.integers(2, room + 1))
        chunk = _gather(document, position, target)
        cut = int(generator.integers(1, len(chunk))) if len(chunk) > 1 else 1
        if len(chunk) == 1 or generator.random() < _RANDOM_PAIR:
            other = int(generator.integers(len(documents) - 1))
            other += other >= index  # any document but this one
            start = int(generator.integers(len(documents[other])))
            wanted = max(target - _size(chunk[:cut]), 1)
            pairs.append((chunk[:cut], _gather(documents[other], start, wanted), RANDOM))
            position += cut
        else:
            pairs.append((chunk[:cut], chunk[cut:], FOLLOWS))
            position += len(chunk)
    return pairs


def _gather(document: list[_Span], position: int, target: int) -> list[_Span]:
    """Takes sentences from `position` on until they hold `target` tokens; at least one."""
    chunk: list[_Span] = []
    size = 0
    while position < len(document) and size < target:
        chunk.append(document[position])
        size += document[position][1] - document[position][0]
        position += 1
    return chunk


def _size(chunk: list[_Span]) -> int:
    return sum(end - begin for begin, end in chunk)


def _trim(first: int, second: int, room: int, generator: np.random.Generator) -> np.ndarray:
    """Tokens to drop at (front of a, back of a, front of b, back of b)."""
    dropped = np.zeros((2, 2), np.int64)
    excess = first + second - room
    if excess <= 0:
        return dropped
    # The longer half loses tokens until both are equal, then they take turns, b first.
    longer = min(excess, abs(first - second))
    rest = excess - longer
    share = [rest // 2, rest - rest // 2]
    share[0 if first > second else 1] += longer
    for half, count in enumerate(share):
        front = int(generator.binomial(count, 0.5))
        dropped[half] = front, count - front
    return dropped


def _assemble(
    pairs: list[tuple[list[_Span], list[_Span], int]],
    ids: np.ndarray,
    tokenizer: Tokenizer,
    room: int,
    generator: np.random.Generator,
) -> EncodedExamples:
    firsts, seconds = [], []
    for first, second, _ in pairs:
        a, b = (np.concatenate([ids[begin:end] for begin, end in half]) for half in (first, second))
        (front_a, back_a), (front_b, back_b) = _trim(len(a), len(b), room, generator)
        a, b = a[front_a : len(a) - back_a], b[front_b : len(b) - back_b]
        firsts.append(a)
        seconds.append(b)
    examples = join(runs_of(firsts), runs_of(seconds), tokenizer.template)
    labels = np.array([label for _, _, label in pairs], np.int32)
    return dataclasses.replace(examples, labels=labels)
