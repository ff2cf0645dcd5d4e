"""Whether a quantized file is its float32 conversion in another number format, and answers so.

The two are paired operator by operator (`pairing`); the answers are held against what the rounding
of the format costs by itself (`simulation`), and against what is asked for. Functions that take the
evidence are checks: they list faults, a line each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tfdistill.manifest import Parity
from tfdistill.tflite import agreement
from tfdistill.tflite.agreement import Agreement, Bounds

from ..conversion.quantize import quantization
from ..model import heads
from . import carried, ranges, weights
from .evidence import Evidence

# A file may have four times the noise that its rounding has when it is computed in floats: the two
# round the same numbers, but sum them in another order, and the least difference moves a value
# that lies between two steps by a whole one. Measured: within 1 dB on 50 models.
_MARGIN_DB = 6.0
# Where scores are so large that attention jumps from one token to another, a few inputs have most
# of the noise, and not the same ones in both: there the noise of the median input decides.
_TIES = 0.05  # share of the classes that may change on top
_NOTHING = Bounds(math.inf, math.inf, -math.inf, 0.0, math.inf)


def network(evidence: Evidence) -> list[str]:
    """The operators of the float32 conversion with the same options and inputs."""
    if evidence.plan.is_float:
        return []
    return [fault for pair in evidence.pairs for fault in pair.faults]


def constants(evidence: Evidence) -> list[str]:
    """Each constant is its float32 value, rounded as the format rounds; matrices are shared."""
    if evidence.plan.is_float:
        return []
    faults = weights.check(*evidence.trees, evidence.pairs, carried=evidence.plan.quantize_aware)
    return faults + weights.copied(evidence.pairs)


def places_of_rounding(evidence: Evidence) -> list[str]:
    """A quantization-aware model rounds in the same places by the same steps."""
    if not evidence.plan.quantize_aware:
        return []
    return carried.check(evidence.places, evidence.pairs)


def equal_ranges(evidence: Evidence) -> list[str]:
    """A tensor has the same range in every signature."""
    if evidence.plan.calibration is None:
        return []
    return ranges.differing(evidence.pairs)


def steps_handed_on(evidence: Evidence) -> list[str]:
    """Operators that only move integers keep their steps: the look-up of a table's rows, too."""
    return [fault for pair in evidence.pairs for fault in ranges.uneven(pair)]


def ranges_of_data(evidence: Evidence) -> list[str]:
    """The ranges of a static quantization hold the values of the float32 conversion."""
    plan = evidence.plan
    if plan.calibration is None:
        return []
    real = plan.examples if plan.real_examples else None
    return ranges.check(evidence.float_file, evidence.pairs, plan.calibration, real)


def beyond_rounding(evidence: Evidence) -> list[str]:
    """Holds a quantized file's noise against the noise that its rounding has in floats."""
    return [] if evidence.plan.is_float else _of_format(evidence)[1]


def beyond_bounds(evidence: Evidence) -> list[str]:
    """Holds the answers on the examples against the bounds that the request names."""
    bounds = _NOTHING.replace(evidence.plan.request.bounds or {})
    if not evidence.plan.real_examples:  # there a class says nothing
        bounds = bounds.replace({"argmax_agreement": 0.0})
    return agreement.violations(_agreement(evidence), bounds)


def fallen_metric(evidence: Evidence) -> list[str]:
    """Holds the task's metric of the file against the model's, where there are labels."""
    task, (model, file) = evidence.plan.task, _metrics(evidence)
    if task is None or not model:
        return []
    return agreement.metric_violations(model, file, task.primary_metric, _allowed_drop(evidence))


def record(evidence: Evidence) -> Parity:
    """Returns what the manifest says of the answers."""
    plan, measured = evidence.plan, _agreement(evidence)
    model_metrics, file_metrics = _metrics(evidence)
    bounds = _bounds(evidence)
    if model_metrics:
        bounds = bounds.replace({"metric_drop": _allowed_drop(evidence)})
    near: Mapping[str, float] = {}
    if plan.head.vectors:
        near = agreement.compare_vectors(evidence.expected_outputs, evidence.outputs)
    scored = heads.num_scored(plan.examples) // (2 if plan.head.vectors else 1)  # pairs of vectors
    return Parity(
        num_examples=len(plan.examples),
        num_scored=scored if file_metrics else None,
        inputs="real" if plan.real_examples else "random",
        output_rms=measured.output_rms,
        max_abs_error=measured.max_abs_error,
        mean_abs_error=measured.mean_abs_error,
        sqnr_db=measured.sqnr_db,
        argmax_agreement=measured.argmax_agreement,
        min_cosine=near.get("min_cosine"),
        neighbour_agreement=near.get("neighbour_agreement"),
        model_metrics=model_metrics,
        file_metrics=file_metrics,
        bounds=bounds.as_dict(),
    )


def _agreement(evidence: Evidence) -> Agreement:
    plan, both = evidence.plan, (evidence.expected_outputs, evidence.outputs)
    decisions = [plan.head.decisions(outputs, plan.examples, plan.task) for outputs in both]
    return agreement.compare(*both, decisions=decisions)


def _metrics(evidence: Evidence) -> tuple[dict[str, float], dict[str, float]]:
    """The metrics of model and file; empty without labels of a task, or numbers."""
    task, examples = evidence.plan.task, evidence.plan.examples
    if task is None or examples.labels is None or not np.isfinite(evidence.outputs).all():
        return {}, {}
    both = (evidence.logits, evidence.outputs)
    model, file = (task.score(outputs, examples) for outputs in both)
    return model, file


def _allowed_drop(evidence: Evidence) -> float:
    """The most that the metric may fall: a drop that the request names is not widened by chance."""
    plan = evidence.plan
    named = "metric_drop" in (plan.request.bounds or {})
    return agreement.allowed_drop(
        _bounds(evidence).metric_drop,
        heads.num_scored(plan.examples),
        None if named else _agreement(evidence),
    )


def _bounds(evidence: Evidence) -> Bounds:
    return evidence.plan.bounds if evidence.plan.is_float else _of_format(evidence)[0]


def _of_format(evidence: Evidence) -> tuple[Bounds, list[str]]:
    """The bounds that follow from the rounding of the format, and those that the file breaks."""
    plan, (model, expected, received) = evidence.plan, evidence.on_groups
    same = evidence.decided_on_groups
    rounded = agreement.compare(model, expected, decisions=(same[0], same[1]))
    bounds = _expected(rounded).replace({"metric_drop": plan.bounds.metric_drop})
    measured = agreement.compare(model, received, decisions=(same[0], same[2]))
    faults = agreement.violations(measured, bounds, where="beyond the rounding of this format, ")
    if faults and np.isfinite(received).all():
        medians = [
            np.median(np.square(model - outputs).sum(axis=1)) for outputs in (expected, received)
        ]
        if medians[1] <= 10 ** (_MARGIN_DB / 10) * medians[0]:
            faults, bounds = [], bounds.loosest(_reached(measured))
    return bounds.tightest(_NOTHING.replace(plan.request.bounds or {})), faults


def _expected(rounded: Agreement) -> Bounds:
    """Returns the bounds of a file from the agreement of its rounding in floats."""
    finest = quantization("float32").bounds
    sqnr = finest.sqnr_db if rounded.sqnr_db is None else rounded.sqnr_db - _MARGIN_DB
    factor = 10 ** (_MARGIN_DB / 20)
    reached = _reached(rounded)
    changed = 1 - reached.argmax_agreement
    return Bounds(
        max_error=2 * factor * reached.max_error,  # of a few inputs: heavier tails than the mean
        mean_error=factor * reached.mean_error,
        sqnr_db=sqnr,
        argmax_agreement=max(0.0, 1 - factor * changed - _TIES),
        metric_drop=finest.metric_drop,
    ).loosest(finest)


def _reached(measured: agreement.Agreement) -> Bounds:
    """Returns the bounds that an agreement just keeps."""
    scale = measured.output_rms or 1.0
    return Bounds(
        measured.max_abs_error / scale,
        measured.mean_abs_error / scale,
        math.inf if measured.sqnr_db is None else measured.sqnr_db,
        1.0 if measured.argmax_agreement is None else measured.argmax_agreement,
        0.0,
    )
