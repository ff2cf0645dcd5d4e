"""From measured files to the latency and the size of those that were not measured. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.optimize

from tfdistill import errors
from tfdistill.search.result import HeldOut
from tfdistill.search.work import FEATURES

COVERAGE = 0.9  # of the interval of a prediction
_LEAST = 4  # points that a fit needs
_HUBER = 1.345  # standard deviations from where an error counts linearly: 95% efficient if normal
_ROUNDS = 10  # of reweighting


@dataclasses.dataclass(frozen=True)
class LatencyModel:
    """A latency in milliseconds, linear in the work of a shape.

    Attributes:
      coefficients: Feature -> milliseconds a unit, none negative.
      margin: Half-width of the interval: a latency is within predicted / (1 + margin) and
        predicted x (1 + margin) in `COVERAGE` of the cases.
    """

    coefficients: Mapping[str, float]
    margin: float

    def predict(self, work: np.ndarray) -> np.ndarray:
        """Returns milliseconds (n,) for work (n, features), see `work.matrix`."""
        return work @ np.array([self.coefficients[name] for name in FEATURES])

    def interval(self, latency_ms: float) -> tuple[float, float]:
        """The interval of a predicted latency."""
        return latency_ms / (1 + self.margin), latency_ms * (1 + self.margin)


def fit_latency(work: np.ndarray, latency_ms: Sequence[float] | np.ndarray) -> LatencyModel:
    """Fits the latency model by non-negative least squares on relative errors.

    Minimises sum_i rho(w_i c / y_i - 1) over c >= 0 with Huber's rho, by reweighting: a file that
    something disturbed does not bend the others. The margin comes from leaving out each file in
    turn: the rank ceil(0.9 (n + 1)) of max(p / y, y / p) - 1.

    Args:
      work: Counts (n, features).
      latency_ms: Medians (n,), milliseconds.

    Returns:
      The model.

    Raises:
      BenchmarkError: If there are too few files, or a latency is no positive number.
    """
    measured = np.asarray(latency_ms, float)
    if len(measured) < _LEAST or len(measured) != len(work):
        raise errors.BenchmarkError("measured files", f"at least {_LEAST}", len(measured))
    if not (np.isfinite(measured).all() and (measured > 0).all()):
        raise errors.BenchmarkError("measured latencies", "positive numbers", measured.tolist())
    coefficients = _solve(work, measured)
    return LatencyModel(
        dict(zip(FEATURES, coefficients.tolist(), strict=True)),
        margin_of(leave_one_out(work, measured, range(len(measured))), measured),
    )


def leave_one_out(
    work: np.ndarray, latency_ms: Sequence[float] | np.ndarray, rows: Sequence[int]
) -> np.ndarray:
    """Predicts files by fits to all the others.

    Args:
      work: Counts (n, features).
      latency_ms: Medians (n,), milliseconds.
      rows: Which files, (m,).

    Returns:
      Their predictions (m,), milliseconds.
    """
    measured = np.asarray(latency_ms, float)
    others = [np.arange(len(measured)) != i for i in rows]
    return np.array(
        [work[i] @ _solve(work[o], measured[o]) for i, o in zip(rows, others, strict=True)]
    )


def margin_of(predicted: np.ndarray, measured: np.ndarray) -> float:
    """The half-width that covers `COVERAGE` of new files, given predictions of unseen ones.

    With too few files for that rank, it is the worst of them.
    """
    with np.errstate(divide="ignore"):
        deviations = np.sort(np.maximum(predicted / measured, measured / predicted) - 1)
    rank = min(math.ceil(COVERAGE * (len(deviations) + 1)), len(deviations))
    return float(min(deviations[rank - 1], 1e6))  # a prediction of 0 is off without bound


def errors_of(
    predicted: Sequence[float] | np.ndarray, measured: Sequence[float] | np.ndarray
) -> HeldOut:
    """Sums up how far predictions are from measurements.

    Args:
      predicted: Milliseconds (n,).
      measured: Milliseconds (n,).

    Returns:
      The relative errors.

    Raises:
      BenchmarkError: If there is nothing to compare.
    """
    if not len(measured):
        raise errors.BenchmarkError("held-out files", "at least one", "none")
    deviations = np.abs(np.asarray(predicted, float) / np.asarray(measured, float) - 1)
    return HeldOut(
        n=len(deviations),
        median=float(np.median(deviations)),
        p90=float(np.percentile(deviations, 90)),
        worst=float(deviations.max()),
    )


@dataclasses.dataclass(frozen=True)
class SizeModel:
    """Bytes of a file, linear in what it stores; coefficients in the order of `work.STORED`."""

    coefficients: tuple[float, ...]

    def predict(self, contents: np.ndarray) -> np.ndarray:
        """Returns bytes (n,) for contents (n, features), see `work.contents_matrix`."""
        return contents @ np.array(self.coefficients)


def fit_size(contents: np.ndarray, size_bytes: Sequence[int]) -> SizeModel:
    """Fits the size model by least squares on relative errors.

    Args:
      contents: What each file stores (n, features).
      size_bytes: Their sizes (n,).

    Returns:
      The model: exact up to alignment, for a file's size has no noise.
    """
    sizes = np.asarray(size_bytes, float)
    scale = np.maximum(np.abs(contents).max(axis=0), 1.0)
    found = np.linalg.lstsq(contents / scale / sizes[:, None], np.ones(len(sizes)), rcond=None)[0]
    return SizeModel(tuple((found / scale).tolist()))


def _solve(work: np.ndarray, measured: np.ndarray) -> np.ndarray:
    rows = work / measured[:, None]
    scale = np.linalg.norm(rows, axis=0)
    scale[scale == 0] = 1.0  # nothing measured has any of it
    rows = rows / scale
    weights = np.ones(len(rows))
    found = np.zeros(rows.shape[1])
    for _ in range(_ROUNDS):
        found, _ = scipy.optimize.nnls(rows * weights[:, None], weights)
        deviations = np.abs(rows @ found - 1)
        usual = 1.4826 * np.median(deviations)  # the standard deviation, were they normal
        if usual < 1e-9:
            break
        weights = np.sqrt(np.minimum(1, _HUBER * usual / np.maximum(deviations, 1e-12)))
    return found / scale
