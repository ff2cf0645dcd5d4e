"""Whether each constant of a quantized file is its float32 value, rounded as the format rounds.

With w a float32 constant, s the scale and z the zero point of its group (the tensor, a row, a block
of a row), an integer constant holds q = round(w / s) + z, at most half a step off, and beyond the
type's range the end of it. The step is no coarser than the group's largest value needs, and no
finer than makes the squared error smaller. A float16 constant is the nearest one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill.tflite import editing

from .pairing import Constant, Pair
from .ranges import IN_ONE_RANGE

_RANGES = {
    name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for name, bits in (("int4", 4), ("int8", 8), ("int16", 16), ("int32", 32), ("int64", 64))
}
_OF_SUMS = ("int32", "int64")  # biases: their scale is that of the products that they are added to
# Of a step; quantizers divide in float32, of which a value of 2**23 steps loses half a step.
_TIE = 1e-3
_FLOAT_ERROR = 2.0**-22
# int8 steps are max / 127 or range / 255; a float16 scale of a block is 0.0005 off.
_COARSER = 1.02
_LEAST_RANGE = 1e-9  # the ai-edge-quantizer's: what is smaller gets the steps of this
# Cut rows are cut where the squared error is least, found on a grid.
_WORSE = 1.5


@dataclasses.dataclass(frozen=True)
class _Scales:
    """Scale and zero point of each element, as arrays that broadcast to the constant.

    Attributes:
      scale: float64.
      point: int64.
      shape: The constant with its groups along the last axis: (groups, elements of a group).
    """

    scale: np.ndarray
    point: np.ndarray
    shape: tuple[int, ...]


def check(
    float_model: Any, model: Any, pairs: Sequence[Pair], *, carried: bool = False
) -> list[str]:
    """Compares the constants of all signatures; a line for each that is wrong.

    Args:
      float_model: The float32 file.
      model: The quantized file.
      pairs: What `pairing.pair` returned.
      carried: Whether the scales of matrices and tables are the model's own (`carried`), good or
        not.
    """
    faults, seen = [], set()
    for found in pairs:
        for constant in found.constants:
            float_tensor = found.float_graph.tensors[constant.float_tensor]
            key = (float_tensor.buffer, *stored_once(found, constant))
            if key not in seen:
                seen.add(key)
                fault = _fault(float_model, model, found, constant, carried)
                if fault is not None:
                    faults.append(f"{found.key}, {constant.operator}: {fault}")
    return faults


def stored_once(found: Pair, constant: Constant) -> tuple[Any, ...]:
    """Returns what is equal for two constants of a file only if both stand for the same floats.

    Signatures share buffers; scales are written in each, and a bias has those of its product.
    """
    tensor = found.graph.tensors[constant.tensor]
    own = tensor.quantization
    shape = _shape(found.float_graph.tensors[constant.float_tensor])
    if own is None:
        return (tensor.buffer, shape)
    if own.details is not None or editing.dtype_of(tensor) in _OF_SUMS:
        return (tensor.buffer, shape, found.key, constant.tensor, constant.siblings)
    scales, points = np.asarray(own.scale).tobytes(), np.asarray(own.zeroPoint).tobytes()
    return (tensor.buffer, shape, scales, points)


def dequantized(float_model: Any, model: Any, found: Pair, constant: Constant) -> np.ndarray:
    """Returns a constant of the quantized file as the floats that it stands for, float32."""
    stored = _stored(model, found.graph.tensors[constant.tensor])
    expected = _float(float_model, found, constant)
    if stored.dtype.kind == "f":
        return stored.astype(np.float32).reshape(expected.shape)
    scales = _scales(model, found, constant, expected.shape)
    grouped = stored.reshape(scales.shape).astype(np.float64)
    return ((grouped - scales.point) * scales.scale).astype(np.float32).reshape(expected.shape)


def _fault(
    float_model: Any, model: Any, found: Pair, constant: Constant, carried: bool
) -> str | None:
    expected = _float(float_model, found, constant)
    tensor = found.graph.tensors[constant.tensor]
    dtype = editing.dtype_of(tensor)
    stored = _stored(model, tensor)
    if stored.size != expected.size:
        return f"expected {expected.size} elements, received {stored.size}"
    if not np.isfinite(expected).all():
        return "expected finite weights, received NaN or infinity in the model"
    if dtype in ("float32", "float16"):
        with np.errstate(over="ignore"):
            rounded = expected.astype(dtype).reshape(-1)
        if not np.isfinite(rounded).all():
            return f"a weight of {np.abs(expected).max():.3g} is beyond {dtype}"
        wrong = np.flatnonzero(rounded != stored.reshape(-1))
        return _where(wrong, expected, f"the nearest {dtype}") if len(wrong) else None
    if dtype not in _RANGES:
        return f"expected floats or integers with a scale, received {dtype}"
    scales = _scales(model, found, constant, expected.shape)
    given = (carried and expected.ndim > 1) or constant.kind in IN_ONE_RANGE
    return _integer_fault(expected, stored, scales, dtype, given)


def _integer_fault(
    expected: np.ndarray, stored: np.ndarray, scales: _Scales, dtype: str, given: bool = False
) -> str | None:
    least, most = _RANGES[dtype]
    # Of up to 8 bits float32 keeps the steps apart.
    kind, integer = (np.float32, np.int16) if most < 2**8 else (np.float64, np.int64)
    values = expected.astype(kind).reshape(scales.shape)  # (groups, elements)
    held = stored.astype(integer).reshape(scales.shape)
    scale, point = scales.scale.astype(kind), scales.point.astype(integer)
    if not (scale > 0).all():
        return "expected scales above 0"
    exact = values / scale + point
    # Symmetric ranges leave the lowest number out.
    lowest = np.where((point == 0) & (held > least).all(), least + 1, least)
    nearest = np.clip(exact, lowest, most)
    off = np.abs(nearest - held) - 0.5 - _TIE - _FLOAT_ERROR * np.abs(exact)
    wrong = np.flatnonzero(off.reshape(-1) > 0)
    if len(wrong):
        return _where(wrong, expected, f"{dtype} within half a step")
    if dtype in _OF_SUMS or given:
        return None
    largest = np.abs(values).max(axis=-1, keepdims=True)
    needed = 2 * np.maximum(largest, _LEAST_RANGE) / (most - least - 1)
    coarse = np.flatnonzero((largest > 0) & (scale.max(axis=-1, keepdims=True)
                                             > _COARSER * needed))  # fmt: skip
    if len(coarse):
        return f"steps of {len(coarse)} groups are coarser than their largest weight needs"
    error = np.square(values - (held - point) * scale)
    usual = np.square(values - np.round(values / needed) * needed)
    energy = 1e-12 * np.square(values)
    allowed = _WORSE * usual + energy + np.square(needed) / 12
    cut = np.flatnonzero(error.sum(axis=-1) > allowed.sum(axis=-1))
    if len(cut):
        return f"{len(cut)} groups are cut off so far that their error grows"
    if scale.size > 1 or expected.ndim < 2:
        return None
    # Rows that share one scale, such as those of all words: one that is cut off is not seen among
    # thousands that are not. Without clipping each element is at most half a step off, and the
    # ends of the range, which a rounded zero point shifts, one step.
    widest = np.square(np.maximum(needed, scale))
    shape = (-1, expected.shape[-1])
    by_row = [part.reshape(shape).sum(axis=-1) for part in (error, _WORSE * usual + energy)]
    cut = np.flatnonzero(by_row[0] > by_row[1] + (shape[-1] / 4 + 1) * widest.item())
    if len(cut):
        row = np.unravel_index(cut[0], expected.shape[:-1])
        place = ", ".join(str(int(i)) for i in row)
        return f"{len(cut)} rows are cut off, although all share one scale, first row {place}"
    return None


def _where(wrong: np.ndarray, expected: np.ndarray, rule: str) -> str:
    place = tuple(int(i) for i in np.unravel_index(wrong[0], expected.shape or (1,)))
    return f"expected {rule}, received {len(wrong)} of {expected.size} wrong, first at {place}"


def _float(float_model: Any, found: Pair, constant: Constant) -> np.ndarray:
    tensor = found.float_graph.tensors[constant.float_tensor]
    data = editing.constant(float_model, tensor)
    return np.frombuffer(bytes(data), np.float32).reshape([int(size) for size in _shape(tensor)])


def _stored(model: Any, tensor: Any) -> np.ndarray:
    """Returns a constant as it is stored; int4 as int8, without the half byte that fills up."""
    data, dtype = editing.constant(model, tensor), editing.dtype_of(tensor)
    content = np.frombuffer(bytes(data), np.uint8)
    if dtype != "int4":
        return content.view(dtype)
    halves = np.stack([content & 0xF, content >> 4], axis=-1).reshape(-1)
    values = np.where(halves > 7, halves.astype(np.int8) - 16, halves).astype(np.int8)
    return values[: int(np.prod(_shape(tensor)))]


def _scales(model: Any, found: Pair, constant: Constant, shape: tuple[int, ...]) -> _Scales:
    tensor = found.graph.tensors[constant.tensor]
    quantization = tensor.quantization
    details = quantization.details
    if details is not None and details.scales is not None and details.blockSize:
        holder = found.graph.tensors[details.scales]
        scale = _stored(model, holder).astype(np.float64).reshape(-1, 1)
        return _Scales(scale, np.zeros_like(scale, np.int64), (len(scale), -1))
    scale = np.asarray(quantization.scale, np.float64)
    point = np.asarray(quantization.zeroPoint, np.int64)
    if point.size != scale.size:
        point = np.zeros(scale.size, np.int64)
    if editing.dtype_of(tensor) in _OF_SUMS and len(constant.siblings) > 1:
        # LiteRT takes the scale of the products, whatever is written here.
        factors = [found.graph.tensors[i].quantization for i in constant.siblings[:2]]
        scale = np.asarray(factors[0].scale, np.float64) * np.asarray(factors[1].scale, np.float64)
        point = np.zeros(scale.size, np.int64)
    if scale.size == 1:
        return _Scales(scale.reshape(1, 1), point.reshape(1, 1), (1, -1))
    # Rows have the first axis; so have the operators' weights here, whatever their rank.
    return _Scales(scale.reshape(-1, 1), point.reshape(-1, 1), (scale.size, -1))


def _shape(tensor: Any) -> tuple[int, ...]:
    return () if tensor.shape is None else tuple(int(size) for size in tensor.shape)
