"""Outputs row by row: to which example a row belongs, and what is decided from it.

A classifier of whole texts gives a row of outputs for each example, a model of tokens or spans one
for each token, padding left out, in the order of `EncodedExamples.ids`.
"""

from __future__ import annotations

import numpy as np

from tfdistill.data.conll import UNLABELLED
from tfdistill.data.encoded import EncodedExamples, spans
from tfdistill.data.tasks import TaskSpec


def rows_of(encoded: EncodedExamples, head: str, indices: np.ndarray) -> np.ndarray:
    """Finds the rows of outputs that belong to some examples.

    Args:
      encoded: All examples.
      head: "sequence", "token" or "span", see `models.head_of`.
      indices: int (m,), the examples.

    Returns:
      int64 (rows,), in the order of `indices`.
    """
    index = np.asarray(indices, np.int64)
    if head == "sequence":
        return index
    return spans(encoded.offsets[index], encoded.lengths[index])


def decisions(
    outputs: np.ndarray, encoded: EncodedExamples, head: str, task: TaskSpec | None = None
) -> np.ndarray | None:
    """Says what a program would decide from the outputs.

    Args:
      outputs: float (rows, width): logits or probabilities.
      encoded: The examples that they are of.
      head: "sequence", "token" or "span".
      task: The task, which knows whether several labels hold at once; None: only one.

    Returns:
      What is compared one by one: of a text its class, int (n,), or for several labels at once
      whether each logit is above 0, bool (n, classes); of tokens the class of each, of those alone
      that have a label where there are labels, int (m,); of a span the most probable first and last
      token of each window, int (n, 2). None for a regression.
    """
    if head == "span":
        parts = np.split(outputs, encoded.offsets[1:-1])
        return np.stack([part.argmax(axis=0) for part in parts])
    if head == "token":
        labels = encoded.labels
        asked = slice(None) if labels is None else labels != UNLABELLED
        return outputs[asked].argmax(axis=1)
    if outputs.shape[1] == 1:
        return None
    if task is not None and task.kind == "multi_label":
        return outputs > 0
    return outputs.argmax(axis=1)


def num_scored(encoded: EncodedExamples) -> int:
    """Counts what a metric is a mean over: texts, however many rows each has."""
    return len(encoded) if encoded.sources is None else len(np.unique(encoded.sources))
