"""Paired tests of whether two models differ on the examples that both answered."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.tasks.spec import TaskSpec

_LEVEL = 0.05
_FEWEST = 100  # examples of an interval
TELLING = 0.02  # of a metric: an interval that reaches further down shows no equality


@dataclasses.dataclass(frozen=True)
class PairedDifference:
    """The difference of two models' primary metric on the same examples.

    Attributes:
      before: The metric of the first model.
      after: That of the second one.
      interval: 95% bootstrap interval of ``after - before``.
      lost: Examples that only the first one has right; None for a regression or several labels.
      gained: Examples that only the second one has right, or None.
      p_value: Of the exact McNemar test of `lost` against `gained`, where accuracy is the metric.
    """

    before: float
    after: float
    interval: tuple[float, float]
    lost: int | None = None
    gained: int | None = None
    p_value: float | None = None

    @property
    def difference(self) -> float:
        """``after - before``."""
        return self.after - self.before

    @property
    def is_none(self) -> bool:
        """Whether no example is lost or gained, and the metric of no resample differs either."""
        return self.lost == self.gained == 0 and not any((self.difference, *self.interval))

    @property
    def is_clear(self) -> bool:
        """Whether the difference is beyond chance: p < 0.05, or the interval excludes 0."""
        if self.p_value is not None:
            return self.p_value < _LEVEL
        return not self.interval[0] <= 0 <= self.interval[1]

    @property
    def is_open(self) -> bool:
        """Whether it may be chance, and may as well be a loss of more than 2 points."""
        return not self.is_clear and self.interval[0] < -TELLING


def resampled_scores(
    task: TaskSpec, gold: np.ndarray, logits: np.ndarray, *, num_resamples: int = 500
) -> np.ndarray:
    """Scores a model on bootstrap resamples of its examples.

    The resamples (with replacement, seed 0) depend on the number of examples alone: those of two
    models are paired.

    Args:
      task: Names the primary metric.
      gold: Labels, as for `TaskSpec.compute_metrics`.
      logits: Of the model, float (n, num_labels).
      num_resamples: Resamples.

    Returns:
      The primary metric on each, float (num_resamples,).
    """
    draws = np.random.default_rng(0).integers(len(gold), size=(num_resamples, len(gold)))
    return np.array([_score(task, gold[rows], logits[rows]) for rows in draws])


def paired_difference(
    task: TaskSpec,
    gold: np.ndarray,
    before: np.ndarray,
    after: np.ndarray,
    *,
    num_resamples: int = 500,
    resampled: tuple[np.ndarray, np.ndarray] | None = None,
) -> PairedDifference:
    """Compares two models on the examples that both answered.

    The interval is the percentile bootstrap over examples (drawn with replacement, seed 0).
    McNemar: of b examples that only the first model has right and c that only the second has, the
    two-sided binomial test of b successes in b + c trials at 1/2. The bootstrap alone can exclude 0
    where the exact test does not, so with accuracy the interval also holds
    ``(b + c)(1 - 2 t) / n`` for each t of the 95% Clopper-Pearson interval of ``b / (b + c)``,
    which has 0 in it exactly where p >= 0.05.

    Args:
      task: Names the primary metric.
      gold: Labels, as for `TaskSpec.compute_metrics`.
      before: Logits of the first model, float (n, num_labels).
      after: Logits of the second one.
      num_resamples: Resamples of the bootstrap.
      resampled: `resampled_scores` of both, where they are known; accuracy does without.

    Raises:
      ShapeError: If the shapes differ.
    """
    import scipy.stats  # 20 MB, which few commands need

    if before.shape != after.shape or len(before) != len(gold):
        raise errors.ShapeError("logits of two models", before.shape, after.shape)
    first, second = (_score(task, gold, logits) for logits in (before, after))
    lost = gained = p_value = None
    exact = np.zeros(0)
    if task.traits.one_class:
        right = (before.argmax(axis=1) == gold), (after.argmax(axis=1) == gold)
        lost, gained = int((right[0] & ~right[1]).sum()), int((right[1] & ~right[0]).sum())
    if lost is not None and gained is not None and task.primary_metric == "accuracy":
        changed, n = lost + gained, len(gold)
        test = scipy.stats.binomtest(lost, changed) if changed else None
        p_value = 1.0 if test is None else float(test.pvalue)
        # A resample is a draw of how many examples are lost, gained and neither.
        shares = np.array([lost, gained, n - changed]) / n
        counts = np.random.default_rng(0).multinomial(
            n, shares, size=num_resamples
        )  # (resamples, 3)
        differences = (counts[:, 1] - counts[:, 0]) / n
        if test is not None:
            shares_lost = np.array(test.proportion_ci(1 - _LEVEL))
            exact = changed * (1 - 2 * shares_lost) / n
    else:
        one, other = resampled or (
            resampled_scores(task, gold, logits, num_resamples=num_resamples)
            for logits in (before, after)
        )
        differences = other - one
    ends = np.concatenate([np.percentile(differences, [2.5, 97.5]), exact])
    return PairedDifference(
        first, second, (float(ends.min()), float(ends.max())), lost, gained, p_value
    )


def least_change(task: TaskSpec, gold: np.ndarray, before: np.ndarray, after: np.ndarray) -> float:
    """The lower end of the 95% interval of what a change of a model changes of its metric.

    Of one class of several the change is that of the probability p of the right one, over n
    examples, mean(d) - 1.96 sd(d) / sqrt(n) with d = p_after - p_before: of two models that are
    nearly one, some hundred examples tell it to half a point, where their few other answers tell
    next to nothing. Elsewhere it is that of `paired_difference`. Of fewer than 100 examples it is
    minus infinity: that of rare errors is not known.

    Shapes: `gold` (n,), logits `before` and `after` (n, num_labels).
    """
    if len(gold) < _FEWEST:
        return -math.inf
    if not task.traits.one_class:
        return paired_difference(task, gold, before, after).interval[0]
    rows = np.arange(len(gold))
    one, other = (scipy.special.softmax(logits, axis=1)[rows, gold] for logits in (before, after))
    changes = other - one
    return float(changes.mean() - 1.96 * changes.std(ddof=1) / math.sqrt(len(gold)))


def _score(task: TaskSpec, gold: np.ndarray, logits: np.ndarray) -> float:
    one_metric = dataclasses.replace(task, metrics=(task.primary_metric,))
    return one_metric.compute_metrics(logits, gold)[task.primary_metric]
