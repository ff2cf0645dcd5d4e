"""Whether the float32 conversion of a model is that model, on inputs that reach all of it.

The model that was trained is the truth. Keras runs it layer by layer as it was built; the file
holds the inference graph that `export.model` makes of it, after TensorFlow's converter. Every
number format is then compared with this file (`rounding`), so that what is right here is right in
all of them.
"""

from __future__ import annotations

import collections
import dataclasses
import pathlib
from typing import Any

import numpy as np
import tf_keras as keras
from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors, files, models
from tfdistill.compress import rebuild
from tfdistill.models.bilstm import MaskedMean
from tfdistill.models.layers import layer_of
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import editing
from tfdistill.tflite.reader import text

from ..conversion.plan import ExportPlan
from ..conversion.quantize import Bounds, quantization
from ..file.runtime import TfliteModel
from ..model import inputs
from ..model.heads import LOGITS, SCORES
from . import carried, matrices, noise, outputs, parity

_UNSEEN = 1e-6  # of the outputs; exact where products are summed in the same order
_FUSED = {
    code: name.lower()
    for name, code in vars(schema.ActivationFunctionType).items()
    if isinstance(code, int)
}
_BENDING = {
    "gelu", "gelu_tanh", "maximum", "minimum", "relu", "relu6", "relu_0_to_1", "relu_n1_to_1",
    "softmax",
}  # fmt: skip
_ERRORS = {"max_error", "mean_error", "sqnr_db"}  # names of bounds
_SCORES = 1e-4  # a float32 softmax of the same logits is 1e-6 off
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
    two of these is the same in both, so only ties can fall another way. On the probes it may not
    be off by more than some times float32's noise either (`noise`).

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
    # Who asks for other bounds of a float32 file takes that error.
    widened = plan.is_float and not _ERRORS.isdisjoint(plan.request.bounds or {})
    faults = _weights_of_another_model(plan) + _other_operators(plan, file)
    if plan.quantize_aware:
        faults += _check_unrounded(plan, file, chosen)
    else:
        faults += matrices.lost(plan, file)
    with files.temporary_folder("float") as folder:
        cut = _with_logits(file, folder / "logits.tflite")
        opened = TfliteModel(cut, rows=plan.float_rows)
        whole = None if cut == file else TfliteModel(file, rows=plan.float_rows)
        # Groups first: they name the signature, and are few.
        for group in found.groups:
            answers = outputs.file_outputs(opened, group.examples, length=group.length)
            where = f"len{group.length}: "
            faults += _faults(plan, group.logits, answers, group.examples, bounds, where)
            if not plan.quantize_aware:  # there rounding hides padding, and `_check_unrounded` not
                faults += _seen_padding(plan, opened, group, answers, where)
                if not widened:
                    faults += noise.faults(
                        plan.model, group.examples, group.length, group.logits, answers, where
                    )
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


def _seen_padding(
    plan: ExportPlan, file: TfliteModel, group: Group, answers: np.ndarray, where: str
) -> list[str]:
    """Compares the answers with those to the same texts, padded with another id.

    What the model answers does not depend on it (but for MobileBERT's last token, which reads the
    next one's row). A mask that lets a ten-thousandth of padding through is below every bound of
    the outputs; here it is not.
    """
    pad_id = plan.config.vocab_size - 1 if group.examples.pad_id == 0 else 0
    other = dataclasses.replace(group.examples, pad_id=pad_id)
    same = outputs.model_logits(plan.model, other, [group.length]) == group.logits
    off = np.abs(outputs.file_outputs(file, other, length=group.length) - answers)[same]
    scale = float(np.sqrt(np.mean(np.square(group.logits)))) or 1.0
    if not off.size or off.max() <= _UNSEEN * scale:
        return []
    return [errors.explain(f"{where}padding", "no effect", f"{off.max() / scale:.2g} of the rms")]


def _other_operators(plan: ExportPlan, file: files.Path) -> list[str]:
    """Lists operators that bend values or end them at a number, beyond those of the model.

    No output shows an end that the values never reach, and near 0 activations are much alike. Of
    encoders all signatures have the same operators; what one of them has alone may do next to
    nothing to the probes of an untrained model. (A BiLSTM has some for each token.)
    """
    tree = editing.read(file)
    expected = collections.Counter(softmax=int(plan.request.softmax))
    for layer in plan.model.layers:
        own = layer_of(plan.model, layer.name)
        if isinstance(own, (keras.layers.Activation, keras.layers.Dense)):
            expected[own.activation.__name__] += 1
        expected["softmax"] += isinstance(own, models.AttentionProbabilities)
        expected["maximum"] += isinstance(own, (MaskedMean, models.L2Normalization))
    faults = []
    kinds: list[collections.Counter[str]] = []
    for entry in tree.signatureDefs:
        kinds.append(collections.Counter())
        found: collections.Counter[str] = collections.Counter()
        for operator in tree.subgraphs[entry.subgraphIndex].operators:
            options = operator.builtinOptions
            name = editing.name_of(tree, operator).lower()
            kinds[-1][name] += 1
            name += "_tanh" * bool(getattr(options, "approximate", False))
            fused = _FUSED.get(getattr(options, "fusedActivationFunction", 0), "")
            found.update({name, fused} & _BENDING)
            if getattr(options, "beta", 1.0) != 1.0:
                found[f"{name} with beta {options.beta:g}"] += 1
        more = found - expected
        if more:
            what = f"{text(entry.signatureKey)}, activations"
            known = {name: expected[name] for name in more}
            faults.append(errors.explain(what, f"{known} of the model", f"{dict(more)} more"))
    if not isinstance(plan.config, models.WordVectorConfig):
        for entry, own in zip(tree.signatureDefs, kinds, strict=True):
            more = (own - kinds[0]) + (kinds[0] - own)
            if more:
                what = f"{text(entry.signatureKey)}, operators"
                expected_ones = f"those of {text(tree.signatureDefs[0].signatureKey)}"
                faults.append(errors.explain(what, expected_ones, f"others: {sorted(more)}"))
    return faults


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
