"""Tokenizers of the library `tokenizers`: for single texts, and where their pieces stand.

BERT's in this form has the ids of `wordpiece.WordPiece`, which is 3.5 times as fast on many texts.
Those of the RoBERTa family, byte-level BPE and unigrams, come in this form alone: a teacher that
reads texts so answers them, and its tokens go nowhere else.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tfdistill import errors
from tfdistill.tasks.encoded import (
    EncodedExamples,
    Truncation,
    check_max_length,
    kept_places,
)

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SUFFIX_INDICATOR = "##"
MAX_CHARACTERS_PER_WORD = 100
_NEVER_IN_A_WORD = re.compile(r"[\0-\x20\x7f]")
_BLOCK = 1024  # texts of one call


def check_vocab(tokens: Sequence[str], name: str = "vocabulary") -> None:
    """Refuses tokens that form no usable BERT vocabulary; messages call it `name`.

    No token is empty, repeated, or has a blank or a control character; all special ones are there.
    """
    _check(tuple(tokens), name)


@functools.lru_cache(maxsize=4)  # a vocabulary is read more than once
def _check(tokens: tuple[str, ...], name: str) -> None:
    first: dict[str, int] = {}
    for line, token in enumerate(tokens, start=1):
        if not token:
            received = "an empty file" if len(tokens) == 1 else f"an empty line {line}"
            raise errors.VocabularyError(
                name, "one token on each line", received, "Remove the empty line."
            )
        if outside := _NEVER_IN_A_WORD.search(token):
            raise errors.VocabularyError(
                f"{name}, line {line}",
                "a token alone: without blanks, tabs and control characters, which end a word",
                f"{outside[0]!r} in {errors.shortened(token)!r}",
                "Remove what is not the token, such as its count.",
            )
        if token in first:
            raise errors.VocabularyError(
                name,
                "each token once",
                f"{token!r} on lines {first[token]} and {line}",
                "An id must belong to one token.",
            )
        first[token] = line
    missing = [token for token in SPECIAL_TOKENS if token not in first]
    if missing:
        raise errors.VocabularyError(
            name,
            f"the special tokens {' '.join(SPECIAL_TOKENS)}",
            f"{len(tokens)} tokens without {' '.join(missing)}",
            "Is this the vocab.txt of a BERT model?",
        )


def check_strings(texts: Sequence[str]) -> Sequence[str]:
    """Returns texts; raises DataError if one is no string."""
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise errors.DataError(f"text {index}", "a string", f"{type(text).__name__} {text!r}")
    return texts


def wordpiece_of(ids: Mapping[str, int], *, lower_case: bool) -> tokenizers.Tokenizer:
    """Makes BERT's tokenizer of the library from the id of each token.

    A special token in a text is ordinary text until `add_special_tokens`.
    """
    model = models.WordPiece(
        dict(ids), unk_token="[UNK]", max_input_chars_per_word=MAX_CHARACTERS_PER_WORD
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lower_case)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece(prefix=SUFFIX_INDICATOR)
    return tokenizer


class LocatedPieces(NamedTuple):
    """Pieces of n texts without special tokens, and the position of each in its text.

    Characters are counted as Python counts them: ``text[start:end]`` is the piece before
    normalisation, with whatever normalisation dropped inside it.
    """

    ids: np.ndarray  # int32 (pieces,)
    offsets: np.ndarray  # int64 (n + 1,); text i has ``ids[offsets[i]:offsets[i + 1]]``
    starts: np.ndarray  # int32 (pieces,), the first character of each piece
    ends: np.ndarray  # int32 (pieces,), one past its last character


class _Tokens(NamedTuple):
    """Ids of a text or pair, and their types."""

    ids: list[int]
    types: list[int]


class LibraryTokenizer:
    """A tokenizer of the library `tokenizers`. Threads may share it.

    `unk_id`, `cls_id` and `sep_id` are those of BERT's tokens; None of another tokenizer.
    """

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        *,
        pad_id: int,
        num_types: int = 2,
        truncation: Truncation = "end",
    ):
        """Takes a tokenizer over, which others may not change; of one type all are 0."""
        self._tokenizer, self._last_type = tokenizer, num_types - 1
        self._truncation: Truncation = truncation
        self._tokenizer.no_padding()
        self._lock = threading.Lock()  # where to cut is a state of the library's tokenizer
        self._cut_at: int | None = None
        self._tokenizer.no_truncation()
        self.pad_id = pad_id
        self.vocab_size = tokenizer.get_vocab_size()
        special = [tokenizer.token_to_id(token) for token in ("[UNK]", "[CLS]", "[SEP]")]
        self.unk_id, self.cls_id, self.sep_id = special

    def replace(self, *, truncation: Truncation | None = None) -> LibraryTokenizer:
        """The same tokenizer that cuts elsewhere; None: where it does now."""
        types, cut = self._last_type + 1, truncation or self._truncation
        if cut == self._truncation:
            return self
        library = tokenizers.Tokenizer.from_str(self._tokenizer.to_str())
        return LibraryTokenizer(library, pad_id=self.pad_id, num_types=types, truncation=cut)

    def encode(self, text: str, pair: str | None = None, max_length: int = 128) -> list[int]:
        """Encodes one text or pair with the special tokens of the checkpoint.

        No pair is None; "" is an empty one. Of a pair that is longer than `max_length` the longer
        text is cut first; each text at its end or in its middle, see `encoded.heads_of`.
        """
        return self._encoded([text], None if pair is None else [pair], max_length)[0].ids

    def encode_typed(
        self, text: str, pair: str | None = None, max_length: int = 128
    ) -> tuple[list[int], list[int]]:
        """As `encode`, and the token type of each id."""
        tokens = self._encoded([text], None if pair is None else [pair], max_length)[0]
        return tokens.ids, tokens.types

    def encode_tokens(self, text: str, pair: str | None = None, max_length: int = 128) -> list[str]:
        """As `encode`, the tokens themselves."""
        ids = self.encode(text, pair, max_length)
        return [self._tokenizer.id_to_token(number) or f"id {number}" for number in ids]

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int = 128
    ) -> EncodedExamples:
        """Encodes texts or pairs, as `encode` does."""
        rows = self._encoded(texts, pairs, max_length)
        ids, offsets = _joined([row.ids for row in rows])
        types, _ = _joined([row.types for row in rows])
        types = np.minimum(types, self._last_type).astype(np.uint8)
        return EncodedExamples(ids, offsets, types, pad_id=self.pad_id)

    def locate(self, texts: Sequence[str]) -> LocatedPieces:
        """Tokenizes texts without special tokens, not cut, and locates each piece in them.

        The characters are those of the text as given: accents that are stripped, characters that
        are dropped and letters that become two are counted.
        """
        rows: list[list[int]] = []
        places: list[tuple[int, int]] = []
        for start in range(0, len(texts), _BLOCK):
            for encoding in self._run(texts[start : start + _BLOCK], special=False):
                rows.append(encoding.ids)
                places += encoding.offsets
        ids, offsets = _joined(rows)
        begins, ends = np.array(places, np.int32).reshape(-1, 2).T
        return LocatedPieces(ids, offsets, begins, ends)

    def pieces(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts without special tokens, not cut.

        The ids of all pieces, int32, and the number of pieces of each text, int64 (n,).
        """
        located = self.locate(texts)
        return located.ids, np.diff(located.offsets)

    def _encoded(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> list[_Tokens]:
        if pairs is not None and len(pairs) != len(texts):
            raise errors.DataError("pairs", f"{len(texts)} as texts", len(pairs))
        paired = pairs is not None
        check_max_length(max_length, paired=paired)
        special = self._tokenizer.num_special_tokens_to_add(paired)
        if max_length < special:
            raise errors.DataError("max_length", f"at least {special} special tokens", max_length)
        inputs = list(texts) if pairs is None else list(zip(texts, pairs, strict=True))
        if self._truncation == "end":
            rows = self._run(inputs, special=True, max_length=max_length)
            return [_Tokens(row.ids, row.type_ids) for row in rows]
        return [self._cut(row, max_length) for row in self._run(inputs, special=True)]

    def _cut(self, encoding: tokenizers.Encoding, max_length: int) -> _Tokens:
        """Cuts what is too long where the tokenizer says; the library can only cut one end off."""
        if len(encoding.ids) <= max_length:
            return _Tokens(encoding.ids, encoding.type_ids)
        places = kept_places(encoding.sequence_ids, max_length, self._truncation)
        return _Tokens(
            [encoding.ids[place] for place in places],
            [encoding.type_ids[place] for place in places],
        )

    def _run(
        self, inputs: Sequence[Any], *, special: bool, max_length: int | None = None
    ) -> list[tokenizers.Encoding]:
        try:
            with self._lock:
                if max_length != self._cut_at:
                    if max_length is None:
                        self._tokenizer.no_truncation()
                    else:
                        self._tokenizer.enable_truncation(max_length, strategy="longest_first")
                    self._cut_at = max_length
                if len(inputs) == 1:  # without the threads of a batch
                    text, pair = (inputs[0], None) if isinstance(inputs[0], str) else inputs[0]
                    return [self._tokenizer.encode(text, pair, add_special_tokens=special)]
                return self._tokenizer.encode_batch(list(inputs), add_special_tokens=special)
        except (TypeError, ValueError, UnicodeError) as error:
            raise errors.DataError("texts", "strings of Unicode characters", error) from None


def _joined(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers one after the other, int32, and where each row begins, int64 (n + 1,)."""
    numbers = [np.zeros(0, np.int32), *(np.array(row, np.int32) for row in rows)]
    return np.concatenate(numbers), np.cumsum([0, *map(len, rows)]).astype(np.int64)
