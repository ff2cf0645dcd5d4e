"""The examples that the ranges of a static quantization are measured on."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.data.batches import Batches
from tfdistill.io import files
from tfdistill.models import EncoderConfig
from tfdistill.tasks.encoded import EncodedExamples, pad

from ..model import inputs, signature

NUM_LEAST = 16  # fewer examples do not cover the ranges
_NAME = "calibrate_on"


def draw(
    calibrate_on: Any, count: int, seed: int, config: EncoderConfig, lengths: Sequence[int]
) -> EncodedExamples:
    """Draws `count` examples, or all, without replacement, and leaves their labels behind.

    `calibrate_on` is `Batches`, `EncodedExamples`, any iterable of batches of features by name, or
    a function that returns one. The drawn examples keep their order.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < NUM_LEAST:
        raise errors.ConfigError("num_calibration", f"a whole number, at least {NUM_LEAST}", count)
    if not isinstance(calibrate_on, EncodedExamples | Batches | Iterable | Callable):
        raise errors.DataError(
            f"{_NAME}, which static quantizations measure their ranges on",
            "Batches, EncodedExamples or batches of features by name",
            "nothing" if calibrate_on is None else type(calibrate_on).__name__,
            "Give some hundred training examples, or train the student quantization-aware.",
        )
    examples = inputs.collect(calibrate_on, _NAME)
    if len(examples) < NUM_LEAST:
        raise errors.DataError(
            _NAME,
            f"at least {NUM_LEAST} examples",
            len(examples),
            "Take some hundred examples of the training data; they need no labels.",
        )
    inputs.check_examples(examples, config, lengths, _NAME)
    chosen = np.arange(len(examples))
    if count < len(examples):
        chosen = np.sort(np.random.default_rng(seed).choice(len(examples), count, replace=False))
    drawn = examples.select(chosen)
    return EncodedExamples(drawn.ids, drawn.offsets, drawn.types, pad_id=drawn.pad_id)


def save(examples: EncodedExamples, path: files.Path) -> None:
    """Writes examples for the converter's process."""
    np.savez(
        path,
        ids=examples.ids,
        offsets=examples.offsets,
        types=examples.types,
        pad_id=np.array(examples.pad_id),
    )


def load(path: files.Path) -> EncodedExamples:
    """Reads what `save` wrote."""
    with np.load(pathlib.Path(path)) as arrays:
        return EncodedExamples(
            arrays["ids"], arrays["offsets"], arrays["types"], pad_id=int(arrays["pad_id"])
        )


def feeds(
    signatures: Mapping[str, Any], examples: EncodedExamples
) -> dict[str, Iterable[dict[str, np.ndarray]]]:
    """Lays examples out as inputs of the signatures: key -> int32 (1, length) by name, see `fed`.

    `signatures` is the interpreter's description: key -> {"inputs": names, ...}.
    """
    keys = [key for key in signatures if re.fullmatch(rf"{signature.PREFIX}\d+", key)]
    lengths = sorted(int(key.removeprefix(signature.PREFIX)) for key in keys)
    inputs_of: dict[str, Iterable[dict[str, np.ndarray]]] = {}
    for rank, length in enumerate(lengths):
        chosen = fed(examples, lengths, rank)
        key = signature.signature_name(length)
        names = signatures[key]["inputs"]
        padded = (pad(examples, [i], length) for i in chosen.tolist())
        inputs_of[key] = [{name: features[name] for name in names} for features in padded]
    return inputs_of


def fed(examples: EncodedExamples, lengths: Sequence[int], rank: int) -> np.ndarray:
    """Returns the indices, int64, of the examples that the signature `rank` is measured on.

    They are those for which it is the shortest that holds them; of all that fit it where those are
    fewer than `NUM_LEAST`.
    """
    chosen = np.flatnonzero(np.searchsorted(lengths, examples.lengths) == rank)
    if len(chosen) < NUM_LEAST:
        chosen = np.flatnonzero(examples.lengths <= lengths[rank])
    return chosen
