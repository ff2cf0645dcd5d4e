"""The inputs that a file is run on: its golden examples, and ids drawn to fill each signature."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.tflite.golden import GoldenExample
from tfdistill.tflite.signature import Signature

_NUM_GOLDEN = 8  # of a signature
_NUM_DRAWN = 4
_UNKNOWN_VOCABULARY = 2  # rows where no table of words is found: each has so many


@dataclasses.dataclass(frozen=True)
class SignatureInputs:
    """What one signature is run on."""

    signature: Signature  # the signature, with the roles of its inputs
    values: tuple[list[np.ndarray], ...]  # its inputs in their order, of each example
    golden: tuple[np.ndarray, ...]  # for the first of them the outputs that golden.json records


def inputs_of(signature: Signature, golden: Sequence[GoldenExample]) -> SignatureInputs:
    """Chooses golden examples of a signature, and draws others that fill it and half of it."""
    recorded = [e for e in golden if e.signature == signature.key and e.outputs][:_NUM_GOLDEN]
    for example in recorded:
        if len(example.input_ids) > signature.sequence_length:
            raise errors.ExportError(
                f"golden examples of signature {signature.key}",
                f"at most {signature.sequence_length} tokens",
                len(example.input_ids),
                "golden.json is of another file, or damaged: export again.",
            )
    random = np.random.default_rng((0, signature.sequence_length))
    values = [signature.padded(e.input_ids, e.token_type_ids) for e in recorded]
    rows = signature.vocabulary_rows or _UNKNOWN_VOCABULARY
    for number in range(_NUM_DRAWN):
        length = signature.sequence_length
        size = length if number % 2 == 0 else max(1, length // 2)
        types = (np.arange(size) >= size // 2).astype(int)
        values.append(signature.padded(random.integers(0, rows, size).tolist(), types.tolist()))
    outputs = tuple(np.ravel(np.array(e.outputs, np.float64)) for e in recorded)
    return SignatureInputs(signature, tuple(values), outputs)
