"""Schemes of tags: recognised, and brought into one, BIO."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tfdistill import errors
from tfdistill.tasks import conll

BIO = "BIO"
_STRICT = {"BIOES": "ES", "BILOU": "LU"}  # their marks of last and of single words
_OF_ENTITY = re.compile(r"[BIESLU]-.")


def scheme_of(sentences: Iterable[Sequence[str]], where: str) -> str:
    """Recognises a scheme by all tags of a file; "" of plain word tags and of O alone.

    "BIOES" has E-TYPE or S-TYPE, "BILOU" L-TYPE or U-TYPE. "IO" has no B-TYPE, and "IOB1" has it
    only directly after an entity of the type; the others are "BIO". A file with both of the first
    two is refused.

    Example:
      >>> from tfdistill.tasks import schemes
      >>> schemes.scheme_of([["U-PER", "O"], ["B-LOC", "L-LOC"]], "train.conll")
      'BILOU'
    """
    pairs = {pair for tags in sentences for pair in zip(["O", *tags], tags)}  # noqa: B905
    tags = {tag for _, tag in pairs} - {"O"}
    if not tags or not all(map(_OF_ENTITY.match, tags)):
        return ""
    prefixes = {tag[0] for tag in tags}
    strict = [name for name, marks in _STRICT.items() if prefixes & set(marks)]
    if len(strict) > 1:
        mixed = [min(tag for tag in tags if tag[0] in marks) for marks in _STRICT.values()]
        raise errors.DataError(
            f"tags of {where}",
            "one scheme, BIOES or BILOU",
            f"both, such as {' and '.join(mixed)}",
            "Write the tags of all words in one of the two.",
        )
    if strict:
        return strict[0]
    if "B" not in prefixes:
        return "IO"
    begins = [(before, tag) for before, tag in pairs if tag[:2] == "B-"]
    return "IOB1" if all(before[2:] == tag[2:] for before, tag in begins) else BIO


def to_bio(sentences: Sequence[list[str]], where: str) -> tuple[str, list[list[str]]]:
    """Recognises the scheme of a file (`scheme_of`) and writes its tags as BIO; others stay.

    The entities of IO, BIO and IOB1 are those of `conll.entities`, as in the default mode of
    seqeval; of BIOES and BILOU those of `complete_entities`, as in its strict mode.
    """
    scheme = scheme_of(sentences, where)
    if not scheme:
        return scheme, list(sentences)
    entities = complete_entities if scheme in _STRICT else conll.entities
    return scheme, [tags_of(len(tags), entities(tags)) for tags in sentences]


def complete_entities(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """Finds the entities of a sentence in BIOES or BILOU whose tags are complete and in order.

    An entity is one S-TYPE (U-TYPE), or B-TYPE, any number of I-TYPE and E-TYPE (L-TYPE); other
    tags are of none. Returns (type, first word, one past the last word) of each.
    """
    spans, begin = set(), -1
    for position, tag in enumerate(tags):
        prefix, name = tag[:1], tag[2:]
        if prefix in "SU" or (prefix in "EL" and begin >= 0 and tags[begin][2:] == name):
            spans.add((name, position if prefix in "SU" else begin, position + 1))
            begin = -1
        elif prefix == "B":
            begin = position
        elif prefix != "I" or begin < 0 or tags[begin][2:] != name:
            begin = -1
    return spans


def tags_of(num_words: int, entities: Iterable[tuple[str, int, int]]) -> list[str]:
    """The tags in BIO of so many words, from (type, first word, one past the last word)."""
    tags = ["O"] * num_words
    for name, begin, end in entities:
        tags[begin:end] = [f"B-{name}"] + [f"I-{name}"] * (end - begin - 1)
    return tags
