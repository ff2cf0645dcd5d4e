"""Checkpoints of RoBERTa's family in the names and sizes of a BERT, which they are.

Position i of a text is row ``pad_token_id + 1 + i`` of their table, the head of whole texts is
BERT's pooler and classifier, and that of a masked LM BERT's, both under other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tfdistill import errors

_POSITIONS = "embeddings.position_embeddings.weight"
# How their names begin, and how those of a BERT do.
_RENAMED = {
    "classifier.dense.": "pooler.dense.",
    "classifier.out_proj.": "classifier.",
    "lm_head.dense.": "cls.predictions.transform.dense.",
    "lm_head.layer_norm.": "cls.predictions.transform.LayerNorm.",
    "lm_head.": "cls.predictions.",
}
# Sizes that config.json may leave out, as transformers has them.
_DEFAULTS = {"vocab_size": 50265, "pad_token_id": 1, "max_position_embeddings": 512}


class BertForm(NamedTuple):
    """A checkpoint as `checkpoint.Checkpoint` holds it."""

    raw_config: dict[str, Any]
    tensors: dict[str, np.ndarray]
    ignored: tuple[str, ...]  # keys that hold nothing beside others


def as_bert(
    raw: Mapping[str, Any], tensors: Mapping[str, np.ndarray], *, what: str, pad_id: int | None
) -> BertForm:
    """Renames and cuts the tensors of a checkpoint, and its config.json with them.

    Args:
      raw: The content of config.json.
      tensors: By canonical key.
      what: What messages call the checkpoint.
      pad_id: The id of its tokenizer's padding, from which positions are counted; None: not known.

    Returns:
      The BERT.

    Raises:
      WeightsError: If its table of positions does not begin behind the row of the padding.
    """
    names = {key: _renamed(key) for key in tensors}
    if "classifier.dense.weight" in tensors:  # which reads the states, not this pooler
        names = {key: name for key, name in names.items() if not key.startswith("pooler.")}
    if raw.get("hidden_act", "gelu") not in ("gelu", "gelu_python"):  # that of its masked LM
        names = {key: name for key, name in names.items() if not key.startswith("lm_head.")}
    renamed = {name: tensors[key] for key, name in names.items()}
    ignored = tuple(key for key in tensors if key not in names)
    sizes: dict[str, Any] = {name: raw.get(name, value) for name, value in _DEFAULTS.items()}
    first, rows = sizes["pad_token_id"], renamed.get(_POSITIONS)
    if not isinstance(first, int) or rows is None or not 0 <= first < len(rows) - 1:
        held = "no table" if rows is None else f"{len(rows)} rows"
        raise errors.WeightsError(
            f"positions of {what}",
            "a table that begins behind the row pad_token_id of config.json",
            f"{held}, pad_token_id {first!r}",
        )
    if pad_id not in (None, first):
        raise errors.WeightsError(
            f"config.json pad_token_id of {what}", f"{pad_id}, as its tokenizer has it", first
        )
    renamed[_POSITIONS] = rows[first + 1 :]
    most = sizes["max_position_embeddings"]
    sizes["max_position_embeddings"] = most - first - 1 if isinstance(most, int) else most
    return BertForm({**raw, **sizes, "model_type": "bert"}, renamed, ignored)


def _renamed(key: str) -> str:
    for old, new in _RENAMED.items():
        if key.startswith(old):
            return new + key.removeprefix(old)
    return key
