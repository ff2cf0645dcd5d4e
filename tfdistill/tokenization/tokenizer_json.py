"""tokenizer.json of BERT's tokenizer: its vocabulary and its case, or why it is another one.

The file is what `transformers` 5 and `sentence-transformers` 6 save, without a vocab.txt. A model
answers nonsense where text is split otherwise than it was trained on, and nothing shows it. So the
described tokenizer is built by the library `tokenizers` and answers texts on which tokenizers are
known to differ; an answer other than ours is refused. Descriptions that answer alike are accepted.

The answers come from a vocabulary of all characters of these texts, in which every split shows. The
vocabulary of the file is compared token by token by whoever needs it.
"""

from __future__ import annotations

import functools
import json
import pathlib
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tokenizers

from tfdistill import errors
from tfdistill.io import reading
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tokenization import edge_cases
from tfdistill.tokenization.library import (
    SPECIAL_TOKENS,
    LibraryTokenizer,
    check_vocab,
    wordpiece_of,
)

FILE_NAME = "tokenizer.json"
_REMEDY = (
    "This is not BERT's tokenizer, and the model would answer wrongly with that. Take another "
    "checkpoint, or let it teach by its answers (scripts/answers_from_transformers.py)."
)
_FIRST_OTHER = 1 << 24  # ids of the tokens of the probe that are not special
_PIECES = ("first", "fi", "##rst", "##st", "st", "un", "##aff", "##able", "##ing", "##s")
_LENGTHS = ((512, False), (12, False), (64, True))  # the most tokens, whether of pairs


class TokenizerJson(NamedTuple):
    """What a tokenizer.json says."""

    tokens: list[str]  # in the order of the ids
    lower_case: bool  # also without accents


def read_tokenizer_json(path: pathlib.Path) -> TokenizerJson:
    """Reads the tokenizer of a BERT: its vocabulary, and whether it lower-cases.

    One that is damaged, splits a text otherwise than BERT's, adds tokens to the vocabulary, or
    leaves an id without a token is refused.
    """
    described = reading.read_json_object(path, error=errors.VocabularyError)
    model = typed_model(part_of(described, "model"))
    if model.get("type") != "WordPiece":
        received = repr(model.get("type"))[:80] if model else "none"
        raise errors.VocabularyError(f"{path}, model", "WordPiece", received, _REMEDY)
    check_expressions(path, described)
    for name in ("truncation", "padding"):  # transformers takes the sides over
        side = part_of(described, name).get("direction", "Right")
        if side != "Right":
            raise errors.VocabularyError(f"{path}, {name}.direction", "'Right'", repr(side)[:80])
    tokens = _tokens(path, model.pop("vocab", None), described.get("added_tokens") or [])
    check_vocab(tokens, str(path))
    rest = json.dumps({**described, "model": model, "added_tokens": []})
    special = tuple(tokens.index(token) for token in SPECIAL_TOKENS)
    return TokenizerJson(tokens, _case_of(path, rest, special))


def added_tokens_fault(what: str, tokens: Iterable[str]) -> str:
    """Names tokens that `what` adds to BERT's, special ones aside; "" where there are none."""
    added = [token for token in dict.fromkeys(tokens) if token not in SPECIAL_TOKENS]
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


def built(path: pathlib.Path, described: str) -> tokenizers.Tokenizer:
    """Builds what a description says in the library; whatever it cannot read is refused."""
    try:
        return tokenizers.Tokenizer.from_str(described)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises bare Exception, and panics are none
        raise _unreadable(path, error) from None


def _unreadable(path: pathlib.Path, error: object) -> errors.VocabularyError:
    expected = "a tokenizer that the package tokenizers can read"
    return errors.VocabularyError(f"{path}", expected, str(error)[:200])


@functools.lru_cache(maxsize=8)
def _case_of(path: pathlib.Path, described: str, special: tuple[int, ...]) -> bool:
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
    try:
        lower_case = described_tokenizer.encode("A") == described_tokenizer.encode("a")
        berts = LibraryTokenizer(wordpiece_of(ids, lower_case=lower_case), pad_id=special[0])
        for max_length, paired in _LENGTHS:
            pairs = texts[::-1] if paired else None
            expected, received = (
                each.encode_batch(texts, pairs, max_length) for each in (berts, described_tokenizer)
            )
            if (index := _first_difference(expected, received)) is None:
                continue
            pair = pairs[index] if pairs else None
            example = (texts[index], pair, max_length)
            what = f"tokens of {errors.shortened(texts[index])!r}"
            what += "" if pair is None else f" and {errors.shortened(pair)!r}"
            right, wrong = (
                " ".join(each.encode_tokens(*example)) for each in (berts, described_tokenizer)
            )
            raise errors.VocabularyError(
                f"{path}, {what}",
                f"{errors.shortened(right)!r} as of BERT's tokenizer",
                f"{errors.shortened(wrong)!r}" + (" of other types" if right == wrong else ""),
                _REMEDY,
            )
    except (KeyboardInterrupt, SystemExit, errors.VocabularyError):
        raise
    except BaseException as error:
        raise _unreadable(path, error) from None
    return lower_case


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


def _tokens(path: pathlib.Path, vocabulary: Any, added: Any) -> list[str]:
    """The tokens by id: those of the model, and special tokens that are only listed."""
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise errors.VocabularyError(f"{path}, model.vocab", "tokens with their ids", "none")
    if not isinstance(added, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("content"), str) for entry in added
    ):
        raise errors.VocabularyError(f"{path}, added_tokens", "a list of tokens", repr(added)[:80])
    fault = added_tokens_fault(f"{path}, added_tokens", (entry["content"] for entry in added))
    if fault:
        raise errors.VocabularyError(fault)
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
