"""The tokenizer files of a Hugging Face folder: what our tokenizer does, and what it cannot do.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it:
what is not BERT's tokenizer with lower-casing or without it is refused. So is every setting that
nobody here has read: `_NO_EFFECT` lists those that change no token.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

from tfdistill import errors, tokenizer_json
from tfdistill.data import vocab
from tfdistill.io import reading
from tfdistill.tasks.encoded import Truncation

VOCAB_FILE = "vocab.txt"
CONFIG_FILE = tokenizer_json.CONFIG_FILE
SPECIAL_FILE, ADDED_FILE = "special_tokens_map.json", "added_tokens.json"
FILES = (VOCAB_FILE, tokenizer_json.FILE_NAME, CONFIG_FILE, SPECIAL_FILE, ADDED_FILE)

# BERT's tokenizer by its names; "Fast" of each is the same one.
_CLASSES = ("Bert", "DistilBert", "MobileBert", "Electra", "ConvBert")
# Those without token types, unless `model_input_names` has them.
_UNTYPED = ("DistilBertTokenizer", "PreTrainedTokenizer", "TokenizersBackend")
# Classes that split text as tokenizer.json says, whatever else the settings are.
_GENERIC = ("PreTrainedTokenizerFast", "TokenizersBackend")
SPECIAL_NAMES = {
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}
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
_READ = frozenset(
    "do_lower_case strip_accents never_split tokenizer_class model_max_length max_len "
    "model_input_names".split()
) | {TRUNCATION}
_ADDING = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")
_NO_EFFECT = frozenset(
    (
        # How ids become text again, where files came from, how the library works.
        *("clean_up_tokenization_spaces", "name_or_path", "special_tokens_map_file"),
        *("tokenizer_file", "full_tokenizer_file", "use_fast", "backend", "is_local"),
        *("local_files_only", "trust_remote_code", "transformers_version", "processor_class"),
        *("init_inputs", "split_special_tokens", "model_type"),
        # What a call of `encode` once asked for: of no effect in the next one.
        *("max_length", "stride", "truncation_strategy", "padding", "pad_to_multiple_of"),
        *("pad_token_type_id", "return_tensors", "truncation"),
        # Arguments that people passed for the model: every one is saved.
        *("num_labels", "problem_type", "id2label", "label2id", "torch_dtype", "dtype"),
        *("cache_dir", "revision", "token", "use_auth_token", "device_map", "vocab_file"),
        *("vocab_size", "output_attentions", "output_hidden_states", "gradient_checkpointing"),
        # Names of further tokens, which must be among BERT's: `_further_tokens`.
        *("bos_token", "eos_token"),
    )
)
_UNLIMITED = 10**9  # transformers writes 1e30 for "no limit"
_MOST_SHOWN = 3  # lines of two vocabularies that differ


class TokenizerFiles(NamedTuple):
    """The description of a tokenizer in the files of its folder."""

    vocab_file: pathlib.Path | None  # vocab.txt or tokenizer.json, see `vocab.read_vocab`
    lower_case: bool  # also without accents
    max_length: int | None  # the most tokens of an example (`model_max_length`); None: no limit
    truncation: Truncation
    types_pairs: bool  # whether the second text of a pair has token type 1


def read_tokenizer(folder: pathlib.Path) -> TokenizerFiles:
    """Reads the tokenizer of a folder from all its files."""
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
    limit = max_length(settings, path)
    truncation = checked_truncation(settings.get(TRUNCATION, "end"), f"{path}, {TRUNCATION}")
    types_pairs = _types_pairs(settings)
    if not described.is_file():
        vocab_file = listed if listed.is_file() else None
        return TokenizerFiles(vocab_file, lower_case, limit, truncation, types_pairs)
    tokenizer = tokenizer_json.read_tokenizer_json(described)
    if settings.get("tokenizer_class") in _GENERIC:
        lower_case = tokenizer.lower_case
    elif tokenizer.lower_case != lower_case:
        said = "do_lower_case" in settings
        raise errors.WeightsError(
            f"{described}, normalizer.lowercase",
            f"{lower_case}, as do_lower_case of {CONFIG_FILE} "
            + ("says" if said else "is where nothing says otherwise"),
            tokenizer.lower_case,
            f"Write the right one into {CONFIG_FILE} as do_lower_case.",
        )
    if not listed.is_file():
        return TokenizerFiles(described, lower_case, limit, truncation, types_pairs)
    _check_equal(listed, described, tokenizer.tokens)
    return TokenizerFiles(listed, lower_case, limit, truncation, types_pairs)


def existing_vocab(vocab_file: pathlib.Path | None, name: object) -> pathlib.Path:
    """Returns the vocabulary of a checkpoint that has one.

    Args:
      vocab_file: The file, or None.
      name: What messages call the checkpoint.

    Raises:
      WeightsError: If there is none.
    """
    if vocab_file is None:
        raise errors.WeightsError(
            f"tokenizer of {name}",
            f"{tokenizer_json.FILE_NAME} or {VOCAB_FILE} next to the weights",
            "neither",
            "Copy the file from where the weights came from.",
        )
    return vocab_file


def check_settings(
    settings: Mapping[str, Any], *, what: str = CONFIG_FILE, described: bool = False
) -> bool:
    """Checks that text is split as our tokenizer splits it."""
    lower_case = tokenizer_json.said_lower_case(settings)
    faults = []
    if not isinstance(lower_case, bool):
        faults.append(errors.explain(f"{what}, do_lower_case", "true or false", repr(lower_case)))
    name = settings.get("tokenizer_class")
    names = [f"{family}Tokenizer{kind}" for family in _CLASSES for kind in ("", "Fast")]
    if name is not None and name not in (*names, *(_GENERIC if described else ())):
        expected = "BertTokenizer or one of its names"
        faults.append(errors.explain(f"{what}, tokenizer_class", expected, repr(name)[:80]))
    for key, value in _REQUIRED.items():
        received = settings.get(key)
        received = _content(value if received is None else received)
        if received != value:
            faults.append(errors.explain(f"{what}, {key}", repr(value), repr(received)[:80]))
    accents = settings.get("strip_accents")
    if accents is not None and accents != lower_case:
        expected = f"{lower_case}, as do_lower_case (or null)"
        faults.append(errors.explain(f"{what}, strip_accents", expected, repr(accents)[:80]))
    if settings.get("never_split"):
        received = repr(settings["never_split"])[:80]
        faults.append(errors.explain(f"{what}, never_split", "no words", received))
    unread = [
        key
        for key, value in settings.items()
        if value is not None
        and key not in _NO_EFFECT | _READ | {*_REQUIRED, *_ADDING}
        and not key.startswith("__")
    ]
    faults += [
        errors.explain(
            f"{what}, {key}",
            "a setting that tfdistill reads",
            repr(settings[key])[:80],
            "Remove it if the texts are split the same way without it.",
        )
        for key in unread
    ]
    if faults:
        raise errors.WeightsError(
            "\n".join(faults)
            + "\nThis checkpoint's tokenizer is not the one of BERT, and the model would answer "
            "wrongly with that. Take another checkpoint."
        )
    adding = [
        tokenizer_json.added_tokens_fault(f"{what}, {key}", _tokens_of(settings.get(key)))
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
    faults.append(tokenizer_json.added_tokens_fault(f"{folder / SPECIAL_FILE}", sorted(others)))
    added = read_settings(folder / ADDED_FILE)
    faults.append(tokenizer_json.added_tokens_fault(f"{folder / ADDED_FILE}", sorted(added)))
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


def foreign_truncation(truncation: Truncation) -> str:
    """Says why no tokenizer of `transformers` cuts texts as ours does; "" where they do."""
    if truncation == "end":
        return ""
    return (
        "a text that is too long loses its middle, and transformers cuts one end off: only "
        "tfdistill reads it alike"
    )


def _check_equal(listed: pathlib.Path, described: pathlib.Path, tokens: list[str]) -> None:
    """Refuses a vocab.txt that gives a token another id than tokenizer.json does."""
    lines = vocab.read_vocab(listed)
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


def read_settings(path: pathlib.Path) -> dict[str, Any]:
    """Reads a file of a checkpoint that holds a JSON object; {} where there is none."""
    if not path.is_file():
        return {}
    return reading.read_json_object(
        path, error=errors.WeightsError, expected="valid JSON", remedy="Fetch the file again."
    )
