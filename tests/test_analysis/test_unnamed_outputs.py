"""Outputs without names are matched to labels by answers, or refused."""

import numpy as np
import pytest

from tfdistill import analysis, errors

ORDER = [2, 0, 3, 1]


def answered(num_rows, share_right, seed=0):
    """(answers, gold) of 4 classes; output ORDER[i] answers for label i."""
    draw = np.random.default_rng(seed)
    gold = draw.integers(4, size=num_rows)
    shown = np.where(draw.random(num_rows) < share_right, gold, draw.integers(4, size=num_rows))
    return np.eye(4, dtype=bool)[np.array(ORDER)[shown]], np.eye(4, dtype=bool)[gold]


def test_the_match_is_the_one_that_the_answers_were_made_with():
    answers, gold = answered(200, 0.7)
    match = analysis.match_outputs(answers, gold)
    assert match.order == ORDER
    right = (answers[:, ORDER] == gold).all(axis=1).mean()
    assert match.right == right > match.next_right


def test_several_labels_a_row_are_matched_by_all_their_answers():
    gold = np.random.default_rng(1).random((60, 4)) < [0.5, 0.2, 0.1, 0.3]
    answers = np.empty_like(gold)
    answers[:, ORDER] = gold
    assert analysis.match_outputs(answers, gold).order == ORDER


@pytest.mark.parametrize(
    ("num_rows", "share_right", "only"),
    [(200, 0.0, 4), (4, 1.0, 4), (200, 1.0, 2)],  # no answers, few rows, labels without rows
)
def test_a_match_that_another_equals_is_refused(num_rows, share_right, only):
    answers, gold = answered(num_rows, share_right)
    rows = gold.argmax(axis=1) < only
    with pytest.raises(errors.TeacherError, match=r"in one way, received .* by another"):
        analysis.match_outputs(answers[rows], gold[rows])


def test_a_match_with_fewer_right_rows_than_another_is_refused():
    # By single answers the outputs are labels 2, 1, 0; as they stand 30 more rows are whole.
    rows = [15, 30, 40]
    answers = np.repeat(np.array([[1, 0, 1], [0, 0, 1], [1, 1, 0]], bool), rows, axis=0)
    gold = np.repeat(np.array([[1, 0, 1], [0, 0, 1], [0, 0, 1]], bool), rows, axis=0)
    with pytest.raises(errors.TeacherError, match=r"17\.6% .* 52\.9% by another"):
        analysis.match_outputs(answers, gold)
