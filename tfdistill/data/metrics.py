"""Task metrics over a whole evaluation set; all of them are "higher is better"."""

from __future__ import annotations

import numpy as np

from tfdistill import errors
from tfdistill.data.tasks import TaskSpec


def compute_metrics(spec: TaskSpec, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Computes the metrics of a task.

    accuracy: the share of examples whose largest logit is the label's. f1: ``2PR / (P + R)`` of
    the positive class (see `TaskSpec.positive_label`), or its unweighted mean over more than two
    classes. matthews: Matthews correlation. pearson, spearman: correlation of predicted and gold
    numbers; 0 where it is not defined because all predictions (or all labels) are the same.

    Args:
      spec: The task.
      logits: float (n, num_labels); for a regression (n, 1) or (n,).
      labels: int (n,) class indices, or float (n,).

    Returns:
      Metric name -> value, in the order of ``spec.metrics``.

    Raises:
      ShapeError: If the shapes do not fit the task or each other.
      DataError: If a logit is not finite.
    """
    scores = np.asarray(logits, np.float64)
    gold = np.asarray(labels)
    if spec.regression and scores.ndim == 1:
        scores = scores[:, None]
    expected = (len(gold), spec.num_labels)
    if gold.ndim != 1 or not len(gold) or scores.shape != expected:
        raise errors.ShapeError(
            errors.explain(
                f"logits and labels of task {spec.name!r}",
                f"shapes (n, {spec.num_labels}) and (n,), n > 0",
                f"{scores.shape} and {gold.shape}",
            )
        )
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise errors.DataError(
            errors.explain(f"logits of example {row}", "finite numbers", scores[row].tolist())
        )
    predictions = scores[:, 0] if spec.regression else scores.argmax(axis=1)
    return {name: _metric(name, spec, predictions, gold) for name in spec.metrics}


def _metric(name: str, spec: TaskSpec, predictions: np.ndarray, gold: np.ndarray) -> float:
    import scipy.stats
    import sklearn.metrics

    if name == "accuracy":
        return float(np.mean(predictions == gold))
    if name == "f1":
        if spec.num_labels > 2 and spec.positive_label is None:
            classes, average = list(range(spec.num_labels)), "macro"
        else:
            label = spec.labels[1] if spec.positive_label is None else spec.positive_label
            classes, average = [spec.labels.index(label)], "micro"
        # The micro average over one class is that class's own F1.
        scores = sklearn.metrics.precision_recall_fscore_support(
            gold,
            predictions,
            labels=classes,
            average=average,
            zero_division=0.0,  # pyright: ignore
        )
        return float(scores[2])
    if name == "matthews":
        return float(sklearn.metrics.matthews_corrcoef(gold, predictions))
    if np.ptp(predictions) == 0 or np.ptp(gold) == 0:
        return 0.0
    correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[name]
    return float(correlation(predictions, gold).statistic)
