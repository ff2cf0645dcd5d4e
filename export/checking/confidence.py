"""The confidence of a verified file's answers, fitted on what the file itself answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tf_keras as keras

from tfdistill import analysis
from tfdistill.analysis import promises
from tfdistill.manifest.confidence import Confidence
from tfdistill.manifest.familiarity import Familiarity, fit_familiarity
from tfdistill.tasks import probabilities
from tfdistill.tflite import TfliteModel

from ..conversion.prepare import ExportPlan
from .outputs import file_outputs, model_logits
from .verify import Verified


def at_temperature(plans: Sequence[ExportPlan]) -> list[ExportPlan]:
    """Puts a temperature into files of probabilities of one model, fitted on its logits.

    It is 1 where the examples do not tell it, and of a model in the wrappers of a compression: its
    last layer has a range of its own, and readers apply what `fit_confidence` finds.
    """
    temperature = _temperature(plans[0])
    return [plan.at_temperature(temperature) for plan in plans]


def _temperature(plan: ExportPlan) -> float:
    task, examples, model = plan.task, plan.examples, plan.model
    wrapped = any(isinstance(layer, keras.layers.Wrapper) for layer in model.layers)
    if task is None or not _is_labelled(plan) or not plan.request.softmax or wrapped:
        return 1.0
    logits = model_logits(model, examples, plan.lengths)
    if not np.isfinite(logits).all():  # the verification says so
        return 1.0
    return analysis.temperature_of(logits, examples)


def _is_labelled(plan: ExportPlan) -> bool:
    if plan.task is None or not plan.task.traits.gives_probabilities:
        return False
    return plan.real_examples and plan.examples.labels is not None


def _familiarity(plan: ExportPlan) -> Familiarity | None:
    """The measure that tells texts of another kind; None without their texts, and of tags."""
    texts, rows, tokenizer = plan.trained_on, plan.promise_on, plan.tokenizer
    if texts is None or rows is None or tokenizer is None or rows.token_labels:
        return None
    labelled = rows.select(np.flatnonzero(promises.has_label(rows)))
    return fit_familiarity(texts, labelled, tokenizer.vocab)


def fit_confidence(verified: Verified) -> Confidence | None:
    """Fits a temperature on the examples of the check, and promises on those that chose nothing.

    None where answers have no probabilities, or neither of the two has labels.
    """
    plan = verified.converted.plan
    labelled = _is_labelled(plan)
    if plan.task is None or not plan.task.traits.gives_probabilities:
        return None
    if not labelled and plan.promise_on is None:
        return None

    def logits(outputs: np.ndarray) -> np.ndarray:
        return probabilities.logits_of(outputs, softmax=plan.request.softmax)

    promise_on = None
    if plan.promise_on is not None:
        with TfliteModel(verified.converted.file, isolated=True) as file:
            promise_on = logits(file_outputs(file, plan.promise_on)), plan.promise_on
    return analysis.fit_confidence(
        plan.task.traits,
        (logits(verified.answers.file), plan.examples) if labelled else None,
        promise_on,
        model_sha256=verified.report.sha256,
        familiarity=_familiarity(plan),
        temperature_inside=plan.temperature,
        answers=plan.request.promise_answers,
        min_recall=plan.request.min_recall,
    )
