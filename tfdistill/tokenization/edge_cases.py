"""Edge cases of tokenization: the texts that a second implementation is tested on.

A program on a phone tokenizes in another language, with another Unicode database. These texts hold
every boundary of every character class, letters that decompose or change their case, and the traps
that implementations are known to fall into.
"""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Iterator

from tfdistill.tokenization import unicode_classes as classes

_CLASSES = (
    classes.CONTROL,
    classes.FORMAT,
    classes.WHITE_SPACE,
    classes.CJK,
    classes.ASCII_PUNCTUATION,
    classes.PUNCTUATION,
    classes.NONSPACING_MARKS,
)
_EVERY = 12  # of the boundaries of classes
_TOGETHER = 8  # letters of one text
# Letters that Unicode knew before the oldest Android that runs the files: no database that is in
# use lacks them, so an implementation that fails on one is wrong, not old.
_OLD = unicodedata.ucd_3_2_0

_TRAPS = (
    "",
    " ",
    " \t\r\n ",
    "\x00",
    "a\x00b",
    "[CLS] [SEP] [PAD] [UNK] [MASK]",
    "[cls]x[SEP]y[mask",
    "##ing # ## a##b ##",
    "don't can't o'clock rock'n'roll",
    "it's 5 o'clock-ish (maybe...)!!!",
    "U.S.A. e.g. 3.14159 1,000,000 10:30 50%",
    "$+<=>^`|~ @#%&*_-/\\ \"'",
    "http://user:pass@a.b.c:80/d?e=f&g=h#i",
    "mail@example.com #hashtag @name",
    "line one\nline two\r\nline three\rend",
    "tab\tvertical\x0bfeed\x0cnext\x85line\x1cfile\x1fend\x7f",
    "zero\u200bwidth soft\u00adhyphen joiner\u200d mark\ufeff",
    "no\u00a0break narrow\u202fspace figure\u2007space ideographic\u3000space",
    "line\u2028separator paragraph\u2029separator ogham\u1680space",
    "\u202eright to left\u202c \u2066isolate\u2069",
    "élève e\u0301le\u0300ve ÉLÈVE",
    "naïve façade Zürich Ærøskøbing Łódź smörgåsbord",
    "Straße STRASSE ẞ",
    "ΟΔΥΣΣΕΥΣ Οδυσσεύς ΣΑΣ σς Σ",
    "İstanbul ISPARTA ığdır i\u0307",
    "Ǆǅǆ Ǉǈǉ ŉ ǰ ΐ ﬁne ﬂow ﬃ",
    "Kelvin \u212a Ångström \u212b Ohm \u2126",
    "½ ⅓ ² ³ ① ② Ⅷ ⅷ ª º ™ ℠ № ℃",
    "ｆｕｌｌ　ｗｉｄｔｈ！？ ＡＢＣ１２３",
    "…wait… “quoted” ‘single’ «angles» —dash– ‐hyphen",
    "日本語のテスト ガギグ カ\u3099 漢字かな交じり文。",
    "中文mixed文本english中",
    "中" * 60,
    "한국어 텍스트 가각간 \u1112\u1161\u11ab",
    "สวัสดีครับ ภาษาไทย",
    "हिन्दी में क्\u200dष",
    "العربية النصُّ ١٢٣",
    "עִבְרִית שָׁלוֹם",
    "Tiếng Việt ệ ộ ữ",
    "😀 hi👨\u200d👩\u200d👧 🇩🇪 👍🏽 a😀b ☺\ufe0f",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝒮𝒸𝓇𝒾𝓅𝓉 𐐀𐐨",
    "\u0301starts with a mark",
    "a" + "\u0301" * 50 + "b",
    "\u1e9b\u0323 \u0345 \u0344 \u0958",
    "\uf900\ufa0e \U0002f800 \U0002b820 \U0002b920 \U0002a700",
    "\ufffd bad \ufffe \uffff",
    "private \ue000 \U000f0000 \U0010fffd",
    "lone \ud83d surrogate",
    "tag \U000e0041 \U000e007f",
    "≠ ≮ ≯ ≰ \u037e \u0387 \u1fef",
    "a b " * 200,
    "word " * 400,
    ". " * 300,
)


_CASED = ("First firsts unaffable UNAFFABLE", "É é E\u0301 Ä ä ẞ Ϲ Ա Ⴀ", "first un##aff [MASK]s")


def tokenizer_edge_cases() -> list[str]:
    """Returns about two thousand texts, the same ones at every call.

    They are to be encoded one by one; a program that gives other ids for one of them tokenizes
    wrongly.
    """
    return list(dict.fromkeys([*_TRAPS, *_long_words(), *_boundaries(), *_letters()]))


def probe_texts() -> list[str]:
    """A few hundred of them, which tell another tokenizer by its answers; without surrogates."""
    texts = [*_TRAPS, *_long_words(), *itertools.islice(_boundaries(), 0, None, _EVERY), *_CASED]
    return list(dict.fromkeys(text.encode("utf-8", "ignore").decode() for text in texts))


def _long_words() -> Iterator[str]:
    """Words around the length from which a word is [UNK], in letters of one to four bytes."""
    for letter in ("a", "é", "e\u0301", "я", "ก", "\U00010428"):
        for more in (-1, 0, 1):
            yield f"b {letter * (classes.MAX_CHARACTERS_PER_WORD + more)} b"
    yield "a" * 5000


def _boundaries() -> Iterator[str]:
    """The first and last character of each range of each class, and those outside of it."""
    points = set()
    for text in _CLASSES:
        for item in text.split():
            first, *last = (int(end, 16) for end in item.split("-"))
            points |= {first - 1, first, *(end for end in last), *(end + 1 for end in last)}
            points.add(first + 1 if not last else first)
    for point in sorted(points):
        character = chr(point) if 0 <= point <= 0x10FFFF else ""
        # Assigned when the classes were drawn up, or not a letter whose case may be new.
        if character and not 0xD800 <= point <= 0xDFFF and _settled(character):
            yield f"ab{character}cd {character}"


def _letters() -> Iterator[str]:
    """Letters that decompose or have another case, a few to a text."""
    characters = [
        character
        for character in map(chr, range(0x80, 0x20000))
        if _OLD.category(character)[0] in "LM"
        and not 0xAC00 <= ord(character) <= 0xD7A3
        and (_OLD.normalize("NFD", character) != character or character.lower() != character)
    ]
    characters += [chr(point) for point in range(0xAC00, 0xD7A4, 97)]  # Hangul decomposes by rule
    for start in range(0, len(characters), _TOGETHER):
        letters = characters[start : start + _TOGETHER]
        yield " ".join(f"a{letter}{letter}b" for letter in letters)


def _settled(character: str) -> bool:
    """Whether every Unicode database in use gives this character the same case and parts."""
    plain = character.lower() == character and unicodedata.normalize("NFD", character) == character
    return plain or _OLD.category(character) != "Cn"
