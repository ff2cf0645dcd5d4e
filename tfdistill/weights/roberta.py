"""RoBERTa and CamemBERT checkpoints, whose networks are BERTs (`roberta_names`).

All token types are 0. Their tokenizers are none of ours, so that such a model only answers texts;
students learn from its answers.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from tfdistill import errors
from tfdistill.io import files
from tfdistill.io import reading as file_reading
from tfdistill.tokenization import library, reading
from tfdistill.weights import checkpoint, folders, hf_config, load, roberta_names

_MODELS = ("BPE", "Unigram")
_SPACES = " {2,}"  # the one expression that the tokenizers of these families use


def folder_of(source: files.Path) -> pathlib.Path | None:
    """Finds the folder of such a model; one on the hub is fetched."""
    folder = pathlib.Path(source).expanduser()
    if not folder.exists():
        folder = checkpoint.checkpoint_folder(source, (reading.JSON_FILE,))
    raw = checkpoint.read_json(folder / checkpoint.CONFIG_FILE, required=False)
    return folder if raw.get("model_type") in hf_config.ROBERTA_KINDS else None


def load_roberta(
    folder: pathlib.Path, task_kind: str | None = None
) -> tuple[load.LoadedModel, library.LibraryTokenizer]:
    """Loads a fine-tuned classifier (or regressor) of texts as a BERT, and its tokenizer.

    For `task_kind` see `load_model`.
    """
    tokenizer_file = folder / reading.JSON_FILE
    if not tokenizer_file.is_file():
        raise errors.WeightsError(
            f"tokenizer of {folder}",
            reading.JSON_FILE,
            "no such file",
            "Where transformers is installed: "
            "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes it.",
        )
    loaded = load.load_model(_as_bert(folder), "sequence", task_kind=task_kind)
    pad_id, num_rows = loaded.config.pad_token_id, loaded.config.vocab_size
    return loaded, read_roberta_tokenizer(tokenizer_file, pad_id=pad_id, num_rows=num_rows)


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
    bert = roberta_names.as_bert(raw, tensors, what=str(folder), pad_id=None)
    return checkpoint.Checkpoint(
        folder=folder,
        raw_config=bert.raw_config,
        tensors=bert.tensors,
        ignored=(*ignored, *bert.ignored),
        tokenizer=None,
        layout=layout,
        max_length=reading.max_length(settings, path),
    )


def read_roberta_tokenizer(
    path: pathlib.Path, *, pad_id: int, num_rows: int
) -> library.LibraryTokenizer:
    """Reads the tokenizer of a checkpoint of the RoBERTa family; all token types are 0.

    A tokenizer_config.json next to the tokenizer.json is heeded. One of another kind, with more
    tokens than `num_rows`, those of the embedding, or with a regular expression of its own is
    refused.
    """
    described = file_reading.read_json_object(path, error=errors.VocabularyError)
    described["model"] = library.typed_model(library.part_of(described, "model"))
    kind = described["model"].get("type")
    if kind not in _MODELS:
        raise errors.VocabularyError(
            f"{path}, model", f"one of {', '.join(_MODELS)}", repr(kind)[:80]
        )
    library.check_expressions(path, described, _SPACES)
    _heed_settings(described, path.with_name(reading.CONFIG_FILE))
    tokenizer = library.built(path, json.dumps(described))
    last = max(tokenizer.get_vocab().values(), default=-1)
    if last >= num_rows:
        raise errors.VocabularyError(
            f"{path}", f"ids below {num_rows}, the rows of the embedding", last
        )
    return library.LibraryTokenizer(tokenizer, pad_id=pad_id, num_types=1)


def _heed_settings(described: dict[str, Any], settings: pathlib.Path) -> None:
    """Lets tokenizer_config.json say whether a text begins with a space, as transformers does."""
    pieces = library.part_of(described, "pre_tokenizer")
    if pieces.get("type") != "ByteLevel":
        return
    told = reading.read_settings(settings, errors.VocabularyError)
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
