"""Strings to the inputs of a model in a graph, cut and joined as by `Tokenizer.encode_batch`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tfdistill.tasks.encoded import Truncation, heads_of
from tfdistill.tokenization.wordpiece import WordPiece


def encode(
    tokenizer: WordPiece, texts: tf.Tensor, pairs: tf.Tensor, max_length: int, paired: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Encodes texts or pairs, string (n,), in graph mode; `paired`, bool (), says which.

    Returns `input_ids`, `attention_mask` and `token_type_ids`, each int32 (n, L), L the longest
    example, of at most `max_length` tokens, which is at least 3.
    """
    first = tokenizer.tokenize(tf.strings.join([tokenizer.prompt, texts]))  # ragged (n, tokens)
    second = tokenizer.tokenize(pairs)
    has_pair = tf.fill(tf.shape(texts), tf.cast(paired, tf.int64))
    keep_first, keep_second = _kept(
        first.row_lengths(), second.row_lengths() * has_pair, has_pair, max_length
    )
    before = _cut(first, keep_first, tokenizer.truncation)
    after = _cut(second, keep_second, tokenizer.truncation)
    count = tf.shape(texts, tf.int64)[0]
    sep = tf.fill([count], tokenizer.sep_id)
    one = tf.ones_like(has_pair)
    ids = tf.concat(
        [
            _rows(tf.fill([count], tokenizer.cls_id), one),
            before,
            _rows(sep, one),
            after,
            _rows(tf.boolean_mask(sep, has_pair > 0), has_pair),
        ],
        axis=1,
    )
    lengths = ids.row_lengths()
    width = tf.maximum(tf.reduce_max(lengths), 2)  # of no example at all: -2^63
    position = tf.range(width)[tf.newaxis]  # (1, L)
    mask = position < lengths[:, tf.newaxis]
    second_half = mask & (position >= keep_first[:, tf.newaxis] + 2)
    return {
        "input_ids": ids.to_tensor(tokenizer.pad_id, shape=tf.stack([count, width])),
        "attention_mask": tf.cast(mask, tf.int32),
        "token_type_ids": tf.cast(second_half, tf.int32),
    }


def _kept(
    first: tf.Tensor, second: tf.Tensor, has_pair: tf.Tensor, max_length: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many tokens stay of each text: `encoded.truncated_lengths` as a graph."""
    budget = max_length - 2 - has_pair
    half = budget // 2
    swapped = first > second
    short, long = tf.minimum(first, second), tf.maximum(first, second)
    # The shorter one stays whole where it takes no more than half; the longer one gets the rest.
    short_cut = tf.where(has_pair > 0, tf.minimum(short, half), short)
    long_cut = tf.minimum(long, budget - short_cut)
    return tf.where(swapped, long_cut, short_cut), tf.where(swapped, short_cut, long_cut)


def _cut(ragged: Any, lengths: tf.Tensor, truncation: Truncation) -> Any:
    """Keeps `lengths` values of each row, at its beginning and at its end."""
    full = ragged.row_lengths()
    head = heads_of(lengths, truncation)
    position = tf.ragged.range(full).flat_values
    of_head = position < tf.repeat(head, full)
    of_tail = position >= tf.repeat(full - (lengths - head), full)
    return _rows(tf.boolean_mask(ragged.flat_values, of_head | of_tail), lengths)


def _rows(values: tf.Tensor, lengths: tf.Tensor) -> Any:
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)
