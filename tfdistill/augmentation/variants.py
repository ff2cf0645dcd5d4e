"""Augmented sentences: words of a sentence exchanged for others that fit there. Pure functions."""

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


# English words that carry grammar, not content. The second halves of contractions are among them
# because BERT's words end at an apostrophe: "don't" is "don", "'", "t".
_GRAMMAR_WORDS = """
a an the
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
one ones oneself who whom whose which what this that these those
each every either neither both all any some none no such another other others
someone somebody something anyone anybody anything everyone everybody everything nobody nothing
about above across after against along among around as at before behind below beneath beside
besides between beyond by down during except for from in inside into like near of off on onto out
outside over past per since than through throughout till to toward towards under until up upon via
with within without
and but or nor so yet if unless because although though while whereas whether
am is are was were be been being have has had having do does did doing done
can could may might must shall should will would ought
not never nt don won ain s t d ll m re ve
how when where why then there here thus hence therefore however
too very just only also even still again once ever more most less least much many few
own same quite rather almost
"""

_NEGATED = "is are was were has have had does did would could should must need"  # + n't

STOP_WORDS: frozenset[str] = frozenset(
    [*_GRAMMAR_WORDS.split(), *(f"{verb}n" for verb in _NEGATED.split())]
)


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


class ReplaceableText(NamedTuple):
    """A text as BERT's words, and what may replace them."""

    words: list[str]
    # Position of a word -> words that may replace it, at least one (the word itself may be among
    # them).
    candidates: Mapping[int, Sequence[str]]


def copies_for(task: str) -> int:
    """Returns the published number of copies: MNLI and QQP 10, SST-2 and QNLI 20, others 30."""
    return _COPIES.get(task.lower(), _OTHER_COPIES)


def replaceable_positions(words: Sequence[str], stop_words: AbstractSet[str]) -> list[int]:
    """Returns the positions of the words that may be exchanged: purely a to z and no stop word.

    A word with a capital, an accent or a digit stays. A tokenizer that lower-cases leaves no
    capital and no accent; with a cased one, names and first words of sentences stay.
    """
    return [
        position
        for position, word in enumerate(words)
        if _WORD.fullmatch(word) and word not in stop_words
    ]


def variants(
    text: ReplaceableText, *, copies: int, probability: float, generator: np.random.Generator
) -> list[str]:
    """Draws augmented forms of one text.

    Each of `copies` draws starts from the original and exchanges each word that has candidates
    with the given probability for one of them, all equally likely.
    """
    positions = sorted(text.candidates)
    sentences = {" ".join(text.words): None}
    for draw in generator.random((copies, len(positions), 2)):
        words = list(text.words)
        for position, (chance, choice) in zip(positions, draw, strict=True):
            if chance < probability:
                offered = text.candidates[position]
                words[position] = offered[int(choice * len(offered))]
        sentences[" ".join(words)] = None
    return list(sentences)[1:]


def augmented_pairs(
    index: int, texts: Sequence[ReplaceableText], options: AugmentOptions
) -> Iterator[tuple[int, str]]:
    """Draws the augmented forms of one example of one or two texts.

    Each form changes one text of a pair; the other one stays as it was, so that an augmented
    second text never meets an altered first one. (The published code lets it.)
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
