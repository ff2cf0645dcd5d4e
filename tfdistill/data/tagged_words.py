"""Running text as rows of tokens: the tag of a word is on the piece that answers for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.data import windows
from tfdistill.tasks.encoded import UNLABELLED, EncodedExamples, Runs, join, spans

if TYPE_CHECKING:
    from tfdistill.tokenization.tokenizer import Tokenizer


def encode_words(
    texts: Sequence[str],
    word_offsets: Sequence[np.ndarray],
    tags: Sequence[np.ndarray] | None,
    tokenizer: Tokenizer,
    max_length: int,
) -> EncodedExamples:
    """Tokenizes running texts and finds the piece that answers for each word.

    It is the first piece that ends behind the first character of the word, if it begins before the
    word ends: the piece that holds this character, unless the tokenizer drops it. A word without
    such a piece (a lone character of private use) becomes an unknown piece in its place, so that
    every word is answered for. A piece that holds the first characters of several words answers for
    all of them, and learns the tag of the first.

    A text of more pieces than ``size = max_length - 2`` becomes several windows, each ``max(1,
    size // 2)`` pieces after the one before, see `windows.cut`. Each word is answered for in the
    one window that shows most around its piece, see `windows.shown_best`, and nowhere else.

    Args:
      texts: n texts.
      word_offsets: The places of their words, int (words, 2) each, see `words.find_words`.
      tags: The tag of each word, int (words,) each, or None.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of a row, special ones included.

    Returns:
      The windows. Labels are int32 (tokens,), `UNLABELLED` where a token answers for no word;
      `word_counts` and `word_labels` tell the words; `sources` says of which text a row is.

    Raises:
      DataError: If `max_length` has no room for a piece.
    """
    size = max_length - 2
    if size < 1:
        expected = "at least 3, room for [CLS], a piece and [SEP]"
        raise errors.DataError("max_length", expected, max_length)
    located = tokenizer.locate(texts)
    ids, counts = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for index, offsets in enumerate(word_offsets):
        part = slice(located.offsets[index], located.offsets[index + 1])
        starts, ends = located.starts[part], located.ends[part]
        row = _answering(starts, ends, offsets)
        ids.append(located.ids[part])
        if len(row.unknown):
            ids[-1] = np.insert(ids[-1], row.unknown, tokenizer.unk_id)
        counts.append(np.bincount(row.places, minlength=len(ids[-1])))
    lasts = np.cumsum([len(row) for row in ids])[1:]
    firsts = np.append(0, lasts[:-1])[: len(lasts)]
    begin, end, source = windows.cut(firsts, lasts, np.full(len(lasts), size), max(1, size // 2))
    alone, none = np.zeros(len(begin), bool), np.zeros(len(begin), np.int64)
    text = Runs(np.concatenate(ids), begin, end - begin)
    encoded = join(text, Runs(text.ids, none, none), tokenizer.template, has_pair=alone)
    tokens = spans(encoded.offsets[:-1] + 1, end - begin)
    pieces = spans(begin, end - begin)
    of_pieces = np.concatenate(counts).astype(np.int32)
    word_counts = np.zeros(encoded.num_tokens, np.int32)
    shown = windows.shown_best(begin, end, source)
    word_counts[tokens] = np.where(shown, of_pieces[pieces], 0)
    labels = word_labels = None
    if tags is not None:
        word_labels = np.concatenate([np.zeros(0, np.int32), *tags]).astype(np.int32)
        first_words = np.cumsum(word_counts) - word_counts
        labels = np.full(encoded.num_tokens, UNLABELLED, np.int32)
        labels[word_counts > 0] = word_labels[first_words[word_counts > 0]]
    return dataclasses.replace(
        encoded,
        labels=labels,
        token_labels=True,
        word_counts=word_counts,
        word_labels=word_labels,
        sources=source,
    )


class _Answering(NamedTuple):
    """The pieces that answer for the words of a text.

    Attributes:
      places: int64 (words,), the piece of each word, unknown ones counted.
      unknown: int64, where unknown pieces are put in, before a piece of the tokenizer each.
    """

    places: np.ndarray
    unknown: np.ndarray


def _answering(starts: np.ndarray, ends: np.ndarray, words: np.ndarray) -> _Answering:
    # Where decomposition changes the order of characters, a piece may end before another one.
    pieces = np.searchsorted(np.maximum.accumulate(ends), words[:, 0], side="right")
    after_all = np.iinfo(np.int32).max
    lost = np.append(starts, after_all)[pieces] >= words[:, 1]
    unknown = pieces[lost]
    places = pieces + np.searchsorted(unknown, pieces, side="right")
    places[lost] = unknown + np.arange(len(unknown))
    return _Answering(places, unknown)
