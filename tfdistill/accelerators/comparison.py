"""Whether the answers of an accelerator are those of the CPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import numpy as np

# The least ratio of answers to differences, in dB. Measured on toy files: floats in float32 agree
# to 110 dB, in bfloat16 to 37 dB. Where the CPU rounds activations and the accelerator does not,
# they differ by that rounding: 35 dB with ranges of each input, 20 dB with fixed ones.
FLOAT_DB = 50.0
FLOAT16_DB = 28.0
DYNAMIC_DB = 22.0
STATIC_DB = 14.0
_NOTHING = 1e-6


@dataclasses.dataclass(frozen=True)
class AcceleratorAnswers:
    """The answers of an accelerator beside those of the CPU.

    Attributes:
      num_examples: Number of inputs.
      output_rms: Root mean square of the CPU's answers.
      max_abs_error: Largest difference; None where an answer is no finite number.
      sqnr_db: 10 log10(sum cpu^2 / sum (cpu - accelerator)^2); None where all are equal.
      least_sqnr_db: What it should be at least.
      fault: Why the answers are wrong; None where they are right.
    """

    num_examples: int
    output_rms: float
    max_abs_error: float | None
    sqnr_db: float | None
    least_sqnr_db: float
    fault: str | None


def least_sqnr_db(dtypes: Collection[str], *, static: bool, float16: bool) -> float:
    """Returns how near the answers of a file must be to the CPU's, in dB.

    Args:
      dtypes: The types of its large constants.
      static: Whether its activations are integers with fixed ranges.
      float16: Whether the accelerator computes in 16 bits.
    """
    if static:
        return STATIC_DB
    if set(dtypes) - {"float32", "float16"}:
        return DYNAMIC_DB
    return FLOAT16_DB if float16 else FLOAT_DB


def compare(
    cpu: Sequence[dict[str, np.ndarray]],
    accelerator: Sequence[dict[str, np.ndarray]],
    least_db: float,
) -> AcceleratorAnswers:
    """Compares the answers to the same inputs, output by output.

    Args:
      cpu: For each input the CPU's outputs by name.
      accelerator: For each input the accelerator's.
      least_db: The least ratio of answers to differences, of each output.

    Returns:
      The worst output's agreement; `fault` names the first output that is wrong.
    """
    names = sorted(cpu[0])
    faults: list[str] = []
    worst: float | None = None
    largest: float | None = 0.0
    squares: list[np.ndarray] = []
    for name in names:
        expected = _rows(cpu, name)
        squares.append(np.square(expected))
        if any(set(answer) != set(names) for answer in accelerator):
            faults.append(f"expected outputs {', '.join(names)}, received others")
            break
        received = _rows(accelerator, name)
        if received.shape != expected.shape:
            faults.append(f"{name}: expected shape {expected.shape}, received {received.shape}")
            continue
        if not np.isfinite(received).all():
            faults.append(f"{name}: expected finite numbers, received NaN or infinity")
            largest = None
            continue
        difference = np.abs(expected - received).max(initial=0.0)
        largest = None if largest is None else max(largest, float(difference))
        ratio = _ratio_db(np.square(expected).sum(), np.square(expected - received).sum())
        worst = ratio if worst is None or (ratio is not None and ratio < worst) else worst
        if fault := _fault(name, expected, received, ratio, least_db):
            faults.append(fault)
    rms = math.sqrt(float(np.mean(np.concatenate([part.reshape(-1) for part in squares]))))
    fault = faults[0] if faults else None
    return AcceleratorAnswers(len(cpu), rms, largest, worst, least_db, fault)


def _rows(answers: Sequence[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.stack([np.asarray(answer[name], np.float64).reshape(-1) for answer in answers])


def _ratio_db(signal: float, noise: float) -> float | None:
    """The ratio of two sums of squares; None where there is no noise."""
    if noise == 0:
        return None
    return 10 * math.log10(max(signal, _NOTHING**2) / noise)


def _fault(
    name: str, expected: np.ndarray, received: np.ndarray, ratio: float | None, least_db: float
) -> str | None:
    if not received.any() and expected.any():
        return f"{name}: all zero, where the CPU's answers are not"
    if ratio is not None and ratio < least_db:
        return (
            f"{name}: expected at least {least_db:g} dB to the CPU's answers, received {ratio:.1f}"
        )
    if _is_constant(received) and not _is_constant(expected):
        return f"{name}: the same answer to every input"
    return None


def _is_constant(rows: np.ndarray) -> bool:
    """Whether all rows are equal, but for the rounding of float32."""
    return bool(np.ptp(rows, axis=0).max(initial=0.0) <= _NOTHING * np.abs(rows).max(initial=0.0))
