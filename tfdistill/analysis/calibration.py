"""How sure a classifier is, and whether it may be: entropy, temperature, calibration error."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.special

from tfdistill import errors

NEARLY_UNIFORM = 0.9  # entropy share; soft targets from here on teach next to nothing


def entropy_share(logits: np.ndarray) -> float:
    """The mean entropy of the answers as a share of the largest one.

    ``mean over examples of H(softmax(z)) / log C``: 1 where every answer is uniform, 0 where every
    answer is certain. Soft targets near 1 teach next to nothing.

    Args:
      logits: float (n, C), C > 1.

    Returns:
      A number from 0 to 1.

    Raises:
      ShapeError: If there is no example or only one class.
    """
    logits = _checked(logits)
    log_p = scipy.special.log_softmax(logits, axis=1)
    entropy = -np.sum(np.exp(log_p) * log_p, axis=1)  # (n,)
    return float(np.mean(entropy) / np.log(logits.shape[1]))


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The temperature that calibrates a classifier on held-out examples.

    ``argmin over T of mean over examples of -log softmax(z / T)[y]``, T from 0.02 to 50. Below 1
    the answers were less sure than they are right; above 1 they were too sure.

    Args:
      logits: float (n, C).
      labels: int (n,).

    Returns:
      T.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks.
    """
    logits, labels = _checked(logits), _checked_labels(logits, labels)
    rows = np.arange(len(labels))

    def loss(log_t: float) -> float:
        return -float(
            np.mean(scipy.special.log_softmax(logits / np.exp(log_t), axis=1)[rows, labels])
        )

    bounds = (np.log(0.02), np.log(50.0))
    fitted = scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded")
    return float(np.exp(fitted.x))  # pyright: ignore


def expected_calibration_error(
    logits: np.ndarray, labels: np.ndarray, *, num_bins: int = 15
) -> float:
    """The mean gap between how sure a classifier is and how often it is right (ECE).

    ``sum over bins b of |b| / n * |accuracy(b) - mean confidence(b)|``, over bins of equal width
    of the largest probability.

    Args:
      logits: float (n, C).
      labels: int (n,).
      num_bins: How many bins from 0 to 1.

    Returns:
      A number from 0 (calibrated) to 1.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Naeini et al. 2015; Guo et al. 2017, equation 3.
    """
    logits, labels = _checked(logits), _checked_labels(logits, labels)
    probabilities = scipy.special.softmax(logits, axis=1)
    confidence = probabilities.max(axis=1)  # (n,)
    right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * num_bins).astype(int), num_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=num_bins)
    return float(np.abs(gaps).sum() / len(labels))


def _checked(logits: np.ndarray) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    if logits.ndim != 2 or not len(logits) or logits.shape[1] < 2:
        raise errors.ShapeError("logits", "shape (n, C), n > 0, C > 1", logits.shape)
    return logits


def _checked_labels(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    labels = np.asarray(labels)
    if labels.shape != logits.shape[:1]:
        raise errors.ShapeError("labels", f"shape {logits.shape[:1]}", labels.shape)
    return labels
