"""BERT's tokenizer inside a TensorFlow graph: the words of texts, and of these the pieces.

The words are those of BERT's basic tokenizer:

1. Control and format characters dropped;
2. with `lower_case`: canonical decomposition (NFD), nonspacing marks dropped, lower-casing
   character by character (so a Greek capital sigma becomes σ also at the end of a word);
3. a space on either side of each punctuation mark and each ideograph, then a split at white space.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill.tokenization import unicode_classes as classes
from tfdistill.tokenization.library import SUFFIX_INDICATOR, check_strings
from tfdistill.tokenization.unicode_classes import MAX_CHARACTERS_PER_WORD

BATCH = 1024  # strings of one call of a graph; two calls run at a time

_DROPPED = classes.pattern(classes.CONTROL, classes.FORMAT)
_SPACE = classes.pattern(classes.WHITE_SPACE)
_MARKS = classes.pattern(classes.NONSPACING_MARKS)
# Longer than any word that WordPiece accepts, so it becomes [UNK].
_MAX_BYTES_PER_WORD = 4 * MAX_CHARACTERS_PER_WORD
_TOO_LONG = "x" * (_MAX_BYTES_PER_WORD + 1)
_ALONE = classes.pattern(classes.ASCII_PUNCTUATION, classes.PUNCTUATION, classes.CJK)


def split(strings: Any, *, lower_case: bool = True) -> Any:
    """Splits strings, UTF-8 (n,), into BERT's words, (n, (words)); runs in graph mode.

    `lower_case` also removes accents. A string without a word gives an empty row.
    """
    strings = tf.strings.regex_replace(strings, _DROPPED, "")
    strings = tf.strings.regex_replace(strings, _SPACE, " ")
    if lower_case:
        strings = text_ops.normalize_utf8(strings, "NFD")
        strings = tf.strings.regex_replace(strings, _MARKS, "")
        strings = tf.strings.regex_replace(strings, "Σ", "σ")
        strings = tf.strings.lower(strings, encoding="utf-8")
    strings = tf.strings.regex_replace(strings, _ALONE, r" \0 ")
    return text_ops.WhitespaceTokenizer().tokenize(strings)


def split_texts(texts: Sequence[str], *, lower_case: bool = True) -> list[str]:
    """Splits texts into BERT's words, all in order; the Python form of `split`."""
    result: list[str] = []
    for start in range(0, len(texts), BATCH):
        batch = tf.constant(as_bytes(texts[start : start + BATCH]))
        flat = split(batch, lower_case=lower_case).flat_values.numpy()
        result.extend(word.decode("utf-8") for word in flat)
    return result


def as_bytes(texts: Sequence[str]) -> list[bytes]:
    """Encodes texts as UTF-8; a lone surrogate, which UTF-8 cannot hold, is dropped."""
    return [text.encode("utf-8", "ignore") for text in check_strings(texts)]


@functools.lru_cache(maxsize=2)
def pieces_graph(tokens: tuple[str, ...], lower_case: bool) -> tuple[Any, Any]:
    """WordPiece of a vocabulary, and its traced function: one for all that are equal.

    The ready-made BertTokenizer and FastBertTokenizer of tensorflow-text differ from BERT's: their
    lower-casing folds compatibility forms ("…" becomes "...", "ß" becomes "ss").
    """
    with tf.init_scope():  # of no graph, also where it is first used inside one
        wordpiece = text_ops.FastWordpieceTokenizer(
            vocab=list(tokens),
            suffix_indicator=SUFFIX_INDICATOR,
            max_bytes_per_word=_MAX_BYTES_PER_WORD,
            token_out_type=tf.int32,  # pyright: ignore[reportArgumentType]
            unknown_token="[UNK]",
            no_pretokenization=True,
        )
    graph = tf.function(
        functools.partial(pieces_of, wordpiece, lower_case=lower_case),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    return wordpiece, graph


def pieces_of(wordpiece: Any, strings: Any, *, lower_case: bool) -> Any:
    """The ids of the pieces of strings (n,), ragged int32 (n, (pieces)); runs in graph mode."""
    words = split(strings, lower_case=lower_case)
    lengths = tf.strings.length(words.flat_values, unit="UTF8_CHAR")
    short = tf.where(lengths > MAX_CHARACTERS_PER_WORD, _TOO_LONG, words.flat_values)
    return wordpiece.tokenize(words.with_flat_values(short)).merge_dims(1, 2)


def rows_of(graph: Any, strings: list[bytes]) -> Iterator[tf.RaggedTensor]:
    """Runs `pieces_graph` on many strings, a block at a time, two blocks at once."""
    tensor = tf.constant(strings, tf.string, [len(strings)])
    if len(strings) <= BATCH:
        return iter([graph(tensor)])
    starts = tf.data.Dataset.range(0, len(strings), BATCH)
    return iter(
        starts.map(
            lambda start: graph(tensor[start : start + BATCH]), num_parallel_calls=tf.data.AUTOTUNE
        ).prefetch(2)
    )
