"""What a file promises of a large model: how often it answers otherwise, over all requests."""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.manifest.confidence import ModelAgreement

LEVEL = 0.9  # of the guarantee


def allowed(sure: int, max_error: float) -> int:
    """The most wrong ones of some sure answers with which a promise passes; -1 for not even 0."""
    wrong = np.arange(math.ceil(sure * max_error) + 1)
    return int(np.sum(scipy.special.bdtr(wrong, sure, max_error) <= 1 - LEVEL)) - 1


def share_interval(count: int, total: int) -> tuple[float, float]:
    """The exact 95% interval of Clopper and Pearson of a share, ``count / total``; total > 0."""
    low = scipy.special.betaincinv(count, total - count + 1, 0.025) if count else 0.0
    high = scipy.special.betaincinv(count + 1, total - count, 0.975) if count < total else 1.0
    return float(low), float(high)


def find_agreement(
    confidence: np.ndarray,
    agrees: np.ndarray,
    max_disagreement: float,
    *,
    least: float = 0.0,
    counts: np.ndarray | None = None,
) -> ModelAgreement:
    """Finds the lowest threshold with which few requests get a sure answer unlike a large model's.

    An answer is sure if its confidence is above the threshold t. With a probability of at least
    90% over the drawing of the n rows, for a new request that is drawn like them::

      P(confidence > t and answered otherwise) <= max_disagreement

    over *all* requests, sure or not. t is the lowest threshold above which at most k of the n rows
    are answered otherwise, with the largest k for which ``P(Bin(n, max_disagreement) <= k) <=
    0.1``; 2% takes 114 rows, 1% 230. That t is chosen on the same rows costs nothing, since the
    risk falls as t rises: a t whose risk is too large lies below all thresholds that keep the
    level, so that at most k rows at or above the lowest of these, whose number is binomial with a
    probability of `max_disagreement` or more, are answered otherwise; the probability of that is
    0.1 at most. One test is enough, where `find_promise`, whose share of the sure answers may rise
    and fall with t, tests a sequence. Each level holds singly. The rows may not have chosen
    anything else.

    Args:
      confidence: float (n,), n > 0; 0 where an answer is never sure.
      agrees: bool (n,), whether the answer is the large model's; not where that had none.
      max_disagreement: A share of all requests, between 0 and 1.
      least: A threshold that is not gone below.
      counts: float (n,), how often each row was requested, for `ModelAgreement.requests`; None
        where that is not known. They change neither the threshold nor the guarantee.

    Returns:
      The agreement; without a threshold where n is too small or nothing would be sure.

    Raises:
      ShapeError: If the shapes do not fit.

    Examples:
      >>> found = analysis.find_agreement(np.linspace(0.5, 1, 200), np.arange(200) > 99, 0.02)
      >>> found.coverage, found.disagreement
      (0.505, 0.005)

    Reference: Bates et al. 2021, Distribution-Free, Risk-Controlling Prediction Sets, arXiv
    2101.02703, theorem 1, with the exact binomial bound for its upper confidence bound; the loss is
    monotone as in Angelopoulos et al. 2022, Conformal Risk Control, arXiv 2208.02814, which bounds
    its mean over draws and not, as here, its value in nine of ten.
    """
    confidence, agrees = np.asarray(confidence, np.float64), np.asarray(agrees, bool)
    if confidence.ndim != 1 or not len(confidence) or agrees.shape != confidence.shape:
        raise errors.ShapeError(
            "confidence and agrees", "shape (n,) each, n > 0", f"{confidence.shape}, {agrees.shape}"
        )
    num_rows, most = len(confidence), allowed(len(confidence), max_disagreement)
    # After all that are answered otherwise the least that was seen: nothing is known below.
    steps = np.append(np.sort(confidence[~agrees])[::-1], np.nextafter(confidence.min(), 0.0))
    threshold = max(float(steps[min(most, len(steps) - 1)]), least) if most >= 0 else 1.0
    sure = confidence > threshold
    if not sure.any():
        needed = math.ceil(scipy.special.bdtrin(most + 1, 1 - LEVEL, max_disagreement))
        return ModelAgreement(max_disagreement=max_disagreement, rows=num_rows, rows_needed=needed)
    return ModelAgreement(
        max_disagreement=max_disagreement,
        rows=num_rows,
        threshold=threshold,
        coverage=float(sure.mean()),
        disagreement=float((sure & ~agrees).mean()),
        requests=None if counts is None else float(np.average(sure, weights=counts)),
    )
