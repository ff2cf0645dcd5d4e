"""What every tokenizer is and does, whatever its kind: the value that all others ask.

No code outside of this package compares kinds. What differs is an attribute or a method here: the
special tokens and how many separate a pair, the type of its second text, which pieces begin a
word, the file that holds the vocabulary.
"""

from __future__ import annotations

import abc
import array
import collections
import functools
import hashlib
import pathlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from tfdistill import errors
from tfdistill.tasks.encoded import (
    EncodedExamples,
    Template,
    Truncation,
    check_max_length,
    join,
    kept_runs,
    truncated_lengths,
)
from tfdistill.tokenization.library import LibraryTokenizer, LocatedPieces, check_strings

Kind = Literal["wordpiece", "unigram"]

_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = 1 << 16  # texts that are held as bytes
_LEAST_SHARE = 1e-3  # of the letters of texts, that a script of theirs has
_FREE_PLACE = "[unused"  # begins the tokens that BERT's vocabularies keep free


class Tokenizer(abc.ABC):
    """A tokenizer; a value, which nothing changes.

    Attributes:
      kind: Its name in model.json.
      types_special: Whether a special token that somebody typed is one.
      names_all_rows: Whether it, not config.json, says how many rows a model's table of words has
        and which of them is the padding's.
      file_name: The usual name of the file with its vocabulary.
      special_tokens: Those of padding, unknown pieces, begin, end and mask, in this order.
      vocab: The tokens in the order of their ids.
      vocab_size: Their number.
      vocab_file: The file that they came from, or "".
      lower_case: Whether text is lower-cased and stripped of accents, besides what the vocabulary's
        own normalisation does.
      truncation: Where a text that is too long is cut.
      prompt: What is put in front of every text that is encoded, such as ``query: ``; of a pair in
        front of the first.
      pad_id, unk_id, cls_id, sep_id: Ids of the special tokens.
      special_ids: Theirs and, where there is one, that of the mask.
    """

    kind: ClassVar[Kind]
    types_special: ClassVar[bool] = False
    names_all_rows: ClassVar[bool] = False
    file_name: ClassVar[str]
    special_tokens: ClassVar[tuple[str, ...]]
    _separators: ClassVar[int] = 1
    _second_type: ClassVar[int] = 1

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        lower_case: bool,
        truncation: Truncation,
        prompt: str,
        vocab_file: str,
    ):
        """Takes the tokens in the order of their ids; the kinds check them."""
        self.vocab, self.vocab_file = list(tokens), vocab_file
        self.vocab_size = len(self.vocab)
        self.lower_case, self.prompt = lower_case, prompt
        self.truncation: Truncation = truncation
        self._ids = {token: index for index, token in enumerate(self.vocab)}
        ids = [self._ids.get(token) for token in self.special_tokens]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (int(number) for number in ids[:4])  # pyright: ignore[reportArgumentType]
        self._mask_id = ids[4]
        self.special_ids = tuple(number for number in ids if number is not None)

    @property
    def mask_id(self) -> int:
        """The id of the mask."""
        if self._mask_id is None:
            raise errors.VocabularyError(self._name, f"a token {self.special_tokens[4]}", "none")
        return self._mask_id

    @property
    def template(self) -> Template:
        """The special tokens around texts."""
        return Template(self.pad_id, self.cls_id, self.sep_id, self._separators, self._second_type)

    @abc.abstractmethod
    def replace(
        self,
        *,
        lower_case: bool | None = None,
        truncation: Truncation | None = None,
        prompt: str | None = None,
    ) -> Tokenizer:
        """The same vocabulary with other settings; None leaves one as it is.

        Raises:
          VocabularyError: If the vocabulary's file says another case.
        """

    @property
    def of_many_languages(self) -> bool:
        """Whether an app of few languages needs a small part of the vocabulary."""
        return False

    @property
    def halves(self) -> np.ndarray | None:
        """The two tokens that each is in a row, of a kind whose words have several ways."""
        return None

    @abc.abstractmethod
    def always_needed(self, counts: np.ndarray) -> np.ndarray:
        """Which tokens a part of the vocabulary holds beside those of its texts, bool (n,).

        Any other word of the same kind can be spelt with them.

        Args:
          counts: (vocab_size,), how often the texts use each token.
        """

    def scripts(self, counts: np.ndarray) -> set[str]:
        """The scripts of texts: those of one in 1,000 of their letters or more.

        Args:
          counts: (vocab_size,), how often the texts use each token.
        """
        letters: collections.Counter[str] = collections.Counter()
        for index in np.flatnonzero(counts):
            for character in self.vocab[index]:
                letters[script_of(character)] += int(counts[index])
        del letters[""]
        least = _LEAST_SHARE * letters.total()
        return {script for script, count in letters.items() if count >= least}

    def spare(self, counts: np.ndarray) -> np.ndarray:
        """Which tokens no text of the same scripts has, bool (n,): other letters, free places.

        Args:
          counts: (vocab_size,), how often some texts use each token.
        """
        scripts = {"", *self.scripts(counts)}
        others = [
            token.startswith(_FREE_PLACE) or not scripts.issuperset(map(script_of, token))
            for token in self.vocab
        ]
        return np.array(others) & ~(self.always_needed(counts) | (counts > 0))

    @abc.abstractmethod
    def subset(self, ids: Sequence[int] | np.ndarray) -> Tokenizer:
        """The same settings with a part of the vocabulary, whose ids are the places in `ids`."""

    def check_rows(self, num_rows: int) -> None:
        """Checks that a table of word vectors has a row for each token.

        Args:
          num_rows: Its rows; more than the tokens are fine, tables are often padded.

        Raises:
          VocabularyError: If it has too few.
        """
        if self.vocab_size > num_rows:
            raise errors.VocabularyError(
                self._name,
                f"at most {num_rows} tokens, the rows of the model's embedding",
                self.vocab_size,
                "It belongs to another model.",
            )

    @property
    def _name(self) -> str:
        return f"vocabulary {self.vocab_file}".strip()

    @property
    @abc.abstractmethod
    def file_text(self) -> str:
        """The content of a file named `file_name`, which reads as this vocabulary."""

    @property
    def digest(self) -> str:
        """SHA-256 of what tells this vocabulary from another one."""
        return hashlib.sha256(self._identity.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    @abc.abstractmethod
    def _identity(self) -> str: ...

    @functools.cached_property
    @abc.abstractmethod
    def begins_word(self) -> np.ndarray:
        """Whether each token begins a word, bool (vocab_size,); others go on with one."""

    @abc.abstractmethod
    def word_of(self, token: str) -> str:
        """The word that a token is by itself; "" of one that goes on with a word, or is special."""

    @abc.abstractmethod
    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of texts, of which the tokens are pieces."""

    def foreign_reading(self, *, vectors: bool) -> str:
        """Why no tokenizer of `transformers` reads texts as this one does; "" where one does.

        The prompt of a model of `vectors` is known to sentence-transformers.
        """
        reason = ""
        if self.prompt and not vectors:
            reason = "a prompt stands in front of texts, and transformers puts none there"
        if self.truncation != "end":
            reason = "a text that is too long loses its middle, and transformers cuts one end off"
        return f"{reason}: only tfdistill reads it alike" if reason else ""

    @property
    def mediapipe_faults(self) -> list[str]:
        """Why MediaPipe's tokenizer reads other ids from texts."""
        faults = []
        if self.truncation != "end":
            end = "MediaPipe cuts long texts at their end, the model was trained on both ends"
            faults.append(end)
        if self.prompt:
            faults.append("MediaPipe puts nothing in front of texts, the model has a prompt")
        return faults

    @functools.cached_property
    @abc.abstractmethod
    def fast(self) -> LibraryTokenizer:
        """The same tokenizer of the library `tokenizers`; it puts no prompt in front."""

    @abc.abstractmethod
    def save_files(self, folder: pathlib.Path) -> None:
        """Writes the vocabulary files that `transformers` reads."""

    @abc.abstractmethod
    def hf_settings(self, family: str) -> Mapping[str, Any]:
        """The settings of tokenizer_config.json beside a model of a family."""

    def locate(self, texts: Sequence[str]) -> LocatedPieces:
        """Tokenizes texts and locates each piece in them; see `LibraryTokenizer.locate`."""
        return self.fast.locate(without_surrogates(texts))

    def encode(self, text: str, pair: str | None = None, max_length: int = 128) -> list[int]:
        """Encodes one text or pair, with the special tokens of `template`.

        Args:
          text: A text; may be empty.
          pair: A second text, which may be empty; None for none.
          max_length: The most tokens to return, special ones included. A pair is cut by
            `encoded.truncated_lengths` (the longer text first), each text at its end or in its
            middle, see `encoded.heads_of`.

        Returns:
          Token ids.

        Raises:
          DataError: If `text` or `pair` is not a string, or `max_length` has no room for the
            special tokens.
        """
        return self.encode_typed(text, pair, max_length)[0]

    def encode_typed(
        self, text: str, pair: str | None = None, max_length: int = 128
    ) -> tuple[list[int], list[int]]:
        """As `encode`, and the token type of each id."""
        first, *second = without_surrogates([text] if pair is None else [text, pair])
        return self.fast.encode_typed(self.prompt + first, *second, max_length=max_length)

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int = 128
    ) -> EncodedExamples:
        """Encodes many texts or pairs, as `encode` does.

        Args:
          texts: n texts.
          pairs: n second texts, or None.
          max_length: The most tokens of an example.

        Returns:
          The examples, without labels.

        Raises:
          DataError: As `encode`; also if the numbers of texts and pairs differ.
        """
        if pairs is not None and len(pairs) != len(texts):
            raise errors.DataError("pairs", f"{len(texts)} as texts", len(pairs))
        check_max_length(max_length, paired=pairs is not None, separators=self._separators)
        ids, counts = self.pieces(self._prompted(texts))
        others, other_counts = self.pieces(pairs or ())
        if pairs is None:
            other_counts = np.zeros_like(counts)
        has_pair = np.full(len(counts), pairs is not None)
        lengths = truncated_lengths(counts, other_counts, has_pair, max_length, self._separators)
        first = kept_runs(ids, counts, lengths.first, self.truncation)
        second = kept_runs(others, other_counts, lengths.second, self.truncation)
        return join(first, second, self.template, has_pair=has_pair)

    def _prompted(self, texts: Sequence[str]) -> Sequence[str]:
        return [self.prompt + text for text in check_strings(texts)] if self.prompt else texts

    def lengths(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Counts the tokens of texts or pairs, special ones included, without a limit.

        Args:
          texts: n texts.
          pairs: n second texts, or None.

        Returns:
          int64 (n,).
        """
        _, counts = self.pieces([*self._prompted(texts), *(pairs or ())])
        return self.whole_lengths(counts, pairs)

    def whole_lengths(self, counts: np.ndarray, pairs: Sequence[str] | None = None) -> np.ndarray:
        """The tokens of texts or pairs that are not cut, special ones included, int64 (n,).

        `counts` are the pieces of n texts, and then of their n second texts, where there are any.
        """
        if pairs is None:
            return counts.astype(np.int64) + 2
        return counts.astype(np.int64).reshape(2, -1).sum(axis=0) + 2 + self._separators

    def pieces(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts, without special tokens and not cut.

        Args:
          texts: n texts.

        Returns:
          The ids of all texts one after the other, int32 (pieces,), and the pieces of each text,
          int64 (n,).

        Raises:
          DataError: If a text is not a string.
        """
        ids, lengths = array.array("i"), array.array("q")  # grow without a second copy
        for start in range(0, max(len(texts), 1), _AT_ONCE):
            for some_ids, some_lengths in self._pieces(texts[start : start + _AT_ONCE]):
                ids.frombytes(np.asarray(some_ids, np.int32).tobytes())
                lengths.frombytes(np.asarray(some_lengths, np.int64).tobytes())
        return np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64)

    @abc.abstractmethod
    def _pieces(self, texts: Sequence[str]) -> Any:
        """Yields ids and the pieces of each text, a block of texts at a time."""


@functools.cache
def script_of(character: str) -> str:
    """The script of a letter or a combining mark, the first word of its name; "" of others."""
    is_letter = unicodedata.category(character)[0] in "LM"
    return unicodedata.name(character, "").partition(" ")[0] if is_letter else ""


def without_surrogates(texts: Sequence[str]) -> list[str]:
    """Texts without lone surrogates, of the same lengths; every tokenizer drops U+FFFD."""
    return [_SURROGATE.sub("\ufffd", text) for text in check_strings(texts)]


def checked_truncation(value: Any, what: str) -> Truncation:
    """Returns what a file says of where texts are cut, one of `encoded.Truncation`."""
    if value not in get_args(Truncation):
        expected = " or ".join(map(repr, get_args(Truncation)))
        raise errors.WeightsError(what, expected, repr(value)[:80])
    return value


def checked_prompt(value: Any, what: str) -> str:
    """Returns what a file says stands in front of texts; "" where it says nothing."""
    if value is not None and not isinstance(value, str):
        raise errors.WeightsError(what, "a text", repr(value)[:80])
    return value or ""
