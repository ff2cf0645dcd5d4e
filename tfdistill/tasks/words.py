"""The words of a running text: where they are, whatever tokenizer reads it later.

A tagged example is its text, the places of its words in it, and a tag for each word.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence

import numpy as np
import yaml

_TABLE = pathlib.Path(__file__).parent / "word_classes.yaml"
_CLASSES = ("marks", "digits", "letters", "blanks")
_ALONE, _MARK, _DIGIT, _LETTER, _BLANK = range(5)


@functools.cache
def _ranges() -> tuple[np.ndarray, np.ndarray]:
    """The code points at which ranges begin, rising, and the class from there on."""
    rows, listed = [(0, _ALONE)], yaml.safe_load(_TABLE.read_text("ascii"))
    for number, name in enumerate(_CLASSES, start=1):
        for item in listed[name].split():
            first, _, last = item.partition("-")
            rows += [(int(first, 16), number), (int(last or first, 16) + 1, _ALONE)]
    # Where one range ends and the next begins, the beginning counts.
    table = dict(sorted(rows, key=lambda row: (row[0], row[1] != _ALONE)))
    return np.array(list(table)), np.array(list(table.values()), np.int8)


def _classes_of(text: str) -> np.ndarray:
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
    firsts, classes = _ranges()
    return classes[np.searchsorted(firsts, points, side="right") - 1]


def past_marks(text: str, end: int) -> int:
    """Moves the end of a part of a text past the marks on its last character."""
    while end < len(text) and _classes_of(text[end])[0] == _MARK:
        end += 1
    return end


def find_words(text: str) -> np.ndarray:
    """Finds the words of a text by the classes of its characters alone.

    The classes are those of `word_classes.yaml`, of Unicode 17.0, for every version of Python:

    - Letters in a row are a word; so are digits in a row (all numbers: ² and Ⅻ, too).
    - Every other character is a word by itself: punctuation, signs and emoji, and each letter of
      Han, Hiragana, Katakana, Thai, Lao, Khmer and Myanmar. Digits of these scripts are digits.
    - Marks belong to the character before them, be it a letter, a digit or a sign: combining marks,
      variation selectors, the joiners U+200C and U+200D, skin tones, tag characters. They end no
      row. One with no character before it, or a blank, begins a word as a sign does.
    - Blanks are in no word: spaces, line ends, control and format characters (such as U+200F and
      U+00AD), surrogates, private use, U+FFFD.

    So the end of a word is past its marks: to mask words leaves none behind.

    Args:
      text: Any text.

    Returns:
      int32 (words, 2), in order: the first character and one past the last, as Python counts
      characters; ``text[start:end]`` is the word.

    Example:
      >>> text = "(Anna, 42km: 東京)"
      >>> [text[start:end] for start, end in find_words(text)]
      ['(', 'Anna', ',', '42', 'km', ':', '東', '京', ')']
    """
    kinds = _classes_of(text)
    places = np.arange(len(kinds))
    bases = np.maximum.accumulate(np.where(kinds == _MARK, -1, places))  # -1 before the first
    of_base = np.where(bases >= 0, kinds[bases], _BLANK)
    row = np.where(of_base == _BLANK, _ALONE, of_base)  # a mark is of the row of its base
    row[kinds == _BLANK] = _BLANK
    before = np.append(_BLANK, row[:-1])[: len(row)]
    begins = (kinds == _ALONE) | ((kinds == _MARK) & (before == _BLANK))
    begins |= ((kinds == _DIGIT) | (kinds == _LETTER)) & (before != row)
    starts = places[begins]
    cuts = np.append(places[begins | (kinds == _BLANK)], len(kinds))
    ends = cuts[np.searchsorted(cuts, starts, side="right")]
    return np.stack([starts, ends], axis=1).astype(np.int32)


def joined(words: Sequence[str]) -> tuple[str, np.ndarray]:
    """Joins words that a file has cut to a running text, single blanks between.

    Args:
      words: The words, as they are.

    Returns:
      The text, and int32 (words, 2) as of `find_words`, of these words.

    Example:
      >>> text, places = joined(["Dr.", "No"])
      >>> text, places.tolist()
      ('Dr. No', [[0, 3], [4, 6]])
    """
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int32) - 1
    starts = ends - [len(word) for word in words]
    return " ".join(words), np.stack([starts, ends], axis=1).astype(np.int32)
