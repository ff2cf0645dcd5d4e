"""Augmented sentences: words of a sentence exchanged for others that could stand in their place.

Pure functions. Which words could stand in a place is the business of
`training.augment_candidates`; the files are that of `training.augment`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from tfdistill import errors

# Copies that the published runs made, by task.
_COPIES = {"mnli": 10, "qqp": 10, "sst2": 20, "qnli": 20}
_OTHER_COPIES = 30
_WORD = re.compile("[a-z]+")
_BREAKS = re.compile(r"[\t\n\r]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AugmentOptions:
    """How much is exchanged.

    Attributes:
      copies: Draws for each text; equal results count once, so fewer sentences may come out.
      probability: The chance of each word that has candidates to be exchanged, in each draw.
      num_candidates: K: the words that the masked language model, or the vectors, offer.
      seed: Seed of the draws, at least 0.
      keep_originals: Whether each example is written before its augmented ones.

    Raises:
      ConfigError: If a value is out of range.
    """

    copies: int = _OTHER_COPIES
    probability: float = 0.4
    num_candidates: int = 15
    seed: int = 0
    keep_originals: bool = True

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        for name, least in (("copies", 1), ("num_candidates", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise errors.ConfigError(name, f"at least {least}", getattr(self, name))
        if not 0 < self.probability <= 1:
            raise errors.ConfigError("probability", "above 0, at most 1", self.probability)


class Text(NamedTuple):
    """A text as words, and what may stand in their places.

    Attributes:
      words: BERT's words of the text.
      candidates: Place of a word -> words that may stand there, at least one (the word itself
        may be among them).
    """

    words: list[str]
    candidates: Mapping[int, Sequence[str]]


def copies_for(task: str) -> int:
    """Returns the published number of copies: MNLI and QQP 10, SST-2 and QNLI 20, others 30."""
    return _COPIES.get(task.lower(), _OTHER_COPIES)


def replaceable_places(words: Sequence[str], stop_words: AbstractSet[str]) -> list[int]:
    """Returns the places of the words that may be exchanged: purely a to z and no stop word.

    A word with a capital, an accent or a digit stays. A tokenizer that lower-cases leaves no
    capital and no accent; with a cased one, names and first words of sentences stay.
    """
    return [
        place
        for place, word in enumerate(words)
        if _WORD.fullmatch(word) and word not in stop_words
    ]


def variants(
    text: Text, *, copies: int, probability: float, generator: np.random.Generator
) -> list[str]:
    """Draws augmented forms of one text.

    Each of `copies` draws starts from the original and exchanges each word that has candidates
    with the given probability for one of them, all equally likely.

    Args:
      text: Words and candidates.
      copies: Number of draws.
      probability: Chance of an exchange.
      generator: Gives two numbers for each word and draw, whatever comes out: more copies begin
        with the same ones.

    Returns:
      The forms that differ from the original and from each other, in the order drawn: words with
      a space between them.
    """
    places = sorted(text.candidates)
    found = {" ".join(text.words): None}
    for draw in generator.random((copies, len(places), 2)):
        words = list(text.words)
        for place, (chance, choice) in zip(places, draw, strict=True):
            if chance < probability:
                offered = text.candidates[place]
                words[place] = offered[int(choice * len(offered))]
        found[" ".join(words)] = None
    return list(found)[1:]


def augmented_pairs(
    index: int, texts: Sequence[Text], options: AugmentOptions
) -> Iterator[tuple[int, str]]:
    """Draws the augmented forms of one example of one or two texts.

    Each form changes one text of a pair; the other one stays as it was, so that an augmented
    second text never meets an altered first one. (The published code lets it.)

    Args:
      index: The example's place in the training set. With the seed it decides the draws, so that
        they depend on nothing else: not on what is drawn before, together, or after a resume.
      texts: The text, or the first and the second.
      options: Copies, probability, seed.

    Yields:
      (which text was changed, its new form).
    """
    for which, text in enumerate(texts):
        generator = np.random.default_rng([options.seed, index, which])
        for form in variants(
            text,
            copies=options.copies,
            probability=options.probability,
            generator=generator,
        ):
            yield which, form


def cell(text: str) -> str:
    """Makes a text fit into a cell of a TSV file: tabs and line breaks become spaces.

    BERT's tokenizer takes all of them for spaces. A lone surrogate, which UTF-8 cannot hold and
    the tokenizer drops, is dropped.
    """
    return _BREAKS.sub(" ", text).encode("utf-8", "ignore").decode("utf-8")
