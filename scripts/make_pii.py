#!/usr/bin/env python3
"""Writes sentences with invented personal data, to train and to measure a filter for them.

    scripts/make_pii.py FOLDER --count 8000 --seed 1

writes train.jsonl (seven tenths), dev.jsonl, test.jsonl and wrong.jsonl, of lines
{"text", "entities": [{"start", "end", "label"}]}, offsets in characters. No template and no part of
a name or a city of one file is in another, so that what is measured on test is no memory of train.
Sentences are English, German, French and Spanish, with names, addresses, dates, telephone numbers,
e-mail addresses, IBANs and payment cards in the forms of eight countries. wrong.jsonl has sentences
of test whose IBANs and cards have the right form and a wrong checksum: they are no entities.

Needs Faker (`pip install faker`), which is among tfdistill's tools of development.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import json
import pathlib
import random
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

LABELS = ("NAME", "ADDRESS", "DATE", "PHONE", "EMAIL", "IBAN", "CARD")
FORMS = yaml.safe_load(pathlib.Path(__file__).with_name("pii.yaml").read_text("utf-8"))
CHECKED = ("IBAN", "CARD")
DOMAINS = ("example.com", "example.org", "mail.example.net")  # reserved: nobody's addresses
_SLOT = re.compile(r"\{([A-Z]+)\}")


def templates_of(split: str) -> Iterator[tuple[str, str]]:
    """Yields language and text of each template of a file; the fifth, tenth ... are test's."""
    for language, listed in FORMS["templates"].items():
        for number, template in enumerate(listed, start=1):
            if split == ("test" if number % 5 == 0 else "dev" if number % 10 == 4 else "train"):
                yield language, template


def is_of(split: str, name: str) -> bool:
    """Whether each part of a name belongs to a file: seven, one and two tenths of all parts."""
    parts = [part for part in re.findall(r"\w+", name) if part[0].isupper() and len(part) > 1]
    tenths = {zlib.crc32(part.casefold().encode()) % 10 for part in parts}
    return tenths <= {"train": {*range(7)}, "dev": {7}, "test": {8, 9}}[split]


def grouped(code: str, sizes: Sequence[int], between: str) -> str:
    """A number in groups of these sizes, the last one repeated."""
    groups, ends = [], itertools.chain(sizes, itertools.repeat(sizes[-1]))
    while code:
        size = next(ends)
        groups, code = [*groups, code[:size]], code[size:]
    return between.join(groups)


class Writer:
    """Fills the templates of one file with invented data.

    Args:
      split: "train", "dev" or "test".
      people: Faker for a locale, such as "de_DE".
      draw: What decides.
      is_wrong: Whether checksums are wrong; such numbers are no entities.
    """

    def __init__(
        self, split: str, people: Callable[[str], Any], draw: random.Random, is_wrong: bool = False
    ) -> None:
        self._split, self._people, self._draw, self._is_wrong = split, people, draw, is_wrong
        self._templates = [
            (language, template)
            for language, template in templates_of(split)
            if not is_wrong or re.search("{IBAN}|{CARD}", template)
        ]

    def record(self) -> dict[str, Any]:
        """Returns a text with its entities."""
        language, template = self._draw.choice(self._templates)
        locale = self._draw.choice(FORMS["countries"][language])
        text, entities, end, person = "", [], 0, None
        for slot in _SLOT.finditer(template):
            if person is None or slot[1] == "NAME":  # a second name is that of another person
                person = [self._name(locale, part) for part in ("first_name", "last_name")]
            text += template[end : slot.start()]
            value = self._value(slot[1], locale, language, person)
            if slot[1] in LABELS and not (self._is_wrong and slot[1] in CHECKED):
                start = len(text)
                entities.append({"start": start, "end": start + len(value), "label": slot[1]})
            text, end = text + value, slot.end()
        return {"text": text + template[end:], "entities": entities}

    def _name(self, locale: str, part: str) -> str:
        invent = getattr(self._people(locale), part)
        return next(name for name in iter(invent, "") if is_of(self._split, name))

    def _value(self, slot: str, locale: str, language: str, person: Sequence[str]) -> str:
        people, draw = self._people(locale), self._draw
        if slot == "NAME":
            return " ".join(person)
        if slot == "EMAIL":
            joined = draw.choice("._-").join(person).casefold()
            plain = unicodedata.normalize("NFKD", joined).encode("ascii", "ignore").decode()
            return re.sub("[^a-z._-]", "", plain) + "@" + draw.choice(DOMAINS)
        if slot == "ADDRESS":
            city, post = self._name(locale, "city"), people.postcode()
            family, number = person[1], draw.randint(1, 240)
            return FORMS["addresses"][locale].format(
                family=family, number=number, city=city, post=post
            )
        if slot == "DATE":
            year, month, day = draw.randint(1930, 2026), draw.randint(1, 12), draw.randint(1, 28)
            name = FORMS["months"][language].split()[month - 1]
            return draw.choice(FORMS["dates"][language]).format(d=day, n=month, m=name, y=year)
        if slot == "PHONE":
            return people.phone_number()
        if slot in CHECKED:
            return self._number(slot, people)
        number = draw.randint(100, 99999)
        return {
            "AMOUNT": f"{number / 100:.2f} EUR",
            "CODE": f"{draw.choice('ABKRX')}-{number}",
            "HOUR": f"{number % 24}:{number % 60:02}",
        }[slot]

    def _number(self, slot: str, people: Any) -> str:
        if slot == "IBAN":
            number, sizes = people.iban(), (4,)
        else:
            kind = self._draw.choice(("visa16", "mastercard", "amex", "discover"))
            number = self._people("en_US").credit_card_number(kind)
            sizes = (4, 6, 5) if kind == "amex" else (4,)
        if self._is_wrong:  # neither checksum misses one digit
            number = number[:-1] + str((int(number[-1], 36) + 1) % 10)
        between = self._draw.choice(("", " ", "-"))
        return grouped(number, sizes, between)


def write(folder: pathlib.Path, count: int, seed: int, people: Callable[[str], Any]) -> None:
    """Writes the four files; `people` is Faker for a locale, seeded."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for name, tenths in (("train", 14), ("dev", 2), ("test", 4), ("wrong", 1)):
        writer = Writer("test" if name == "wrong" else name, people, draw, name == "wrong")
        lines = [
            json.dumps(writer.record(), ensure_ascii=False) for _ in range(count * tenths // 20)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        print(f"{folder / name}.jsonl: {len(lines)} texts")


def main() -> None:
    """Reads the arguments and writes the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=8000, help="texts of train, dev and test")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    faker = importlib.import_module("faker")

    @functools.cache
    def people(locale: str) -> Any:
        inventor = faker.Faker(locale, use_weighting=False)
        inventor.seed_instance(f"{arguments.seed} {locale}")
        return inventor

    write(arguments.folder, arguments.count, arguments.seed, people)


if __name__ == "__main__":
    main()
