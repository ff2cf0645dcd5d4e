"""Which output of a classifier answers for which label, where no name says it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tfdistill import errors

_LEVEL = 0.01  # of the test between the best match and the next


class OutputMatch(NamedTuple):
    """Outputs matched to labels.

    Attributes:
      order: The index of the output for each label.
      right: The share of rows that the outputs answer rightly by this match.
      next_right: The same by the next best match.
    """

    order: list[int]
    right: float
    next_right: float


def match_outputs(answers: np.ndarray, gold: np.ndarray) -> OutputMatch:
    """Matches outputs to labels by the answers to labelled rows.

    The match has the most cells in which the answer is the label's value (a linear assignment);
    of classes that exclude each other that is the match with the most right rows. The next best is
    the best of those that differ from it.

    Args:
      answers: Whether each output applies to each row, bool (rows, outputs).
      gold: Whether each label does, bool (rows, labels); as many.

    Raises:
      TeacherError: If the next best match may be as good: p >= 0.01 in the exact McNemar test of
        the rows that one of the two has right.
    """
    import scipy.optimize  # 20 MB, which few commands need
    import scipy.stats

    ones, wanted = answers.astype(np.float64), gold.astype(np.float64)
    cells = ones.T @ wanted + (1 - ones).T @ (1 - wanted)  # (outputs, labels)

    def best(scores: np.ndarray) -> list[int]:
        outputs, labels = scipy.optimize.linear_sum_assignment(scores, maximize=True)
        return outputs[np.argsort(labels)].tolist()

    def without(output: int, label: int) -> list[int]:
        scores = cells.copy()
        scores[output, label] = -cells.sum()
        return best(scores)

    def right_rows(order: list[int]) -> np.ndarray:
        return (answers[:, order] == gold).all(axis=1)

    labels = np.arange(gold.shape[1])
    order = best(cells)
    others = [without(output, label) for label, output in enumerate(order)]
    rival = max(others, key=lambda other: cells[other, labels].sum())
    right, next_right = right_rows(order), right_rows(rival)
    lost, gained = int((next_right & ~right).sum()), int((right & ~next_right).sum())
    if lost >= gained or scipy.stats.binomtest(lost, lost + gained).pvalue >= _LEVEL:
        raise errors.TeacherError(
            "outputs without names (LABEL_0, ...)",
            "answers that fit the labels of the rows in one way",
            f"{right.mean():.1%} of {len(gold)} rows right by the best match, "
            f"{next_right.mean():.1%} by another",
            "Write the names into id2label of the model's config.json, in the order of its "
            "outputs; or give more rows, or those that it was trained for.",
        )
    return OutputMatch(order, float(right.mean()), float(next_right.mean()))
