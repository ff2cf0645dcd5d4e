import numpy as np
import pytest

from tfdistill import analysis, errors

GOLD = np.array([0, 0, 1, 1, 2])
ANSWERS = np.array([0, 1, 1, 1, 0])


def test_scores_of_each_class_equal_their_formula_and_confusion_has_labels_by_row():
    expected = [[1, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert analysis.confusion_matrix(GOLD, ANSWERS, 4).tolist() == expected
    scores = analysis.class_scores(GOLD, ANSWERS, ("a", "b", "c", "d"))
    assert [s.label for s in scores] == ["a", "b", "c", "d"]
    assert [s.precision for s in scores] == pytest.approx([1 / 2, 2 / 3, 0, 0])
    assert [s.recall for s in scores] == pytest.approx([1 / 2, 1, 0, 0])
    assert [s.f1 for s in scores] == pytest.approx([1 / 2, 4 / 5, 0, 0])
    assert [s.num_examples for s in scores] == [2, 2, 1, 0]


def test_answers_that_were_right_and_became_wrong_are_changed_and_the_surest_comes_first():
    before, after = np.array([0, 0, 0, 1, 2]), np.array([0, 1, 1, 0, 2])
    assert analysis.changed_examples(GOLD, before, after).tolist() == [1, 3]
    logits = np.zeros((5, 3))
    logits[1, 1], logits[3, 0] = 1.0, 5.0
    assert analysis.changed_examples(GOLD, before, after, logits=logits).tolist() == [3, 1]
    with pytest.raises(errors.ShapeError, match="two models"):
        analysis.changed_examples(GOLD, before[:3], after)
