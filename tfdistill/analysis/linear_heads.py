"""A linear head over the vectors of few labelled texts, its penalty chosen by cross-validation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import sklearn.linear_model
import threadpoolctl

from tfdistill.analysis.calibration import (
    fit_temperature,
    is_at_end,
    negative_log_likelihood,
)
from tfdistill.tasks.splitting import folds_of

_PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # C of scikit-learn
_REPETITIONS = 3  # of the cross-validation, with other folds each
_ABSENT = -30.0  # logit of a class without a training row

Fit = Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], np.ndarray]]


@dataclasses.dataclass(frozen=True)
class LinearHead:
    """``logits = vectors @ kernel + bias``.

    Attributes:
      kernel: float32 (width, num_labels).
      bias: float32 (num_labels,).
      penalty: The inverse strength of the L2 penalty.
      unseen: float32 (n, num_labels), the logits of each row by a head that was fitted without it.
    """

    kernel: np.ndarray
    bias: np.ndarray
    penalty: float
    unseen: np.ndarray

    def calibrated(self, labels: np.ndarray) -> LinearHead:
        """Divides the logits by the temperature that calibrates the answers to rows left out.

        The only row of a class does not count: without it nothing knows the class.

        Args:
          labels: int (n,).
        """
        shared = np.bincount(labels, minlength=self.unseen.shape[1])[labels] > 1
        of_shared = self.unseen[shared], labels[shared]
        temperature = fit_temperature(*of_shared)
        if is_at_end(temperature, *of_shared):
            temperature = 1.0
        return LinearHead(
            (self.kernel / temperature).astype(np.float32),
            (self.bias / temperature).astype(np.float32),
            self.penalty,
            self.unseen / temperature,
        )


@threadpoolctl.threadpool_limits.wrap(limits=1)
def fit_head(vectors: np.ndarray, labels: np.ndarray, num_labels: int) -> LinearHead:
    """Fits a logistic regression with an L2 penalty on all rows.

    The vectors are centred, and divided by one number that gives their features variance 1 on
    average. The penalty is the one with the least mean ``-log p(label)`` of calibrated answers in
    three cross-validations: accuracy would choose by a handful of rows. The logits are divided by
    the temperature that calibrates the answers to rows that were left out: of those to its own rows
    a head is too sure. The only row of a class chooses neither: without it nothing knows the class.

    Args:
      vectors: float (n, width).
      labels: int (n,), two or more different ones, of which one has two rows at least.
      num_labels: Classes.

    Returns:
      The head. The penalty has seen all rows, so that `unseen` is better than new text by a little.
    """
    shared = np.bincount(labels, minlength=num_labels)[labels] > 1
    losses = np.zeros(len(_PENALTIES))
    unseen = np.zeros((len(_PENALTIES), len(labels), num_labels), np.float32)
    for repetition in range(_REPETITIONS):
        folds = folds_of(labels, seed=repetition)
        for place, penalty in enumerate(_PENALTIES):
            logits = answer_unseen(vectors, labels, folds, _fit_with(penalty, num_labels))
            of_shared = logits[shared], labels[shared]
            losses[place] += negative_log_likelihood(*of_shared, fit_temperature(*of_shared))
            if not repetition:
                unseen[place] = logits
    best = int(losses.argmin())
    kernel, bias = fit_regression(vectors, labels, num_labels, _PENALTIES[best])
    return LinearHead(kernel, bias, _PENALTIES[best], unseen[best]).calibrated(labels)


def answer_unseen(
    features: np.ndarray, labels: np.ndarray, folds: np.ndarray, fit: Fit
) -> np.ndarray:
    """Answers each row by a model that was fitted on the other folds.

    Args:
      features: (n, width), an array or a sparse matrix.
      labels: (n,) or (n, labels).
      folds: int (n,).
      fit: (features, labels) -> a function from features to logits (m, num_labels).

    Returns:
      float32 (n, num_labels).
    """
    parts = []
    rows = [np.flatnonzero(folds == fold) for fold in np.unique(folds)]
    for left_out in rows:
        others = np.setdiff1d(np.arange(len(folds)), left_out)
        parts.append(fit(features[others], labels[others])(features[left_out]))
    answers = np.concatenate(parts).astype(np.float32)
    ordered = np.empty_like(answers)
    ordered[np.concatenate(rows)] = answers
    return ordered


def _fit_with(penalty: float, num_labels: int) -> Fit:
    def fit(vectors: np.ndarray, labels: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        kernel, bias = fit_regression(vectors, labels, num_labels, penalty)
        return lambda rows: rows @ kernel + bias

    return fit


def fit_regression(
    vectors: np.ndarray, labels: np.ndarray, num_labels: int, penalty: float
) -> tuple[np.ndarray, np.ndarray]:
    """Fits the regression of `fit_head` with a penalty that is known, without a temperature.

    Returns:
      Kernel (width, num_labels) and bias (num_labels,) for vectors as they are.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    scale = np.sqrt(np.mean((vectors - mean) ** 2)) or 1.0
    kernel = np.zeros((vectors.shape[1], num_labels))
    bias = np.full(num_labels, _ABSENT)
    present = np.unique(labels)
    if len(present) == 1:
        bias[present] = 0.0
        return kernel, bias
    model = sklearn.linear_model.LogisticRegression(C=penalty, max_iter=1000)
    model.fit((vectors - mean) / scale, labels)
    weights, shift = model.coef_, model.intercept_
    if len(present) == 2:  # one row, of the second class
        weights = np.concatenate([-weights, weights]) / 2
        shift = np.concatenate([-shift, shift]) / 2
    kernel[:, present] = weights.T / scale
    bias[present] = shift - mean @ kernel[:, present]
    return kernel, bias
