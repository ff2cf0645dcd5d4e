"""BERT's basic tokenizer: the words of a text, before WordPiece looks for their pieces.

1. Control and format characters dropped;
2. with `lower_case`: canonical decomposition (NFD), nonspacing marks dropped, lower-casing
   character by character (so a Greek capital sigma becomes σ also at the end of a word);
3. a space on either side of each punctuation mark and each ideograph, then a split at white space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill import errors
from tfdistill.data import unicode_classes as classes

BATCH = 1024  # strings of one call of a graph; two calls run at a time

_DROPPED = classes.pattern(classes.CONTROL, classes.FORMAT)
_SPACE = classes.pattern(classes.WHITE_SPACE)
_MARKS = classes.pattern(classes.NONSPACING_MARKS)
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


def check_strings(texts: Sequence[str]) -> Sequence[str]:
    """Returns texts; raises DataError if one is no string."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise errors.DataError(f"text {index}", "a string", f"{type(text).__name__} {text!r}")
    return texts
