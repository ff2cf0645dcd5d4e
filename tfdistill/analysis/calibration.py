"""A classifier's confidence, and whether it is earned: entropy, temperature, calibration error."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special

from tfdistill import errors

TEMPERATURES = 0.02, 50.0  # the range of a fit
NEARLY_UNIFORM = 0.9  # entropy share; soft targets from here on teach next to nothing


class CalibrationScore(NamedTuple):
    """A score of probabilities, and its 95% interval over examples."""

    value: float
    interval: tuple[float, float]


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
    import scipy.optimize  # 25 MB, which few commands need

    negative_log_likelihood(logits, labels, 1.0)  # checks the shapes

    def loss(log_t: float) -> float:
        return negative_log_likelihood(logits, labels, np.exp(log_t))

    fitted = scipy.optimize.minimize_scalar(loss, bounds=np.log(TEMPERATURES), method="bounded")
    return float(np.exp(fitted.x))  # pyright: ignore


def is_at_end(temperature: float, logits: np.ndarray, labels: np.ndarray) -> bool:
    """Whether an end of the range fits as well as the temperature of `fit_temperature`."""
    fitted = negative_log_likelihood(logits, labels, temperature)
    return any(negative_log_likelihood(logits, labels, end) <= fitted for end in TEMPERATURES)


def negative_log_likelihood(
    logits: np.ndarray, labels: np.ndarray, temperature: float = 1.0
) -> float:
    """The mean cross entropy of the labels (NLL), in nats.

    ``mean over examples of -log softmax(z / T)[y]``; of several labels the mean over examples and
    labels of ``-log sigmoid(s z / T)``, where s is 1 or -1.

    Args:
      logits: float (n, C).
      labels: int (n,), or (n, C) above 0 where a label applies.
      temperature: T.

    Returns:
      A number from 0 (certain and right).

    Raises:
      ShapeError: If the shapes do not fit.
    """
    several = np.ndim(labels) == 2
    logits = _checked(logits, min_classes=1 if several else 2)
    labels = _checked_labels(logits, labels, several=several)
    scaled = logits / temperature
    if several:
        return float(np.mean(np.logaddexp(0, np.where(labels > 0, -scaled, scaled))))
    log_p = scipy.special.log_softmax(scaled, axis=1)
    return -float(np.mean(log_p[np.arange(len(labels)), labels]))


def _gap(confidence: np.ndarray, right: np.ndarray, num_bins: int = 15) -> float:
    """The calibration error (ECE) of confidences (n,), in bins of equal mass."""
    edges = np.quantile(confidence, np.arange(1, num_bins) / num_bins, method="inverted_cdf")
    gaps = np.bincount(np.searchsorted(edges, confidence), weights=right - confidence)
    return float(np.abs(gaps).sum() / len(right))


def calibration_noise(logits: np.ndarray, *, num_draws: int = 200) -> float:
    """The calibration error (ECE) that a calibrated classifier has on so many examples.

    ``mean over draws of ECE(z, y)``, where each label y is drawn from ``softmax(z)``, seed 0.

    Args:
      logits: float (n, C), divided by the temperature.
      num_draws: How often the labels are drawn.

    Returns:
      A number above 0; an error near it says nothing against the probabilities.

    Raises:
      ShapeError: If there is no example or only one class.
    """
    confidence = scipy.special.softmax(_checked(logits), axis=1).max(axis=1)
    return float(np.mean(_gaps_if_calibrated(confidence, num_draws)))


def _gaps_if_calibrated(confidence: np.ndarray, num_draws: int = 200) -> list[float]:
    draws = np.random.default_rng(0).random((num_draws, len(confidence))) < confidence
    return [_gap(confidence, right) for right in draws]


def calibration_scores(
    logits: np.ndarray, labels: np.ndarray, *, num_resamples: int = 500
) -> dict[str, CalibrationScore]:
    """Scores the probabilities of a classifier.

    Args:
      logits: float (n, C), divided by the temperature.
      labels: int (n,).
      num_resamples: Resamples of the examples, with replacement and seed 0.

    Returns:
      "nll" (`negative_log_likelihood`), "ece" and "brier", the
      ``mean over examples of sum over classes c of (softmax(z)[c] - [c = y])^2`` (Brier 1950). The
      ECE is the gap between how sure a classifier is and how often it is right,
      ``sum over bins b of |b| / n * |accuracy(b) - mean confidence(b)|``, over 15 bins of equal
      mass: their edges are quantiles of the largest probability, and equal probabilities share a
      bin. (Bins of equal width leave most nearly empty where a classifier is sure.) Of each the
      value, and the basic bootstrap interval of 95%, ``2 v - q`` for the percentiles q of the
      resamples, at least 0, and widened to the value. (Percentiles alone would lie above the value
      of the ECE, which grows with the noise in a bin.) That of an ECE begins at 0 unless it exceeds
      97.5% of a calibrated classifier's: resamples do not show how much of it is noise.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Guo et al. 2017, On Calibration of Modern Neural Networks, equation 3; Roelofs et al.
    2022, Mitigating Bias in Calibration Error Estimation, section 3 (equal mass).
    """
    logits, labels = _checked(logits), _checked_labels(logits, labels)
    shares, rows = scipy.special.softmax(logits, axis=1), np.arange(len(labels))
    confidence, right = shares.max(axis=1), shares.argmax(axis=1) == labels
    log_p = scipy.special.log_softmax(logits, axis=1)[rows, labels]
    squares = np.sum((shares - np.eye(logits.shape[1])[labels]) ** 2, axis=1)
    draws = np.random.default_rng(0).integers(len(rows), size=(num_resamples, len(rows)))
    resampled = {
        "nll": (-log_p.mean(), -log_p[draws].mean(axis=1)),
        "ece": (_gap(confidence, right), [_gap(confidence[d], right[d]) for d in draws]),
        "brier": (squares.mean(), squares[draws].mean(axis=1)),
    }
    scores = {}
    for name, (value, others) in resampled.items():
        low, high = 2 * value - np.percentile(others, [97.5, 2.5])
        if name == "ece" and value <= np.quantile(_gaps_if_calibrated(confidence), 0.975):
            low = 0.0
        interval = max(0.0, min(float(low), float(value))), max(float(high), float(value))
        scores[name] = CalibrationScore(float(value), interval)
    return scores


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
