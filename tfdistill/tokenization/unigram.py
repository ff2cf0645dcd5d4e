"""Unigram, the tokenizer of XLM-RoBERTa and its relatives, as one value.

A text is normalised by a table of the model (`precompiled_charsmap`), split at white space, and
each word, with U+2581 in front, is cut into the pieces of the greatest sum of scores. All of it is
computed by the library `tokenizers`, token by token as `AutoTokenizer` of transformers.

A special token that a user typed ("</s>") is that token, as there.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tasks.encoded import EncodedExamples, Truncation
from tfdistill.tokenization import edge_cases, library
from tfdistill.tokenization.library import LibraryTokenizer, LocatedPieces

SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
_MASK = SPECIAL_TOKENS[-1]
_RUNS_OF_BLANKS = " {2,}"  # the one expression of such files
_LENGTHS = ((512, False), (12, False), (64, True))  # the most tokens, whether of pairs


class Unigram:
    """Unigram tokenizer of XLM-RoBERTa; a value, which nothing changes.

    Attributes:
      vocab: The pieces in the order of their ids.
      scores: Their log probabilities, float64.
      vocab_size: Their number.
      vocab_file: The file that they came from, or "".
      truncation: Where a text that is too long is cut.
      pad_id, unk_id, cls_id, sep_id, mask_id: Ids of ``<pad>``, ``<unk>``, ``<s>``, ``</s>`` and
        ``<mask>``; None for the last where there is none.
      special_ids: All that there are.
    """

    def __init__(
        self,
        pieces: Sequence[tuple[str, float]],
        charsmap: str,
        *,
        truncation: Truncation = "end",
        vocab_file: str = "",
    ):
        """Builds the tokenizer of a vocabulary; `read_unigram` reads one.

        Args:
          pieces: The pieces and their scores in the order of the ids.
          charsmap: The table of the normalisation, base64.
          truncation: Where a text that is too long is cut: at its end, or in its middle.
          vocab_file: The file that they came from.

        Raises:
          VocabularyError: If the vocabulary is not usable.
        """
        check_pieces(pieces, vocab_file or "vocabulary")
        self.vocab = [piece for piece, _ in pieces]
        self.scores = np.array([score for _, score in pieces], np.float64)
        self.charsmap, self.vocab_file = charsmap, vocab_file
        self.vocab_size = len(self.vocab)
        self.truncation: Truncation = truncation
        ids = {piece: index for index, piece in enumerate(self.vocab)}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            ids.get(token) for token in SPECIAL_TOKENS
        )
        self.special_ids = tuple(ids[token] for token in SPECIAL_TOKENS if token in ids)

    def replace(self, *, truncation: Truncation | None = None) -> Unigram:
        """The same vocabulary that cuts elsewhere; None: where it does now."""
        if truncation in (None, self.truncation):
            return self
        return Unigram(
            self._pieces(), self.charsmap, truncation=truncation, vocab_file=self.vocab_file
        )

    def with_pieces(self, kept: Sequence[int]) -> Unigram:
        """The same settings with a part of the vocabulary, in the order of the ids `kept`.

        The scores stay. The lowest one has to be among them, since what has no piece is scored by
        it: then a text whose pieces are all kept has the same ones.
        """
        pieces = self._pieces()
        return Unigram([pieces[index] for index in kept], self.charsmap, truncation=self.truncation)

    def _pieces(self) -> list[tuple[str, float]]:
        return list(zip(self.vocab, self.scores.tolist(), strict=True))

    @property
    def digest(self) -> str:
        """SHA-256 of the tokenizer.json."""
        return hashlib.sha256(self.json_text.encode("utf-8")).hexdigest()

    @functools.cached_property
    def json_text(self) -> str:
        """The content of a tokenizer.json, in the form that XLM-RoBERTa's has."""
        special = {token: self.vocab.index(token) for token in SPECIAL_TOKENS if token in self.vocab}
        ends = {token: {"id": token, "ids": [special[token]], "tokens": [token]} for token in ("<s>", "</s>")}
        described = {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": index,
                    "content": token,
                    "single_word": False,
                    "lstrip": token == _MASK,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
                for token, index in sorted(special.items(), key=lambda item: item[1])
            ],
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": self.charsmap},
            "pre_tokenizer": {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "WhitespaceSplit"},
                    {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
                ],
            },
            "post_processor": {
                "type": "TemplateProcessing",
                "single": _template("<s>", "A", "</s>"),
                "pair": _template("<s>", "A", "</s>", "</s>", "B", "</s>"),
                "special_tokens": ends,
            },
            "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            "model": {
                "type": "Unigram",
                "unk_id": self.unk_id,
                "vocab": [list(piece) for piece in self._pieces()],
                "byte_fallback": False,
            },
        }
        return json.dumps(described, ensure_ascii=False)

    @functools.cached_property
    def fast(self) -> LibraryTokenizer:
        """The same tokenizer of the library `tokenizers`."""
        built = library.built(pathlib.Path(self.vocab_file), self.json_text)
        return LibraryTokenizer(
            built, pad_id=self.pad_id or 0, num_types=1, truncation=self.truncation
        )

    def encode(self, text: str, pair: str | None = None, max_length: int = 128) -> list[int]:
        """Encodes one text or pair: ``<s> text </s>`` or ``<s> text </s> </s> pair </s>``."""
        return self.fast.encode(*_cleaned([text] if pair is None else [text, pair]), max_length=max_length)

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int = 128
    ) -> EncodedExamples:
        """Encodes many texts or pairs, as `encode` does; all token types are 0."""
        others = None if pairs is None else _cleaned(pairs)
        return self.fast.encode_batch(_cleaned(texts), others, max_length)

    def locate(self, texts: Sequence[str]) -> LocatedPieces:
        """Tokenizes texts and locates each piece in them; see `LibraryTokenizer.locate`."""
        return self.fast.locate(_cleaned(texts))


def _template(*parts: str) -> list[dict[str, Any]]:
    return [
        {"Sequence" if len(part) == 1 else "SpecialToken": {"id": part, "type_id": 0}}
        for part in parts
    ]


def _cleaned(texts: Sequence[str]) -> list[str]:
    """Texts with U+FFFD, which the table drops, in the place of lone surrogates."""
    return [
        "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
        for text in library.check_strings(texts)
    ]


def check_pieces(pieces: Sequence[tuple[str, float]], name: str) -> None:
    """Refuses pieces that form no usable vocabulary; messages call it `name`."""
    first: dict[str, int] = {}
    for index, (piece, score) in enumerate(pieces):
        if piece in first:
            raise errors.VocabularyError(
                name, "each piece once", f"{piece!r} as {first[piece]} and {index}"
            )
        if not math.isfinite(score):
            raise errors.VocabularyError(f"{name}, score of {piece!r}", "a number", score)
        first[piece] = index
    if missing := [token for token in SPECIAL_TOKENS[:-1] if token not in first]:
        raise errors.VocabularyError(
            name,
            f"the special tokens {' '.join(SPECIAL_TOKENS[:-1])}",
            f"{len(pieces)} pieces without {' '.join(missing)}",
        )


def read_unigram(path: pathlib.Path, described: Mapping[str, Any]) -> Unigram:
    """Reads the tokenizer of a tokenizer.json whose model is Unigram, and judges it by its answers.

    Args:
      path: The file, for messages.
      described: Its content.

    Returns:
      The tokenizer.

    Raises:
      VocabularyError: If it is damaged, or answers otherwise than the tokenizer of XLM-RoBERTa with
        this vocabulary does: the message has the text.
    """
    model = library.part_of(described, "model")
    library.check_expressions(path, described, _RUNS_OF_BLANKS)
    rows = model.get("vocab")
    if not isinstance(rows, list) or not all(
        isinstance(row, list)
        and len(row) == 2
        and isinstance(row[0], str)
        and type(row[1]) in (int, float)
        for row in rows
    ):
        raise errors.VocabularyError(f"{path}, model.vocab", "pieces with their scores", "others")
    tables = list(_tables(described.get("normalizer")))
    if len(tables) != 1:
        raise errors.VocabularyError(f"{path}, normalizer", "one Precompiled", len(tables))
    pieces = [(piece, float(score)) for piece, score in rows]
    ours = Unigram(pieces, tables[0], vocab_file=str(path))
    if model.get("unk_id") != ours.unk_id or model.get("byte_fallback"):
        raise errors.VocabularyError(
            f"{path}, model", f"unk_id {ours.unk_id} and no byte_fallback", str(model.get("unk_id"))
        )
    _check_answers(path, ours, LibraryTokenizer(
        library.built(path, json.dumps(described)), pad_id=ours.pad_id or 0, num_types=1
    ))
    return ours


def _tables(normalizer: Any) -> Iterator[str]:
    if isinstance(normalizer, dict):
        if normalizer.get("type") == "Precompiled":
            yield str(normalizer.get("precompiled_charsmap"))
        yield from _tables(normalizer.get("normalizers"))
    elif isinstance(normalizer, list):
        for inner in normalizer:
            yield from _tables(inner)


def _check_answers(path: pathlib.Path, ours: Unigram, theirs: LibraryTokenizer) -> None:
    texts = _cleaned([*edge_cases.probe_texts(), "a <mask> b", "a  \n<mask>b", " a", "a ", "a\n", "a  b"])
    for max_length, paired in _LENGTHS:
        pairs = texts[::-1] if paired else None
        expected, received = (
            each.encode_batch(texts, pairs, max_length) for each in (ours.fast, theirs)
        )
        index = library._first_difference(expected, received)
        if index is None:
            continue
        example = (texts[index], pairs[index] if pairs else None, max_length)
        right, wrong = (" ".join(each.encode_tokens(*example)) for each in (ours.fast, theirs))
        raise errors.VocabularyError(
            f"{path}, tokens of {errors.shortened(texts[index])!r}",
            f"{errors.shortened(right)!r} as of XLM-RoBERTa's tokenizer",
            f"{errors.shortened(wrong)!r}",
        )
