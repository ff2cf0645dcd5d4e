"""A model's confidence: from outputs to probabilities, and to the confidence in an answer."""

from __future__ import annotations

import numpy as np

from tfdistill.tasks.kind import TaskKind

_SMALLEST = 1e-12  # probability whose logarithm is taken


def logits_of(outputs: np.ndarray, *, softmax: bool) -> np.ndarray:
    """Outputs of a file as logits: of probabilities their logarithms, at least log 1e-12."""
    return np.log(np.maximum(outputs.astype(np.float64), _SMALLEST)) if softmax else outputs


def of_logits(kind: TaskKind, logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The probability of each label, float64 (..., labels), for a kind that gives them.

    ``softmax(z / T)``, or ``sigmoid(z / T)`` where several labels apply.
    """
    scaled = np.asarray(logits, np.float64) / temperature
    if kind.many_classes:
        return 0.5 * (1 + np.tanh(0.5 * scaled))
    powers = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def decided(kind: TaskKind, shares: np.ndarray) -> np.ndarray:
    """The decision for each row of probabilities: int (...), or bool (..., labels) of several."""
    return shares > 0.5 if kind.many_classes else shares.argmax(axis=-1)


def confidence(kind: TaskKind, shares: np.ndarray) -> np.ndarray:
    """The probability of the decision: float64 (...), of several labels all together.

    Of several labels it is the product over labels of ``max(p, 1 - p)``: as if they were
    independent.
    """
    if kind.many_classes:
        return np.maximum(shares, 1 - shares).prod(axis=-1)
    return shares.max(axis=-1)
