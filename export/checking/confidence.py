"""How sure the answers of a verified file are, fitted on what the file itself answers."""

from __future__ import annotations

import numpy as np

from tfdistill import analysis
from tfdistill.confidence import Confidence
from tfdistill.tasks import probabilities
from tfdistill.tflite import TfliteModel

from .outputs import file_outputs
from .verify import Verified


def fit_confidence(verified: Verified) -> Confidence | None:
    """Fits a temperature on the examples of the check, and promises on those that chose nothing.

    None where answers have no probabilities, or the examples no labels.
    """
    plan = verified.converted.plan
    labelled = plan.real_examples and plan.examples.labels is not None
    if plan.task is None or not plan.task.traits.gives_probabilities or not labelled:
        return None

    def logits(outputs: np.ndarray) -> np.ndarray:
        return probabilities.logits_of(outputs, softmax=plan.request.softmax)

    promise_on = None
    if plan.promise_on is not None:
        with TfliteModel(verified.converted.file, isolated=True) as file:
            promise_on = logits(file_outputs(file, plan.promise_on)), plan.promise_on
    return analysis.fit_confidence(
        plan.task.traits,
        (logits(verified.answers.file), plan.examples),
        promise_on,
        model_sha256=verified.report.sha256,
    )
