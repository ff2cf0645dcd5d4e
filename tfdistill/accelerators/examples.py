"""The inputs that a file is run on: its golden examples, and ids drawn to fill each signature."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np

from tfdistill import errors, reading
from tfdistill.benchmark.modelfile import EntryPoint
from tfdistill.tflite import word_rows

_NUM_GOLDEN = 8  # of a signature
_NUM_DRAWN = 4
_UNKNOWN_VOCABULARY = 2  # rows where no table of words is found: each has so many


@dataclasses.dataclass(frozen=True)
class SignatureInputs:
    """What one signature is run on.

    Attributes:
      entry: The signature.
      features: Its inputs by name, of each example.
      golden: For the first of them the outputs that golden.json records.
    """

    entry: EntryPoint
    features: tuple[dict[str, np.ndarray], ...]
    golden: tuple[np.ndarray, ...]


def inputs_of(
    entry: EntryPoint,
    golden: dict[str, Any] | None,
    words: word_rows.WordTable | None = None,
    seed: int = 0,
) -> SignatureInputs:
    """Chooses golden examples of a signature, and draws others that fill it and half of it.

    Args:
      entry: The signature.
      golden: The content of golden.json, or None.
      words: The table of a signature that takes rows of words.
      seed: Seed of the draw.

    Raises:
      BenchmarkError: If the table is missing or of another width.
    """
    width = None if words is None else words.codes.shape[1]
    if width != entry.word_width:
        raise errors.BenchmarkError(
            f"word table of signature {entry.signature}",
            "none" if entry.word_width is None else f"one of width {entry.word_width}",
            width,
            "model.json beside the file names it.",
        )
    own = [
        example
        for example in (golden or {}).get("examples", [])
        if example["signature"] == entry.signature
    ][:_NUM_GOLDEN]
    random = np.random.default_rng((seed, entry.sequence_length))
    features = [
        _padded(entry, np.array(example["input_ids"]), np.array(example["token_type_ids"]), words)
        for example in own
    ]
    rows = entry.vocabulary_rows or _UNKNOWN_VOCABULARY
    if words is not None:
        rows = words.num_words
    for number in range(_NUM_DRAWN):
        size = entry.sequence_length if number % 2 == 0 else max(1, entry.sequence_length // 2)
        types = (np.arange(size) >= size // 2).astype(int)
        features.append(_padded(entry, random.integers(0, rows, size), types, words))
    outputs = tuple(np.ravel(np.array(example["outputs"], np.float64)) for example in own)
    return SignatureInputs(entry, tuple(features), outputs)


def read_golden(path: pathlib.Path) -> dict[str, Any]:
    """Reads golden.json.

    Raises:
      ExportError: If it is not one.
    """
    content = reading.parse_json(
        path.read_bytes(), f"golden examples {path}", error=errors.ExportError
    )
    keys = {"signature", "input_ids", "token_type_ids", "outputs"}
    examples = content.get("examples") if isinstance(content, dict) else None
    if not isinstance(examples, list) or not all(
        isinstance(example, dict) and keys <= set(example) for example in examples
    ):
        raise errors.ExportError(
            f"golden examples {path}", "what `tfdistill export` writes", "other content"
        )
    return content


def _padded(
    entry: EntryPoint, ids: np.ndarray, types: np.ndarray, words: word_rows.WordTable | None
) -> dict[str, np.ndarray]:
    values = {
        "input_ids": ids,
        "attention_mask": np.ones(len(ids)),
        "token_type_ids": types,
    }
    found = {}
    for role, given in entry.inputs.items():
        if words is not None and role == word_rows.INPUT:
            row = np.zeros((1, entry.sequence_length), np.int64)
            row[0, : len(ids)] = ids
            found[given.name] = words.rows(row)
            continue
        row = np.zeros((1, entry.sequence_length), given.dtype)
        row[0, : len(ids)] = values[role]
        found[given.name] = row
    return found
