"""`scripts/make_pii.py` writes what it says, and no file has a template or a name of another."""

import itertools
import json
import pathlib
import random
import re
import runpy

import pytest

from tfdistill.tasks.patterns import find_patterns

SCRIPT = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "scripts" / "make_pii.py"))
FILES = ("train", "dev", "test", "wrong")


class People:
    """As Faker of any locale: names by chance, and numbers whose checksums are right."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def first_name(self):
        return "".join(self.draw.choices("aeiouklmnr", k=5)).title()

    def last_name(self):
        return self.first_name() + self.draw.choice(("", "-Śmith", " de Groot"))

    city = first_name

    def postcode(self):
        return f"{self.draw.randint(10000, 99999)}"

    def phone_number(self):
        return f"+49 30 {self.draw.randint(100000, 999999)}"

    def iban(self):
        rest = f"{self.draw.randint(10**17, 10**18 - 1)}"
        return f"DE{98 - int(rest + '131400') % 97:02}{rest}"

    def credit_card_number(self, kind):
        numbers = {"amex": "378282246310005", "visa16": "4111111111111111"}
        return numbers.get(kind, "5105105105105100")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The records of two runs with one seed, of which the second must be the first."""
    folders = [tmp_path_factory.mktemp(name) for name in "ab"]
    for folder in folders:
        people = People(7)
        SCRIPT["write"](folder, 1200, 3, lambda locale, people=people: people)
    texts = [[(it / f"{name}.jsonl").read_text("utf-8") for name in FILES] for it in folders]
    assert texts[0] == texts[1]
    lines = [[json.loads(line) for line in text.splitlines()] for text in texts[0]]
    assert [len(part) for part in lines] == [840, 120, 240, 60]
    return dict(zip(FILES, lines, strict=True))


def parts(record, label):
    return [record["text"][it["start"] : it["end"]] for it in record["entities"]
            if it["label"] == label]  # fmt: skip


def test_every_file_has_every_label_and_texts_without_any(files):
    for name in FILES[:3]:
        labels = {entity["label"] for record in files[name] for entity in record["entities"]}
        assert labels == set(SCRIPT["LABELS"])
        assert any(not record["entities"] for record in files[name])


def test_what_rules_find_is_what_the_records_say_and_wrong_checksums_are_nothing(files):
    for record in itertools.chain(*files.values()):
        of_record = [
            (it["label"], it["start"], it["end"])
            for it in record["entities"]
            if it["label"] in ("EMAIL", "IBAN", "CARD")
        ]
        assert [tuple(it) for it in find_patterns(record["text"])] == of_record, record
    assert all(re.search(r"\d{4}", record["text"]) for record in files["wrong"])


def test_no_template_and_no_name_of_a_file_is_in_another(files):
    names, templates = {}, {}
    for name in FILES[:3]:
        names[name] = {
            part
            for record in files[name]
            for person in parts(record, "NAME")
            for part in re.findall(r"\w+", person)
            if part not in ("de", "Groot", "Śmith")
        }
        templates[name] = {text for _, text in SCRIPT["templates_of"](name)}
        assert len(names[name]) > 50
    for one, other in itertools.combinations(FILES[:3], 2):
        assert not names[one] & names[other]
        assert not templates[one] & templates[other]
    everything = " ".join(record["text"] for record in files["train"])
    assert not set(re.findall(r"\w+", everything)) & names["test"]
    assert sum(map(len, templates.values())) == 76
