#!/usr/bin/env python3
"""Writes what `small_students.py` reads: ids of all texts in a small vocabulary, and the encoder.

    small_students_texts.py ENCODER DATA OUT.npz

ENCODER is a Hugging Face folder of all-MiniLM-L6-v2, DATA a folder with glue/CoLA, glue/MRPC and
trec/{train,dev,test}.tsv. Runs with the packages of tfdistill.
"""

from __future__ import annotations

import pathlib
import sys

import numpy as np

from tfdistill import tasks, weights
from tfdistill.data import batches, tokenize

_LENGTHS = {"cola": 40, "mrpc": 96, "trec": 40}
_FEW, _SEED = 300, 1  # labelled questions
_POSITIONS = 128


def main() -> None:
    """Encodes the sets and writes them with the weights as float16."""
    encoder, data, out = map(pathlib.Path, sys.argv[1:])
    checkpoint = weights.open_checkpoint(encoder)
    assert checkpoint.vocab_file is not None
    tokenizer = tokenize.Tokenizer(checkpoint.vocab_file, lower_case=checkpoint.lower_case)
    arrays: dict[str, np.ndarray] = {}
    for name, length in _LENGTHS.items():
        for split in ("train", "dev", "test"):
            task, folder = _task(name, data)
            examples = tasks.load_examples(task, folder, split)
            arrays |= _encoded(f"{name}.{split}", examples, tokenizer, length)
    arrays |= _few_questions(arrays)
    words = np.concatenate([v.ravel() for k, v in arrays.items() if k.endswith(".ids")])
    words = np.unique([*words, *tokenizer.special_ids])
    for key in [key for key in arrays if key.endswith(".ids")]:
        arrays[key] = np.searchsorted(words, arrays[key])
    arrays["special"] = np.searchsorted(words, tokenizer.special_ids)  # padding is 0, the first
    arrays["separator"] = np.searchsorted(words, [tokenizer.sep_id])
    for key, value in checkpoint.tensors.items():
        if key == "embeddings.word_embeddings.weight":
            value = value[words]
        elif key == "embeddings.position_embeddings.weight":
            value = value[:_POSITIONS]
        if value.dtype.kind == "f":
            arrays[f"encoder.{key}"] = value.astype(np.float16)
    np.savez_compressed(out, **arrays)  # pyright: ignore[reportArgumentType]


def _task(name: str, data: pathlib.Path) -> tuple[tasks.TaskSpec, pathlib.Path]:
    if name != "trec":
        return tasks.task(name), data / "glue" / {"cola": "CoLA", "mrpc": "MRPC"}[name]
    questions = tasks.TaskSpec(name, "question", "kind")
    return questions.with_labels_of(data / "trec"), data / "trec"


def _encoded(
    key: str, examples: tasks.Examples, tokenizer: tokenize.Tokenizer, length: int
) -> dict[str, np.ndarray]:
    """Padded ids (n, length), lengths, tokens of the first text (0: no second), and labels."""
    encoded = batches.encode_examples(examples, tokenizer, length)
    lengths = encoded.lengths
    ids = np.full((len(encoded), length), tokenizer.pad_id, np.int64)
    ids[np.arange(length) < lengths[:, None]] = encoded.ids
    seconds = np.add.reduceat(encoded.types.astype(np.int64), encoded.offsets[:-1])
    labels = np.full(len(encoded), -1) if encoded.labels is None else encoded.labels
    first = np.where(seconds > 0, lengths - seconds, 0)
    values = {"ids": ids, "lengths": lengths, "first": first, "labels": labels}
    return {f"{key}.{field}": value.astype(np.int64) for field, value in values.items()}


def _few_questions(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    order = np.random.default_rng(_SEED).permutation(len(arrays["trec.train.ids"]))
    parts = {"train": np.sort(order[:_FEW]), "unlabelled": np.sort(order[_FEW:])}
    return {
        f"trec.{part}.{field}": arrays[f"trec.train.{field}"][rows]
        for part, rows in parts.items()
        for field in ("ids", "lengths", "first", "labels")
    }


if __name__ == "__main__":
    main()
