"""A float file -> a quantized one, by the litert-quantizer."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from litert_quantizer import calibrator, quantizer
from litert_quantizer.utils import qsv_utils

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import editing, reader, runtimes
from tfdistill.tflite.reader import text

from . import calibrate, lookup, recipe
from .quantize import SMALLEST_QUANTIZED, Quantization

# Of a group of weights: float16 has no scale much below it, nor int32 a bias.
LEAST_STEP = 2.0**-21


def quantize(
    source: files.Path,
    target: files.Path,
    *,
    base: Quantization,
    layers: Mapping[str, Quantization],
    matrices: Sequence[str],
    examples: EncodedExamples | None = None,
) -> None:
    """Writes a float file again with its numbers stored in another way.

    `base` says how, `layers` where a layer differs; `matrices` names the layers that have a weight
    matrix, in the order of the model. Ranges of static activations are the least and the greatest
    value on all examples, in whatever signature: so that each answers a text alike. Raises
    ExportError if a layer of `layers` has no operator of its own, or a range is missing.
    """
    model = editing.read(source)

    def is_looked_up(table: Any, name: str) -> bool:
        stored_as = layers.get(recipe.owner_of_table(name, matrices) or "", base)
        gathered = stored_as.name == "float32" or stored_as.table_scales == "table"
        return int(np.prod(table.shape)) >= SMALLEST_QUANTIZED and not gathered

    lookup.use_lookups(model, is_looked_up)
    rules = recipe.rules(model, base, layers, matrices)
    with files.temporary_folder("quantize") as folder:
        prepared = folder / "float.tflite"
        quantized = folder / "quantized.tflite"
        editing.write(model, prepared)
        with _quietly():
            engine = quantizer.Quantizer(str(prepared))
            for rule in rules:
                engine.update_quantization_recipe(*rule)
            ranges = None
            if base.method == "static":
                ranges = _ranges(engine, prepared, examples)
                share_ranges(model, ranges)
                keep_biases(model, ranges)
            elif engine.need_calibration:
                ranges = ranges_of_tables(model)
            engine.quantize(ranges).export_model(str(quantized))
        model = editing.read(quantized)
        fill_empty_scales(model)
        state_needs(model, reader.read(quantized))
        # It stores constants after the flatbuffer, where writers of metadata lose them.
        editing.write(model, target)


def fill_empty_scales(model: Any) -> None:
    """Makes rows and blocks whose scale is 0, or no normal number, zeros with a scale; in place.

    XNNPACK runs no file with such a scale. Blocks of weights below 2e-7 have it, too: float16 has
    no smaller one. A row that is 0 for another reason is refused by the check of each number.
    """
    of_blocks: dict[int, np.ndarray] = {}  # buffers, which several matrices may share
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            stored = tensor.quantization
            if stored is None or editing.constant(model, tensor) is None:
                continue
            if stored.scale is not None and len(stored.scale) > 1:
                stored.scale = _filled(model, tensor, np.asarray(stored.scale, np.float32))
            if stored.details is not None and getattr(stored.details, "blockSize", 0):
                holder = graph.tensors[stored.details.scales]
                data = np.asarray(editing.constant(model, holder), np.uint8)
                scales = _filled(model, tensor, data.view(editing.dtype_of(holder)))
                of_blocks[holder.buffer] = scales.view(np.uint8)
    for buffer, scales in of_blocks.items():
        model.buffers[buffer].data = scales


def _filled(model: Any, tensor: Any, scales: np.ndarray) -> np.ndarray:
    empty = scales < np.finfo(np.float32).tiny
    numbers = np.array(editing.constant(model, tensor), np.uint8)
    if len(numbers) % len(scales) == 0:  # else rows share bytes
        numbers.reshape(len(scales), -1)[empty] = 0
        model.buffers[tensor.buffer].data = numbers
    return np.where(empty, LEAST_STEP, scales).astype(scales.dtype)


def state_needs(model: Any, described: reader.ModelFile) -> None:
    """Writes what its operators need into a model, in place: older runtimes then refuse it."""
    versions, release = runtimes.understated(described), runtimes.release(described)
    for code in model.operatorCodes:
        code.version = max(code.version, versions.get(editing.name_of_code(code), 0))
    for record in model.metadata or []:
        if text(record.name) == "min_runtime_version" and release:
            padded = release.encode().ljust(16, b"\0")
            model.buffers[record.buffer].data = np.frombuffer(padded, np.uint8)


def keep_biases(model: Any, ranges: dict[str, dict[str, np.ndarray]]) -> None:
    """Adds the ranges of the rows of matrices; those near 0 get the range of `LEAST_STEP`.

    A bias has the step of its products: with the step of a row of zeros it is beyond int32.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            is_product = editing.name_of(model, operator) == "FULLY_CONNECTED"
            matrix = graph.tensors[operator.inputs[1]] if is_product else None
            if matrix is not None and (data := editing.constant(model, matrix)) is not None:
                rows = np.asarray(data, np.uint8).view(np.float32).reshape(matrix.shape)
                largest = np.abs(rows).max(axis=1, keepdims=True, initial=127 * LEAST_STEP)
                ranges[text(matrix.name)] = {"min": -largest, "max": largest}


def share_ranges(model: Any, ranges: dict[str, dict[str, np.ndarray]]) -> None:
    """Gives the corresponding tensors of the signatures' subgraphs one range.

    `ranges`, name of a tensor -> its "min" and "max", is changed in place. Raises ExportError if
    the subgraphs are not built alike.
    """
    by_graph = []
    for graph in model.subgraphs:
        used = [(*operator.inputs, *operator.outputs) for operator in graph.operators]
        tensors = [graph.tensors[i] for operator in used for i in operator if i >= 0]
        by_graph.append([text(tensor.name) for tensor in tensors])
    if len({len(names) for names in by_graph}) > 1:
        raise errors.ExportError(
            "signatures to quantize",
            "the same operators in each",
            " and ".join(str(len(names)) for names in by_graph),
            "Export one length at a time.",
        )
    for names in zip(*by_graph, strict=True):
        measured = [ranges[name] for name in names if name in ranges]
        if not measured:
            continue
        least = np.minimum.reduce([extremes["min"] for extremes in measured])
        most = np.maximum.reduce([extremes["max"] for extremes in measured])
        for name in names:
            ranges[name] = {"min": least, "max": most}


def ranges_of_tables(model: Any) -> dict[str, dict[str, np.ndarray]]:
    """Returns the range of each table that GATHER reads, and of the rows: name -> "min", "max"."""
    ranges = {}
    for graph in model.subgraphs:
        for operator in graph.operators:
            if lookup.gathers_rows(model, graph, operator):
                table = graph.tensors[operator.inputs[0]]
                numbers = np.asarray(editing.constant(model, table), np.uint8).view(np.float32)
                rows = numbers.reshape(table.shape)
                extremes = {"min": rows.min(keepdims=True), "max": rows.max(keepdims=True)}
                for tensor in (table, graph.tensors[operator.outputs[0]]):
                    ranges[text(tensor.name)] = extremes
    return ranges


def _ranges(
    engine: quantizer.Quantizer, file: pathlib.Path, examples: EncodedExamples | None
) -> Any:
    """Measures the range of each tensor that is quantized statically."""
    if examples is None:
        raise errors.ExportError("calibration", "examples", "none")
    meter = calibrator.Calibrator(
        file.read_bytes(),
        num_threads=min(4, os.cpu_count() or 1),
        # The default, a moving average, cuts peaks off: 6 dB lost.
        qsv_update_func=qsv_utils.min_max_update,
    )
    feeds = calibrate.feeds(meter.get_signature_list(), examples)
    meter.calibrate(feeds, engine._recipe_manager)
    return meter.get_model_qsvs()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Suppresses the quantizer's prints, bars and hints, but no exception."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.filterwarnings("ignore", message="Warning: Enabling `experimental_preserve_all")
        # Of a row near 0 it divides by the scale 0; see `fill_empty_scales`.
        with np.errstate(all="ignore"), contextlib.redirect_stderr(io.StringIO()):
            yield
