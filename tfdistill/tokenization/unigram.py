"""Unigram, the tokenizer of XLM-RoBERTa and its relatives, as one value.

A text is normalised by a table of the model (`precompiled_charsmap`), split at white space, and
each word, with U+2581 in front, is cut into the pieces of the greatest sum of scores. All of it is
computed by the library `tokenizers`, token by token as `AutoTokenizer` of transformers.

A special token that a user typed ("</s>") is that token, as there.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import pathlib
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tfdistill import errors
from tfdistill.tasks.encoded import Truncation
from tfdistill.tokenization import edge_cases, library
from tfdistill.tokenization.library import LibraryTokenizer
from tfdistill.tokenization.tokenizer import Tokenizer, script_of, without_surrogates
from tfdistill.tokenization.wordpiece import checked_added, vocabulary_fault

SENTENCEPIECE_FILE = "sentencepiece.bpe.model"
MARK = "\u2581"  # in front of the first piece of a word
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>", "<mask>")
NAMES = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "sep_token": "</s>",
    "pad_token": "<pad>",
    "cls_token": "<s>",
    "mask_token": "<mask>",
}
_RUNS_OF_BLANKS = " {2,}"  # the one expression of such files
_PROBES = ("a <mask> b", "a  \n<mask>b", " a", "a ", "a\n", "a  b")
_BLOCK = 1 << 12  # texts of one call
_OF_MANY_LANGUAGES = 100_000  # pieces


class Unigram(Tokenizer):
    """Unigram tokenizer of XLM-RoBERTa: ``<s> text </s>``, ``<s> text </s> </s> pair </s>``.

    All token types are 0.

    Attributes:
      scores: The log probabilities of the pieces, float64 (vocab_size,).
      charsmap: The table of the normalisation, base64.
    """

    kind = "unigram"
    types_special = True
    names_all_rows = True
    file_name = "tokenizer.json"
    special_tokens = SPECIAL_TOKENS
    _separators = 2
    _second_type = 0

    def __init__(
        self,
        pieces: Sequence[tuple[str, float]],
        charsmap: str,
        *,
        truncation: Truncation = "end",
        prompt: str = "",
        vocab_file: str = "",
    ):
        """Builds the tokenizer of a vocabulary; `reading.read_tokenizer` reads one.

        Args:
          pieces: The pieces and their scores in the order of the ids.
          charsmap: The table of the normalisation, base64.
          truncation: Where a text that is too long is cut: at its end, or in its middle.
          prompt: What is put in front of every text.
          vocab_file: The file that they came from.

        Raises:
          VocabularyError: If the vocabulary is not usable.
        """
        check_pieces(pieces, vocab_file or "vocabulary")
        check_charsmap(charsmap, vocab_file or "vocabulary")
        super().__init__(
            [piece for piece, _ in pieces],
            lower_case=False,
            truncation=truncation,
            prompt=prompt,
            vocab_file=vocab_file,
        )
        self.scores = np.array([score for _, score in pieces], np.float64)
        self.charsmap = charsmap

    def replace(
        self,
        *,
        lower_case: bool | None = None,
        truncation: Truncation | None = None,
        prompt: str | None = None,
    ) -> Unigram:
        """The same vocabulary with other settings; see `Tokenizer.replace`."""
        if lower_case:
            raise errors.VocabularyError(
                self._name, "the case that its table of normalisation says", "lower_case"
            )
        cut, front = truncation or self.truncation, self.prompt if prompt is None else prompt
        if (cut, front) == (self.truncation, self.prompt):
            return self
        return Unigram(
            self._scored(),
            self.charsmap,
            truncation=cut,
            prompt=front,
            vocab_file=self.vocab_file,
        )

    @property
    def of_many_languages(self) -> bool:
        """Whether it has more pieces than six languages need."""
        return self.vocab_size > _OF_MANY_LANGUAGES

    def always_needed(self, counts: np.ndarray) -> np.ndarray:
        """The special tokens, the lowest-scored piece, the mark, and single characters.

        These are punctuation, currencies, those of ASCII, and the letters of the scripts of the
        texts (`scripts`), alone and with the mark.
        """
        scripts = self.scripts(counts)
        needed = np.array(
            [piece == MARK or _is_needed(piece.removeprefix(MARK), scripts) for piece in self.vocab]
        )
        needed[[*self.special_ids, int(np.argmin(self.scores))]] = True
        return needed

    def subset(self, ids: Sequence[int] | np.ndarray) -> Unigram:
        """The same settings with a part of the vocabulary; the scores stay.

        The lowest score has to be among them, since what has no piece is scored by it: then a text
        whose pieces are all kept has the same ones.
        """
        pieces = self._scored()
        return Unigram(
            [pieces[index] for index in ids],
            self.charsmap,
            truncation=self.truncation,
            prompt=self.prompt,
        )

    def _scored(self) -> list[tuple[str, float]]:
        return list(zip(self.vocab, self.scores.tolist(), strict=True))

    @property
    def _identity(self) -> str:
        return self.file_text

    @functools.cached_property
    def begins_word(self) -> np.ndarray:
        """Whether each piece has the mark of a word's first."""
        return np.array([piece.startswith(MARK) for piece in self.vocab])

    @functools.cached_property
    def halves(self) -> np.ndarray:
        """The two pieces that each is in a row, int32 (vocab_size, 2); -1 where there are none.

        They are those of the greatest sum of scores.
        """
        halves = np.full((self.vocab_size, 2), -1, np.int32)
        scores, ids = self.scores.tolist(), self._ids
        for index, piece in enumerate(self.vocab):
            ways = [
                (scores[ids[piece[:end]]] + scores[ids[piece[end:]]], end)
                for end in range(1, len(piece))
                if piece[:end] in ids and piece[end:] in ids
            ]
            if ways and index not in self.special_ids:
                _, end = max(ways)
                halves[index] = ids[piece[:end]], ids[piece[end:]]
        return halves

    def word_of(self, token: str) -> str:
        """The word that a piece is by itself; see `Tokenizer.word_of`."""
        return token[1:] if token.startswith(MARK) else ""

    def words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of texts: what normalisation leaves between blanks."""
        normalizer = self.fast.normalizer
        return [normalizer.normalize_str(text).split() for text in without_surrogates(texts)]

    @property
    def mediapipe_faults(self) -> list[str]:
        """Why MediaPipe's tokenizer reads other ids from texts."""
        other = "MediaPipe's tokenizer is WordPiece, the vocabulary is Unigram's"
        return [other, *super().mediapipe_faults]

    @functools.cached_property
    def file_text(self) -> str:
        """The content of a tokenizer.json, in the form that XLM-RoBERTa's has."""
        return self._built().to_str()

    def _built(self) -> tokenizers.Tokenizer:
        built = tokenizers.Tokenizer(models.Unigram(self._scored(), self.unk_id, False))
        built.normalizer = normalizers.Precompiled(base64.b64decode(self.charsmap))
        built.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.WhitespaceSplit(),
                pre_tokenizers.Metaspace(replacement=MARK, prepend_scheme="always"),
            ]
        )
        built.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>",
            pair="<s> $A </s> </s> $B </s>",
            special_tokens=[("<s>", self.cls_id), ("</s>", self.sep_id)],
        )
        built.decoder = decoders.Metaspace(replacement=MARK, prepend_scheme="always")
        built.add_special_tokens(
            [
                tokenizers.AddedToken(self.vocab[index], lstrip=index == self._mask_id)
                for index in sorted(self.special_ids)
            ]
        )
        return built

    @functools.cached_property
    def fast(self) -> LibraryTokenizer:
        """The same tokenizer of the library `tokenizers`."""
        return LibraryTokenizer(
            self._built(), pad_id=self.pad_id, num_types=1, truncation=self.truncation
        )

    def save_files(self, folder: pathlib.Path) -> None:
        """Writes tokenizer.json; see `Tokenizer.save_files`."""
        (folder / self.file_name).write_text(self.file_text, encoding="utf-8", newline="\n")

    def hf_settings(self, family: str) -> Mapping[str, Any]:
        """The settings of tokenizer_config.json; see `Tokenizer.hf_settings`."""
        del family
        named = {name: token for name, token in NAMES.items() if token in self._ids}
        return {"tokenizer_class": "XLMRobertaTokenizer", **named}

    def _pieces(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        cleaned = without_surrogates(texts)
        for start in range(0, max(len(cleaned), 1), _BLOCK):
            yield self.fast.pieces(cleaned[start : start + _BLOCK])


def _is_needed(character: str, scripts: Collection[str]) -> bool:
    """Whether a piece is a single character that texts of these scripts may have."""
    if len(character) != 1:
        return False
    is_sign = unicodedata.category(character)[0] == "P" or unicodedata.category(character) == "Sc"
    return character.isascii() or is_sign or script_of(character) in scripts


def check_pieces(pieces: Sequence[tuple[str, float]], name: str) -> None:
    """Refuses pieces that form no usable vocabulary; messages call it `name`."""
    first: dict[str, int] = {}
    for index, (piece, score) in enumerate(pieces):
        if piece in first or not piece:
            received = f"{piece!r} as {first.get(piece, index)} and {index}"
            raise errors.VocabularyError(name, "each piece once", received)
        if not math.isfinite(score):
            raise errors.VocabularyError(f"{name}, score of {piece!r}", "a number", score)
        first[piece] = index
    if missing := [token for token in SPECIAL_TOKENS[:-1] if token not in first]:
        raise errors.VocabularyError(
            name,
            f"the special tokens {' '.join(SPECIAL_TOKENS[:-1])}",
            f"{len(pieces)} pieces without {' '.join(missing)}",
        )


def check_charsmap(charsmap: str, name: str) -> None:
    """Refuses a table of normalisation in which a text could lead outside of it.

    It is a double array of 32-bit units, preceded by their bytes, and the texts that its keys
    become, each with a null character behind it.
    """
    try:
        table = base64.b64decode(charsmap, validate=True)
        size = int.from_bytes(table[:4], "little")
        units = np.frombuffer(table, "<u4", size // 4, 4).astype(np.int64)
        texts = table[4 + size :]
        texts.decode("utf-8")
    except ValueError as error:  # of base64, the array and UTF-8
        raise errors.VocabularyError(f"{name}, charsmap", "a whole table", f"{error}") from None
    is_text = units >> 31 == 1
    shifts = (units >> 10) << ((units >> 6) & 8)
    reached = (np.arange(len(units)) ^ shifts) | 255  # the last unit that a byte leads to
    begins = {0, *(index + 1 for index, byte in enumerate(texts) if byte == 0)} - {len(texts)}
    if size % 4 or len(units) < 256 or (reached[~is_text] >= len(units)).any():
        raise errors.VocabularyError(f"{name}, charsmap", "a whole table", "places outside of it")
    ends_key = ~is_text & (units >> 8 & 1 == 1)
    places = units[(np.arange(len(units)) ^ shifts)[ends_key]] & 0x7FFFFFFF
    if not set(places.tolist()) <= begins or not texts.endswith(b"\0"):
        raise errors.VocabularyError(f"{name}, charsmap", "places of its texts", "others")


def read_unigram(path: pathlib.Path, described: Mapping[str, Any]) -> Unigram:
    """Reads a tokenizer.json, whose content is `described`; its answers must be XLM-RoBERTa's."""
    model = library.part_of(described, "model")
    library.check_expressions(path, described, _RUNS_OF_BLANKS)
    checked_added(path, described, SPECIAL_TOKENS)
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
    built = library.built(path, json.dumps(described))
    texts = without_surrogates([*edge_cases.probe_texts(), *_PROBES])
    other = LibraryTokenizer(built, pad_id=ours.pad_id)  # with its types, which are to be 0
    library.check_same_answers(path, texts, ours.fast, other, whose="XLM-RoBERTa's tokenizer")
    return ours


def _tables(normalizer: Any) -> Iterator[str]:
    if isinstance(normalizer, dict):
        if normalizer.get("type") == "Precompiled":
            yield str(normalizer.get("precompiled_charsmap"))
        yield from _tables(normalizer.get("normalizers"))
    elif isinstance(normalizer, list):
        for inner in normalizer:
            yield from _tables(inner)


def check_sentencepiece(path: pathlib.Path, tokenizer: Unigram) -> None:
    """Refuses a model of SentencePiece, if it is there, with other pieces than the tokenizer's.

    Its first three are special and have other places there.
    """
    if not path.is_file():
        return
    import tensorflow as tf
    import tensorflow_text as text_ops

    try:
        with tf.init_scope():
            model: Any = text_ops.SentencepieceTokenizer(path.read_bytes())
            count = int(model.vocab_size())
            tokens = [each.decode() for each in model.id_to_string(tf.range(count)).numpy()]
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        fault = " ".join(str(error).split()).rpartition("}} ")[2][:200]
        raise errors.VocabularyError(f"{path}", "a model of SentencePiece", fault) from None
    ordinary = [token for token in tokenizer.vocab if token not in SPECIAL_TOKENS]
    remedy = "transformers follows tokenizer.json; remove the file that is not the model's."
    if fault := vocabulary_fault(
        f"{path}", ordinary, tokens[3:], whose=Unigram.file_name, remedy=remedy
    ):
        raise errors.VocabularyError(fault)
