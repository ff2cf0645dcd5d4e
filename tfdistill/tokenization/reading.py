"""Reads tokenizers: of a vocabulary, a Hugging Face folder, an exported file, a RoBERTa.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it.
A tokenizer.json is judged by its answers (`tokenizer_json`); what answers cannot show is refused by
the names of the settings: those that only the slow classes of `transformers` read, another class,
other sides, and tokens beside the vocabulary.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from tfdistill import errors
from tfdistill.io import reading, safe_paths, storage
from tfdistill.tasks.encoded import Truncation
from tfdistill.tokenization import tokenizer_json
from tfdistill.tokenization.library import SPECIAL_TOKENS, LibraryTokenizer, check_vocab
from tfdistill.tokenization.tokenizer_json import added_tokens_fault, part_of
from tfdistill.tokenization.wordpiece import VOCAB_FILE, WordPiece, check_case

if TYPE_CHECKING:
    from tfdistill.manifest import TokenizerRecord

CONFIG_FILE, JSON_FILE = "tokenizer_config.json", tokenizer_json.FILE_NAME
SPECIAL_FILE, ADDED_FILE = "special_tokens_map.json", "added_tokens.json"
FILES = (VOCAB_FILE, tokenizer_json.FILE_NAME, CONFIG_FILE, SPECIAL_FILE, ADDED_FILE)
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
_ROBERTA_MODELS = ("BPE", "Unigram")
_ROBERTA_SPACES = " {2,}"  # the one expression that these families use
_UNLIMITED = 10**9  # transformers writes 1e30 for "no limit"
_MOST_SHOWN = 3  # lines of two vocabularies that differ


class FolderTokenizer(NamedTuple):
    """The tokenizer of a folder, and what its files say besides."""

    tokenizer: WordPiece | None  # None: the folder has no vocabulary
    max_length: int | None  # the most tokens of an example (`model_max_length`); None: no limit
    types_pairs: bool  # whether the second text of a pair has token type 1


def read_vocab(path: Path) -> list[str]:
    """Reads a vocabulary, in the order of the ids, and checks it (`library.check_vocab`).

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
        return _Vocabulary(*tokenizer_json.read_tokenizer_json(file))
    text = reading.read_text(file, error=errors.VocabularyError, what=f"vocabulary {file}")
    # Not splitlines(): real vocabularies hold U+2028 as a token.
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    check_vocab(tokens, str(file))
    return _Vocabulary(tokens, None)


def _lower_case_beside(file: pathlib.Path) -> bool:
    """What the folder of a vocab.txt says of lower-casing."""
    described = file.with_name(tokenizer_json.FILE_NAME)
    if described.is_file():
        return tokenizer_json.read_tokenizer_json(described).lower_case
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
    described = folder / tokenizer_json.FILE_NAME
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
        tokens, case = tokenizer_json.read_tokenizer_json(described)
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
            _check_equal(listed, described, tokens)
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
        added_tokens_fault(f"{what}, {key}", _tokens_of(settings.get(key)))
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
    faults.append(added_tokens_fault(f"{folder / SPECIAL_FILE}", sorted(others)))
    added = read_settings(folder / ADDED_FILE)
    faults.append(added_tokens_fault(f"{folder / ADDED_FILE}", sorted(added)))
    if any(faults):
        raise errors.WeightsError("\n".join(filter(None, faults)))


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


def _check_equal(listed: pathlib.Path, described: pathlib.Path, tokens: list[str]) -> None:
    """Refuses a vocab.txt that gives a token another id than tokenizer.json does."""
    lines = read_vocab(listed)
    pairs = enumerate(itertools.zip_longest(lines, tokens, fillvalue=None))
    differing = [(index, pair) for index, pair in pairs if pair[0] != pair[1]]
    if not differing:
        return
    shown = "; ".join(
        f"line {index + 1} has {_shown(first)}, id {index} of {described.name} is {_shown(second)}"
        for index, (first, second) in differing[:_MOST_SHOWN]
    )
    raise errors.WeightsError(
        f"{listed}",
        f"the vocabulary of {described.name}, which transformers follows",
        f"{len(differing)} lines that differ: {shown}",
        "Remove the file that the model was not trained with.",
    )


def _shown(token: str | None) -> str:
    return "no token" if token is None else repr(token)


def read_settings(
    path: pathlib.Path, error: type[errors.TfdistillError] = errors.WeightsError
) -> dict[str, Any]:
    """Reads a file of a checkpoint that holds a JSON object; {} where there is none."""
    if not path.is_file():
        return {}
    return reading.read_json_object(
        path, error=error, expected="valid JSON", remedy="Fetch the file again."
    )


def read_roberta(
    path: Path, *, pad_id: int, num_rows: int, truncation: Truncation = "end"
) -> LibraryTokenizer:
    """Reads the tokenizer of a checkpoint of the RoBERTa family; all token types are 0.

    A tokenizer_config.json next to the tokenizer.json is heeded. One of another kind, with more
    tokens than `num_rows`, those of the embedding, or with a regular expression of its own is
    refused.
    """
    path = pathlib.Path(path)
    described = reading.read_json_object(path, error=errors.VocabularyError)
    described["model"] = tokenizer_json.typed_model(part_of(described, "model"))
    kind = described["model"].get("type")
    if kind not in _ROBERTA_MODELS:
        raise errors.VocabularyError(
            f"{path}, model", f"one of {', '.join(_ROBERTA_MODELS)}", repr(kind)[:80]
        )
    tokenizer_json.check_expressions(path, described, _ROBERTA_SPACES)
    _heed_settings(described, path.with_name(CONFIG_FILE))
    tokenizer = tokenizer_json.built(path, json.dumps(described))
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= num_rows:
        raise errors.VocabularyError(
            f"{path}", f"ids below {num_rows}, the rows of the embedding", last
        )
    return LibraryTokenizer(tokenizer, pad_id=pad_id, num_types=1, truncation=truncation)


def _heed_settings(described: dict[str, Any], settings: pathlib.Path) -> None:
    """Lets tokenizer_config.json say whether a text begins with a space, as transformers does."""
    pieces = part_of(described, "pre_tokenizer")
    if pieces.get("type") != "ByteLevel":
        return
    told = read_settings(settings, errors.VocabularyError)
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
