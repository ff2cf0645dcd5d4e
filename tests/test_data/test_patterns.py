"""What form and checksum decide: e-mail addresses, IBANs, payment cards."""

import dataclasses
import time

import numpy as np
import pytest
import unigrams

from tfdistill import tasks
from tfdistill.data import tagged_words
from tfdistill.tasks import decoding, patterns, probabilities, words
from tfdistill.tasks.patterns import covered, find_patterns


def patterns_in(text):
    return [(it.label, text[it.start : it.end]) for it in find_patterns(text)]


@pytest.mark.parametrize(
    ("text", "emails"),
    [
        ("'anna@example.com', (b.c@x-y.io).", ["anna@example.com", "b.c@x-y.io"]),
        ("<x_y+1%z'o@sub.mail.example.org>", ["x_y+1%z'o@sub.mail.example.org"]),
        ("jo\u0308rg.ü@müller.de, иван@почта.рф.", ["jo\u0308rg.ü@müller.de", "иван@почта.рф"]),
        ("anna@example.com으로 请联系b@c.co谢谢", ["anna@example.com", "b@c.co"]),
        ("a@b  a@.de  @x.de  a@b.c  a@-b.de  a @b.de  a@b..de", []),
        ("a@b@c.de", ["b@c.de"]),
        ("x" * 64 + "@b.de", ["x" * 64 + "@b.de"]),
        ("A.B@C.DE\ufe0f.", ["A.B@C.DE\ufe0f"]),
    ],
)
def test_addresses_end_where_their_form_ends(text, emails):
    assert patterns_in(text) == [("EMAIL", email) for email in emails]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("IBAN DE89 3704 0044 0532 0130 00 is", [("IBAN", "DE89 3704 0044 0532 0130 00")]),
        ("de89-3704-0044-0532-0130-00", [("IBAN", "de89-3704-0044-0532-0130-00")]),
        ("DE 89\u00a03704004405\u202f32013000.", [("IBAN", "DE 89\u00a03704004405\u202f32013000")]),
        ("XDE89370400440532013000", []),
        ("DE89 3704 0044 0532 0130 000", []),
        ("DE89 3704  0044 0532 0130 00", []),
        ("DE89 3704 0044 0532 0130 01", []),  # its last 18 digits have the sum of a card
        ("4111111111111111 12/27 123", [("CARD", "4111111111111111")]),
        ("paid at 4111 1111 1111 1111 12/27", [("CARD", "4111 1111 1111 1111")]),
        ("42 4111-1111-1111-1111", [("CARD", "4111-1111-1111-1111")]),
        ("3782 822463 10005, 3056 930902 5904",
         [("CARD", "3782 822463 10005"), ("CARD", "3056 930902 5904")]),
        ("6304 9999 9999 9999 994", [("CARD", "6304 9999 9999 9999 994")]),
        ("卡号4111111111111111。4111\u20e3", [("CARD", "4111111111111111")]),
        ("4111 1111 1111 1111\u20e3", [("CARD", "4111 1111 1111 1111\u20e3")]),
        ("0.4111111111111111 +4111111111111111 x4111111111111111", []),
        ("4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1", []),
        ("2020 2021 2022 2023", []),  # Luhn's sum, but no such cards
        ("1111111111111117 7111111111111111", []),
        ("4111 1111 1111 1111@x.de", [("CARD", "4111 1111 1111 1111")]),
    ],
)  # fmt: skip
def test_numbers_have_the_form_and_the_sum(text, expected):
    assert patterns_in(text) == expected


def test_an_iban_of_each_country_is_found_and_none_with_one_digit_changed():
    random = np.random.default_rng(5)
    assert len(patterns._LENGTHS) == 89
    for country, length in patterns._LENGTHS.items():
        rest = "".join(map(str, random.integers(0, 10, length - 4)))
        check = 98 - int(rest + "".join(str(int(x, 36)) for x in country) + "00") % 97
        iban = f"{country}{check:02}{rest}"
        assert patterns_in(f"({iban})") == [("IBAN", iban)]
        place = int(random.integers(2, length))
        wrong = iban[:place] + str((int(iban[place]) + 1) % 10) + iban[place + 1 :]
        assert patterns_in(wrong) == []
        assert patterns_in(iban + "0") == []


def test_a_card_is_found_and_none_with_one_digit_changed():
    for card in ("4111111111111111", "5105105105105100", "2223003122003222", "6011111111111117"):
        assert patterns_in(card) == [("CARD", card)]
        for place in range(16):
            wrong = card[:place] + str((int(card[place]) + 1) % 10) + card[place + 1 :]
            assert patterns_in(wrong) == []


@pytest.mark.parametrize("shares", [False, True])
def test_the_words_of_a_pattern_get_its_tags_in_each_window_and_o_without_a_label(shares):
    labels = ("B-EMAIL", "O", "I-EMAIL", "B-X", "I-X")
    texts = ["no word", "to a@b.org from 4111 1111 1111 1111 to c@d.io now"]
    offsets = [words.find_words(text) for text in texts]
    tags = [np.full(len(places), 3, np.int32) for places in offsets]
    task = tasks.TaskSpec("pii", "text", "entities", kind="token", labels=labels)
    encoded = tagged_words.encode_words(texts, offsets, tags, unigrams.unigram(), 12)
    encoded = dataclasses.replace(encoded, task=task)
    assert len(encoded) > 3
    certain = np.eye(5)[[3] * encoded.num_tokens]
    outputs = certain * 0.9 + 0.02 if shares else 4 * certain
    rows = patterns.by_rule(outputs, encoded, texts, offsets, labels, shares=shares)
    logits = probabilities.logits_of(rows, softmax=shares)
    answers = decoding.decode_words(logits, encoded)
    of_text = [texts[1][a:b] for a, b in offsets[1].tolist()]
    names = [labels[tag] for tag in answers.words[len(offsets[0]) :]]
    expected = {"a": "B-EMAIL", "c": "B-EMAIL", "to": "B-X", "now": "B-X", "4111": "O", "1111": "O"}
    shown = dict(zip(of_text, names, strict=True))
    assert expected.items() <= shown.items()
    assert all(shown[word] == "I-EMAIL" for word in ("@", "b", ".", "org", "d", "io"))
    assert outputs[0, 3] == certain[0, 3] * (0.92 if shares else 4)  # the caller's are the same


def test_words_that_share_a_character_with_a_pattern_are_covered():
    text = "to anna@b.de, or"
    offsets = np.array([[0, 2], [3, 7], [7, 8], [8, 9], [9, 10], [10, 13], [12, 13], [14, 16]])
    expected = [False, True, True, True, True, True, False, False]
    assert covered(find_patterns(text), offsets).tolist() == expected
    assert covered([], offsets).tolist() == [False] * 8


@pytest.mark.parametrize("unit", ["@", "a@", "a.b@", "4111 ", "DE89 ", "1 ", "a@" + "b" * 70])
def test_time_is_in_proportion_to_the_text(unit):
    def seconds(size):
        text, taken = (unit * size)[:size], []
        for _ in range(3):
            begin = time.process_time()
            find_patterns(text)
            taken.append(time.process_time() - begin)
        return min(taken)

    # In proportion, it would be ten times; in proportion to the square, a hundred times.
    assert seconds(200_000) < 30 * max(seconds(20_000), 0.001)
