"""Reads tokenizers: of a vocabulary, a Hugging Face folder, an exported file.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it.
A tokenizer.json, which `transformers` 5 and `sentence-transformers` 6 save without a vocab.txt, is
judged by its answers (`library.case_of`); what answers cannot show is refused by
the names of the settings: those that only the slow classes of `transformers` read, another class,
other sides, and tokens beside the vocabulary.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from tfdistill import errors
from tfdistill.io import reading, safe_paths, storage
from tfdistill.tasks.encoded import Truncation
from tfdistill.tokenization import library
from tfdistill.tokenization.library import SPECIAL_TOKENS
from tfdistill.tokenization.wordpiece import (
    VOCAB_FILE,
    WordPiece,
    check_case,
    check_vocab,
    vocabulary_fault,
)

if TYPE_CHECKING:
    from tfdistill.manifest import TokenizerRecord

CONFIG_FILE, JSON_FILE = "tokenizer_config.json", "tokenizer.json"
SPECIAL_FILE, ADDED_FILE = "special_tokens_map.json", "added_tokens.json"
FILES = (VOCAB_FILE, JSON_FILE, CONFIG_FILE, SPECIAL_FILE, ADDED_FILE)
Path = str | os.PathLike[str]

# BERT's tokenizer by its names; "Fast" of each is the same one.
_CLASSES = ("Bert", "DistilBert", "MobileBert", "Electra", "ConvBert")
# Those without token types, unless `model_input_names` has them.
_UNTYPED = ("DistilBertTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
# Classes that split text as tokenizer.json says, whatever else the settings are.
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
SPECIAL_NAMES = {f"{token[1:-1].lower()}_token": token for token in SPECIAL_TOKENS}
_REQUIRED: Mapping[str, Any] = {
    "do_basic_tokenize": True,
    "clean_text": True,
    "tokenize_chinese_chars": True,
    "wordpieces_prefix": "##",
    "truncation_side": "right",
    "padding_side": "right",
    **SPECIAL_NAMES,
}
# Of our own: transformers has no word for it.
TRUNCATION = "tfdistill_truncation"
_ADDING = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
_UNLIMITED = 10**9  # transformers writes 1e30 for "no limit"


class FolderTokenizer(NamedTuple):
    """The tokenizer of a folder, and what its files say besides."""

    tokenizer: WordPiece | None  # None: the folder has no vocabulary
    max_length: int | None  # the most tokens of an example (`model_max_length`); None: no limit
    types_pairs: bool  # whether the second text of a pair has token type 1


def read_vocab(path: Path) -> list[str]:
    """Reads a vocabulary, in the order of the ids, and checks it (`wordpiece.check_vocab`).

    It is a `vocab.txt` in UTF-8, one token a line, where the id of a token is its line (from 0), or
    the `tokenizer.json` of a BERT.
    """
    return _read(storage.located(path)).tokens


def read_tokenizer(
    path: Path, lower_case: bool | None = None, truncation: Truncation = "end"
) -> WordPiece:
    """Reads the tokenizer of a `vocab.txt` or a `tokenizer.json`.

    Args:
      path: The file.
      lower_case: As the model was trained. None: a tokenizer.json says it; of a vocab.txt the files
        beside it do, a tokenizer.json, then `do_lower_case` of tokenizer_config.json. Without all
        of them it is True.
      truncation: Where a text that is too long is cut: at its end, or in its middle.

    Returns:
      The tokenizer.

    Raises:
      VocabularyError: If the vocabulary is not usable, or `lower_case` is not what its
        tokenizer.json says.
    """
    file = storage.located(path)
    tokens, described = _read(file)
    if described is not None:
        check_case(f"{file}", lower_case, described)
    elif lower_case is None:
        described = _lower_case_beside(file)
    case = lower_case if described is None else described
    return WordPiece(
        tokens, lower_case=bool(case), truncation=truncation, vocab_file=os.fspath(path)
    )


def as_tokenizer(source: WordPiece | Path) -> WordPiece:
    """Returns a tokenizer as it is, and that of a file, see `read_tokenizer`."""
    return source if isinstance(source, WordPiece) else read_tokenizer(source)


def exported_tokenizer(folder: pathlib.Path, record: TokenizerRecord) -> WordPiece:
    """Reads the tokenizer of an exported file: `record` of its manifest, in `folder`."""
    return read_tokenizer(
        safe_paths.inside(folder, record.vocab.file), record.lower_case, record.truncation
    )


class _Vocabulary(NamedTuple):
    tokens: list[str]
    lower_case: bool | None  # None: a vocab.txt does not say it


def _read(file: pathlib.Path) -> _Vocabulary:
    if not file.is_file():
        raise errors.VocabularyError(
            "vocabulary",
            "a file with one token a line",
            f"{str(file)!r}, which is not a file",
            "A Hugging Face model folder holds it as tokenizer.json or vocab.txt.",
        )
    if file.suffix == ".json":
        return _read_json(file)
    text = reading.read_text(file, error=errors.VocabularyError, what=f"vocabulary {file}")
    # Not splitlines(): real vocabularies hold U+2028 as a token.
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    check_vocab(tokens, str(file))
    return _Vocabulary(tokens, None)


def _read_json(path: pathlib.Path) -> _Vocabulary:
    """Reads the tokenizer of a BERT: its vocabulary, and whether it lower-cases.

    One that is damaged, splits a text otherwise than BERT's, adds tokens to the vocabulary, or
    leaves an id without a token is refused.
    """
    described = reading.read_json_object(path, error=errors.VocabularyError)
    model = library.typed_model(library.part_of(described, "model"))
    if model.get("type") != "WordPiece":
        received = repr(model.get("type"))[:80] if model else "none"
        raise errors.VocabularyError(f"{path}, model", "WordPiece", received, library.NOT_BERTS)
    library.check_expressions(path, described)
    for name in ("truncation", "padding"):  # transformers takes the sides over
        side = library.part_of(described, name).get("direction", "Right")
        if side != "Right":
            raise errors.VocabularyError(f"{path}, {name}.direction", "'Right'", repr(side)[:80])
    tokens = _described_tokens(path, model.pop("vocab", None), described.get("added_tokens") or [])
    check_vocab(tokens, str(path))
    rest = json.dumps({**described, "model": model, "added_tokens": []})
    special = tuple(tokens.index(token) for token in SPECIAL_TOKENS)
    return _Vocabulary(tokens, library.case_of(path, rest, special))


def _described_tokens(path: pathlib.Path, vocabulary: Any, added: Any) -> list[str]:
    """The tokens by id: those of the model, and special tokens that are only listed."""
    if not isinstance(vocabulary, dict) or not vocabulary:
        raise errors.VocabularyError(f"{path}, model.vocab", "tokens with their ids", "none")
    if not isinstance(added, list) or not all(
        isinstance(entry, dict) and isinstance(entry.get("content"), str) for entry in added
    ):
        raise errors.VocabularyError(f"{path}, added_tokens", "a list of tokens", repr(added)[:80])
    fault = _added_tokens_fault(f"{path}, added_tokens", (entry["content"] for entry in added))
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


def _lower_case_beside(file: pathlib.Path) -> bool:
    """What the folder of a vocab.txt says of lower-casing."""
    described = file.with_name(JSON_FILE)
    if described.is_file():
        return bool(_read_json(described).lower_case)
    path = file.with_name(CONFIG_FILE)
    said = _said_lower_case(read_settings(path, errors.VocabularyError))
    if not isinstance(said, bool):
        raise errors.VocabularyError(f"{path}, do_lower_case", "true or false", repr(said)[:80])
    return said


def read_folder(folder: pathlib.Path) -> FolderTokenizer:
    """Reads the tokenizer of a Hugging Face folder from all its files."""
    path = folder / CONFIG_FILE
    settings = read_settings(path)
    listed = folder / VOCAB_FILE
    described = folder / JSON_FILE
    if settings.get("tokenizer_class") is None:  # transformers then looks into the model's file
        of_model = folder / "config.json"
        stated = {"tokenizer_class": read_settings(of_model).get("tokenizer_class")}
        check_settings(stated, what=f"{of_model}", described=described.is_file())
        settings = {**settings, **stated}
    # Of another tokenizer class, the class is the better reason than what tokenizer.json holds.
    lower_case = check_settings(settings, what=f"{path}", described=described.is_file())
    _check_further_tokens(folder)
    limit, types_pairs = max_length(settings, path), _types_pairs(settings)
    truncation = checked_truncation(settings.get(TRUNCATION, "end"), f"{path}, {TRUNCATION}")
    if not described.is_file():
        file = listed
    else:
        tokens, case = _read_json(described)
        if settings.get("tokenizer_class") in _GENERIC:
            lower_case = case
        elif case != lower_case:
            said = "do_lower_case" in settings
            raise errors.WeightsError(
                f"{described}, normalizer.lowercase",
                f"{lower_case}, as do_lower_case of {CONFIG_FILE} "
                + ("says" if said else "is where nothing says otherwise"),
                case,
                f"Write the right one into {CONFIG_FILE} as do_lower_case.",
            )
        file = listed if listed.is_file() else described
        if listed.is_file():
            whose = f"{JSON_FILE}, which transformers follows"
            remedy = "Remove the file that the model was not trained with."
            lines = read_vocab(listed)
            if fault := vocabulary_fault(f"{listed}", tokens, lines, whose=whose, remedy=remedy):
                raise errors.WeightsError(fault)
    if not file.is_file():
        return FolderTokenizer(None, limit, types_pairs)
    return FolderTokenizer(read_tokenizer(file, lower_case, truncation), limit, types_pairs)


def _said_lower_case(settings: Mapping[str, Any]) -> Any:
    """What the settings say of lower-casing; True where they say nothing."""
    said = settings.get("do_lower_case")
    return True if said is None else said


def check_settings(
    settings: Mapping[str, Any], *, what: str = CONFIG_FILE, described: bool = False
) -> bool:
    """Checks that text is split as our tokenizer splits it; returns whether it lower-cases."""
    lower_case = _said_lower_case(settings)
    faults = []
    if not isinstance(lower_case, bool):
        faults.append(errors.explain(f"{what}, do_lower_case", "true or false", repr(lower_case)))
    name = settings.get("tokenizer_class")
    names = [f"{family}Tokenizer{kind}" for family in _CLASSES for kind in ("", "Fast")]
    if name is not None and name not in (*names, *(_GENERIC if described else ())):
        expected = "BertTokenizer or one of its names"
        faults.append(errors.explain(f"{what}, tokenizer_class", expected, repr(name)[:80]))
    for key, value in {**_REQUIRED, "strip_accents": lower_case, "never_split": None}.items():
        received = _content(settings.get(key))
        if received is not None and received != value and (received or value is not None):
            faults.append(errors.explain(f"{what}, {key}", repr(value), repr(received)[:80]))
    if faults:
        raise errors.WeightsError(
            "\n".join(faults)
            + "\nThis checkpoint's tokenizer is not the one of BERT, and the model would answer "
            "wrongly with that. Take another checkpoint."
        )
    adding = [
        _added_tokens_fault(f"{what}, {key}", _tokens_of(settings.get(key)))
        for key in (*_ADDING, "bos_token", "eos_token")
    ]
    if any(adding):
        raise errors.WeightsError("\n".join(filter(None, adding)))
    return bool(lower_case)


def _content(token: Any) -> Any:
    """The text of a token that may be written with its flags."""
    return token.get("content") if isinstance(token, dict) else token


def _tokens_of(value: Any) -> list[str]:
    """The tokens of a setting: one, a list, or an object whose values they are."""
    if isinstance(value, dict) and "content" not in value:
        value = list(value.values())
    entries = value if isinstance(value, list) else [value]
    return [str(_content(entry)) for entry in entries if entry is not None]


def _check_further_tokens(folder: pathlib.Path) -> None:
    """Refuses other special tokens, and added ones, of the two files that list them."""
    special = read_settings(folder / SPECIAL_FILE)
    faults = [
        errors.explain(f"{folder / SPECIAL_FILE}, {key}", repr(value), repr(special[key])[:80])
        for key, value in SPECIAL_NAMES.items()
        if special.get(key) is not None and _content(special[key]) != value
    ]
    others = [
        token for key in special.keys() - SPECIAL_NAMES.keys() for token in _tokens_of(special[key])
    ]
    faults.append(_added_tokens_fault(f"{folder / SPECIAL_FILE}", sorted(others)))
    added = read_settings(folder / ADDED_FILE)
    faults.append(_added_tokens_fault(f"{folder / ADDED_FILE}", sorted(added)))
    if any(faults):
        raise errors.WeightsError("\n".join(filter(None, faults)))


def _added_tokens_fault(what: str, tokens: Iterable[str]) -> str:
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


def _types_pairs(settings: Mapping[str, Any]) -> bool:
    """Whether transformers gives token types: as the setting says, or as the class does."""
    named = settings.get("model_input_names")
    if isinstance(named, list):
        return "token_type_ids" in named
    return str(settings.get("tokenizer_class")).removesuffix("Fast") not in _UNTYPED


def max_length(settings: Mapping[str, Any], path: pathlib.Path) -> int | None:
    """The most tokens of an example that a tokenizer_config.json allows, or None."""
    limit = settings.get("model_max_length", settings.get("max_len"))  # its old name
    if limit is None or (isinstance(limit, int | float) and limit > _UNLIMITED):
        return None
    if type(limit) is not int or limit < 1:
        raise errors.WeightsError(
            f"{path}, model_max_length", "a number of tokens", repr(limit)[:80]
        )
    return limit


def checked_truncation(value: Any, what: str) -> Truncation:
    """Returns what a file says of where texts are cut, one of `encoded.Truncation`."""
    if value not in get_args(Truncation):
        expected = " or ".join(map(repr, get_args(Truncation)))
        raise errors.WeightsError(what, expected, repr(value)[:80])
    return value


def read_settings(
    path: pathlib.Path, error: type[errors.TfdistillError] = errors.WeightsError
) -> dict[str, Any]:
    """Reads a file of a checkpoint that holds a JSON object; {} where there is none."""
    if not path.is_file():
        return {}
    return reading.read_json_object(
        path, error=error, expected="valid JSON", remedy="Fetch the file again."
    )
