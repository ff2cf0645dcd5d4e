"""RoBERTa, XLM-R and CamemBERT checkpoints, which are BERTs with another table of positions.

Position i of a text is row ``pad_token_id + 1 + i`` of their table, all token types are 0, and
the head is BERT's pooler and classifier under other names. Their tokenizers are not BERT's, so
that such a model only answers texts; students learn from its answers.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tokenization import reading
from tfdistill.weights import checkpoint, folders, hf_config, load

TOKENIZER_FILE = "tokenizer.json"
_POSITIONS = "embeddings.position_embeddings.weight"
_RENAMED = {
    f"classifier.{old}.{part}": f"{new}.{part}"
    for old, new in (("dense", "pooler.dense"), ("out_proj", "classifier"))
    for part in ("weight", "bias")
}
_UNUSED = ("lm_head.", "pooler.")
# Sizes that config.json may leave out, as transformers has them.
_DEFAULTS = {"vocab_size": 50265, "pad_token_id": 1, "max_position_embeddings": 512}


@dataclasses.dataclass(frozen=True)
class LoadedRoberta:
    """A classifier of texts and its tokenizer."""

    loaded: load.LoadedModel  # a BERT of this package, and its labels
    tokenizer_file: pathlib.Path  # tokenizer.json


def folder_of(source: files.Path) -> pathlib.Path | None:
    """Finds the folder of such a model; one on the hub is fetched."""
    folder = pathlib.Path(source).expanduser()
    if not folder.exists():
        folder = checkpoint.checkpoint_folder(source, (TOKENIZER_FILE,))
    raw = checkpoint.read_json(folder / checkpoint.CONFIG_FILE, required=False)
    return folder if raw.get("model_type") in hf_config.ROBERTA_KINDS else None


def load_roberta(folder: pathlib.Path, task_kind: str | None = None) -> LoadedRoberta:
    """Loads a fine-tuned classifier (or regressor) of texts, see `load_model` of `task_kind`."""
    tokenizer_file = folder / TOKENIZER_FILE
    if not tokenizer_file.is_file():
        raise errors.WeightsError(
            f"tokenizer of {folder}",
            TOKENIZER_FILE,
            "no such file",
            "Where transformers is installed: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it.",
        )
    return LoadedRoberta(
        load.load_model(_as_bert(folder), "sequence", task_kind=task_kind), tokenizer_file
    )


def _as_bert(folder: pathlib.Path) -> checkpoint.Checkpoint:
    """Reads a checkpoint in the names and sizes of a BERT."""
    raw = checkpoint.read_json(folder / checkpoint.CONFIG_FILE, required=True)
    if adapter := folders.adapter(folder):
        raise errors.WeightsError(f"checkpoint {folder}", "whole weights", *adapter)
    path = folder / reading.CONFIG_FILE
    settings = checkpoint.read_json(path, required=False)
    if settings.get("truncation_side", "right") != "right":
        raise errors.WeightsError(
            f"{path}, truncation_side", "'right'", repr(settings["truncation_side"])[:80]
        )
    tensors, ignored, layout = checkpoint.read_parts(folder)
    tensors = {
        _RENAMED.get(key, key): tensor
        for key, tensor in tensors.items()
        if not key.startswith(_UNUSED)
    }
    sizes: dict[str, Any] = {name: raw.get(name, value) for name, value in _DEFAULTS.items()}
    first = sizes["pad_token_id"]
    rows = tensors.get(_POSITIONS)
    if not isinstance(first, int) or rows is None or not 0 <= first < len(rows) - 1:
        held = "no table" if rows is None else f"{len(rows)} rows"
        raise errors.WeightsError(
            f"positions of {folder}",
            "a table that begins behind the row pad_token_id of config.json",
            f"{held}, pad_token_id {first!r}",
        )
    tensors[_POSITIONS] = rows[first + 1 :]
    most = sizes["max_position_embeddings"]
    sizes["max_position_embeddings"] = most - first - 1 if isinstance(most, int) else most
    return checkpoint.Checkpoint(
        folder=folder,
        raw_config={**raw, **sizes, "model_type": "bert", "architectures": None},
        tensors=tensors,
        ignored=ignored,
        tokenizer=None,
        layout=layout,
        max_length=reading.max_length(settings, path),
    )
