"""Odd running texts, with what Python makes of each: see `vectors`, which writes them.

In place of a model stands `oracle`, which Kotlin has, too. Of four texts one each is read by
WordPiece or Unigram, with tags of BIO or BIOES, as CASES says; the rules find patterns in every
third text.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np

from tfdistill import manifest, predictor
from tfdistill.manifest.confidence import Confidence
from tfdistill.tasks.words import find_words
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.tokenization.tokenizer import Tokenizer

COUNT = 2000
BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
BIOES = ("B-X", "I-X", "E-X", "S-X", "O", "S-Y")
CASES = (("wordpiece", BIO), ("wordpiece", BIOES), ("unigram", BIO), ("unigram", BIOES))
TEMPERATURE, THRESHOLD, HIDDEN = 1.7, 0.3, 0.6
_MARKS = (
    *("\u0301", "\u0323\u0308", "\u200d", "\u200c", "\ufe0f"),
    *("\U0001f3fd", "\u3099", "\ufe0f\u20e3"),
)
_BLANKS = (
    *(" ", " ", " ", "", "\u00a0", "\t", "\r\n", "\n", "\u3000"),
    *("\u200f", "\u202e", "\u200b", "\ufeff"),
)
_PARTS = (
    *(
        "Mary",
        "JOSE\u0301",
        "naïve",
        "films",
        "don't",
        "(John,",
        "Paris.",
        "'s",
        "42",
        "3²",
        "A380",
    ),
    *(
        "👩\u200d🚀",
        "👍🏽",
        "❤\ufe0f",
        "🇩🇪",
        "1\ufe0f\u20e3",
        "\U000e0067\U000e007f",
        "👨\u200d👩\u200d👧",
    ),
    *(
        "日本",
        "東京タワー",
        "ｶﾞ",
        "か\u3099",
        "ที่นี่",
        "๑๒",
        "한글",
        "ᄒ\u1161",
        "ພາສາ",
        "ខ្មែរ",
        "မြန်မာ",
    ),
    *("שלום", "می\u200cخواهم", "हिन्दी", "Ⅻ", "½", "𝐀𝐁", "ß", "İi", "ﬁ", "\u00ad", "x\u00ady", "_"),
    *(
        "--",
        "anna.o'neil@mail.example.org",
        "<jo\u0308rg@müller.de>",
        "a@b",
        "IBAN:",
        "@",
        "(b@c.io)",
    ),
    *("DE89 3704 0044 0532 0130 00", "gb82-WEST-1234-5698-7654-32", "DE89 3704 0044 0532 0130 01"),
    *(
        "4111 1111 1111 1111",
        "3782-822463-10005",
        "4111111111111112",
        "卡号5105105105105100号",
        "+",
    ),
    *("Nr.", "12/27", "0.", "6304", "1", "\ud83d", "\ude00", "\ud800x", "\ufffd", "\x7f", "\x00"),
    *("\ue000", "\U000f0000", "\u0378", "\U0003abcd"),
)
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def odd_texts() -> list[str]:
    """Texts of parts, marks and blanks by chance; no two halves of surrogates that Java would join.

    As sequences of characters, Python and Java do not mean the same by those.
    """
    random = np.random.default_rng(11)
    texts = ["", " \r\n\t\u00a0", "\u0301"]
    while len(texts) < COUNT:
        text = ""
        for _ in range(int(random.choice((1, 3, 7, 16)))):
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


def oracle(ids: np.ndarray, width: int) -> np.ndarray:
    """Logits of each token by its id and its place, float32 (tokens, width), many of them equal."""
    rows, tags = np.arange(len(ids))[:, None], np.arange(width)
    return ((ids[:, None] * 7 + rows * 13 + tags * 29) % 23 / np.float32(4)).astype(np.float32)


class _Oracle:
    """The file of a model that answers as `oracle` does."""

    def __init__(self, path: Any, *, threads: int) -> None: ...

    def length_for(self, size: int) -> int:
        return 0

    def predict(self, ids: np.ndarray, types: np.ndarray, *, pad_id: int) -> np.ndarray:
        return oracle(np.asarray(ids), self.width)

    width = 0


def _predictors(tags: pathlib.Path, unigram: Tokenizer) -> Iterator[predictor.Predictor]:
    """Those of CASES."""
    for kind, labels in CASES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(shutil.copytree(tags, pathlib.Path(temporary) / "copy"))
            card = manifest.read_manifest(folder)
            assert card.task is not None
            promise = {"max_error": 0.05, "rows": 300, "coverage": 0.5, "error": 0.04}
            record = Confidence.of_file(
                card.model.sha256,
                temperature=TEMPERATURE,
                num_examples=200,
                entity_promises=({**promise, "threshold": THRESHOLD},),
                recall={"min_recall": 0.9, "rows": 300, "threshold": HIDDEN},
            )
            task = card.task.model_copy(update={"labels": labels})
            card = card.model_copy(update={"confidence": record, "task": task, "labels_file": None})
            manifest.write_manifest(card, folder)
            tokenizer = unigram if kind == "unigram" else read_tokenizer(folder / "vocab.txt")
            file = type("File", (_Oracle,), {"width": len(labels)})
            with (
                mock.patch.multiple(
                    predictor,
                    TfliteModel=file,
                    exported_tokenizer=mock.Mock(return_value=tokenizer),
                ),
                mock.patch.object(predictor.described, "check_signatures"),
            ):
                yield predictor.Predictor(folder)


def running_lines(tags: pathlib.Path, unigram: Tokenizer, every: int = 1) -> list[dict[str, Any]]:
    """Each text with its words and entities, places in UTF-16, a fifth with tags and masked.

    Args:
      tags: The folder of an exported tagger.
      unigram: The tokenizer of every other pair of texts.
      every: Of as many texts only one.
    """
    lines, predictors = [], list(_predictors(tags, unigram))
    for number, text in list(enumerate(odd_texts()))[::every]:
        starts, ends = (utf16(text, side) for side in find_words(text).T)
        answering = predictors[number % len(CASES)]
        answering.patterns = number % 3 == 0
        answer = answering.predict(text)
        entities, hidden = (
            [
                [it.label, *utf16(text, [it.start, it.end]), float(f"{it.probability:.7g}")]
                for it in group
            ]
            for group in (answer.entities or (), answer.hidden)
        )
        line = {"text": text, "starts": starts, "ends": ends, "entities": entities}
        line["sure"] = "".join(str(int(it.sure)) for it in answer.entities or ())
        line["probability"] = float(f"{answer.probability:.8g}")
        if number % 10 < 2:
            masked = answering.mask(text)
            assert masked.restore(masked.text) == text
            line |= {"tags": " ".join(answer.label), "masked": masked.text, "hidden": hidden}
        lines.append(line)
    return lines
