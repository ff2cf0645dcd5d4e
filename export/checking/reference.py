"""The check that a model's float32 conversion is the model, on inputs that reach all of it.

The model that was trained is the truth. Keras runs it layer by layer as it was built; the file
holds the inference graph that `export.model` makes of it, after TensorFlow's converter. Every
number format is then compared with this file (`rounding`), so that what is right here is right in
all of them. Each function is a check: it lists faults, a line each.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import tf_keras as keras
from ai_edge_litert import schema_py_generated as schema

from tfdistill import errors, models
from tfdistill.models.bilstm import MaskedMean
from tfdistill.models.layers import layer_of
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite import agreement, editing
from tfdistill.tflite.agreement import Bounds
from tfdistill.tflite.reader import text

from ..conversion.quantize import quantization
from . import outputs
from .evidence import Evidence
from .weights import lost

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
# A quantization-aware model rounds while it runs: where a value lies on the border between two
# steps the last bit of a float decides, and it is a step off. Some 2 of a million values are: less
# than a thousandth of the noise of rounding all of them (30 dB), but more than floats alone.
_EXACT_DB, _EXACT_SHARE = 50.0, 0.5
# How far a model's outputs move by the rounding of float32 alone: no fixed bound tells a wrong
# network from it. Of an untrained one a lost mask moves the outputs by a thousandth, which a deep
# one with large weights reaches by rounding. So the model is run again with every weight one step
# of float32 up or down, drawn at random: each sum then changes as much as its rounding changes it.
# Measured on 25 models, 1 to 12 layers, 32 to 768 wide, random, trained and with weights times ten:
# the float32 file is 0.3 to 1.8 times as far from the model, the furthest output 0.2 to 1.6.
_DRAWS = 2
_STEP = 2.0**-23  # relative; of float32
_TIMES = 10.0  # as far may a file be


def numbers(evidence: Evidence) -> list[str]:
    """Refuses a model that gives NaN or infinity, before anything is held against it."""
    for logits in (evidence.logits, *(group.logits for group in evidence.groups)):
        agreement.compare(logits, logits)
    return []


def weights(evidence: Evidence) -> list[str]:
    """Compares the weights that are exported with the weights of the model that was given.

    Those of the head are the trained ones over the temperature of a file of probabilities.
    """
    plan = evidence.plan
    head = f"{models.read_head(plan.model).layer}/"
    trained, exported = plan.request.model.get_weights(), plan.model.get_weights()
    names = [weight.name for weight in plan.model.weights]
    if len(trained) != len(exported):
        return [errors.explain("weights", f"the model's {len(trained)}", len(exported))]
    return [
        errors.explain(f"weight {name}", "the trained one", "another")
        for name, expected, received in zip(names, trained, exported, strict=True)
        if not _is_trained(expected, received, plan.temperature if name.startswith(head) else 1.0)
    ]


def _is_trained(expected: np.ndarray, received: np.ndarray, temperature: float) -> bool:
    if temperature == 1:
        return np.array_equal(expected, received, equal_nan=True)
    trained, wide = (values.astype(np.float64) for values in (expected, received))
    least = temperature * float(np.finfo(np.float32).smallest_subnormal)  # its rounding
    return np.allclose(temperature * wide, trained, rtol=2 * _STEP, atol=least, equal_nan=True)


def tables(evidence: Evidence) -> list[str]:
    """Lists the tables of words, positions and types that the conversion does not have.

    Those of a quantization-aware model are rounded: see `verify`.
    """
    if evidence.plan.quantize_aware:
        return []
    return lost(evidence.plan, evidence.float_tree)


def operators(evidence: Evidence) -> list[str]:
    """Lists operators that bend values or end them at a number, beyond those of the model.

    Each softmax of the model is there, too: that of the scores is behind what the outputs show.
    No output shows an end that the values never reach, and near 0 activations are much alike. Of
    encoders all signatures have the same operators; what one of them has alone may do next to
    nothing to the probes of an untrained model. (A BiLSTM has some for each token.)
    """
    plan, tree = evidence.plan, evidence.float_tree
    expected = collections.Counter(softmax=int(plan.request.softmax))
    for layer in plan.model.layers:
        inner = layer_of(plan.model, layer.name)
        if isinstance(inner, (keras.layers.Activation, keras.layers.Dense)):
            expected[inner.activation.__name__] += 1
        expected["softmax"] += isinstance(inner, models.AttentionProbabilities)
        expected["maximum"] += isinstance(inner, (MaskedMean, models.L2Normalization))
    faults = []
    kinds: list[collections.Counter[str]] = []
    for entry in tree.signatureDefs:
        kinds.append(collections.Counter())
        bending: collections.Counter[str] = collections.Counter()
        for operator in tree.subgraphs[entry.subgraphIndex].operators:
            options = operator.builtinOptions
            name = editing.name_of(tree, operator).lower()
            kinds[-1][name] += 1
            name += "_tanh" * bool(getattr(options, "approximate", False))
            fused = _FUSED.get(getattr(options, "fusedActivationFunction", 0), "")
            bending.update({name, fused} & _BENDING)
            if getattr(options, "beta", 1.0) != 1.0:
                bending[f"{name} with beta {options.beta:g}"] += 1
        more = bending - expected
        what = f"{text(entry.signatureKey)}, activations"
        if bending["softmax"] < expected["softmax"]:
            counts = (f"{each['softmax']} softmax" for each in (expected, bending))
            faults.append(errors.explain(what, *counts))
        if more:
            of_model = {name: expected[name] for name in more}
            faults.append(errors.explain(what, f"{of_model} of the model", f"{dict(more)} more"))
    if not isinstance(plan.config, models.WordVectorConfig):
        for entry, counts in zip(tree.signatureDefs, kinds, strict=True):
            more = (counts - kinds[0]) + (kinds[0] - counts)
            if more:
                what = f"{text(entry.signatureKey)}, operators"
                expected_ones = f"those of {text(tree.signatureDefs[0].signatureKey)}"
                faults.append(errors.explain(what, expected_ones, f"others: {sorted(more)}"))
    return faults


def answers(evidence: Evidence) -> list[str]:
    """Holds the conversion against the model: on probes of each signature, and on the examples.

    80 dB, and no output off by more than a thousandth of their root mean square: a class that leads
    by more than two of these is the same in both, so only ties can fall another way.
    """
    faults = []
    for group, received in zip(evidence.groups, evidence.float_answers, strict=True):
        where = f"len{group.length}: "
        faults += _faults(evidence, group.logits, received, group.examples, where)
    if not faults and evidence.plan.real_examples:
        examples, received = evidence.plan.examples, evidence.float_outputs
        faults += _faults(evidence, evidence.logits, received, examples, "")
    return faults


def padding(evidence: Evidence) -> list[str]:
    """Compares the answers with those to the same texts, padded with another id.

    What the model answers does not depend on it (but for MobileBERT's last token, which reads the
    next one's row). A mask that lets a ten-thousandth of padding through is below every bound of
    the outputs; here it is not. Rounding hides it: see `verify.unrounded`.
    """
    plan, faults = evidence.plan, []
    if plan.quantize_aware:
        return []
    for group, received in zip(evidence.groups, evidence.float_answers, strict=True):
        pad_id = plan.config.vocab_size - 1 if group.examples.pad_id == 0 else 0
        other = dataclasses.replace(group.examples, pad_id=pad_id)
        same = outputs.model_logits(plan.model, other, [group.length]) == group.logits
        padded = outputs.file_outputs(evidence.float_model, other, length=group.length)
        off = np.abs(padded - received)[same]
        scale = float(np.sqrt(np.mean(np.square(group.logits)))) or 1.0
        if off.size and not off.max() <= _UNSEEN * scale:
            what, received_effect = (
                f"len{group.length}: padding",
                f"{off.max() / scale:.2g} of the rms",
            )
            faults.append(errors.explain(what, "no effect", received_effect))
    return faults


def float_noise(evidence: Evidence) -> list[str]:
    """Holds the conversion against the rounding of float32 on the probes.

    Who asks for other bounds of a float32 file takes that error; a quantization-aware model rounds
    more.
    """
    plan, faults = evidence.plan, []
    widened = plan.is_float and not _ERRORS.isdisjoint(plan.request.bounds or {})
    if plan.quantize_aware or widened:
        return []
    groups = evidence.groups
    moved = moved_logits(plan.model, [(group.examples, group.length) for group in groups])
    for group, received, of_group in zip(groups, evidence.float_answers, moved, strict=True):
        faults += noise_faults(group.logits, received, of_group, f"len{group.length}: ")
    return faults


def _faults(
    evidence: Evidence,
    model: np.ndarray,
    file: np.ndarray,
    examples: EncodedExamples,
    where: str,
) -> list[str]:
    plan = evidence.plan
    if plan.quantize_aware:
        signal = max(float(np.mean(np.square(model))), 1e-30)
        error = np.square(model.astype(np.float64) - file).mean(axis=1)
        exact = float(np.mean(error <= signal * 10 ** (-_EXACT_DB / 10)))
        expected = f"{_EXACT_DB:g} dB for at least {_EXACT_SHARE:.0%} of the inputs"
        received = f"for {exact:.0%}"
        return [errors.explain(f"{where}SQNR", expected, received)] * (exact < _EXACT_SHARE)
    bounds: Bounds = quantization("float32").bounds
    if plan.is_float:
        bounds = bounds.replace(plan.request.bounds or {})
    decided = [plan.head.decisions(rows, examples, plan.task) for rows in (model, file)]
    measured = agreement.compare(model, file, decisions=decided)
    return agreement.violations(measured, bounds, where=where)


def moved_logits(
    model: keras.Model, groups: Sequence[tuple[EncodedExamples, int]]
) -> list[list[np.ndarray]]:
    """Runs the model with each weight one step of float32 off, `_DRAWS` times, and restores them.

    For each group, examples and the tokens that they are padded to, the (rows, num_labels) of each
    draw.
    """
    moved: list[list[np.ndarray]] = [[] for _ in groups]
    for draw in range(_DRAWS):
        with _one_step_off(model, draw):
            for of_group, (examples, length) in zip(moved, groups, strict=True):
                of_group.append(outputs.model_logits(model, examples, [length]))
    return moved


def noise_faults(
    logits: np.ndarray, file: np.ndarray, moved: Sequence[np.ndarray], where: str
) -> list[str]:
    """Lists where a float32 file is further from its model than float32's rounding takes it.

    With e the file's difference and d those of the draws: ``rms e <= 10 rms d`` and ``max |e| <= 10
    max |d|``, both over all rows and outputs. All are (rows, num_labels); `where` is put before the
    line, of which there is at most one.
    """
    exact = logits.astype(np.float64)
    noise = np.stack([of_draw - exact for of_draw in moved])
    off, scale = file - exact, float(np.sqrt(np.mean(exact**2))) or 1.0
    for name, of in (("error", _rms), ("largest error", _largest)):
        # Never less than a step of the outputs: weights of 0 do not move.
        allowed = _TIMES * max(of(noise), _STEP * scale)
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
    weights_before = model.get_weights()
    try:
        model.set_weights([_moved(weight, random) for weight in weights_before])
        yield
    finally:
        model.set_weights(weights_before)


def _moved(weight: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if weight.dtype.kind != "f":
        return weight
    steps = np.array([1 - _STEP, 1 + _STEP], weight.dtype)
    return weight * steps[random.integers(0, 2, weight.shape, np.int8)]
