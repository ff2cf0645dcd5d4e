"""How far a model's outputs move by the rounding of float32 alone.

No fixed bound tells a wrong network from float32: of an untrained one a lost mask moves the outputs
by a thousandth, which a deep one with large weights reaches by rounding. So the model itself is run
again with every weight one step of float32 up or down, drawn at random: each sum then changes as
much as its rounding changes it, and what follows makes that larger or smaller as it makes rounding.
Measured on 25 models, 1 to 12 layers, 32 to 768 wide, random, trained and with weights times ten:
the float32 file is 0.3 to 1.8 times as far from the model as that, the furthest output 0.2 to 1.6.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import tf_keras as keras

from tfdistill import errors
from tfdistill.tasks.encoded import EncodedExamples

from . import outputs

_DRAWS = 2
_STEP = 2.0**-23  # relative; of float32
_TIMES = 10.0  # as far may a file be


def faults(
    model: keras.Model,
    examples: EncodedExamples,
    length: int,
    logits: np.ndarray,
    file: np.ndarray,
    where: str,
) -> list[str]:
    """Lists where a float32 file is further from its model than float32's rounding takes it.

    With e the file's difference and d those of the draws: ``rms e <= 10 rms d`` and
    ``max |e| <= 10 max |d|``, both over all rows and outputs.

    Args:
      model: The model; its weights are changed and put back.
      examples: The inputs.
      length: Tokens that they are padded to.
      logits: (rows, num_labels), what the model answers.
      file: The same of the file.
      where: Put before each line.

    Returns:
      At most one line.
    """
    exact = logits.astype(np.float64)
    moved = []
    for draw in range(_DRAWS):
        with _one_step_off(model, draw):
            moved.append(outputs.model_logits(model, examples, [length]) - exact)
    off, scale = file - exact, float(np.sqrt(np.mean(exact**2))) or 1.0
    for name, of in (("error", _rms), ("largest error", _largest)):
        # Never less than a step of the outputs: weights of 0 do not move.
        allowed = _TIMES * max(of(np.stack(moved)), _STEP * scale)
        if not of(off) <= allowed:
            expected = f"at most {allowed / scale:.2g} of the rms, {_TIMES:g} times float32's noise"
            return [errors.explain(f"{where}{name}", expected, f"{of(off) / scale:.2g}")]
    return []


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def _largest(values: np.ndarray) -> float:
    return float(np.abs(values).max())


@contextlib.contextmanager
def _one_step_off(model: keras.Model, seed: int) -> Iterator[None]:
    random = np.random.default_rng(seed)
    kept = model.get_weights()
    try:
        model.set_weights([_moved(weight, random) for weight in kept])
        yield
    finally:
        model.set_weights(kept)


def _moved(weight: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if weight.dtype.kind != "f":
        return weight
    signs = random.integers(0, 2, weight.shape, np.int8) * 2.0 - 1.0
    return (weight * (1 + _STEP * signs)).astype(weight.dtype)
