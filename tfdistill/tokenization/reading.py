"""Reads tokenizers: of a vocabulary, a Hugging Face folder, an exported file.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it.
A tokenizer.json, which `transformers` 5 and `sentence-transformers` 6 save without a vocab.txt, is
judged by its answers (`library.case_of`); what answers cannot show is refused by
the names of the settings: those that only the slow classes of `transformers` read, another class,
other sides, and tokens beside the vocabulary.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tfdistill import errors
from tfdistill.io import contents, reading, safe_paths, storage
from tfdistill.tasks.encoded import Truncation
from tfdistill.tokenization import library, unigram, wordpiece
from tfdistill.tokenization.tokenizer import Tokenizer, checked_prompt, checked_truncation
from tfdistill.tokenization.wordpiece import (
    SPECIAL_NAMES,
    VOCAB_FILE,
    WordPiece,
    added_tokens_fault,
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
_UNIGRAM_CLASS = "XLMRobertaTokenizer"
_SIDES = {"truncation_side": "right", "padding_side": "right"}
_REQUIRED: Mapping[str, Any] = {
    "do_basic_tokenize": True,
    "clean_text": True,
    "tokenize_chinese_chars": True,
    "wordpieces_prefix": "##",
    **_SIDES,
    **SPECIAL_NAMES,
}
# Of our own: transformers has no word for it.
TRUNCATION, PROMPT = "tfdistill_truncation", "tfdistill_prompt"
_ADDING = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
_UNLIMITED = 10**9  # transformers writes 1e30 for "no limit"


class FolderTokenizer(NamedTuple):
    """The tokenizer of a folder, and what its files say besides."""

    tokenizer: Tokenizer | None  # None: the folder has no vocabulary
    max_length: int | None  # the most tokens of an example (`model_max_length`); None: no limit
    types_pairs: bool  # whether the second text of a pair has token type 1


def read_vocab(path: Path) -> list[str]:
    """Reads a vocabulary, in the order of the ids, and checks it; see `read_tokenizer`."""
    return read_tokenizer(path).vocab


def read_tokenizer(
    path: Path,
    lower_case: bool | None = None,
    truncation: Truncation = "end",
    prompt: str = "",
) -> Tokenizer:
    """Reads the tokenizer of a `vocab.txt` or a `tokenizer.json`.

    Args:
      path: The file: a `vocab.txt` in UTF-8, one token a line, where the id of a token is its line
        (from 0), or the `tokenizer.json` of a BERT or an XLM-RoBERTa.
      lower_case: As the model was trained. None: a tokenizer.json says it; of a vocab.txt the files
        beside it do, a tokenizer.json, then `do_lower_case` of tokenizer_config.json. Without all
        of them it is True.
      truncation: Where a text that is too long is cut: at its end, or in its middle.
      prompt: What is put in front of every text.

    Returns:
      The tokenizer.

    Raises:
      VocabularyError: If the vocabulary is not usable, or `lower_case` is not what its
        tokenizer.json says.
    """
    file = storage.located(path)
    if not file.is_file():
        raise errors.VocabularyError(
            "vocabulary",
            "a file with one token a line",
            f"{str(file)!r}, which is not a file",
            "A Hugging Face model folder holds it as tokenizer.json or vocab.txt.",
        )
    if file.suffix == ".json":
        # One at an address has no state to remember it by.
        read = _read_json.__wrapped__(file) if storage.is_remote(file) else _read_json(file)  # pyright: ignore[reportFunctionMemberAccess]
        return read.replace(lower_case=lower_case, truncation=truncation, prompt=prompt)
    tokens = _listed(file)
    case = _lower_case_beside(file) if lower_case is None else lower_case
    return WordPiece(
        tokens,
        lower_case=bool(case),
        truncation=truncation,
        prompt=prompt,
        vocab_file=str(path),
    )


def as_tokenizer(source: Tokenizer | Path) -> Tokenizer:
    """Returns a tokenizer as it is, and that of a file, see `read_tokenizer`."""
    return source if isinstance(source, Tokenizer) else read_tokenizer(source)


def as_wordpiece(source: Tokenizer | Path, what: str) -> WordPiece:
    """`as_tokenizer` for what operations of TensorFlow compute; other kinds are refused."""
    tokenizer = as_tokenizer(source)
    if not isinstance(tokenizer, WordPiece):
        raise errors.VocabularyError(
            f"tokenizer of {what}",
            "WordPiece, which operations of TensorFlow compute",
            tokenizer.kind,
            "Write a .tflite file, or a Hugging Face folder.",
        )
    return tokenizer


def vocab_file_of(folder: Path) -> pathlib.Path:
    """The file in a folder of ours that holds its vocabulary."""
    opened = storage.located(folder)
    described = opened / JSON_FILE
    return described if described.is_file() else opened / VOCAB_FILE


def exported_tokenizer(folder: pathlib.Path, record: TokenizerRecord) -> Tokenizer:
    """Reads the tokenizer of an exported file: `record` of its manifest, in `folder`."""
    file = safe_paths.inside(folder, record.vocab.file)
    return read_tokenizer(file, record.lower_case, record.truncation, record.prompt)


def _listed(file: pathlib.Path) -> list[str]:
    text = reading.read_text(file, error=errors.VocabularyError, what=f"vocabulary {file}")
    # Not splitlines(): real vocabularies hold U+2028 as a token.
    tokens = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    check_vocab(tokens, str(file))
    return tokens


@contents.once(max_files=4)
def _read_json(file: Path) -> Tokenizer:
    """Reads a tokenizer.json, whose answers must be those of BERT's tokenizer or XLM-RoBERTa's.

    One that is damaged, splits a text otherwise, adds tokens to the vocabulary, or leaves an id
    without a token is refused.
    """
    path = storage.located(file)
    described = reading.read_json_object(path, error=errors.VocabularyError)
    model = library.typed_model(library.part_of(described, "model"))
    for name in ("truncation", "padding"):  # transformers takes the sides over
        side = library.part_of(described, name).get("direction", "Right")
        if side != "Right":
            raise errors.VocabularyError(f"{path}, {name}.direction", "'Right'", repr(side)[:80])
    if model.get("type") == "Unigram":
        return unigram.read_unigram(path, {**described, "model": model})
    if model.get("type") != "WordPiece":
        received = repr(model.get("type"))[:80] if model else "none"
        raise errors.VocabularyError(
            f"{path}, model", "WordPiece or Unigram", received, library.NOT_BERTS
        )
    return wordpiece.read_wordpiece(path, {**described, "model": model})


def _lower_case_beside(file: pathlib.Path) -> bool:
    """What the folder of a vocab.txt says of lower-casing."""
    described = file.with_name(JSON_FILE)
    if described.is_file():
        return _read_json(described).lower_case
    path = file.with_name(CONFIG_FILE)
    said = _said_lower_case(read_settings(path, errors.VocabularyError))
    if not isinstance(said, bool):
        raise errors.VocabularyError(f"{path}, do_lower_case", "true or false", repr(said)[:80])
    return said


def read_folder(folder: pathlib.Path) -> FolderTokenizer:
    """Reads the tokenizer of a Hugging Face folder from all its files."""
    path = folder / CONFIG_FILE
    settings = read_settings(path)
    if settings.get("tokenizer_class") is None:  # transformers then looks into the model's file
        of_model = folder / "config.json"
        stated = {"tokenizer_class": _class_by_model(read_settings(of_model))}
        if stated["tokenizer_class"] != _UNIGRAM_CLASS:
            check_settings(stated, what=f"{of_model}", described=(folder / JSON_FILE).is_file())
        settings = {**settings, **stated}
    tokenizer, types_pairs = _unigram_of(folder, settings), True
    if tokenizer is None:
        tokenizer, types_pairs = _wordpiece_of(folder, settings), _types_pairs(settings)
    if tokenizer is not None:
        cut = checked_truncation(settings.get(TRUNCATION, "end"), f"{path}, {TRUNCATION}")
        prompt = checked_prompt(settings.get(PROMPT), f"{path}, {PROMPT}")
        tokenizer = tokenizer.replace(truncation=cut, prompt=prompt)
    return FolderTokenizer(tokenizer, max_length(settings, path), types_pairs)


def _wordpiece_of(folder: pathlib.Path, settings: Mapping[str, Any]) -> WordPiece | None:
    """BERT's tokenizer in a folder; None if it has no vocabulary."""
    path, listed, described = folder / CONFIG_FILE, folder / VOCAB_FILE, folder / JSON_FILE
    # Of another tokenizer class, the class is the better reason than what tokenizer.json holds.
    lower_case = check_settings(settings, what=f"{path}", described=described.is_file())
    _check_further_tokens(folder)
    if not described.is_file():
        if not listed.is_file():
            return None
        return WordPiece(_listed(listed), lower_case=lower_case, vocab_file=f"{listed}")
    read = _read_json(described)
    if not isinstance(read, WordPiece):
        raise errors.WeightsError(
            f"{described}, model", f"WordPiece, as tokenizer_class of {path} says", read.kind
        )
    if settings.get("tokenizer_class") not in _GENERIC and read.lower_case != lower_case:
        said = "do_lower_case" in settings
        raise errors.WeightsError(
            f"{described}, normalizer.lowercase",
            f"{lower_case}, as do_lower_case of {CONFIG_FILE} "
            + ("says" if said else "is where nothing says otherwise"),
            read.lower_case,
            f"Write the right one into {CONFIG_FILE} as do_lower_case.",
        )
    if not listed.is_file():
        return read
    whose = f"{JSON_FILE}, which transformers follows"
    remedy = "Remove the file that the model was not trained with."
    lines = _listed(listed)
    if fault := vocabulary_fault(f"{listed}", read.vocab, lines, whose=whose, remedy=remedy):
        raise errors.WeightsError(fault)
    return WordPiece(lines, lower_case=read.lower_case, vocab_file=f"{listed}")


def _class_by_model(config: Mapping[str, Any]) -> Any:
    """The class of the tokenizer that config.json names, or that transformers takes for it."""
    if config.get("tokenizer_class") is None and config.get("model_type") == "xlm-roberta":
        return _UNIGRAM_CLASS
    return config.get("tokenizer_class")


def _unigram_of(folder: pathlib.Path, settings: Mapping[str, Any]) -> unigram.Unigram | None:
    """The tokenizer of XLM-RoBERTa in a folder whose class is that, or a generic one; else None."""
    name, described = str(settings.get("tokenizer_class")), folder / JSON_FILE
    if name.removesuffix("Fast") == _UNIGRAM_CLASS and not described.is_file():
        raise errors.WeightsError(
            f"tokenizer of {folder}",
            JSON_FILE,
            "no such file",
            "Where transformers is installed: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it.",
        )
    if name not in (_UNIGRAM_CLASS, f"{_UNIGRAM_CLASS}Fast", *_GENERIC) or not described.is_file():
        return None
    tokenizer = _read_json(described)
    if not isinstance(tokenizer, unigram.Unigram):
        return None
    path = folder / CONFIG_FILE
    faults = _faults_of_settings(settings, f"{path}", {**_SIDES, **unigram.NAMES})
    faults += [
        added_tokens_fault(f"{path}, {key}", _tokens_of(settings.get(key)), unigram.SPECIAL_TOKENS)
        for key in _ADDING
    ]
    if any(faults):
        raise errors.WeightsError("\n".join(filter(None, faults)))
    _check_further_tokens(folder, unigram.NAMES)
    unigram.check_sentencepiece(folder / unigram.SENTENCEPIECE_FILE, tokenizer)
    return tokenizer


def _faults_of_settings(
    settings: Mapping[str, Any], what: str, expected: Mapping[str, Any]
) -> list[str]:
    """Names the settings that say otherwise than `expected`; what they leave out is no fault."""
    faults = []
    for key, value in expected.items():
        received = _content(settings.get(key))
        if received is not None and received != value and (received or value is not None):
            faults.append(errors.explain(f"{what}, {key}", repr(value), repr(received)[:80]))
    return faults


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
        expected = f"BertTokenizer or one of its names, or {_UNIGRAM_CLASS}"
        faults.append(errors.explain(f"{what}, tokenizer_class", expected, repr(name)[:80]))
    required = {**_REQUIRED, "strip_accents": lower_case, "never_split": None}
    faults += _faults_of_settings(settings, what, required)
    if faults:
        raise errors.WeightsError("\n".join(faults) + "\n" + library.NOT_BERTS)
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


def _check_further_tokens(folder: pathlib.Path, names: Mapping[str, str] = SPECIAL_NAMES) -> None:
    """Refuses other special tokens, and added ones, of the two files that list them."""
    special = read_settings(folder / SPECIAL_FILE)
    faults = [
        errors.explain(f"{folder / SPECIAL_FILE}, {key}", repr(value), repr(special[key])[:80])
        for key, value in names.items()
        if special.get(key) is not None and _content(special[key]) != value
    ]
    others = [token for key in special.keys() - names.keys() for token in _tokens_of(special[key])]
    faults.append(added_tokens_fault(f"{folder / SPECIAL_FILE}", sorted(others), names.values()))
    added = read_settings(folder / ADDED_FILE)
    faults.append(added_tokens_fault(f"{folder / ADDED_FILE}", sorted(added), names.values()))
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


def read_settings(
    path: pathlib.Path, error: type[errors.TfdistillError] = errors.WeightsError
) -> dict[str, Any]:
    """Reads a file of a checkpoint that holds a JSON object; {} where there is none."""
    if not path.is_file():
        return {}
    return reading.read_json_object(
        path, error=error, expected="valid JSON", remedy="Fetch the file again."
    )
