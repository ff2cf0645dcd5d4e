"""Tokenizers that are not BERT's, from a tokenizer.json: byte-level BPE and unigrams.

The library `tokenizers` splits the texts; a teacher that reads them so answers them, and its
tokens go nowhere else.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tokenizers

from tfdistill import errors, files, reading
from tfdistill.data.tokenize import RaggedIds, check_max_length

_MODELS = ("BPE", "Unigram")
_SPACES = " {2,}"  # the one expression that these families use; others may take for ever
_CONFIG = "tokenizer_config.json"


class PretrainedTokenizer:
    """The tokenizer of a checkpoint of the RoBERTa family.

    Attributes:
      pad_id: The id that pads a batch.
      vocab_size: Number of tokens.
    """

    def __init__(self, path: files.Path, *, pad_id: int, num_rows: int):
        """Reads the tokenizer.

        Args:
          path: tokenizer.json; a tokenizer_config.json next to it is heeded.
          pad_id: The id that pads a batch.
          num_rows: Rows of the model's word table.

        Raises:
          VocabularyError: If it is damaged, of another kind, has more tokens than rows, or uses a
            regular expression of its own.
        """
        path = pathlib.Path(path)
        described = reading.read_json_object(path, error=errors.VocabularyError)
        kind = _part(described, "model").get("type")
        if kind not in _MODELS:
            raise errors.VocabularyError(
                f"{path}, model", f"one of {', '.join(_MODELS)}", repr(kind)[:80]
            )
        for expression in _expressions(described):
            if expression != _SPACES:
                raise errors.VocabularyError(
                    f"{path}", "no regular expressions", repr(expression)[:80]
                )
        _heed_settings(described, path.with_name(_CONFIG))
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(json.dumps(described))
            self._tokenizer.no_padding()
        except Exception as error:
            # The library raises bare Exception for whatever it cannot read.
            raise errors.VocabularyError(
                f"{path}", "a tokenizer that the package tokenizers can read", str(error)[:200]
            ) from None
        self.pad_id = pad_id
        self.vocab_size = self._tokenizer.get_vocab_size()
        last = max(self._tokenizer.get_vocab().values(), default=-1)
        if last >= num_rows:
            raise errors.VocabularyError(
                f"{path}", f"ids below {num_rows}, the rows of the embedding", last
            )

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int = 128
    ) -> RaggedIds:
        """Encodes texts or pairs with the special tokens of the checkpoint; all token types are 0.

        Args:
          texts: n texts.
          pairs: n second texts, "" for none, or None.
          max_length: The most tokens of an example. Of a pair the longer text is cut first.

        Returns:
          Ids, offsets and token types.

        Raises:
          DataError: If a text is not a string, the numbers of texts and pairs differ, or
            `max_length` has no room for the special tokens.
        """
        if pairs is not None and len(pairs) != len(texts):
            raise errors.DataError("pairs", f"{len(texts)} as texts", len(pairs))
        paired = pairs is not None and any(pairs)
        check_max_length(max_length, paired=paired)
        special = self._tokenizer.num_special_tokens_to_add(paired)
        if max_length <= special:
            raise errors.DataError("max_length", f"over {special} special tokens", max_length)
        given: list[Any] = list(texts)
        if pairs is not None:
            both = zip(texts, pairs, strict=True)
            given = [(text, pair) if pair else text for text, pair in both]
        self._tokenizer.enable_truncation(max_length, strategy="longest_first")
        try:
            encoded = self._tokenizer.encode_batch(given)
        except (TypeError, ValueError, UnicodeError) as error:
            raise errors.DataError("texts", "strings of Unicode characters", error) from None
        rows = [encoding.ids for encoding in encoded]
        offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
        ids = np.concatenate([np.zeros(0, np.int32), *(np.array(row, np.int32) for row in rows)])
        return RaggedIds(ids, offsets, np.zeros(len(ids), np.uint8))


def _part(described: dict[str, Any], name: str) -> dict[str, Any]:
    found = described.get(name)
    return found if isinstance(found, dict) else {}


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
    if pieces.get("type") != "ByteLevel" or not settings.is_file():
        return
    told = reading.read_json_object(settings, error=errors.VocabularyError)
    pieces["add_prefix_space"] = bool(told.get("add_prefix_space", False))
