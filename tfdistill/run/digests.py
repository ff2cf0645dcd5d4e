"""What a run began with: digests of its examples, and of the files that its recipe names."""

from __future__ import annotations

import hashlib
import json
import pathlib
from collections.abc import Mapping

import numpy as np

from tfdistill import config, tasks, weights
from tfdistill.io import arrays, ledger, storage
from tfdistill.run import task_models
from tfdistill.tasks.encoded import EncodedExamples

# Below the folder "data" of a run.
EXAMPLES, INPUTS = "sha256.json", "inputs.json"
_ROWS = 10_000  # of a set, written as JSON at a time
# Files that are read of a checkpoint; of a folder of shards its manifest, which has their SHA-256.
_OF_MODEL, _OF_SHARDS = (".json", ".safetensors", ".txt"), (".json", ".txt")


def check_same(path: pathlib.Path, digests: Mapping[str, str], what: str) -> None:
    """Refuses to continue a run with others than it began with; the message names what differs."""
    ledger.check_same_file(
        path,
        digests,
        f"{what} that the run began with",
        "Restore them as they were, or start again with --overwrite.",
    )


def of_examples(examples: tasks.Examples | None) -> str:
    """The SHA-256 of the texts and labels of a set as JSON, a list of three; "" without one."""
    if examples is None:
        return ""
    digest = hashlib.sha256()
    for mark, column in zip("[,,", (examples.texts, examples.pairs, examples.labels), strict=True):
        digest.update(mark.encode() + b" " * (mark == ","))
        if column is None:
            digest.update(b"null")
            continue
        for start in range(0, max(len(column), 1), _ROWS):
            rows = column[start : start + _ROWS]
            rows = rows.tolist() if isinstance(rows, np.ndarray) else rows
            text = json.dumps(rows, default=np.ndarray.tolist)
            digest.update(f"{', ' if start else '['}{text[1:-1]}".encode())
        digest.update(b"]")
    digest.update(b"]")
    return digest.hexdigest()


def of_encoded(**sets: EncodedExamples | None) -> str:
    """The SHA-256 of what models read of sets by name, and learn from; a set may be absent."""
    parts = {
        f"{name} {part}": getattr(encoded, part)
        for name, encoded in sets.items()
        if encoded is not None
        for part in ("ids", "offsets", "types", "labels", "weights")
    }
    present = {name: array for name, array in parts.items() if array is not None}
    return arrays.digest_of(present, {})


def of_inputs(recipe: config.Recipe) -> dict[str, str]:
    """Key of the recipe -> digest of the model, vocabulary or text that it names.

    Of a model on the hub it is the commit. What the run makes itself is not in it, nor are the
    examples of the task, whose digest is that of their texts and labels.
    """
    named = {
        key: ledger.digest_of(storage.located(path), _OF_SHARDS)
        for key, path in _files_of(recipe).items()
        if path
    }
    models = {
        key: weights.hub_commit(source) or ledger.digest_of(source, _OF_MODEL)
        for key, source in _models_of(recipe).items()
        if source and not source.startswith(task_models.PRESET)
    }
    return named | models


def _models_of(recipe: config.Recipe) -> dict[str, str | None]:
    teacher, student, augment = recipe.teacher, recipe.student, recipe.data.augment
    named: dict[str, str | None] = {}
    if teacher.answers is None:
        named |= {"teacher.source": teacher.source, "teacher.general": teacher.general}
    if config.is_checkpoint(student.preset):
        named["student.preset"] = student.preset
    if student.initialise not in config.STARTS:
        named["student.initialise"] = student.initialise
    if augment is not None:
        named["data.augment.masked_lm"] = augment.masked_lm
    return named


def _files_of(recipe: config.Recipe) -> dict[str, str | None]:
    data, pretrain = recipe.data, recipe.teacher.pretrain
    named: dict[str, str | None] = {}
    if data.vocab != "teacher" and not data.vocab.startswith("train:"):
        named["data.vocab"] = data.vocab
    named |= {f"data.{key}": getattr(data, key) for key in ("promise_on", "other", "file")}
    if data.cut is not None:
        named["data.cut.languages_of"] = data.cut.languages_of
    if data.augment is not None:
        named["data.augment.vectors"] = data.augment.vectors
    texts = {f"stages.{name}.corpus": s.corpus for name, s in recipe.used_stages.items()}
    if pretrain is not None:
        texts["teacher.pretrain.corpus"] = pretrain.corpus
    return named | {
        f"{key}.{i}": path for key, paths in texts.items() for i, path in enumerate(paths)
    }
