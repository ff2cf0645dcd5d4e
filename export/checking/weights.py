"""The check that a file holds the weights of its model.

A float32 file has each table: outputs do not show a row that no input looks up. In a quantized
file each constant is the float32 value, rounded as the format rounds.

With w a float32 constant, s the scale and z the zero point of its group (the tensor, a row, a block
of a row), an integer constant holds q = round(w / s) + z, at most half a step off, and beyond the
type's range the end of it. The step is no coarser than the group's largest value needs, and no
finer than makes the squared error smaller. A float16 constant is the nearest one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tflite import editing

from ..conversion.edge_quantizer import LEAST_STEP
from ..conversion.prepare import ExportPlan
from ..conversion.quantize import SMALLEST_QUANTIZED
from .pairing import Constant, Pair
from .ranges import IN_ONE_RANGE

_RANGES = {
    name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for name, bits in (("int4", 4), ("int8", 8), ("int32", 32))
}
_OF_SUMS = "int32"  # biases: their scale is that of the products that they are added to
# Of a step; quantizers divide in float32, of which a value of 2**23 steps loses half a step.
_TIE = 1e-3
_FLOAT_ERROR = 2.0**-22
# int8 steps are max / 127 or range / 255; a float16 scale of a block is 0.0005 off.
_COARSER = 1.02
# Cut rows are cut where the squared error is least, found on a grid.
_WORSE = 1.5


@dataclasses.dataclass(frozen=True)
class _Scales:
    """Scale and zero point of each element, as arrays that broadcast to the constant."""

    scale: np.ndarray  # float64
    point: np.ndarray  # int64
    # the constant with its groups along the last axis: (groups, elements of a group)
    shape: tuple[int, ...]


def check(
    float_model: Any, model: Any, pairs: Sequence[Pair], *, carried: bool = False
) -> list[str]:
    """Compares the constants of all signatures; a line for each that is wrong.

    If `carried`, the scales of matrices and tables are the model's own (see `carried`), good or
    not.
    """
    faults, seen = [], set()
    for pair in pairs:
        for constant in pair.constants:
            float_tensor = pair.float_graph.tensors[constant.float_tensor]
            key = (float_tensor.buffer, *stored_once(pair, constant))
            if key not in seen:
                seen.add(key)
                fault = _fault(float_model, model, pair, constant, carried)
                if fault is not None:
                    faults.append(f"{pair.key}, {constant.operator}: {fault}")
    return faults


def copied(pairs: Sequence[Pair]) -> list[str]:
    """Lists the matrices that a signature has a copy of its own of."""
    first_seen: dict[int, set[int]] = {}  # buffer of the float file -> those of a signature
    faults = []
    for pair in pairs:
        stored: dict[int, set[int]] = {}
        for constant in pair.constants:
            tensor = pair.float_graph.tensors[constant.float_tensor]
            shape = editing.shape_of(tensor)
            if len(shape) == 2 and math.prod(shape) >= SMALLEST_QUANTIZED:
                place = pair.graph.tensors[constant.tensor].buffer
                stored.setdefault(tensor.buffer, set()).add(place)
        copies = [one for one in stored if first_seen.setdefault(one, stored[one]) != stored[one]]
        if copies:
            received = f"copies of {len(copies)}"
            what = f"{pair.key}, matrices"
            faults.append(errors.explain(what, "those of the other signatures", received))
    return faults


def stored_once(pair: Pair, constant: Constant) -> tuple[Any, ...]:
    """Returns what is equal for two constants of a file only if both stand for the same floats.

    Signatures share buffers; scales are written in each, and a bias has those of its product.
    """
    tensor = pair.graph.tensors[constant.tensor]
    quantization = tensor.quantization
    shape = editing.shape_of(pair.float_graph.tensors[constant.float_tensor])
    if quantization is None:
        return (tensor.buffer, shape)
    if quantization.details is not None or editing.dtype_of(tensor) == _OF_SUMS:
        return (tensor.buffer, shape, pair.key, constant.tensor, constant.siblings)
    scales, points = (
        np.asarray(quantization.scale).tobytes(),
        np.asarray(quantization.zeroPoint).tobytes(),
    )
    return (tensor.buffer, shape, scales, points)


def dequantized(float_model: Any, model: Any, pair: Pair, constant: Constant) -> np.ndarray:
    """Returns a constant of the quantized file as the floats that it stands for, float32."""
    stored = _stored(model, pair.graph.tensors[constant.tensor])
    expected = _float(float_model, pair, constant)
    if stored.dtype.kind == "f":
        return stored.astype(np.float32).reshape(expected.shape)
    scales = _scales(model, pair, constant, expected.shape)
    grouped = stored.reshape(scales.shape).astype(np.float64)
    return ((grouped - scales.point) * scales.scale).astype(np.float32).reshape(expected.shape)


def _fault(
    float_model: Any, model: Any, pair: Pair, constant: Constant, carried: bool
) -> str | None:
    expected = _float(float_model, pair, constant)
    tensor = pair.graph.tensors[constant.tensor]
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
    stored_as = tensor.quantization
    several = stored_as.scale is not None and len(stored_as.scale) > 1
    if several and (dimension := int(stored_as.quantizedDimension)) != 0:
        return f"expected a scale for each row, received one for each of dimension {dimension}"
    scales = _scales(model, pair, constant, expected.shape)
    fixed_scales = (carried and expected.ndim > 1) or constant.kind in IN_ONE_RANGE
    return _integer_fault(expected, stored, scales, dtype, fixed_scales)


def _integer_fault(
    expected: np.ndarray,
    stored: np.ndarray,
    scales: _Scales,
    dtype: str,
    fixed_scales: bool = False,
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
        fault = _where(wrong, expected, f"{dtype} within half a step")
        if dtype == _OF_SUMS:  # weights so near 0 that their step is too small for the bias
            fault += ". Take dynamic_wi8_afp32, which keeps biases in float32."
        return fault
    if dtype == _OF_SUMS or fixed_scales:
        return None
    largest = np.abs(values).max(axis=-1, keepdims=True)
    needed = np.maximum(2 * largest / (most - least - 1), LEAST_STEP)
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


def _float(float_model: Any, pair: Pair, constant: Constant) -> np.ndarray:
    tensor = pair.float_graph.tensors[constant.float_tensor]
    data = editing.constant(float_model, tensor)
    return np.frombuffer(bytes(data), np.float32).reshape(editing.shape_of(tensor))


def _stored(model: Any, tensor: Any) -> np.ndarray:
    """Returns a constant as it is stored; int4 as int8, without the half byte that fills up."""
    data, dtype = editing.constant(model, tensor), editing.dtype_of(tensor)
    content = np.frombuffer(bytes(data), np.uint8)
    if dtype != "int4":
        return content.view(dtype)
    halves = np.stack([content & 0xF, content >> 4], axis=-1).reshape(-1)
    values = np.where(halves > 7, halves.astype(np.int8) - 16, halves).astype(np.int8)
    return values[: math.prod(editing.shape_of(tensor))]


def _scales(model: Any, pair: Pair, constant: Constant, shape: tuple[int, ...]) -> _Scales:
    tensor = pair.graph.tensors[constant.tensor]
    quantization = tensor.quantization
    details = quantization.details
    if details is not None and details.scales is not None and details.blockSize:
        holder = pair.graph.tensors[details.scales]
        scale = _stored(model, holder).astype(np.float64).reshape(-1, 1)
        return _Scales(scale, np.zeros_like(scale, np.int64), (len(scale), -1))
    scale = np.asarray(quantization.scale, np.float64)
    point = np.asarray(quantization.zeroPoint, np.int64)
    if point.size != scale.size:
        point = np.zeros(scale.size, np.int64)
    if editing.dtype_of(tensor) == _OF_SUMS and len(constant.siblings) > 1:
        # LiteRT takes the scale of the products, whatever is written here.
        factors = [pair.graph.tensors[i].quantization for i in constant.siblings[:2]]
        scale = np.asarray(factors[0].scale, np.float64) * np.asarray(factors[1].scale, np.float64)
        point = np.zeros(scale.size, np.int64)
    if scale.size == 1:
        return _Scales(scale.reshape(1, 1), point.reshape(1, 1), (1, -1))
    # Rows have the first axis; so have the operators' weights here, whatever their rank.
    return _Scales(scale.reshape(-1, 1), point.reshape(-1, 1), (scale.size, -1))


def lost(plan: ExportPlan, tree: Any) -> list[str]:
    """Lists the tables of a model that its float32 conversion does not have."""
    constants: dict[tuple[int, ...], list[np.ndarray]] = {}
    seen: set[tuple[int, int]] = set()  # signatures share buffers
    for graph in tree.subgraphs:
        for tensor in graph.tensors:
            data = editing.constant(tree, tensor)
            if data is None or editing.dtype_of(tensor) != "float32" or len(tensor.shape) < 2:
                continue
            width = int(tensor.shape[-1])
            if (tensor.buffer, width) not in seen:
                seen.add((tensor.buffer, width))
                value = np.frombuffer(data, np.float32).reshape(-1, width)
                constants.setdefault(value.shape, []).append(value)

    def held(table: np.ndarray) -> bool:
        return any(np.array_equal(table, other) for other in constants.get(table.shape, ()))

    faults = []
    for layer in plan.model.layers:
        tables = [weight.numpy() for weight in layer.weights if len(weight.shape) == 2]
        for table in tables if "embeddings" in layer.name else ():
            parts = [table]
            if layer.name == "position_embeddings" and not held(table):  # or sliced in the file
                parts = [table[:length] for length in plan.lengths]  # each has the first rows
            for part in parts:
                if not held(part):
                    what = f"{layer.name}, {'x'.join(map(str, part.shape))}"
                    expected = "its weights in the float32 file"
                    faults.append(errors.explain(what, expected, "others"))
    return faults
