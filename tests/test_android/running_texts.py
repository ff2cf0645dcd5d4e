"""Odd running texts, with what Python makes of each: see `vectors`, which writes them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tfdistill.tasks.words import find_words

COUNT = 2000
_MARKS = (
    "\u0301",
    "\u0323\u0308",
    "\u200d",
    "\u200c",
    "\ufe0f",
    "\U0001f3fd",
    "\u3099",
    "\ufe0f\u20e3",
)
_BLANKS = (
    " ",
    " ",
    " ",
    "",
    "\u00a0",
    "\t",
    "\r\n",
    "\n",
    "\u3000",
    "\u200f",
    "\u202e",
    "\u200b",
    "\ufeff",
)
_PARTS = (
    *("Mary", "JOSE\u0301", "naïve", "films", "don't", "(John,", "Paris.", "'s", "42", "3²", "A380"),
    *("👩\u200d🚀", "👍🏽", "❤\ufe0f", "🇩🇪", "1\ufe0f\u20e3", "\U000e0067\U000e007f", "👨\u200d👩\u200d👧"),
    *("日本", "東京タワー", "ｶﾞ", "か\u3099", "ที่นี่", "๑๒", "한글", "ᄒ\u1161", "ພາສາ", "ខ្មែរ", "မြန်မာ"),
    *("שלום", "می\u200cخواهم", "हिन्दी", "Ⅻ", "½", "𝐀𝐁", "ß", "İi", "ﬁ", "\u00ad", "x\u00ady", "_", "--"),
    *("\ud83d", "\ude00", "\ud800x", "\ufffd", "\x7f", "\x00", "\ue000", "\U000f0000", "\u0378", "\U0003abcd"),
)  # fmt: skip
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def odd_texts() -> list[str]:
    """Texts of parts, marks and blanks by chance; no two halves of surrogates that Java would join.

    As sequences of characters, Python and Java do not mean the same by those.
    """
    random = np.random.default_rng(11)
    texts = ["", " \r\n\t\u00a0", "\u0301"]
    while len(texts) < COUNT:
        text = ""
        for _ in range(int(random.integers(1, 6)) ** 2):
            text += str(random.choice(_PARTS)) + str(random.choice(_BLANKS))
            if random.random() < 0.2:
                text += str(random.choice(_MARKS))
            if random.random() < 0.1:
                text += chr(int(random.integers(0x110000)))
        if not _PAIR.search(text):
            texts.append(text)
    return texts


def utf16(text: str, places: Any) -> list[int]:
    """Places in a text as Python counts them, as Java does."""
    units = np.append(0, np.cumsum([1 + (letter > "\uffff") for letter in text])).astype(int)
    return units[np.asarray(places, int)].tolist()


def running_lines() -> list[dict[str, Any]]:
    """Each text with the places of its words, UTF-16."""
    lines = []
    for text in odd_texts():
        starts, ends = (utf16(text, side) for side in find_words(text).T)
        lines.append({"text": text, "starts": starts, "ends": ends})
    return lines
