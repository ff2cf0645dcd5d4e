"""Tokenizers of the library `tokenizers`: for single texts, where their pieces stand, and as judge.

BERT's in this form has the ids of `wordpiece.WordPiece`, which is 3.5 times as fast on many texts.
Those of the RoBERTa family, byte-level BPE and unigrams, come in this form alone: a teacher that
reads texts so answers them, and its tokens go nowhere else.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it.
So `case_of` builds the tokenizer that a tokenizer.json describes and lets it answer texts on which
tokenizers are known to differ; an answer other than BERT's is refused. The answers come from a
vocabulary of all characters of these texts, in which every split shows.
"""

from __future__ import annotations

import functools
import json
import pathlib
import threading
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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
from tfdistill.tokenization import edge_cases
from tfdistill.tokenization.unicode_classes import MAX_CHARACTERS_PER_WORD

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SUFFIX_INDICATOR = "##"
Answer = TypeVar("Answer")
_BLOCK = 1024  # texts of one call
NOT_BERTS = (
    "This tokenizer is neither BERT's nor XLM-RoBERTa's, and the model would answer wrongly with "
    "those. Take another checkpoint, or let it teach by its answers "
    "(scripts/answers_from_transformers.py)."
)
_FIRST_OTHER = 1 << 24  # ids of the tokens of the probe that are not special
_PIECES = ("first", "fi", "##rst", "##st", "st", "un", "##aff", "##able", "##ing", "##s")
_LENGTHS = ((512, False), (12, False), (64, True))  # the most tokens, whether of pairs


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
        self.vocab_size, self.normalizer = tokenizer.get_vocab_size(), tokenizer.normalizer
        special = [tokenizer.token_to_id(token) for token in ("[UNK]", "[CLS]", "[SEP]")]
        self.unk_id, self.cls_id, self.sep_id = special

    def replace(
        self, *, truncation: Truncation | None = None, prompt: str | None = None
    ) -> LibraryTokenizer:
        """The same tokenizer that cuts elsewhere; None: where it does now. It takes no prompt."""
        if prompt:
            raise errors.VocabularyError("prompt of such a tokenizer", "none", repr(prompt)[:80])
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
        return self.encode_typed(text, pair, max_length)[0]

    def encode_typed(
        self, text: str, pair: str | None = None, max_length: int = 128
    ) -> tuple[list[int], list[int]]:
        """As `encode`, and the token type of each id."""
        return self._encoded([text], None if pair is None else [pair], max_length)[0]

    def encode_tokens(self, text: str, pair: str | None = None, max_length: int = 128) -> list[str]:
        """As `encode`, the tokens themselves."""
        ids = self.encode(text, pair, max_length)
        return [self._tokenizer.id_to_token(number) or f"id {number}" for number in ids]

    def encode_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, max_length: int = 128
    ) -> EncodedExamples:
        """Encodes texts or pairs, as `encode` does."""
        rows = self._encoded(texts, pairs, max_length)
        ids, offsets = _joined([ids for ids, _ in rows])
        types, _ = _joined([types for _, types in rows])
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
            for encoding in self._run(texts[start : start + _BLOCK], special=False, places=True):
                rows.append(encoding.ids)
                places += encoding.offsets
        ids, offsets = _joined(rows)
        begins, ends = np.array(places, np.int32).reshape(-1, 2).T
        return LocatedPieces(ids, offsets, begins, ends)

    def pieces(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Tokenizes texts without special tokens, not cut.

        The ids of all pieces, int32, and the number of pieces of each text, int64 (n,).
        """
        ids, offsets = _joined([encoding.ids for encoding in self._run(texts, special=False)])
        return ids, np.diff(offsets)

    def _encoded(
        self, texts: Sequence[str], pairs: Sequence[str] | None, max_length: int
    ) -> list[tuple[list[int], list[int]]]:
        """The ids of each text or pair, and their types."""
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
            return [(row.ids, row.type_ids) for row in rows]
        return [self._cut(row, max_length) for row in self._run(inputs, special=True)]

    def _cut(self, encoding: tokenizers.Encoding, max_length: int) -> tuple[list[int], list[int]]:
        """Cuts what is too long where the tokenizer says; the library can only cut one end off."""
        if len(encoding.ids) <= max_length:
            return encoding.ids, encoding.type_ids
        places = kept_places(encoding.sequence_ids, max_length, self._truncation)
        ids, types = encoding.ids, encoding.type_ids
        return [ids[place] for place in places], [types[place] for place in places]

    def _run(
        self,
        inputs: Sequence[Any],
        *,
        special: bool,
        places: bool = False,
        max_length: int | None = None,
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
                encode = (
                    self._tokenizer.encode_batch if places else self._tokenizer.encode_batch_fast
                )
                return encode(list(inputs), add_special_tokens=special)
        except (TypeError, ValueError, UnicodeError) as error:
            raise errors.DataError("texts", "strings of Unicode characters", error) from None


def _joined(rows: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers one after the other, int32, and where each row begins, int64 (n + 1,)."""
    numbers = [np.zeros(0, np.int32), *(np.array(row, np.int32) for row in rows)]
    return np.concatenate(numbers), np.cumsum([0, *map(len, rows)]).astype(np.int64)


def typed_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The section of the model with its type, which files of the first `tokenizers` leave out.

    Their readers tell it by its keys, too; the files of bert-base-uncased and roberta-base are such
    ones.
    """
    vocabulary, kind = model.get("vocab"), model.get("type")
    if kind is None and isinstance(vocabulary, list) and "unk_id" in model:
        kind = "Unigram"
    elif kind is None and isinstance(vocabulary, dict):
        named = {"merges": "BPE", "max_input_chars_per_word": "WordPiece"}
        kind = next((named[key] for key in named if key in model), None)
    return dict(model) if kind is None else {**model, "type": kind}


def part_of(described: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A section of a description; {} where it is missing."""
    part = described.get(name)
    return part if isinstance(part, dict) else {}


def check_expressions(path: pathlib.Path, described: Any, allowed: str | None = None) -> None:
    """Refuses regular expressions, which may take for ever, but the one that is `allowed`."""
    for expression in _expressions(described):
        if expression != allowed:
            raise errors.VocabularyError(f"{path}", "no regular expressions", repr(expression)[:80])


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in ("Regex", "regex") and isinstance(inner, str):
                yield inner
            yield from _expressions(inner) if key != "vocab" else ()
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def answered(path: pathlib.Path, compute: Callable[[], Answer]) -> Answer:
    """What the library computes; refuses the file of a tokenizer where it cannot."""
    try:
        return compute()
    except (KeyboardInterrupt, SystemExit, errors.VocabularyError):
        raise
    except BaseException as error:  # the library raises bare Exception, and panics are none
        expected = "a tokenizer that the package tokenizers can read"
        raise errors.VocabularyError(f"{path}", expected, str(error)[:200]) from None


def built(path: pathlib.Path, described: str) -> tokenizers.Tokenizer:
    """Builds what a description says in the library; whatever it cannot read is refused."""
    return answered(path, lambda: tokenizers.Tokenizer.from_str(described))


@functools.lru_cache(maxsize=8)
def case_of(path: pathlib.Path, described: str, special: tuple[int, ...]) -> bool:
    """Whether a description lower-cases; refuses one that answers otherwise than BERT's tokenizer.

    `described` has no vocabulary; `special` are the ids of the special tokens.
    """
    texts, pieces = _probe()
    ids = dict(zip(pieces, range(_FIRST_OTHER, _FIRST_OTHER + len(pieces)), strict=True))
    ids |= dict(zip(SPECIAL_TOKENS, special, strict=True))
    content = json.loads(described)
    content["model"]["vocab"] = ids
    library = built(path, json.dumps(content))
    described_tokenizer = LibraryTokenizer(library, pad_id=special[0])
    upper, lower = answered(path, lambda: [described_tokenizer.encode(text) for text in "Aa"])
    lower_case = upper == lower
    berts = LibraryTokenizer(wordpiece_of(ids, lower_case=lower_case), pad_id=special[0])
    check_same_answers(path, texts, berts, described_tokenizer, whose="BERT's tokenizer")
    return lower_case


def check_same_answers(
    path: pathlib.Path,
    texts: Sequence[str],
    expected: LibraryTokenizer,
    received: LibraryTokenizer,
    *,
    whose: str,
) -> None:
    """Refuses the tokenizer of `path` where it reads texts or pairs otherwise than `whose` does."""
    for max_length, paired in _LENGTHS:
        pairs = texts[::-1] if paired else None
        right, wrong = (
            answered(path, functools.partial(each.encode_batch, texts, pairs, max_length))
            for each in (expected, received)
        )
        if (index := _first_difference(right, wrong)) is None:
            continue
        pair = pairs[index] if pairs else None
        example = (texts[index], pair, max_length)
        what = f"tokens of {errors.shortened(texts[index])!r}"
        what += "" if pair is None else f" and {errors.shortened(pair)!r}"
        ours, its = (" ".join(each.encode_tokens(*example)) for each in (expected, received))
        raise errors.VocabularyError(
            f"{path}, {what}",
            f"{errors.shortened(ours)!r} as of {whose}",
            f"{errors.shortened(its)!r}" + (" of other types" if ours == its else ""),
            NOT_BERTS,
        )


def _first_difference(expected: EncodedExamples, received: EncodedExamples) -> int | None:
    """The first example of other ids or types."""
    pairs = ((expected.ids, received.ids), (expected.types, received.types))
    if all(np.array_equal(*pair) for pair in (*pairs, (expected.offsets, received.offsets))):
        return None
    return next(
        index
        for index in range(len(expected))
        if not np.array_equal(expected.row(index), received.row(index))
        or not np.array_equal(expected.row_types(index), received.row_types(index))
    )


@functools.cache
def _probe() -> tuple[list[str], list[str]]:
    """The texts of the probe, and the tokens of its vocabulary but the special ones."""
    texts = edge_cases.probe_texts()
    characters: dict[str, None] = {}
    for text in texts:
        for form in (text, unicodedata.normalize("NFD", text), unicodedata.normalize("NFC", text)):
            characters |= dict.fromkeys(form + form.lower() + form.upper())
    alone = [character for character in characters if not character.isspace()]
    return texts, list(dict.fromkeys([*_PIECES, *alone, *(f"##{letter}" for letter in alone)]))
