"""Whether the answers of an accelerator are those of the CPU."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Sequence

import numpy as np

from tfdistill.tflite import agreement

_NOTHING = 1e-6


@dataclasses.dataclass(frozen=True)
class AcceleratorAnswers:
    """The answers of an accelerator beside those of the CPU."""

    num_examples: int  # number of inputs
    output_rms: float  # root mean square of the CPU's answers
    max_abs_error: float | None  # largest difference; None where an answer is no finite number
    # 10 log10(sum cpu^2 / sum (cpu - accelerator)^2); None where all are equal
    sqnr_db: float | None
    least_sqnr_db: float  # what it should be at least
    fault: str | None  # why the answers are wrong; None where they are right


def least_sqnr_db(dtypes: Collection[str], *, static: bool, float16: bool) -> float:
    """Returns how near the answers of a file must be to the CPU's, in dB.

    `dtypes` are those of its large constants; `static`: its activations are integers with fixed
    ranges; `float16`: the accelerator computes in 16 bits.
    """
    if static:
        return agreement.ACCELERATOR_STATIC_DB
    if set(dtypes) - {"float32", "float16"}:
        return agreement.ACCELERATOR_DYNAMIC_DB
    return agreement.ACCELERATOR_FLOAT16_DB if float16 else agreement.ACCELERATOR_FLOAT_DB


def compare(
    cpu: Sequence[dict[str, np.ndarray]],
    accelerator: Sequence[dict[str, np.ndarray]],
    least_db: float,
) -> AcceleratorAnswers:
    """Compares the answers to the same inputs, outputs by name of each.

    Returns the worst output's agreement; `fault` names the first one whose ratio of answers to
    differences is below `least_db`.
    """
    names = sorted(cpu[0])
    faults: list[str] = []
    measured: list[agreement.Agreement] = []
    squares: list[np.ndarray] = []
    for name in names:
        expected = _rows(cpu, name)
        squares.append(np.square(expected).reshape(-1))
        if any(set(answer) != set(names) for answer in accelerator):
            faults.append(f"expected outputs {', '.join(names)}, received others")
            break
        received = _rows(accelerator, name)
        if received.shape != expected.shape:
            faults.append(f"{name}: expected shape {expected.shape}, received {received.shape}")
            continue
        measured.append(agreement.compare(expected, received, floor=_NOTHING**2))
        if fault := _fault(name, expected, received, measured[-1].sqnr_db, least_db):
            faults.append(fault)
    finite = [output for output in measured if math.isfinite(output.max_abs_error)]
    return AcceleratorAnswers(
        num_examples=len(cpu),
        output_rms=math.sqrt(float(np.mean(np.concatenate(squares)))),
        max_abs_error=max((output.max_abs_error for output in finite), default=0.0)
        if len(finite) == len(measured)
        else None,
        sqnr_db=min((o.sqnr_db for o in finite if o.sqnr_db is not None), default=None),
        least_sqnr_db=least_db,
        fault=faults[0] if faults else None,
    )


def _rows(answers: Sequence[dict[str, np.ndarray]], name: str) -> np.ndarray:
    return np.stack([np.asarray(answer[name], np.float64).reshape(-1) for answer in answers])


def _fault(
    name: str, expected: np.ndarray, received: np.ndarray, ratio: float | None, least_db: float
) -> str | None:
    if not np.isfinite(received).all():
        return f"{name}: expected finite numbers, received NaN or infinity"
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
