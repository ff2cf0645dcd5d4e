"""BERT's tokenizer inside the TensorFlow graph, equal to BertTokenizerFast token by token.

The ready-made BertTokenizer and FastBertTokenizer of tensorflow-text are not equal: their
lower-casing folds compatibility forms ("…" becomes "...", "ß" becomes "ss"). So the tokenizer is
composed of parts: the words of `data.basic_tokenizer`, and of each word its pieces by WordPiece,
longest match first; a word of more than 100 characters is [UNK].

Single texts, and where their pieces stand, come from the same tokenizer of `tokenizers`.

A special token that a user typed ("[SEP]") is ordinary text: it becomes "[", "sep", "]".
"""

from __future__ import annotations

import array
import functools
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as text_ops

from tfdistill import errors
from tfdistill.data import basic_tokenizer
from tfdistill.data import vocab as vocabularies
from tfdistill.data.basic_tokenizer import BATCH, as_bytes, check_strings
from tfdistill.data.fast_tokenizer import FastTokenizer, LocatedPieces, bert_tokenizer
from tfdistill.tasks.encoded import (
    EncodedExamples,
    Truncation,
    check_max_length,
    join,
    kept_runs,
    truncated_lengths,
)

MAX_CHARACTERS_PER_WORD = 100
# Longer than any word that WordPiece accepts, so it becomes [UNK].
_MAX_BYTES_PER_WORD = 4 * MAX_CHARACTERS_PER_WORD
_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = 64 * BATCH  # texts that are held as bytes
_TOO_LONG = "x" * (_MAX_BYTES_PER_WORD + 1)


class Tokenizer:
    """WordPiece tokenizer of BERT.

    Attributes:
      vocab: The tokens in the order of their ids.
      vocab_size: Their number.
      vocab_file: The file that they came from.
      lower_case: Whether text is lower-cased and stripped of accents.
      truncation: Where a text that is too long is cut.
      pad_id, unk_id, cls_id, sep_id, mask_id: Ids of the special tokens.
      special_ids: All five.
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike[str],
        lower_case: bool | None = None,
        truncation: Truncation = "end",
    ):
        """Builds the tokenizer of a vocabulary.

        Args:
          vocab_file: `tokenizer.json`, or `vocab.txt` with one token a line.
          lower_case: As the model was trained. None: as the vocabulary or its folder says, see
            `vocab.lower_case_of`.
          truncation: Where a text that is too long is cut: at its end, or in its middle.

        Raises:
          VocabularyError: If the vocabulary is not usable, or `lower_case` is not what its
            tokenizer.json says.
        """
        self.vocab_file = os.fspath(vocab_file)
        self.vocab = vocabularies.read_vocab(vocab_file)
        self.vocab_size = len(self.vocab)
        self.lower_case = vocabularies.lower_case_of(vocab_file, lower_case)
        self.truncation: Truncation = truncation
        ids = {token: index for index, token in enumerate(self.vocab)}
        self.special_ids = tuple(ids[token] for token in vocabularies.SPECIAL_TOKENS)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids
        try:
            self._wordpiece, self._graph = _graph_of(tuple(self.vocab), self.lower_case)
        except RuntimeError as error:
            raise errors.VocabularyError(
                f"vocabulary {self.vocab_file}",
                "tokens of at most 256 bytes without null characters",
                " ".join(str(error).split())[:200],
            ) from None

    def check_rows(self, num_rows: int) -> None:
        """Checks that a table of word vectors has a row for each token.

        Args:
          num_rows: Its rows.

        Raises:
          VocabularyError: If it has too few.
        """
        if self.vocab_size > num_rows:
            raise errors.VocabularyError(
                f"vocabulary {self.vocab_file}",
                f"at most {num_rows} tokens, the rows of the model's embedding",
                self.vocab_size,
                "It belongs to another model.",
            )

    @functools.cached_property
    def fast(self) -> FastTokenizer:
        """The same tokenizer of the library `tokenizers`."""
        return bert_tokenizer(self.vocab, lower_case=self.lower_case, truncation=self.truncation)

    @property
    def wordpiece_model(self) -> bytes:
        """The vocabulary as the graph holds it: other tokens or another order give other bytes."""
        return self._wordpiece._model.numpy().tobytes()

    def tokenize(self, strings: Any) -> Any:
        """Gives the ids of the pieces of each string, without [CLS] and [SEP]; runs in a graph.

        Args:
          strings: `tf.Tensor`, string (n,), UTF-8.

        Returns:
          `tf.RaggedTensor`, int32 (n, tokens).
        """
        return _pieces_of(self._wordpiece, strings, lower_case=self.lower_case)

    def locate(self, texts: Sequence[str]) -> LocatedPieces:
        """Tokenizes texts and locates each piece in them; see `FastTokenizer.locate`."""
        return self.fast.locate(_without_surrogates(texts))

    def encode(self, text: str, pair: str | None = None, max_length: int = 128) -> list[int]:
        """Encodes one text or pair: ``[CLS] text [SEP]`` or ``[CLS] text [SEP] pair [SEP]``.

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
        first, *second = _without_surrogates([text] if pair is None else [text, pair])
        return self.fast.encode(first, *second, max_length=max_length)

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
        check_max_length(max_length, paired=pairs is not None)
        ids, counts = self.pieces(texts)
        others, other_counts = self.pieces(pairs or ())
        if pairs is None:
            other_counts = np.zeros_like(counts)
        has_pair = np.full(len(counts), pairs is not None)
        lengths = truncated_lengths(counts, other_counts, has_pair, max_length)
        first = kept_runs(ids, counts, lengths.first, self.truncation)
        second = kept_runs(others, other_counts, lengths.second, self.truncation)
        return join(first, second, self.special_ids, has_pair=has_pair)

    def lengths(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> np.ndarray:
        """Counts the tokens of texts or pairs, special ones included, without a limit.

        Args:
          texts: n texts.
          pairs: n second texts, or None.

        Returns:
          int64 (n,).
        """
        _, counts = self.pieces([*texts, *(pairs or ())])
        return whole_lengths(counts, pairs)

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
            for ragged in self._rows(as_bytes(texts[start : start + _AT_ONCE])):
                ids.frombytes(ragged.values.numpy().view(np.uint8))
                lengths.frombytes(ragged.row_lengths().numpy().view(np.uint8))
        return np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64)

    def _rows(self, encoded: list[bytes]) -> Iterator[tf.RaggedTensor]:
        strings = tf.constant(encoded, tf.string, [len(encoded)])
        if len(encoded) <= BATCH:
            return iter([self._graph(strings)])
        starts = tf.data.Dataset.range(0, len(encoded), BATCH)
        return iter(
            starts.map(
                lambda start: self._graph(strings[start : start + BATCH]),
                num_parallel_calls=tf.data.AUTOTUNE,
            ).prefetch(2)
        )


@functools.lru_cache(maxsize=2)
def _graph_of(vocab: tuple[str, ...], lower_case: bool) -> tuple[Any, Any]:
    """The word pieces of a vocabulary, and the traced tokenizer: one for all that are equal."""
    wordpiece = text_ops.FastWordpieceTokenizer(
        vocab=list(vocab),
        suffix_indicator=vocabularies.SUFFIX_INDICATOR,
        max_bytes_per_word=_MAX_BYTES_PER_WORD,
        token_out_type=tf.int32,  # pyright: ignore[reportArgumentType]
        unknown_token="[UNK]",
        no_pretokenization=True,
    )
    graph = tf.function(
        functools.partial(_pieces_of, wordpiece, lower_case=lower_case),
        input_signature=[tf.TensorSpec([None], tf.string)],
        autograph=False,
    )
    return wordpiece, graph


def _pieces_of(wordpiece: Any, strings: Any, *, lower_case: bool) -> Any:
    split = basic_tokenizer.split(strings, lower_case=lower_case)
    lengths = tf.strings.length(split.flat_values, unit="UTF8_CHAR")
    words = tf.where(lengths > MAX_CHARACTERS_PER_WORD, _TOO_LONG, split.flat_values)
    return wordpiece.tokenize(split.with_flat_values(words)).merge_dims(1, 2)


def whole_lengths(counts: np.ndarray, pairs: Sequence[str] | None = None) -> np.ndarray:
    """The tokens of texts or pairs that are not cut, special ones included, int64 (n,).

    `counts` are the pieces of n texts, and then of their n second texts, where there are any.
    """
    if pairs is None:
        return counts.astype(np.int64) + 2
    return counts.astype(np.int64).reshape(2, -1).sum(axis=0) + 3


def _without_surrogates(texts: Sequence[str]) -> list[str]:
    """Texts without lone surrogates, of the same lengths; BERT's tokenizer drops U+FFFD."""
    return [_SURROGATE.sub("\ufffd", text) for text in check_strings(texts)]
