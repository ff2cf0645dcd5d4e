"""Tokenizers of the library `tokenizers`: for single texts, and where their pieces stand.

BERT's in this form has the ids of `tokenize.Tokenizer`, which is 3.5 times as fast on many texts.
Those of the RoBERTa family, byte-level BPE and unigrams, come in this form alone: a teacher that
reads texts so answers them, and its tokens go nowhere else.
"""

from __future__ import annotations

import json
import pathlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from tfdistill import errors, tokenizer_json
from tfdistill.io import files, reading
from tfdistill.tasks.encoded import (
    EncodedExamples,
    Truncation,
    check_max_length,
    kept_places,
)

_MODELS = ("BPE", "Unigram")
_SPACES = " {2,}"  # the one expression that these families use; others may take for ever
_CONFIG = "tokenizer_config.json"
_BLOCK = 1024  # texts of one call


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


class FastTokenizer:
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
        self.pad_id = pad_id
        self.vocab_size = tokenizer.get_vocab_size()
        special = [tokenizer.token_to_id(token) for token in ("[UNK]", "[CLS]", "[SEP]")]
        self.unk_id, self.cls_id, self.sep_id = special

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
                if max_length is None:
                    self._tokenizer.no_truncation()
                else:
                    self._tokenizer.enable_truncation(max_length, strategy="longest_first")
                return self._tokenizer.encode_batch(list(inputs), add_special_tokens=special)
        except (TypeError, ValueError, UnicodeError) as error:
            raise errors.DataError("texts", "strings of Unicode characters", error) from None


def bert_tokenizer(
    tokens: Sequence[str], *, lower_case: bool, truncation: Truncation = "end"
) -> FastTokenizer:
    """Makes BERT's tokenizer, with the ids of `tokenize.Tokenizer`; see `vocab.read_vocab`."""
    built = tokenizer_json.build_tokenizer(tokens, lower_case=lower_case)
    pad_id = tokens.index(tokenizer_json.SPECIAL_TOKENS[0])
    return FastTokenizer(built, pad_id=pad_id, truncation=truncation)


def _joined(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers one after the other, int32, and where each row begins, int64 (n + 1,)."""
    numbers = [np.zeros(0, np.int32), *(np.array(row, np.int32) for row in rows)]
    return np.concatenate(numbers), np.cumsum([0, *map(len, rows)]).astype(np.int64)


def read_tokenizer(
    path: files.Path, *, pad_id: int, num_rows: int, truncation: Truncation = "end"
) -> FastTokenizer:
    """Reads the tokenizer of a checkpoint of the RoBERTa family; all token types are 0.

    A tokenizer_config.json next to the tokenizer.json is heeded. One of another kind, with more
    tokens than `num_rows`, those of the embedding, or with a regular expression of its own is
    refused.
    """
    path = pathlib.Path(path)
    described = reading.read_json_object(path, error=errors.VocabularyError)
    described["model"] = tokenizer_json.typed_model(_part(described, "model"))
    kind = described["model"].get("type")
    if kind not in _MODELS:
        raise errors.VocabularyError(
            f"{path}, model", f"one of {', '.join(_MODELS)}", repr(kind)[:80]
        )
    for expression in _expressions(described):
        if expression != _SPACES:
            raise errors.VocabularyError(f"{path}", "no regular expressions", repr(expression)[:80])
    _heed_settings(described, path.with_name(_CONFIG))
    try:
        tokenizer = tokenizers.Tokenizer.from_str(json.dumps(described))
    except Exception as error:
        # The library raises bare Exception for whatever it cannot read.
        raise errors.VocabularyError(
            f"{path}", "a tokenizer that the package tokenizers can read", str(error)[:200]
        ) from None
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= num_rows:
        raise errors.VocabularyError(
            f"{path}", f"ids below {num_rows}, the rows of the embedding", last
        )
    return FastTokenizer(tokenizer, pad_id=pad_id, num_types=1, truncation=truncation)


def _part(described: dict[str, Any], name: str) -> dict[str, Any]:
    part = described.get(name)
    return part if isinstance(part, dict) else {}


def _expressions(value: Any) -> Iterator[str]:
    """Yields the regular expressions of a description."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("Regex", "regex") and isinstance(inner, str):
                yield inner
            yield from _expressions(inner) if key != "vocab" else ()
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _heed_settings(described: dict[str, Any], settings: pathlib.Path) -> None:
    """Lets tokenizer_config.json say whether a text begins with a space, as transformers does."""
    pieces = _part(described, "pre_tokenizer")
    if pieces.get("type") != "ByteLevel":
        return
    there = settings.is_file()
    told = reading.read_json_object(settings, error=errors.VocabularyError) if there else {}
    name, is_set = told.get("tokenizer_class"), bool(told.get("add_prefix_space", False))
    described_so = pieces.get("add_prefix_space", True)
    if name == "TokenizersBackend":  # which follows tokenizer.json
        return
    if name == "PreTrainedTokenizerFast" and is_set != described_so:
        raise errors.VocabularyError(
            f"{settings}, add_prefix_space",
            f"{described_so}, as in tokenizer.json",
            told.get("add_prefix_space", "none, which is False"),
            "transformers 4 follows the one, 5 the other: write into both what the model was "
            "trained with.",
        )
    pieces["add_prefix_space"] = is_set
