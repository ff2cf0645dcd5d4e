"""Unigram vocabularies for tests: a table of normalisation that is built here, and few pieces."""

import base64
import struct

from tfdistill.tokenization.unigram import MARK, Unigram

WORDS = (
    "the good bad film is not a very was fun dull gut schlecht nicht अच्छा फिल्म фильм хорош".split()
)
LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßабвгдежзийклмнопрстуфхцчшщъыьэюяअचछफलम्िा.,!?'0123456789"
# Full width, a ligature, an accent that is composed, a control, blanks, the replacement character.
TABLE = {
    **{chr(0xFF21 + i): chr(ord("A") + i) for i in range(26)},
    **{chr(0xFF41 + i): chr(ord("a") + i) for i in range(26)},
    "ﬁ": "fi",
    "é": "e\u0301",
    "u\u0308": "ü",
    "\x07": "",
    "\n": " ",
    "\t": " ",
    "\u00a0": " ",
    "\u3000": " ",
    "\u200b": " ",
    "\ufffd": "",
}


def charsmap(table=None):
    """A `precompiled_charsmap`, base64: a double array of the keys, and what they become."""
    table = TABLE if table is None else table
    texts, places = b"", {}
    for key, value in sorted(table.items()):
        places[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    units = _double_array(places)
    array = struct.pack(f"<{len(units)}I", *units)
    return base64.b64encode(struct.pack("<I", len(array)) + array + texts).decode()


def _double_array(places):
    """The units of a double array of byte strings, as darts-clone lays them out."""
    units, taken, bases = [0] * 256, {0}, set()

    def place(position, keys, depth):
        labels = sorted({key[depth] if len(key) > depth else 0 for key in keys})
        base = 1
        while base in bases or any((base ^ label) in taken for label in labels):
            base += 1
        bases.add(base)
        units.extend([0] * (max(base ^ label for label in labels) + 1 - len(units)))
        taken.update(base ^ label for label in labels)
        offset = position ^ base
        assert offset < 1 << 21
        units[position] |= offset << 10
        for label in labels:
            child = base ^ label
            inside = [key for key in keys if (key[depth] if len(key) > depth else 0) == label]
            if label == 0:
                units[position] |= 1 << 8
                units[child] = places[inside[0]] | 1 << 31
                continue
            units[child] = label
            place(child, inside, depth + 1)

    place(0, sorted(places), 0)
    return units + [0] * (-len(units) % 256)


def pieces():
    """Pieces and their scores in the order of the ids, as XLM-RoBERTa has them."""
    scored = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), (MARK, -3.0)]
    scored += [(MARK + word, -4.0 - 0.25 * rank) for rank, word in enumerate(WORDS)]
    parts = dict.fromkeys(word[cut:] for word in WORDS for cut in (1, 2) if len(word) - cut > 1)
    scored += [(part, -8.0 - 0.125 * rank) for rank, part in enumerate(parts) if part not in WORDS]
    scored += [(letter, -11.0 - 0.0625 * rank) for rank, letter in enumerate(LETTERS)]
    return [*scored, ("<mask>", 0.0)]


def unigram(**settings):
    """A tokenizer of a hundred pieces."""
    return Unigram(pieces(), charsmap(), **settings)
