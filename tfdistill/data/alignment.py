"""Where the letters of a normalised text came from.

BERT's normalisation works character by character: it drops some, strips others of their accents
and writes a few as several letters. So the letters of a text are those of its characters one
after the other, up to one thing: canonical decomposition also puts neighbouring marks into a
canonical order. Marks are nearly always dropped, but not all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfdistill import errors


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
    places = np.repeat(np.arange(len(pieces), dtype=np.int32), counts)
    expected = "".join(pieces)
    if expected == letters:
        return places
    if sorted(expected) != sorted(letters):
        raise errors.DataError(f"letters of {text!r}", repr(expected), repr(letters))
    return places[_permutation(expected, letters)]


def _permutation(expected: str, letters: str) -> np.ndarray:
    """Maps each letter to the first one in `expected` that equals it and is not taken."""
    order = np.empty(len(letters), np.int64)
    waiting: list[int] = []  # those that were passed over
    following = 0
    for place, letter in enumerate(letters):
        taken = next((index for index in waiting if expected[index] == letter), None)
        if taken is not None:
            waiting.remove(taken)
            order[place] = taken
            continue
        while expected[following] != letter:
            waiting.append(following)
            following += 1
        order[place] = following
        following += 1
    return order
