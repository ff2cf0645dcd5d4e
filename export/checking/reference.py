"""Whether the float32 conversion of a model is that model, on inputs that reach all of it.

The model that was trained is the truth. Keras runs it layer by layer as it was built; the file
holds the inference graph that `export.model` makes of it, after TensorFlow's converter. Every
number format is then compared with this file (`rounding`), so that what is right here is right in
all of them.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, files
from tfdistill.compress import rebuild
from tfdistill.data.encoded import EncodedExamples
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from ..conversion.plan import ExportPlan
from ..conversion.quantize import Bounds, quantization
from ..file.runtime import TfliteModel
from ..model import inputs
from ..model.heads import LOGITS, SCORES
from . import carried, outputs, parity

# The converter multiplies a matrix's columns with the scales before its product and its rows with
# those behind it (gamma, the attention's scale): two float32 products an element.
_SCALED = 1e-5
_SCORES = 1e-4  # a float32 softmax of the same logits is 1e-6 off
_ROUNDS = 30  # of fitting these scales: one after the other, exact where only one is there
# A quantization-aware model rounds while it runs: where a value lies on the border between two
# steps the last bit of a float decides, and it is a step off. Some 2 of a million values are: less
# than a thousandth of the noise of rounding all of them (30 dB), but more than floats alone.
_EXACT_DB, _EXACT_SHARE = 50.0, 0.5


@dataclasses.dataclass(frozen=True)
class Group:
    """Inputs of one signature and what the model answers.

    Attributes:
      length: Tokens of the signature.
      examples: The inputs, padded to it.
      logits: The model's logits, see `export.model.heads`.
    """

    length: int
    examples: EncodedExamples
    logits: np.ndarray


@dataclasses.dataclass(frozen=True)
class Checked:
    """A float32 conversion that is the model.

    Attributes:
      logits: The model's logits on the examples of the plan.
      groups: The inputs of each signature.
      outputs: What the file gives for the examples of the plan, before a softmax; None where they
        are not real.
    """

    logits: np.ndarray
    groups: tuple[Group, ...]
    outputs: np.ndarray | None = None


@dataclasses.dataclass
class Reference:
    """The float32 conversion of one model, for all number formats that are made of it.

    Attributes:
      file: Where it is, or will be.
      checked: What was found of it; None before it was compared with the model.
      converted: Quantization and layers of the last file made of it; None where it is not kept.
    """

    file: pathlib.Path
    checked: Checked | None = None
    converted: object = None

    @property
    def last(self) -> pathlib.Path:
        """Where the last file made of it is kept, for a trial with other bounds."""
        return self.file.with_name("converted.tflite")


def groups(plan: ExportPlan, chosen: np.ndarray) -> tuple[Group, ...]:
    """Makes the inputs of each signature: probes, and examples of the plan that fit it.

    Args:
      plan: The plan.
      chosen: int (m,), some of its examples.
    """
    made = []
    for length in plan.lengths:
        given = inputs.probes_of(plan.config, length)
        fitting = chosen[plan.examples.lengths[chosen] <= length]
        if len(fitting):
            given = inputs.joined(given, plan.examples.select(fitting))
        made.append(Group(length, given, outputs.model_logits(plan.model, given, [length])))
    return tuple(made)


def check(plan: ExportPlan, file: pathlib.Path, chosen: np.ndarray) -> tuple[Checked, list[str]]:
    """Holds the float32 conversion against the model.

    80 dB on the examples, and in each signature on its probes and on those of `chosen`. No output
    may be off by more than a thousandth of their root mean square: a class that leads by more than
    two of these is the same in both, so only ties can fall another way.

    Args:
      plan: The plan.
      file: The float32 conversion.
      chosen: Examples for every signature.

    Returns:
      What was found, and a line for each fault.
    """
    found = Checked(
        outputs.model_logits(plan.model, plan.examples, plan.lengths), groups(plan, chosen)
    )
    bounds = quantization("float32").bounds
    if plan.is_float:
        bounds = bounds.replace(plan.request.bounds or {})
    faults = _weights_of_another_model(plan)
    if plan.quantize_aware:
        faults += _check_unrounded(plan, file, chosen)
    else:
        faults += _lost_matrices(plan, file)
    with files.temporary_folder("float") as folder:
        cut = _with_logits(file, folder / "logits.tflite")
        opened = TfliteModel(cut)
        whole = None if cut == file else TfliteModel(file)
        # Groups first: they name the signature, and are few.
        for group in found.groups:
            answers = outputs.file_outputs(opened, group.examples, length=group.length)
            where = f"len{group.length}: "
            faults += _faults(plan, group.logits, answers, group.examples, bounds, where)
            if whole is not None:
                scores = outputs.file_outputs(whole, group.examples, length=group.length)
                faults += _wrong_scores(scores, answers, where)
        if not faults and plan.real_examples:
            answers = outputs.file_outputs(opened, plan.examples)
            faults += _faults(plan, found.logits, answers, plan.examples, bounds, "")
            found = dataclasses.replace(found, outputs=answers)
    return found, faults


def _check_unrounded(plan: ExportPlan, file: pathlib.Path, chosen: np.ndarray) -> list[str]:
    """Holds the network of a quantization-aware model without the rounding of its activations.

    With it a value on the border between two steps hides what is wrong; without it 80 dB hold.
    """
    tree = editing.read(file)
    faults = carried.of_another_model(plan.model, carried.remove(tree).values())
    model = rebuild.with_rounded_matrices(plan.model)
    plain = dataclasses.replace(
        plan,
        request=plan.request.replace(model=model),
        model=model,
        quantize_aware=False,
        examples=plan.examples.select(chosen),
    )
    with files.temporary_folder("unrounded") as folder:
        path = folder / "unrounded.tflite"
        editing.write(tree, path)
        faults += check(plain, path, np.arange(len(chosen)))[1]
    return [f"without its rounding, {fault}" for fault in faults]


def _faults(
    plan: ExportPlan,
    model: np.ndarray,
    file: np.ndarray,
    examples: EncodedExamples,
    bounds: Bounds,
    where: str,
) -> list[str]:
    if plan.quantize_aware:
        parity.compare(model, file)  # refuses a model that gives NaN
        signal = max(float(np.mean(np.square(model))), 1e-30)
        noise = np.square(model.astype(np.float64) - file).mean(axis=1)
        exact = float(np.mean(noise <= signal * 10 ** (-_EXACT_DB / 10)))
        expected = f"{_EXACT_DB:g} dB for at least {_EXACT_SHARE:.0%} of the inputs"
        received = f"for {exact:.0%}"
        return [errors.explain(f"{where}SQNR", expected, received)] * (exact < _EXACT_SHARE)
    decided = [plan.head.decisions(rows, examples, plan.task) for rows in (model, file)]
    agreement = parity.compare(model, file, decisions=decided)
    return parity.violations(agreement, bounds, where=where)


def _wrong_scores(scores: np.ndarray, logits: np.ndarray, where: str) -> list[str]:
    """Compares the scores of a file with the softmax of the logits that it computes before."""
    off = float(np.abs(scores - outputs.softmax_of(logits)).max())
    if off <= _SCORES:
        return []
    expected = f"the softmax of its logits to {_SCORES:g}"
    return [errors.explain(f"{where}scores", expected, f"{off:.3g} off")]


def _weights_of_another_model(plan: ExportPlan) -> list[str]:
    """Compares the weights that are exported with those of the model that was given."""
    trained, exported = plan.request.model.get_weights(), plan.model.get_weights()
    names = [weight.name for weight in plan.model.weights]
    if len(trained) != len(exported):
        return [errors.explain("weights", f"the model's {len(trained)}", len(exported))]
    return [
        errors.explain(f"weight {name}", "the trained one", "another")
        for name, mine, theirs in zip(names, trained, exported, strict=True)
        if not np.array_equal(mine, theirs, equal_nan=True)
    ]


def _lost_matrices(plan: ExportPlan, file: files.Path) -> list[str]:
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
    turned = _turned(plan.model)
    faults = []
    for layer in plan.model.layers:
        for weight in layer.weights:
            value = weight.numpy()
            if value.ndim != 2:
                continue
            parts = [value]
            if layer.name == "position_embeddings":  # each signature has the first rows
                parts = [value[:length] for length in plan.lengths]
                if _is_held(layer.name, value, constants, turned):  # whole, and sliced there
                    parts = []
            for part in parts:
                if not _is_held(layer.name, part, constants, turned):
                    what = f"{layer.name}, {'x'.join(map(str, part.shape))}"
                    expected = "its weights in the float32 file"
                    faults.append(errors.explain(what, expected, "others"))
    return faults


def _turned(model: keras.Model) -> dict[int, np.ndarray]:
    """Finds the places where a scale of the model is not positive: length -> bool (length,).

    Only there a matrix may lose a row or a column or change its sign when the scale is merged.
    """
    found: dict[int, np.ndarray] = {}
    for weight in model.weights:
        name = weight.name.rpartition("/")[2]
        if len(weight.shape) == 1 and not name.startswith(("bias", "beta")):
            places = weight.numpy() <= 0
            found[len(places)] = found.get(len(places), False) | places
    return found


def _is_held(
    layer: str,
    value: np.ndarray,
    constants: dict[tuple[int, int], list[np.ndarray]],
    turned: dict[int, np.ndarray],
) -> bool:
    same = constants.get(value.shape, [])
    if "embeddings" in layer:
        return any(np.array_equal(table, value) for table in same)
    rows = value.T  # (outputs, inputs), as FULLY_CONNECTED has them
    same = constants.get(rows.shape, [])
    if any(np.array_equal(rows, other) for other in same):
        return True
    allowed = [turned.get(size, np.zeros(size, bool)) for size in rows.shape]
    return any(_are_scaled(rows, other, *allowed) for other in same)


def _are_scaled(
    rows: np.ndarray, others: np.ndarray, turned_rows: np.ndarray, turned_columns: np.ndarray
) -> bool:
    """Whether one matrix is the other with its rows and its columns times numbers of their own.

    Args:
      rows: The model's.
      others: The file's, of the same shape.
      turned_rows: Rows whose number need not be positive.
      turned_columns: Columns of that kind.
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
    if not _of_positive(first, second, ~turned_rows, ~turned_columns):
        return False
    of_row = np.ones((len(first), 1))
    of_column = np.ones((1, first.shape[1]))
    for _ in range(_ROUNDS):
        of_column = _factor(first * of_row, second, axis=0)
        of_row = _factor(first * of_column, second, axis=1)
        off = np.abs(second - first * of_row * of_column)
        if (off <= _SCALED * np.abs(second).max(axis=1, keepdims=True)).all():
            return bool(second.any())
    return False


def _of_positive(
    first: np.ndarray, second: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> bool:
    """Whether positive numbers can make the second of the first in these rows and columns."""
    first, second = first[np.ix_(rows, columns)], second[np.ix_(rows, columns)]
    same_lines = all(np.array_equal(first.any(axis=axis), second.any(axis=axis)) for axis in (0, 1))
    return same_lines and not (first * second < 0).any()


def _factor(first: np.ndarray, second: np.ndarray, axis: int) -> np.ndarray:
    """Returns what each line of the first is to be multiplied with to be nearest the second."""
    energy = np.square(first).sum(axis=axis, keepdims=True)
    product = (first * second).sum(axis=axis, keepdims=True)
    return np.divide(product, energy, out=np.zeros_like(energy), where=energy > 0)


def _with_logits(file: pathlib.Path, copy: pathlib.Path) -> pathlib.Path:
    """Returns a file that gives logits: probabilities near 0 and 1 hide what is wrong with them."""
    tree = editing.read(file)
    changed = False
    for entry in tree.signatureDefs:
        graph: Any = tree.subgraphs[entry.subgraphIndex]
        for named in entry.outputs:
            last = [o for o in graph.operators if named.tensorIndex in o.outputs]
            if text(named.name) != SCORES or editing.name_of(tree, last[0]) != "SOFTMAX":
                continue
            graph.outputs = [int(last[0].inputs[0])]
            named.name, named.tensorIndex = LOGITS, int(last[0].inputs[0])
            changed = True
    if not changed:
        return file
    editing.write(tree, copy)
    return copy
