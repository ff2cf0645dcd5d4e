"""How sure a classifier is, and whether it may be: entropy, temperature, calibration error."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import scipy.special

from tfdistill import errors

TEMPERATURES = 0.02, 50.0  # the range of a fit
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

    ``argmin over T of mean over examples of -log softmax(z / T)[y]``, T from 0.02 to 50; of
    several labels the mean over examples and labels of ``-log sigmoid(s z / T)``, where s is 1 or
    -1. Below 1 the answers were less sure than they are right; above 1 they were too sure.

    Args:
      logits: float (n, C).
      labels: int (n,), or (n, C) above 0 where a label applies.

    Returns:
      T; at an end of its range where the examples set no bound, as if all were right.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks.
    """
    _mean_loss(logits, labels, 1.0)  # checks the shapes

    def loss(log_t: float) -> float:
        return _mean_loss(logits, labels, np.exp(log_t))

    fitted = scipy.optimize.minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded")
    return float(np.exp(fitted.x))  # pyright: ignore


def is_at_end(temperature: float, logits: np.ndarray, labels: np.ndarray) -> bool:
    """Whether an end of the range fits as well as the temperature of `fit_temperature`."""
    fitted = _mean_loss(logits, labels, temperature)
    return any(_mean_loss(logits, labels, end) <= fitted for end in TEMPERATURES)


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


def _mean_loss(logits: np.ndarray, labels: np.ndarray, temperature: float) -> float:
    """The mean cross entropy of labels (n,), or of (n, C) where several apply."""
    several = np.ndim(labels) == 2
    logits = _checked(logits, min_classes=1 if several else 2)
    labels = _checked_labels(logits, labels, several=several)
    scaled = logits / temperature
    if several:
        return float(np.mean(np.logaddexp(0, np.where(labels > 0, -scaled, scaled))))
    log_p = scipy.special.log_softmax(scaled, axis=1)
    return -float(np.mean(log_p[np.arange(len(labels)), labels]))


def _checked(logits: np.ndarray, min_classes: int = 2) -> np.ndarray:
    logits = np.asarray(logits, np.float64)
    if logits.ndim != 2 or not len(logits) or logits.shape[1] < min_classes:
        expected = f"shape (n, C), n > 0, C >= {min_classes}"
        raise errors.ShapeError("logits", expected, logits.shape)
    return logits


def _checked_labels(logits: np.ndarray, labels: np.ndarray, *, several: bool = False) -> np.ndarray:
    labels, expected = np.asarray(labels), logits.shape if several else logits.shape[:1]
    if labels.shape != expected:
        raise errors.ShapeError("labels", f"shape {expected}", labels.shape)
    return labels
