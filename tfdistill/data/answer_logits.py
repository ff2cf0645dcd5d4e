"""A teacher's answers as logits: of ensembles, of probabilities and of gold labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.special

from tfdistill.tasks.spec import TaskSpec

# Of a class that a teacher excludes: what a softmax in float32 can tell from 0 next to 1.
LEAST_PROBABILITY = 1e-7


def combine(
    answers: Sequence[np.ndarray], kind: str, temperatures: Sequence[float] = ()
) -> np.ndarray:
    """The answers of an ensemble: ``log(mean over k of softmax(z_k / T_k))``.

    Several labels at once have ``logit(mean over k of sigmoid(z_k / T_k))``, numbers the mean. Of
    one teacher with T = 1 they are its logits, bit for bit.

    Args:
      answers: float32 (n, labels) of each teacher.
      kind: Of the task.
      temperatures: T of each teacher, above 0; 1 when left out.

    Returns:
      float32 (n, labels).
    """
    divisors = np.ones(len(answers)) if not temperatures else np.asarray(temperatures)
    if kind == "regression":
        return np.asarray(np.mean(np.stack(answers), axis=0, dtype=np.float64), np.float32)
    if len(answers) == 1:
        return (answers[0] / np.float32(divisors[0])).astype(np.float32)
    scaled = [to_probabilities(z / t, kind) for z, t in zip(answers, divisors, strict=True)]
    return to_logits(np.mean(scaled, axis=0), kind)


def to_logits(probabilities: np.ndarray, kind: str) -> np.ndarray:
    """Logits whose softmax (of several labels: sigmoid) is `probabilities`, float32.

    ``log p`` (``log p - log(1 - p)``), no probability below `LEAST_PROBABILITY`.
    """
    least = LEAST_PROBABILITY
    if kind == "multi_label":
        return scipy.special.logit(np.clip(probabilities, least, 1 - least)).astype(np.float32)
    return np.log(np.maximum(probabilities, least)).astype(np.float32)


def to_probabilities(logits: np.ndarray, kind: str) -> np.ndarray:
    """Softmax over the last axis, of several labels sigmoid, in float64."""
    exact = np.asarray(logits, np.float64)
    return scipy.special.expit(exact) if kind == "multi_label" else scipy.special.softmax(exact, -1)


def of_gold(labels: np.ndarray, spec: TaskSpec) -> np.ndarray:
    """Gold labels as answers that are certain, float32 (n, labels); of a regression the number."""
    if spec.traits.one_number:
        return np.asarray(labels, np.float32).reshape(-1, 1)
    sure = labels if spec.traits.many_classes else np.eye(spec.num_labels)[labels]
    return to_logits(sure, spec.kind)
