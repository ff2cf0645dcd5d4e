"""The words of running text, by a table that no version of Python changes."""

import sys
import unicodedata

import numpy as np
import pytest

from tfdistill.tasks import words

MORE_MARKS = {0x200C, 0x200D, 0xFF9E, 0xFF9F, *range(0x1F3FB, 0x1F400), *range(0xE0020, 0xE0080)}
ALONE = ("CJK ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA", "THAI ", "LAO ", "KHMER ",
         "MYANMAR ", "HENTAIGANA", "KANGXI RADICAL", "IDEOGRAPHIC ", "HANGZHOU NUMERAL",
         "VERTICAL KANA REPEAT", "MASU", "OLD CHINESE", "VERTICAL IDEO")  # fmt: skip


def expected_class(point):
    """The class by the database of this Python, which has the same categories for most."""
    character = chr(point)
    category, name = unicodedata.category(character), unicodedata.name(character, "")
    if category[0] == "M" or point in MORE_MARKS:
        return 1
    alone = name.startswith(ALONE)
    if category[0] == "N" and not (alone and category == "Nl"):
        return 2
    if category[0] == "L":
        return 0 if alone else 3
    return 4 if category[0] in "ZC" or point == 0xFFFD else 0


def test_the_table_has_the_class_of_every_character():
    firsts, classes = words._ranges()
    listed = classes[np.searchsorted(firsts, np.arange(sys.maxunicode + 1), side="right") - 1]
    wrong = [
        f"{point:X} {unicodedata.name(chr(point), '?')}"
        for point in range(sys.maxunicode + 1)
        if unicodedata.category(chr(point)) != "Cn" and listed[point] != expected_class(point)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(Anna,", "( Anna ,"),
        ("don't_x", "don ' t _ x"),
        ("A380 is10²", "A 380 is 10²"),
        ("Jose\u0301 Jose\u0301X", "Jose\u0301 Jose\u0301X"),
        ("1\ufe0f\u20e32 \u2764\ufe0fa", "1\ufe0f\u20e32 \u2764\ufe0f a"),
        ("\U0001f469\u200d\U0001f467\U0001f44d\U0001f3fd",
         "\U0001f469\u200d \U0001f467 \U0001f44d\U0001f3fd"),
        ("می‌خواهم", "می‌خواهم"),
        ("東京タワー大", "東 京 タ ワ ー 大"),
        ("ที่นี่ ๑๒", "ที่ นี่ ๑๒"),
        ("か\u3099き ｶﾞ 〇", "か\u3099 き ｶﾞ 〇"),
        ("हिन्दी", "हिन्दी"),
        ("\u0301\u0302a", "\u0301\u0302 a"),
        ("שלום\u200f!\u00ad", "שלום !"),
        ("a\r\nb\tc\u00a0d\u3000e\ufeff", "a b c d e"),
        (" \r\n\t\u00a0\u200b\ufffd\ud800", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_words_are_rows_of_letters_of_digits_and_single_signs_with_their_marks(text, expected):
    places = words.find_words(text)
    assert [text[start:end] for start, end in places] == expected.split(" ") * bool(expected)
    assert places.dtype == np.int32 and places.shape == (len(places), 2)


def test_words_that_a_file_has_cut_keep_their_places():
    text, places = words.joined(["New York", "(x", "\u00ad"])
    assert [text[start:end] for start, end in places] == ["New York", "(x", "\u00ad"]
    assert words.joined([])[1].shape == (0, 2)
