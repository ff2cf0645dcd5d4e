"""tokenizer_config.json of a Hugging Face folder: what our tokenizer does, and what it cannot do.

A model answers nonsense where text is split otherwise than it was trained on, and nothing shows it:
what is not BERT's tokenizer with lower-casing or without it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfdistill import errors

# BERT's tokenizer by its names; "Fast" of each is the same one.
_CLASSES = ("Bert", "DistilBert", "MobileBert", "Electra", "ConvBert")
_PLAIN = {
    "do_basic_tokenize": True,
    "tokenize_chinese_chars": True,
    "wordpieces_prefix": "##",
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
}


def check_settings(settings: Mapping[str, Any], *, what: str = "tokenizer_config.json") -> bool:
    """Checks that text is split as our tokenizer splits it.

    Args:
      settings: The parsed file; {} where there is none.
      what: What messages call it.

    Returns:
      Whether text is lower-cased (`do_lower_case`, default True).

    Raises:
      WeightsError: If a setting asks for another tokenizer; with every such setting.
    """
    lower_case = settings.get("do_lower_case", True)
    faults = []
    if not isinstance(lower_case, bool):
        faults.append(errors.explain(f"{what}, do_lower_case", "true or false", repr(lower_case)))
    name = settings.get("tokenizer_class")
    known = {f"{family}Tokenizer{kind}" for family in _CLASSES for kind in ("", "Fast")}
    if name is not None and name not in known:
        expected = "BertTokenizer or one of its names"
        faults.append(errors.explain(f"{what}, tokenizer_class", expected, repr(name)))
    for key, value in _PLAIN.items():
        found = settings.get(key, value)
        if isinstance(found, dict):  # an added token with its flags
            found = found.get("content")
        if found != value:
            faults.append(errors.explain(f"{what}, {key}", repr(value), repr(found)))
    accents = settings.get("strip_accents")
    if accents is not None and accents != lower_case:
        expected = f"{lower_case}, as do_lower_case (or null)"
        faults.append(errors.explain(f"{what}, strip_accents", expected, repr(accents)))
    if settings.get("never_split"):
        found = repr(settings["never_split"])
        faults.append(errors.explain(f"{what}, never_split", "no words", found))
    if faults:
        raise errors.WeightsError(
            "\n".join(faults)
            + "\nThis checkpoint's tokenizer is not the one of BERT, and the model would answer "
            "wrongly with that. Take another checkpoint."
        )
    return bool(lower_case)
