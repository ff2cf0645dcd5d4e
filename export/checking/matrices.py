"""Whether the float32 file holds the matrices and tables of its model.

Outputs cannot show a row of a table that no input looks up, nor a single wrong weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, files, models
from tfdistill.tflite import editing

from ..conversion import word_input
from ..conversion.plan import ExportPlan

# The converter multiplies a matrix's columns with the scales before its product and its rows with
# those behind it (gamma, the attention's scale): two float32 products an element.
_SCALED = 1e-5
_SAME = 1e-4  # of fitted scales
_ROUNDS = 30  # of fitting them: one after the other, exact where only one is there


def lost(plan: ExportPlan, file: files.Path) -> list[str]:
    """Lists the matrices and tables of a model that a file does not have as they are.

    Outputs cannot show a row of a table that no input looks up, nor a single wrong weight.
    """
    tree = editing.read(file)
    constants: dict[tuple[int, int], list[np.ndarray]] = {}
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
    scales = _scales(plan.model)
    faults = []
    for layer in plan.model.layers:
        factors = _factors(plan.config, layer.name)
        for weight in layer.weights:
            value = weight.numpy()
            if value.ndim != 2:
                continue
            parts = [value]
            if layer.name == "position_embeddings":  # each signature has the first rows
                parts = [value[:length] for length in plan.lengths]
                if _is_held(layer.name, value, constants, scales, factors):  # and sliced there
                    parts = []
            if plan.device.word_rows and layer.name == word_input.LAYER:
                parts = []  # in a file of its own
            elif plan.device.word_rows and layer.name == word_input.TYPE_LAYER:
                parts = list(word_input.type_parts(value))
            for part in parts:
                if not _is_held(layer.name, part, constants, scales, factors):
                    what = f"{layer.name}, {'x'.join(map(str, part.shape))}"
                    expected = "its weights in the float32 file"
                    faults.append(errors.explain(what, expected, "others"))
    return faults


def _scales(model: keras.Model) -> dict[int, list[np.ndarray]]:
    """Returns what the rows or columns of a matrix may be multiplied with: length -> vectors.

    These are ones and the scales of the model's normalisations.
    """
    found: dict[int, list[np.ndarray]] = {}
    for weight in model.weights:
        for size in weight.shape:
            found.setdefault(int(size), [np.ones(int(size))])
        name = weight.name.rpartition("/")[2]
        if len(weight.shape) == 1 and not name.startswith(("bias", "beta")):
            found[int(weight.shape[0])].append(weight.numpy().astype(np.float64))
    return found


def _factors(config: Any, layer: str) -> tuple[float, ...]:
    """Returns what a whole matrix may be multiplied with on top: of queries the attention's."""
    if isinstance(config, models.EncoderConfig) and layer.endswith("_query"):
        return (1.0, config.head_width**-0.5)
    return (1.0,)


def _is_held(
    layer: str,
    value: np.ndarray,
    constants: dict[tuple[int, int], list[np.ndarray]],
    scales: dict[int, list[np.ndarray]],
    factors: Sequence[float],
) -> bool:
    same = constants.get(value.shape, [])
    if "embeddings" in layer:
        return any(np.array_equal(table, value) for table in same)
    rows = value.T  # (outputs, inputs), as FULLY_CONNECTED has them
    same = constants.get(rows.shape, [])
    if any(np.array_equal(rows, other) for other in same):
        return True
    of_row, of_column = (scales[size] for size in rows.shape)
    return any(_are_scaled(rows, other, of_row, of_column, factors) for other in same)


def _are_scaled(
    rows: np.ndarray,
    others: np.ndarray,
    of_row: Sequence[np.ndarray],
    of_column: Sequence[np.ndarray],
    factors: Sequence[float] = (1.0,),
) -> bool:
    """Whether one matrix is the other with its rows and its columns times numbers that it may have.

    Args:
      rows: The model's.
      others: The file's, of the same shape.
      of_row: Vectors, one of which has the numbers of the rows.
      of_column: The same of the columns.
      factors: Numbers, one of which the whole matrix is multiplied with on top.
    """
    # Of such a pair these two products are equal wherever two rows and two columns cross.
    i, j = np.random.default_rng(0).integers(rows.shape, size=(2, 64, 2)).transpose(2, 0, 1)

    def product(*at: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        first, second = (
            [matrix[place].astype(np.float64) for place in places]
            for matrix, places in ((others, at[:2]), (rows, at[2:]))
        )
        return first[0] * first[1] * second[0] * second[1]

    along, across = ((i[0], j[0]), (i[1], j[1])), ((i[0], j[1]), (i[1], j[0]))
    if not np.allclose(product(*along, *across), product(*across, *along), rtol=1e-4, atol=0):
        return False
    first, second = rows.astype(np.float64), others.astype(np.float64)
    row, column = np.ones((len(first), 1)), np.ones((1, first.shape[1]))
    for _ in range(_ROUNDS):
        column = _fitted(first * row, second, axis=0)
        row = _fitted(first * column, second, axis=1)
        off = np.abs(second - first * row * column)
        if (off <= _SCALED * np.abs(second).max(axis=1, keepdims=True)).all():
            break
    else:
        return False
    by_row = _multiples(row[:, 0], of_row, np.asarray(first.any(axis=1)))
    by_column = _multiples(column[0], of_column, np.asarray(first.any(axis=0)))
    return bool(second.any()) and any(
        np.isclose(one * other, factors, rtol=_SAME, atol=0).any()
        for one in by_row
        for other in by_column
    )


def _multiples(numbers: np.ndarray, vectors: Sequence[np.ndarray], live: np.ndarray) -> list[float]:
    """Returns a for each vector v of which the numbers are a v, where the matrix is not 0."""
    found = []
    for vector in vectors:
        energy = float(np.square(vector[live]).sum())
        factor = float((numbers * vector)[live].sum()) / energy if energy else 0.0
        off = np.abs(numbers - factor * vector)[live]
        if (off <= _SAME * np.abs(factor * vector)[live]).all():
            found.append(factor)
    return found


def _fitted(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """Returns what each line of the first is to be multiplied with to be nearest the second."""
    energy = np.square(first).sum(axis=axis, keepdims=True)
    product = (first * second).sum(axis=axis, keepdims=True)
    return np.divide(product, energy, out=np.zeros_like(energy), where=energy > 0)
