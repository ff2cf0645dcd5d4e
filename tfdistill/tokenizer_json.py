"""tokenizer.json of BERT's tokenizer: its vocabulary and its settings, or why it is another one.

The file is what `transformers` 5 and `sentence-transformers` 6 save, without a vocab.txt. A model
answers nonsense where text is split otherwise than it was trained on, and nothing shows it: every
part that is not BERT's, and every token that is added to the vocabulary, is refused by name.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tfdistill import errors
from tfdistill.io import reading

if TYPE_CHECKING:
    import tokenizers

FILE_NAME = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"  # settings beside it
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
SUFFIX_INDICATOR = "##"
# A section -> the one type it may have, and its keys: a value that is required, or None for a key
# that changes no token.
_MODEL: Mapping[str, Any] = {
    "type": "WordPiece",
    "unk_token": "[UNK]",
    "continuing_subword_prefix": SUFFIX_INDICATOR,
    "max_input_chars_per_word": 100,
    "vocab": None,
}
_NORMALIZER: Mapping[str, Any] = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": None,
}
_PRE_TOKENIZER: Mapping[str, Any] = {"type": "BertPreTokenizer"}
_SECTIONS = frozenset(
    "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder "
    "model".split()
)
_CLS, _SEP = ({"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]"))
_LAST_SEP = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
_FIRST, _SECOND = ({"Sequence": {"id": name, "type_id": i}} for i, name in enumerate("AB"))
_TEMPLATES = {
    "single": [_CLS, _FIRST, _SEP],
    "pair": [_CLS, _FIRST, _SEP, _SECOND, _LAST_SEP],
}


class TokenizerJson(NamedTuple):
    """What a tokenizer.json says."""

    tokens: list[str]  # in the order of the ids
    lower_case: bool  # also without accents


def said_lower_case(settings: Mapping[str, Any]) -> Any:
    """What the settings of `CONFIG_FILE` say of lower-casing; True where they say nothing."""
    said = settings.get("do_lower_case")
    return True if said is None else said


def read_tokenizer_json(path: pathlib.Path) -> TokenizerJson:
    """Reads the tokenizer of a BERT: its vocabulary and its settings.

    One that is damaged, not BERT's, adds tokens to the vocabulary, or leaves an id without a token
    is refused; the message names every section that differs.
    """
    described = reading.read_json_object(path, error=errors.VocabularyError)
    model = typed_model(_only_part(described, "model"))
    normalizer = _only_part(described, "normalizer")
    faults = [
        *_differences(path, "model", model, _MODEL),
        *_differences(path, "normalizer", normalizer, _NORMALIZER),
        *_differences(
            path, "pre_tokenizer", _only_part(described, "pre_tokenizer"), _PRE_TOKENIZER
        ),
        *_template_faults(path, described.get("post_processor")),
        *_side_faults(path, described),
        *(
            errors.explain(f"{path}, {name}", "no such section", repr(value)[:80])
            for name, value in described.items()
            if name not in _SECTIONS and value is not None
        ),
    ]
    lower_case, accents = normalizer.get("lowercase"), normalizer.get("strip_accents")
    if not faults and not isinstance(lower_case, bool):
        expected = "true or false"
        faults.append(errors.explain(f"{path}, normalizer.lowercase", expected, repr(lower_case)))
    if not faults and accents not in (None, lower_case):
        faults.append(
            errors.explain(
                f"{path}, normalizer.strip_accents",
                f"{lower_case}, as lowercase (or null)",
                repr(accents),
            )
        )
    if faults:
        raise errors.VocabularyError(
            "\n".join(faults)
            + "\nThis is not BERT's tokenizer, and the model would answer wrongly with that. Take "
            "another checkpoint, or let it teach by its answers "
            "(scripts/answers_from_transformers.py)."
        )
    ids = _token_ids(path, model.get("vocab"), described.get("added_tokens") or [])
    _check_template_ids(path, described["post_processor"], ids)
    return TokenizerJson(_in_order(path, ids), bool(lower_case))


def build_tokenizer(tokens: Sequence[str], *, lower_case: bool) -> tokenizers.Tokenizer:
    """Makes BERT's tokenizer of the library `tokenizers`; its `save` writes a tokenizer.json.

    The tokens are in the order of the ids, with the five special ones. A special token in a text is
    ordinary text until `add_special_tokens`.
    """
    import tokenizers
    from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

    ids = {token: index for index, token in enumerate(tokens)}
    model = models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100)
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


def typed_model(model: dict[str, Any]) -> dict[str, Any]:
    """The section of the model with its type, which files of the first `tokenizers` leave out.

    Their readers tell it by its keys, too; the files of bert-base-uncased and roberta-base are such
    ones.
    """
    if model.get("type") is not None:
        return model
    vocabulary = model.get("vocab")
    if isinstance(vocabulary, list) and "unk_id" in model:
        return {**model, "type": "Unigram"}
    if isinstance(vocabulary, dict) and "merges" in model:
        return {**model, "type": "BPE"}
    if isinstance(vocabulary, dict) and "max_input_chars_per_word" in model:
        return {**model, "type": "WordPiece"}
    return model


def _only_part(described: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A section; the single member of a sequence stands for the sequence."""
    part = described.get(name)
    if isinstance(part, dict) and part.get("type") == "Sequence":
        members = part.get("normalizers", part.get("pretokenizers"))
        part = members[0] if isinstance(members, list) and len(members) == 1 else part
    return part if isinstance(part, dict) else {}


def _differences(
    path: pathlib.Path, section: str, part: Mapping[str, Any], expected: Mapping[str, Any]
) -> list[str]:
    faults = []
    if part.get("type") != expected["type"]:
        received = repr(part.get("type"))[:80] if part else "none"
        return [errors.explain(f"{path}, {section}", expected["type"], received)]
    for key, value in part.items():
        if key not in expected:
            if value is not None:
                faults.append(
                    errors.explain(f"{path}, {section}.{key}", "no such key", repr(value)[:80])
                )
        elif expected[key] is not None and value != expected[key]:
            faults.append(
                errors.explain(f"{path}, {section}.{key}", repr(expected[key]), repr(value)[:80])
            )
    return faults


def _template_faults(path: pathlib.Path, part: Any) -> list[str]:
    """Checks that a text becomes [CLS] text [SEP], and a pair [CLS] text [SEP] text [SEP]."""
    kind = part.get("type") if isinstance(part, dict) else None
    right = kind == "BertProcessing"
    if kind == "TemplateProcessing":
        right = all(part.get(name) == template for name, template in _TEMPLATES.items())
    if right:
        return []
    expected = "[CLS] text [SEP], and [CLS] text [SEP] text [SEP] for a pair"
    return [errors.explain(f"{path}, post_processor", expected, repr(kind or "none"))]


def _check_template_ids(path: pathlib.Path, part: dict[str, Any], ids: Mapping[str, int]) -> None:
    """Refuses ids of [CLS] and [SEP] in the template that are not those of the vocabulary."""
    if part["type"] == "BertProcessing":
        stated = [part.get(key) for key in ("cls", "sep")]
    else:
        special = part.get("special_tokens")
        entries = special if isinstance(special, dict) else {}
        listed = [(token, entries.get(token)) for token in ("[CLS]", "[SEP]")]
        stated = [
            [token, *entry["ids"]]
            for token, entry in listed
            if isinstance(entry, dict) and isinstance(entry.get("ids"), list)
        ]
    expected = [[token, ids.get(token)] for token in ("[CLS]", "[SEP]")]
    if stated != expected:
        raise errors.VocabularyError(
            f"{path}, post_processor",
            f"{expected}, as in model.vocab",
            errors.shortened(f"{stated}"),
        )


def _side_faults(path: pathlib.Path, described: Mapping[str, Any]) -> list[str]:
    """Checks that long texts are cut, and short ones padded, at their end."""
    sides = [(name, described.get(name)) for name in ("truncation", "padding")]
    return [
        errors.explain(f"{path}, {name}.direction", "'Right'", repr(part.get("direction"))[:80])
        for name, part in sides
        if isinstance(part, dict) and part.get("direction", "Right") != "Right"
    ]


def _token_ids(path: pathlib.Path, vocabulary: Any, added: Any) -> dict[str, int]:
    """The id of each token: those of the model, and special tokens that are only listed."""
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
    return ids


def _in_order(path: pathlib.Path, ids: Mapping[str, Any]) -> list[str]:
    """The tokens by id; every id from 0 has one."""
    wrong = [token for token, index in ids.items() if type(index) is not int]
    if wrong:
        raise errors.VocabularyError(
            f"{path}, model.vocab", "a whole number for each token", f"{ids[wrong[0]]!r}"[:80]
        )
    by_id = {index: token for token, index in ids.items()}
    missing = next((index for index in range(len(ids)) if index not in by_id), None)
    if missing is not None:
        raise errors.VocabularyError(
            f"{path}, model.vocab",
            f"a token for each id from 0 to {len(ids) - 1}",
            f"none for the id {missing}",
            "The vocabulary that it was made from held a token twice.",
        )
    return [by_id[index] for index in range(len(ids))]
