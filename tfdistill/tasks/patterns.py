"""E-mail addresses, IBANs and payment cards, found by form and checksum without a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tfdistill.tasks import decoding
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.words import past_marks

LABELS = ("EMAIL", "IBAN", "CARD")
NEVER = -1e4
"""The logit of a tag that a word cannot have."""
_LETTERS = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0300-\u037d\u037f-\u0481\u048a-\u0556"
_LOCAL = re.compile(rf"[0-9_{_LETTERS}][0-9{_LETTERS}._%+'\&\-]{{0,63}}\Z")
_LABEL = rf"[0-9{_LETTERS}](?:[0-9{_LETTERS}\-]{{0,61}}[0-9{_LETTERS}])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,8}}[{_LETTERS}]{{2,63}}")
_MOST_LOCAL = 64  # characters before the @ (RFC 5321, 4.5.3.1.1)
_GROUP = re.compile("[0-9A-Za-z]+")
_BETWEEN = " -\u00a0\u2009\u202f"  # one of them between two groups
_MOST = 34  # characters of an IBAN
_LENGTHS: dict[str, int] = dict(
    (item[:2], int(item[2:]))
    for item in (
        "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 "
        "DK18 DO28 EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 "
        "IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 "
        "MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 PT25 QA29 RO24 RS22 RU33 SA24 "
        "SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"
    ).split()
)
_CARD = re.compile(
    "(?:[3-6][0-9]{3}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{10,15}"
)
_LEAST_GROUP = 4  # digits of a card
# A number behind "+" is a phone's, one behind a decimal point a part of another.
_BEGIN = re.compile(r"[A-Za-z]{2}|(?<!\+)(?<![0-9]\.)[2-6][0-9]{3}")


class Pattern(NamedTuple):
    """What a rule finds in a text.

    Attributes:
      label: One of `LABELS`.
      start: Its first character, as Python counts them.
      end: One past its last, marks on it included.
    """

    label: str
    start: int
    end: int


def find_patterns(text: str) -> list[Pattern]:
    """Finds e-mail addresses, IBANs and the numbers of payment cards.

    - EMAIL: a local part of at most 64 and a domain of at least two labels, both of letters
      (Latin, Greek, Cyrillic), digits and the usual signs.
    - IBAN: as long as its country's, with the remainder 1 of 97 (ISO 13616), in either case.
    - CARD: 14 to 19 digits that begin as those of payment cards do, with Luhn's sum
      (ISO/IEC 7812), not after "+" or a decimal point. One in ten other numbers of this form has
      that sum by chance.

    An IBAN or a card number may stand in groups with a blank or a hyphen between; each group of a
    card but the last has at least four digits. The time is proportional to the text.

    Args:
      text: Any text.

    Returns:
      What is found, in order; of two that overlap the one that begins first, or else is longer.

    Example:
      >>> find_patterns("Pay 4111 1111 1111 1111 to GB82 WEST 1234 5698 7654 32.")
      [Pattern(label='CARD', start=4, end=23), Pattern(label='IBAN', start=27, end=54)]
      >>> find_patterns("4111 1111 1111 1112")
      []
    """
    patterns: list[Pattern] = []
    for pattern in sorted([*_emails(text), *_numbers(text)], key=lambda it: (it.start, -it.end)):
        if not patterns or pattern.start >= patterns[-1].end:
            patterns.append(pattern._replace(end=past_marks(text, pattern.end)))
    return patterns


def covered(patterns: Sequence[Pattern], offsets: np.ndarray) -> np.ndarray:
    """Whether the words at `offsets`, int (words, 2), overlap a pattern, bool (words,)."""
    starts, ends = np.array([it[1:] for it in patterns], np.int64).reshape(-1, 2).T
    first = np.searchsorted(ends, offsets[:, 0], side="right")  # that ends behind its start
    return np.append(starts, np.iinfo(np.int64).max)[first] < offsets[:, 1]


def by_rule(
    outputs: np.ndarray,
    encoded: EncodedExamples,
    texts: Sequence[str],
    word_offsets: Sequence[np.ndarray],
    labels: Sequence[str],
    *,
    shares: bool = False,
) -> np.ndarray:
    """Puts what rules find into the answers of a tagger.

    The words of a pattern get the tags of its label; O, where `labels` lack that.

    Args:
      outputs: float (tokens, tags), logits, or probabilities with `shares`.
      encoded: The windows of the texts.
      texts: Those with words, in the order of `EncodedExamples.sources`.
      word_offsets: The places of their words, int (words, 2) each.
      labels: The tags in their order: BIO or plain, O among them.
      shares: Whether outputs are probabilities.

    Returns:
      Outputs in the same form, in which no other tag is possible for these words.
    """
    answers = decoding.decode_words(outputs, encoded, labels)
    answering, index = np.repeat(answers.tokens, answers.counts), [*labels].index
    rows = np.array(outputs, copy=True)
    certain = np.eye(len(labels)) if shares else np.where(np.eye(len(labels)), 0.0, NEVER)
    for begin, text, offsets in zip(answers.word_bounds[:-1], texts, word_offsets, strict=True):
        for pattern in find_patterns(text):
            tokens = answering[begin + np.flatnonzero(covered([pattern], offsets))]
            names = [f"{role}-{pattern.label}" for role in "BI"]
            first, other = (index(name if name in labels else "O") for name in names)
            rows[tokens] = certain[other]
            rows[tokens[:1]] = certain[first]
    return rows


def _emails(text: str) -> Iterator[Pattern]:
    for at in re.finditer("@", text):
        begin = max(0, at.start() - _MOST_LOCAL)
        local = _LOCAL.search(text[begin : at.start()])
        domain = _DOMAIN.match(text, at.end())
        if local and domain:
            yield Pattern("EMAIL", begin + local.start(), domain.end())


def _numbers(text: str) -> Iterator[Pattern]:
    groups = [match.span() for match in _GROUP.finditer(text)]
    skipped = 0  # groups of the number before
    for first, (start, first_end) in enumerate(groups):
        if first < skipped or not _BEGIN.match(text, start):
            continue
        number, before, best = "", start, None
        for last in range(first, len(groups)):
            begin, end = groups[last]
            between = text[before:begin]
            if len(between) > 1 or between not in _BETWEEN or len(number) + end - begin > _MOST:
                break
            number, before = number + text[begin:end], end
            form = _form_of(number)
            if form and _is_right(form, number):
                best, skipped = Pattern(form, start, end), last + 1
            elif form == "IBAN" and first_end - start >= _LEAST_GROUP:
                skipped = last + 1  # no part of a wrong one is a card
            if number.isdigit() and end - begin < _LEAST_GROUP:
                break
        if best:
            yield best


def _form_of(number: str) -> str | None:
    if len(number) == _LENGTHS.get(number[:2].upper()) and number[2:4].isdigit():
        return "IBAN"
    return "CARD" if _CARD.fullmatch(number) else None


def _is_right(form: str, number: str) -> bool:
    if form == "IBAN":
        digits = "".join(str(int(letter, 36)) for letter in number[4:] + number[:4])
        return int(digits) % 97 == 1
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(number)))
    return sum(value // 10 + value % 10 for value in doubled) % 10 == 0
