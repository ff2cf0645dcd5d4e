"""BERT's basic tokenizer: the words of a text, before WordPiece looks for their pieces.

1. Control and format characters dropped;
2. with `lower_case`: canonical decomposition (NFD), nonspacing marks dropped, lower-casing
   character by character (so a Greek capital sigma becomes σ also at the end of a word);
3. a space on either side of each punctuation mark and each ideograph, then a split at white space.

BERT's normalisation works character by character: it drops some, strips others of their accents
and writes a few as several letters. So the letters of a text are those of its characters one
after the other, up to one thing: canonical decomposition also puts neighbouring marks into a
canonical order. Marks are nearly always dropped, but not all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
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
    """Splits strings into BERT's words; runs in graph mode.

    Args:
      strings: `tf.Tensor`, string (n,), UTF-8.
      lower_case: Whether to lower-case and to remove accents.

    Returns:
      `tf.RaggedTensor`, string (n, words). A string without a word gives an empty row.
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
    """Splits texts into BERT's words; the Python form of `split`.

    Args:
      texts: Any number of texts.
      lower_case: Whether to lower-case and to remove accents.

    Returns:
      The words of all texts in order.
    """
    result: list[str] = []
    for start in range(0, len(texts), BATCH):
        batch = tf.constant(as_bytes(texts[start : start + BATCH]))
        flat = split(batch, lower_case=lower_case).flat_values.numpy()
        result.extend(word.decode("utf-8") for word in flat)
    return result


def as_bytes(texts: Sequence[str]) -> list[bytes]:
    """Encodes texts as UTF-8; a lone surrogate, which UTF-8 cannot hold, is dropped."""
    encoded = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise errors.DataError(f"text {index}", "a string", f"{type(text).__name__} {text!r}")
        encoded.append(text.encode("utf-8", "ignore"))
    return encoded


def align_letters(
    texts: Sequence[str],
    normalised: Sequence[str],
    letters_of: Callable[[Sequence[str]], list[str]],
) -> np.ndarray:
    """Finds the character that each letter came from.

    Args:
      texts: n texts.
      normalised: Their letters after normalisation, white space left out.
      letters_of: Normalises characters one by one, in the same way.

    Returns:
      int32 (letters of all texts,): for each letter the index of its character in its text.

    Raises:
      DataError: If the letters are not those of the characters.
    """
    characters = sorted(set().union(*texts))
    table = dict(zip(characters, letters_of(characters), strict=True))
    found = [
        _align_one(text, letters, table) for text, letters in zip(texts, normalised, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int32), *found])


def _align_one(text: str, letters: str, table: dict[str, str]) -> np.ndarray:
    pieces = [table[character] for character in text]
    counts = np.fromiter(map(len, pieces), np.int64, len(pieces))
    sources = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
    expected = "".join(pieces)
    if expected == letters:
        return sources
    if sorted(expected) != sorted(letters):
        raise errors.DataError(f"letters of {text!r}", repr(expected), repr(letters))
    return sources[_permutation(expected, letters)]


def _permutation(expected: str, letters: str) -> np.ndarray:
    """Maps each letter to the first one in `expected` that equals it and is not taken."""
    order = np.empty(len(letters), np.int64)
    waiting: list[int] = []  # those that were passed over
    following = 0
    for index, letter in enumerate(letters):
        taken = next((other for other in waiting if expected[other] == letter), None)
        if taken is not None:
            waiting.remove(taken)
            order[index] = taken
            continue
        while expected[following] != letter:
            waiting.append(following)
            following += 1
        order[index] = following
        following += 1
    return order
