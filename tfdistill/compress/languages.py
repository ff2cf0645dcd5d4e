"""Which part of a vocabulary an app needs: the pieces of its texts, and of its languages' words."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.compress.vocabulary import count_pieces, rank_tokens
from tfdistill.io import reading
from tfdistill.tokenization.tokenizer import Tokenizer

PIECES_A_LANGUAGE = 16_000
"""Pieces that are kept of a language by default."""
_WORDS = 80_000  # of a language, the most frequent
_MANDELBROT = 2.7


@dataclasses.dataclass(frozen=True, eq=False)
class VocabularyChoice:
    """The pieces that are kept of a vocabulary.

    Attributes:
      ids: int64 (pieces,), their old ids, ascending.
      num_before: Pieces of the whole vocabulary.
      num_needed: Those that texts and their scripts need, without languages' words.
      ranked: int64 (wanted,), the old ids of those that are wanted where there is room for all, the
        most important first.
      shares: (wanted,), their shares among the pieces of running text: of the file, of texts alone
        theirs; the n-th word of a language counts 1 / (n + 2.7).
      words_of: Whose words these are; "" where texts alone choose.

    Reference: Mandelbrot 1953, for the frequency of the n-th word.
    """

    ids: np.ndarray
    num_before: int
    num_needed: int
    ranked: np.ndarray
    shares: np.ndarray
    words_of: str

    def first(self, num_pieces: int) -> VocabularyChoice:
        """The same with so many pieces."""
        return dataclasses.replace(self, ids=np.sort(self.ranked[:num_pieces]))

    @property
    def note(self) -> str:
        """What is kept, and what that costs, in one line."""
        pieces = f"vocabulary: {len(self.ids):,} of {self.num_before:,} pieces"
        if not self.words_of:
            return (
                f"{pieces}, those of the training texts and the characters of their scripts; other "
                "words of texts to come are cut into smaller pieces: --languages CODE or "
                "--languages-of FILE keeps theirs, too"
            )
        left_out = len(self.ranked) - len(self.ids)
        rest = f"; {left_out:,} of rarer words had no room" if left_out else ""
        return (
            f"{pieces}: {self.num_needed:,} for the texts and the characters of their scripts, the "
            f"others for frequent words of {self.words_of}{rest}"
        )


def choose(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    languages: Sequence[str] = (),
    languages_of: str | None = None,
    vocab_size: int | None = None,
) -> VocabularyChoice:
    """Chooses the pieces that texts and languages need.

    Args:
      tokenizer: The whole vocabulary.
      texts: Texts whose pieces are all kept; none where languages alone choose.
      languages: Codes of languages, see `words_of`.
      languages_of: A file of plain text in UTF-8, in further languages.
      vocab_size: The most pieces; None: 16,000 a language, and of texts alone what they need.

    Raises:
      ConfigError: If a language is not known, no word list is installed, or `vocab_size` is below
        what the texts need.
    """
    counts = np.zeros(tokenizer.vocab_size, np.int64)
    if texts or not (languages or languages_of):
        counts = count_pieces([*texts, tokenizer.prompt], tokenizer)
    frequencies: list[np.ndarray] = []
    for code in languages:
        ids, of_words = tokenizer.pieces(words_of(code))
        expected = np.repeat(1 / (np.arange(len(of_words)) + _MANDELBROT), of_words)
        frequencies.append(np.bincount(ids, expected, minlength=tokenizer.vocab_size))
    if languages_of is not None:
        what = f"languages_of {languages_of}"
        frequencies.append(count_pieces(_lines(languages_of), tokenizer, what))
    orders = [np.argsort(-of, kind="stable")[: np.count_nonzero(of)] for of in frequencies]
    ranked, needed, wanted = rank_tokens(counts, tokenizer, listed=_in_turns(orders))
    most = vocab_size or PIECES_A_LANGUAGE * len(orders) or wanted
    if vocab_size is not None and vocab_size < needed:
        raise errors.ConfigError(
            "vocab_size",
            f"at least {needed}, the pieces of the texts and the characters of their scripts",
            vocab_size,
        )
    shares = np.mean([each / each.sum() for each in frequencies or [counts]], axis=0)
    return VocabularyChoice(
        np.sort(ranked[: max(needed, min(most, wanted))]),
        num_before=tokenizer.vocab_size,
        num_needed=needed,
        ranked=ranked[:wanted],
        shares=shares[ranked[:wanted]],
        words_of=", ".join(
            [*languages, *filter(None, [languages_of and pathlib.Path(languages_of).name])]
        ),
    )


def words_of(language: str) -> list[str]:
    """The most frequent words of a language by its code, as wordfreq lists them; also capitalised.

    The lists are in lower case, and a vocabulary has other pieces for a word at the beginning of a
    sentence, or a German noun.
    """
    check_languages([language])
    words = _package().top_n_list(language, _WORDS)
    return list(dict.fromkeys(form for word in words for form in (word, word.capitalize())))


def check_languages(languages: Iterable[str]) -> None:
    """Refuses codes of languages that have no list of words, or all where there is no list."""
    for language in languages:
        listed = sorted(_package().available_languages())
        if language not in listed:
            raise errors.ConfigError(
                "languages",
                f"of {', '.join(listed)}",
                repr(language),
                "Of another language give plain text in languages_of.",
            )


def _package() -> Any:
    try:
        return importlib.import_module("wordfreq")
    except ImportError as error:
        raise errors.ConfigError(
            "languages",
            "the package wordfreq, which lists the words of languages",
            error,
            "Install it: pip install 'tfdistill[languages]'. Or give plain text in languages_of.",
        ) from None


def _lines(path: str) -> Iterator[str]:
    yield from reading.read_text(
        pathlib.Path(path), error=errors.DataError, what=f"languages_of {path}"
    ).splitlines()


def _in_turns(ranked: Sequence[np.ndarray]) -> np.ndarray:
    """The pieces of several languages by turns, each once."""
    turns = itertools.chain.from_iterable(itertools.zip_longest(*(row.tolist() for row in ranked)))
    return np.array(list(dict.fromkeys(index for index in turns if index is not None)), np.int64)
