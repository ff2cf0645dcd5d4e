"""Words with tags as rows of tokens: each word's tag is on its first piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks.conll import UNLABELLED
from tfdistill.tasks.encoded import EncodedExamples, spans

if TYPE_CHECKING:
    from tfdistill.tokenization.library import LibraryTokenizer
    from tfdistill.tokenization.tokenizer import Tokenizer


def encode_words(
    words: Sequence[Sequence[str]],
    tags: Sequence[np.ndarray] | None,
    tokenizer: Tokenizer | LibraryTokenizer,
    max_length: int,
) -> EncodedExamples:
    """Tokenizes words one by one and puts each word's tag on its first piece.

    A word without a piece (such as a lone control character) becomes [UNK], so that every word is
    answered for. A sentence that is longer than `max_length` becomes several rows of whole words;
    only a single word that is longer by itself is cut.

    Labels are int32 (tokens,), `UNLABELLED` where a token is not the first piece of its word;
    `sources` says which sentence a row is of.
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
        word_numbers = np.fromiter((number[word] for word in sentence), np.int64, len(sentence))
        for begin, end in _rows(counts[word_numbers].tolist(), max_length - 2):
            chosen = word_numbers[begin:end]
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
