"""Whether the ranges of a static quantization are those of the data.

A range that is too narrow cuts values off, one that is too wide leaves few steps for them; both
leave every weight right. So the float32 file is run on examples with all tensors kept, and each
tensor is held against the range that the quantized file stores it in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from ..conversion import calibrate
from ..model import signature
from . import tracing
from .pairing import Pair, chain

_SAME = 1e-5  # relative; scales are float32
NUM_TRACED = 16  # examples of each signature besides those of the calibration
_WIDER = 1.25  # times the width of the values: 1.9 dB more noise of a tensor
_LEAST, _MOST = -128, 127  # of int8
# Kernels fix the ranges of these, whatever the data.
FIXED = ("SOFTMAX", "LOGISTIC", "TANH")
# These hand values on, in the range of where they come from.
HANDING_ON = (
    "CONCATENATION", "GATHER", "PAD", "PADV2", "RESHAPE", "SPLIT", "STRIDED_SLICE", "TRANSPOSE",
    "UNPACK",
)  # fmt: skip


# These take all that they read in one range, which is not that of each.
IN_ONE_RANGE = (
    "CONCATENATION", "MAXIMUM", "MINIMUM", "PACK", "PAD", "PADV2", "SELECT", "SELECT_V2",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Range:
    """The stored range of a tensor: the output of an operator, or what QUANTIZE made."""

    tensor: int  # index in the float32 file's subgraph
    name: str  # of that tensor
    kind: str
    least: float  # the least value that it can hold
    most: float  # the greatest one
    step: float  # the difference of neighbours
    # width of the range of the integers that it was made of; 0 where it was not
    of_source: float = 0.0


@dataclasses.dataclass
class _Seen:
    """The values that a tensor held: extremes, counts, values out of range and their energy."""

    least: float = np.inf
    most: float = -np.inf
    count: int = 0
    outside: int = 0
    lost: float = 0.0
    energy: float = 0.0


def stored_ranges(pair: Pair) -> dict[int, Range]:
    """Returns the ranges of what is computed: tensor of the quantized file -> range."""
    ranges = {}
    for operation in pair.operations:
        operator = pair.float_graph.operators[operation.float_index]
        for float_tensor, tensor in zip(operator.outputs, operation.outputs, strict=True):
            _note(pair, ranges, int(float_tensor), tensor, operation.kind)
    computed = {int(i) for operator in pair.float_graph.operators for i in operator.outputs}
    joined: set[int] = set()
    for operation in pair.operations:
        operator = pair.float_graph.operators[operation.float_index]
        for float_tensor, tensor in zip(operator.inputs, operation.inputs, strict=True):
            way = chain(pair, tensor)
            # What is computed in floats and then stored as integers (parts of normalisations, rows
            # of words), and integers that are made of others.
            if int(float_tensor) in computed and len(way) > 1:
                _note(pair, ranges, int(float_tensor), tensor, "QUANTIZE", way[1])
                if operation.kind in IN_ONE_RANGE:
                    joined.add(tensor)
    return {index: stored for index, stored in ranges.items() if index not in joined}


def _note(
    pair: Pair,
    ranges: dict[int, Range],
    float_tensor: int,
    index: int,
    kind: str,
    source: int | None = None,
) -> None:
    """Adds the range of a tensor of the quantized file, unless it is known or has none."""
    tensor = pair.graph.tensors[index]
    stored = _step(tensor)
    if stored is None:
        return
    step, point = stored
    least, most = ((level - point) * step for level in (_LEAST, _MOST))
    name = text(pair.float_graph.tensors[float_tensor].name)
    before = None if source is None else _step(pair.graph.tensors[source])
    of_source = 0.0 if before is None else (_MOST - _LEAST) * before[0]
    ranges.setdefault(index, Range(float_tensor, name, kind, least, most, step, of_source))


def differing(pairs: Sequence[Pair]) -> list[str]:
    """Names the tensors whose range is not the same in every signature, in at most one line."""
    names: dict[str, None] = {}
    first_seen: dict[tuple[int, int], tuple[str, tuple[Any, ...]]] = {}
    for pair in pairs:
        constants = {constant.tensor for constant in pair.constants}
        for operation in pair.operations:
            for place, index in enumerate((*operation.outputs, *operation.inputs)):
                if index < 0 or chain(pair, index)[-1] in constants:
                    continue
                tensor = pair.graph.tensors[index]
                quantization = tensor.quantization
                if (
                    editing.dtype_of(tensor) != "int8"
                    or quantization is None
                    or quantization.scale is None
                ):
                    continue
                stored = (tensor.type, tuple(quantization.scale), tuple(quantization.zeroPoint))
                key = (operation.float_index, place)
                kind, other = first_seen.setdefault(key, (operation.kind, stored))
                if kind == operation.kind and other != stored:
                    names.setdefault(f"{pair.key}, {operation.name}")
    return [_line(list(names), "the same in every signature", "another")] if names else []


def uneven(pair: Pair) -> list[str]:
    """Lists operators that only move numbers, but whose integers stand for others behind them."""
    faults = []
    for operator in pair.graph.operators:
        if editing.name_of(pair.model, operator) not in HANDING_ON:
            continue
        moved = [pair.graph.tensors[index] for index in (*operator.inputs, *operator.outputs)]
        steps = [step for step in map(_step, moved) if step is not None]
        for scale, point in steps[1:]:
            if point != steps[0][1] or abs(scale / steps[0][0] - 1) > _SAME:
                label = text(pair.graph.tensors[operator.outputs[0]].name)
                what = f"{pair.key}, steps of {label}"
                received = f"{scale / steps[0][0]:.3g} times as large"
                faults.append(errors.explain(what, "those of its input", received))
                break
    return faults


def _step(tensor: Any) -> tuple[float, int] | None:
    """Returns scale and zero point of a tensor of integers with one scale."""
    return editing.step_of(tensor) if editing.dtype_of(tensor) == "int8" else None


def check(
    float_file: files.Path,
    pairs: Sequence[Pair],
    calibration: EncodedExamples,
    examples: EncodedExamples | None,
) -> list[str]:
    """Holds the ranges of a static quantization against the values of the float32 file.

    Every value of an example that was calibrated on lies in its range, to a step and a half (fixed
    kernels end one step before 1). The range of a tensor is at most `_WIDER` times as wide as all
    values that were seen in any of them: a range w times too wide has w times the step, so
    20 log10(w) dB more noise of that tensor. Of other real examples few values are cut off, and no
    tensor loses a quarter of its energy. Returns a line for each kind of fault.
    """
    by_length = {int(pair.key.removeprefix(signature.PREFIX)): pair for pair in pairs}
    lengths = sorted(by_length)
    beyond: dict[str, None] = {}
    cut: dict[str, None] = {}
    # By the place of a tensor among those of its signature, which is the same in all of them.
    values_at: dict[int, list[tuple[Range, _Seen, _Seen]]] = {}
    outside = count = 0
    for rank, length in enumerate(lengths):
        ranges = stored_ranges(by_length[length])
        seen = [{index: _Seen() for index in ranges} for _ in range(2)]
        with tracing.trace(float_file, length) as traced:
            for encoded, values in zip((calibration, examples), seen, strict=True):
                if encoded is None:
                    continue
                if encoded is calibration:  # all: one of them may have made a range
                    chosen = calibrate.fed(encoded, lengths, rank)
                else:
                    chosen = np.flatnonzero(np.searchsorted(lengths, encoded.lengths) == rank)
                    chosen = chosen[:NUM_TRACED]
                for value_of in traced.run(encoded.select(chosen)):
                    for index, stored in ranges.items():
                        if encoded is calibration:  # none is cut off: extremes say all
                            _extend(values[index], value_of(stored.tensor))
                        else:
                            _add(values[index], value_of(stored.tensor), stored)
        for place, (index, stored) in enumerate(ranges.items()):
            calibrated, other = seen[0][index], seen[1][index]
            values_at.setdefault(place, []).append((stored, calibrated, other))
            if not calibrated.count:
                continue
            below = stored.least - calibrated.least
            above = calibrated.most - stored.most
            if max(below, above) > 1.5 * stored.step:
                beyond[stored.name] = None
            if other.lost > 0.25 * other.energy:
                cut[stored.name] = None
            outside, count = outside + other.outside, count + other.count
    wide = [
        same[0][0].name
        for same in values_at.values()
        if _width(same[0][0], *(seen for _, *both in same for seen in both)) > _WIDER
    ]
    faults = []
    if beyond:
        faults.append(_line(list(beyond), "the values that it was calibrated on", "narrower"))
    if wide:
        faults.append(_line(wide, "about the values of the examples", "much wider"))
    if cut or outside > 0.01 * count:
        received = f"{outside / max(count, 1):.1%} outside"
        received += f", most in {next(iter(cut))}" if cut else ""
        faults.append(errors.explain(
            "values of check_on in the calibrated ranges", "nearly all", received,
            "Calibrate on examples like those of check_on."))  # fmt: skip
    return faults


def _width(stored: Range, *seen: _Seen) -> float:
    """Returns how many times the range is as wide as all values, zero included.

    Integers that are made of others may keep the width of those: rows of a table have the range of
    all rows.
    """
    if stored.kind in FIXED or (stored.kind in HANDING_ON and stored.kind not in IN_ONE_RANGE):
        return 1.0
    least = min(0.0, *(values.least for values in seen))
    most = max(0.0, *(values.most for values in seen))
    steps = (most - least) / stored.step
    # Of a range of next to nothing the quantizer's least step decides.
    if steps * stored.step < 1e-6:
        return 1.0
    return (stored.most - stored.least) / max(most - least, stored.of_source)


def _line(names: Sequence[str], expected: str, received: str) -> str:
    more = f" and {len(names) - 1} others" if len(names) > 1 else ""
    return errors.explain(f"range of {names[0]}{more}", expected, received)


def _extend(seen: _Seen, values: np.ndarray) -> None:
    seen.least = min(seen.least, float(values.min()))
    seen.most = max(seen.most, float(values.max()))
    seen.count += values.size


def _add(seen: _Seen, values: np.ndarray, stored: Range) -> None:
    _extend(seen, values)
    clipped = np.clip(values, stored.least, stored.most)
    seen.outside += int((np.abs(values - clipped) > stored.step).sum())
    seen.lost += float(np.square(values - clipped, dtype=np.float64).sum())
    seen.energy += float(np.square(values, dtype=np.float64).sum())
