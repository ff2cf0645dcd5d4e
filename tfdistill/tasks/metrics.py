"""Task metrics over a whole evaluation set; all of them are "higher is better"."""

from __future__ import annotations

import numpy as np

from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.spec import TaskSpec


def score(spec: TaskSpec, logits: np.ndarray, encoded: EncodedExamples) -> dict[str, float]:
    """Computes the metrics of any task from a model's answers to encoded examples.

    Words with tags: the rows of a sentence are put together again, and each word's answer is that
    of its first piece; see `tags.tag_metrics`. Questions: see `spans.score`. Vectors of pairs: see
    `pair_metrics`. Everything else: see `compute_metrics`.

    Args:
      spec: The task.
      logits: float (n, num_labels); of words and spans (tokens, num_labels); of an embedding
        (n, width), also a sparse matrix.
      encoded: The examples, with labels; of an embedding pairs, one text after the other.

    Returns:
      Metric name -> value, in the order of ``spec.metrics``.

    Raises:
      ShapeError: If the shapes do not fit the task or each other.
      DataError: If there are no labels, or a logit is not finite.
    """
    return spec.traits.score(spec, logits, encoded)


def compute_metrics(spec: TaskSpec, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Computes the metrics of a task with one row of logits for each example.

    accuracy: the share of examples whose largest logit is the label's. f1: ``2PR / (P + R)`` of
    the positive class (see `TaskSpec.positive_label`), or its unweighted mean over more than two
    classes; 0 for a class that is neither there nor predicted. macro_f1: its unweighted mean over
    all classes, also over two. auc: the area under the ROC curve
    of the positive class's probability, which is the share of pairs of a positive and a negative
    example in which the positive one scores higher, ties counting half; 0.5 where one of both is
    missing. matthews, pearson, spearman: Matthews correlation, and correlation of predicted and
    gold numbers; 0 where it is not defined because all predictions (or all labels) are the same.

    Several labels, a class being predicted where its logit is above 0: micro_f1 counts all
    decisions together, macro_f1 is the unweighted mean over classes (0 for a class that is neither
    there nor predicted), exact_match the share of examples with every class right.

    Args:
      spec: A task of classification, regression or several labels.
      logits: float (n, num_labels); for a regression (n, 1) or (n,).
      labels: int (n,) class indices, float (n,), or (n, num_labels) of 0 and 1.

    Returns:
      Metric name -> value, in the order of ``spec.metrics``.

    Raises:
      ShapeError: If the shapes do not fit the task or each other.
      DataError: If a logit is not finite.
    """
    return spec.traits.compute_metrics(spec, logits, labels)
