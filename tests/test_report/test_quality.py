import dataclasses

import numpy as np
import pytest
from test_report.fake_answers import GOLD, TASK, logits_of

from tfdistill.report import answer_sides
from tfdistill.report.sections import quality


def test_equal_right_answers_do_not_hide_a_difference_of_another_metric():
    task = dataclasses.replace(TASK, metrics=("auc",), primary_metric="auc")
    teacher = logits_of(range(8))
    sides = {"teacher": teacher, "student": teacher * np.linspace(0.1, 1, 40)[:, None]}

    def shown(**changed):
        whole = answer_sides.AnswerSides(task, GOLD, {**sides, **changed}, ())
        (row,) = quality.differences(whole).rows
        return whole.scores, [cell.text for cell in row.cells], row.cells[0].value

    scores, (written, lost, gained, *_), difference = shown()
    assert (lost, gained) == ("0", "0") and scores["student"] - scores["teacher"] > 0.04
    assert difference == pytest.approx(scores["student"] - scores["teacher"])
    assert written == f"+{difference:.3f}"
    assert shown(student=teacher)[1][:3] == ["none", "0", "0"]
