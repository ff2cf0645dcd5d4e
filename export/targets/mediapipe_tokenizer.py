"""MediaPipe's reading of a text, from the same operators of tensorflow-text.

It lower-cases the letters of ASCII alone and strips no accent, so a text with others may become
other pieces than the model was trained on. Source: bert_preprocessor_calculator.cc and
bert_tokenizer.cc of MediaPipe 0.10.
"""

from __future__ import annotations

import string
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization.wordpiece import WordPiece

_PIECES = (
    r"[!-/]|[:-@]|[\[-`]|[{-~]|[\p{P}]|[\x{4E00}-\x{9FFF}]|[\x{3400}-\x{4DBF}]"
    r"|[\x{20000}-\x{2A6DF}]|[\x{2A700}-\x{2B73F}]|[\x{2B740}-\x{2B81F}]|[\x{2B820}-\x{2CEAF}]"
    r"|[\x{F900}-\x{FAFF}]|[\x{2F800}-\x{2FA1F}]"
)
_SEPARATORS = rf"(\s+|{_PIECES})"
_MAX_BYTES_PER_WORD = 100
_TO_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def encode(texts: Sequence[str], tokenizer: WordPiece, length: int) -> EncodedExamples:
    """Encodes texts as MediaPipe does, cut to `length` tokens; without labels."""
    words = text_ops.regex_split(
        [text.translate(_TO_LOWER).encode("utf-8", "ignore") for text in texts],
        _SEPARATORS,
        rf"({_PIECES})",
    )
    keys = tf.constant(tokenizer.vocab)
    values = tf.range(tokenizer.vocab_size, dtype=tf.int64)
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), num_oov_buckets=1
    )
    pieces = text_ops.WordpieceTokenizer(
        table, max_bytes_per_word=_MAX_BYTES_PER_WORD, token_out_type=tf.int64
    ).tokenize(words)
    rows = [
        [tokenizer.cls_id, *row[: length - 2], tokenizer.sep_id]
        for row in pieces.merge_dims(1, 2).to_list()
    ]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    ids = np.concatenate(rows).astype(np.int32)
    return EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8), pad_id=tokenizer.pad_id)
