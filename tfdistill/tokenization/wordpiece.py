"""WordPiece, BERT's tokenizer, as one value: its vocabulary and how it reads a text.

Whatever turns a text into ids asks this value: many texts are encoded inside a TensorFlow graph,
single ones, and where their pieces stand, by the library `tokenizers`; both equal
BertTokenizerFast token by token. A word of more than 100 characters is [UNK].

A special token that a user typed ("[SEP]") is ordinary text: it becomes "[", "sep", "]".
"""

from __future__ import annotations

import array
import functools
import hashlib
import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tasks.encoded import (
    EncodedExamples,
    Truncation,
    check_max_length,
    join,
    kept_runs,
    truncated_lengths,
)
from tfdistill.tokenization.library import (
    SPECIAL_TOKENS,
    LibraryTokenizer,
    LocatedPieces,
    check_strings,
    wordpiece_of,
)

VOCAB_FILE = "vocab.txt"
_NEVER_IN_A_WORD = re.compile(r"[\0-\x20\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_AT_ONCE = 1 << 16  # texts that are held as bytes


class WordPiece:
    """WordPiece tokenizer of BERT; a value, which nothing changes.

    Attributes:
      vocab: The tokens in the order of their ids.
      vocab_size: Their number.
      vocab_file: The file that they came from, or "".
      lower_case: Whether text is lower-cased and stripped of accents.
      truncation: Where a text that is too long is cut.
      pad_id, unk_id, cls_id, sep_id, mask_id: Ids of the special tokens.
      special_ids: All five.
    """

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        lower_case: bool = True,
        truncation: Truncation = "end",
        vocab_file: str = "",
    ):
        """Builds the tokenizer of a vocabulary; `reading.read_tokenizer` reads one.

        Args:
          tokens: The tokens in the order of their ids.
          lower_case: As the model was trained.
          truncation: Where a text that is too long is cut: at its end, or in its middle.
          vocab_file: The file that they came from.

        Raises:
          VocabularyError: If the vocabulary is not usable.
        """
        check_vocab(tokens, vocab_file or "vocabulary")
        self.vocab, self.vocab_file = list(tokens), vocab_file
        self.vocab_size = len(self.vocab)
        self.lower_case = lower_case
        self.truncation: Truncation = truncation
        self._ids = {token: index for index, token in enumerate(self.vocab)}
        self.special_ids = tuple(self._ids[token] for token in SPECIAL_TOKENS)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = self.special_ids

    @property
    def _name(self) -> str:
        return f"vocabulary {self.vocab_file}".strip()

    def replace(
        self, *, lower_case: bool | None = None, truncation: Truncation | None = None
    ) -> WordPiece:
        """The same vocabulary with other settings; None leaves one as it is.

        Raises:
          VocabularyError: If the tokens came from a tokenizer.json, which says another case.
        """
        if self.vocab_file.endswith(".json"):
            check_case(self.vocab_file, lower_case, self.lower_case)
        case = self.lower_case if lower_case is None else lower_case
        cut = truncation or self.truncation
        if (case, cut) == (self.lower_case, self.truncation):
            return self
        return WordPiece(self.vocab, lower_case=case, truncation=cut, vocab_file=self.vocab_file)

    def with_tokens(self, tokens: Sequence[str]) -> WordPiece:
        """The same settings with another vocabulary."""
        return WordPiece(tokens, lower_case=self.lower_case, truncation=self.truncation)

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
    def digest(self) -> str:
        """SHA-256 of the tokens in the order of their ids."""
        return hashlib.sha256("\n".join(self.vocab).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def vocab_text(self) -> str:
        """The content of a vocab.txt."""
        return format_vocab(self.vocab)

    @property
    def foreign_truncation(self) -> str:
        """Why no tokenizer of `transformers` cuts texts as this one does; "" where one does."""
        if self.truncation == "end":
            return ""
        return (
            "a text that is too long loses its middle, and transformers cuts one end off: only "
            "tfdistill reads it alike"
        )

    @functools.cached_property
    def fast(self) -> LibraryTokenizer:
        """The same tokenizer of the library `tokenizers`."""
        library = wordpiece_of(self._ids, lower_case=self.lower_case)
        return LibraryTokenizer(library, pad_id=self.pad_id, truncation=self.truncation)

    def save_json(self, path: str) -> None:
        """Writes the tokenizer.json of the library, in which typed special tokens are such."""
        library = wordpiece_of(self._ids, lower_case=self.lower_case)
        library.add_special_tokens(list(SPECIAL_TOKENS))
        library.save(path)

    @functools.cached_property
    def _graph(self) -> tuple[Any, Any]:
        from tfdistill.tokenization import words

        try:
            return words.pieces_graph(tuple(self.vocab), self.lower_case)
        except RuntimeError as error:
            raise errors.VocabularyError(
                self._name,
                "tokens of at most 256 bytes without null characters",
                " ".join(str(error).split())[:200],
            ) from None

    @property
    def wordpiece_model(self) -> bytes:
        """The vocabulary as the graph holds it: other tokens or another order give other bytes."""
        return self._graph[0]._model.numpy().tobytes()

    def tokenize(self, strings: Any) -> Any:
        """Gives the ids of the pieces of each string, without [CLS] and [SEP]; runs in a graph.

        Args:
          strings: `tf.Tensor`, string (n,), UTF-8.

        Returns:
          `tf.RaggedTensor`, int32 (n, tokens).
        """
        from tfdistill.tokenization import words

        return words.pieces_of(self._graph[0], strings, lower_case=self.lower_case)

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of texts, of which the tokens are pieces."""
        from tfdistill.tokenization import words

        if not texts:
            return []
        rows = words.split(words.as_bytes(texts), lower_case=self.lower_case).to_list()
        return [[word.decode("utf-8") for word in row] for row in rows]

    def locate(self, texts: Sequence[str]) -> LocatedPieces:
        """Tokenizes texts and locates each piece in them; see `LibraryTokenizer.locate`."""
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
        from tfdistill.tokenization import words

        ids, lengths = array.array("i"), array.array("q")  # grow without a second copy
        for start in range(0, max(len(texts), 1), _AT_ONCE):
            strings = words.as_bytes(texts[start : start + _AT_ONCE])
            for ragged in words.rows_of(self._graph[1], strings):
                ids.frombytes(ragged.values.numpy().view(np.uint8))
                lengths.frombytes(ragged.row_lengths().numpy().view(np.uint8))
        return np.frombuffer(ids, np.int32), np.frombuffer(lengths, np.int64)


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


def vocabulary_fault(
    what: str,
    expected: Sequence[str],
    received: Sequence[str],
    *,
    whose: str = "",
    remedy: str = "",
) -> str:
    """Says where the vocabulary `what` has other tokens than `whose`; "" where they are equal."""
    pairs = enumerate(itertools.zip_longest(expected, received))
    differing = [(index, pair) for index, pair in pairs if pair[0] != pair[1]]
    if not differing:
        return ""
    index, pair = differing[0]
    right, wrong = ("no token" if token is None else repr(token) for token in pair)
    more = f", the first of {len(differing)} ids that differ" if differing[1:] else ""
    return errors.explain(
        f"{what}, id {index} (line {index + 1})",
        f"{right} as in {whose}" if whose else right,
        f"{wrong}{more}",
        remedy,
    )


def format_vocab(tokens: Sequence[str]) -> str:
    """The content of a vocab.txt, checked."""
    check_vocab(tokens)
    return "\n".join(tokens) + "\n"


def check_case(file: str, lower_case: bool | None, described: bool) -> None:
    """Refuses a caller who contradicts the tokenizer.json that the tokens came from."""
    if lower_case not in (None, described):
        raise errors.VocabularyError(
            f"{file}, normalizer.lowercase", f"{lower_case}, as lower_case", described
        )


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
