"""WordPiece, BERT's tokenizer, as one value: its vocabulary and how it reads a text.

Whatever turns a text into ids asks this value: many texts are encoded inside a TensorFlow graph,
single ones, and where their pieces stand, by the library `tokenizers`; both equal
BertTokenizerFast token by token. A word of more than 100 characters is [UNK].

A special token that a user typed ("[SEP]") is ordinary text: it becomes "[", "sep", "]".
"""

from __future__ import annotations

import functools
import itertools
import json
import pathlib
import re
import string
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tasks.encoded import Truncation
from tfdistill.tokenization import library
from tfdistill.tokenization.library import (
    SPECIAL_TOKENS,
    SUFFIX_INDICATOR,
    LibraryTokenizer,
    wordpiece_of,
)
from tfdistill.tokenization.tokenizer import Tokenizer

VOCAB_FILE = "vocab.txt"
SPECIAL_NAMES = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
_CLASSES = {"distilbert": "DistilBertTokenizer", "mobilebert": "MobileBertTokenizer"}
_NEVER_IN_A_WORD = re.compile(r"[\0-\x20\x7f]")


class WordPiece(Tokenizer):
    """WordPiece tokenizer of BERT: ``[CLS] text [SEP]``, ``[CLS] text [SEP] pair [SEP]``."""

    kind = "wordpiece"
    file_name = VOCAB_FILE
    special_tokens = SPECIAL_TOKENS

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        lower_case: bool = True,
        truncation: Truncation = "end",
        prompt: str = "",
        vocab_file: str = "",
    ):
        """Builds the tokenizer of a vocabulary; `reading.read_tokenizer` reads one.

        Args:
          tokens: The tokens in the order of their ids.
          lower_case: As the model was trained.
          truncation: Where a text that is too long is cut: at its end, or in its middle.
          prompt: What is put in front of every text.
          vocab_file: The file that they came from.

        Raises:
          VocabularyError: If the vocabulary is not usable.
        """
        check_vocab(tokens, vocab_file or "vocabulary")
        super().__init__(
            tokens,
            lower_case=lower_case,
            truncation=truncation,
            prompt=prompt,
            vocab_file=vocab_file,
        )

    def replace(
        self,
        *,
        lower_case: bool | None = None,
        truncation: Truncation | None = None,
        prompt: str | None = None,
    ) -> WordPiece:
        """The same vocabulary with other settings; see `Tokenizer.replace`."""
        if self.vocab_file.endswith(".json"):
            check_case(self.vocab_file, lower_case, self.lower_case)
        case = self.lower_case if lower_case is None else lower_case
        cut, front = truncation or self.truncation, self.prompt if prompt is None else prompt
        if (case, cut, front) == (self.lower_case, self.truncation, self.prompt):
            return self
        return WordPiece(
            self.vocab, lower_case=case, truncation=cut, prompt=front, vocab_file=self.vocab_file
        )

    def always_needed(self, counts: np.ndarray) -> np.ndarray:
        """The special tokens, and the characters of ASCII and of the texts, alone and in words."""
        mark = SUFFIX_INDICATOR
        alphabet = set(string.ascii_letters + string.digits + string.punctuation)
        for token in {self.vocab[index] for index in np.flatnonzero(counts)} - {*SPECIAL_TOKENS}:
            alphabet.update(token.removeprefix(mark))
        letters = {form for character in alphabet for form in (character, mark + character)}
        return np.array([token in letters or token in SPECIAL_TOKENS for token in self.vocab])

    def subset(self, ids: Sequence[int] | np.ndarray) -> WordPiece:
        """The same settings with a part of the vocabulary; see `Tokenizer.subset`."""
        tokens = [self.vocab[index] for index in ids]
        return WordPiece(
            tokens, lower_case=self.lower_case, truncation=self.truncation, prompt=self.prompt
        )

    @property
    def file_text(self) -> str:
        """The content of a vocab.txt."""
        return format_vocab(self.vocab)

    @property
    def _identity(self) -> str:
        return "\n".join(self.vocab)

    @functools.cached_property
    def begins_word(self) -> np.ndarray:
        """Whether each token has no "##"."""
        return np.array([not token.startswith(SUFFIX_INDICATOR) for token in self.vocab])

    def word_of(self, token: str) -> str:
        """The word that a token is by itself; see `Tokenizer.word_of`."""
        special = token.startswith("[") and token.endswith("]") and len(token) > 2
        return "" if special or token.startswith(SUFFIX_INDICATOR) else token

    @property
    def mediapipe_faults(self) -> list[str]:
        """Why MediaPipe's tokenizer reads other ids from texts."""
        cased = "MediaPipe lower-cases every text, the vocabulary is a cased one"
        return [*([] if self.lower_case else [cased]), *super().mediapipe_faults]

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

    def save_files(self, folder: pathlib.Path) -> None:
        """Writes vocab.txt and tokenizer.json; see `Tokenizer.save_files`."""
        (folder / VOCAB_FILE).write_text(self.file_text, encoding="utf-8", newline="\n")
        self.save_json(str(folder / "tokenizer.json"))

    def hf_settings(self, family: str) -> Mapping[str, Any]:
        """The settings of tokenizer_config.json; see `Tokenizer.hf_settings`."""
        settings: dict[str, Any] = {
            "tokenizer_class": _CLASSES.get(family, "BertTokenizer"),
            "do_lower_case": self.lower_case,
            "strip_accents": None,
            "tokenize_chinese_chars": True,
            **SPECIAL_NAMES,
        }
        if family == "distilbert":  # whose model takes no token types
            settings["model_input_names"] = ["input_ids", "attention_mask"]
        return settings

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

    def _pieces(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        from tfdistill.tokenization import words

        for ragged in words.rows_of(self._graph[1], words.as_bytes(texts)):
            yield ragged.values.numpy(), ragged.row_lengths().numpy()


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


def read_wordpiece(path: pathlib.Path, described: Mapping[str, Any]) -> WordPiece:
    """Reads a tokenizer.json, whose content is `described`; its answers must be BERT's."""
    model = dict(library.part_of(described, "model"))
    library.check_expressions(path, described)
    tokens = _described_tokens(path, model.pop("vocab", None), checked_added(path, described))
    check_vocab(tokens, str(path))
    rest = json.dumps({**described, "model": model, "added_tokens": []})
    special = tuple(tokens.index(token) for token in SPECIAL_TOKENS)
    lower_case = library.case_of(path, rest, special)
    return WordPiece(tokens, lower_case=lower_case, vocab_file=str(path))


def checked_added(
    path: pathlib.Path, described: Mapping[str, Any], special: Collection[str] = SPECIAL_TOKENS
) -> list[dict[str, Any]]:
    """The added tokens of a tokenizer.json, which may be `special` ones alone."""
    added = described.get("added_tokens") or []
    if not isinstance(added, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("content"), str) for entry in added
    ):
        raise errors.VocabularyError(f"{path}, added_tokens", "a list of tokens", repr(added)[:80])
    named = (entry["content"] for entry in added)
    if fault := added_tokens_fault(f"{path}, added_tokens", named, special):
        raise errors.VocabularyError(fault)
    return added


def _described_tokens(
    path: pathlib.Path, vocabulary: Any, added: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The tokens by id: those of the model, and special tokens that are only listed."""
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise errors.VocabularyError(f"{path}, model.vocab", "tokens with their ids", "none")
    ids: dict[str, Any] = dict(vocabulary)
    for entry in added:
        if ids.setdefault(entry["content"], entry.get("id")) != entry.get("id"):
            raise errors.VocabularyError(
                f"{path}, added_tokens",
                f"{entry['content']!r} with the id {ids[entry['content']]} that model.vocab says",
                repr(entry.get("id")),
            )
    by_id = {index: token for token, index in ids.items() if type(index) is int}
    missing = next((index for index in range(len(ids)) if index not in by_id), None)
    if missing is not None:
        raise errors.VocabularyError(
            f"{path}, model.vocab",
            f"a token for each id from 0 to {len(ids) - 1}",
            f"none for the id {missing}",
            "The vocabulary that it was made from held a token twice.",
        )
    return [by_id[index] for index in range(len(ids))]


def added_tokens_fault(
    what: str, tokens: Iterable[str], special: Collection[str] = SPECIAL_TOKENS
) -> str:
    """Names tokens that `what` adds to a vocabulary, `special` ones aside; "" where none are."""
    added = [token for token in dict.fromkeys(tokens) if token not in special]
    if not added:
        return ""
    shown = ", ".join(map(repr, added[:8])) + (f" and {len(added) - 8} more" if added[8:] else "")
    return errors.explain(
        what,
        "no tokens but the vocabulary's",
        f"{len(added)} added: {shown}",
        "Added tokens are split off before the words are, which no exported file does. Train the "
        "model with words for them, or let it teach by its answers "
        "(scripts/answers_from_transformers.py).",
    )
