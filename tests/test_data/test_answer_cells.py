import pytest

from tfdistill import errors
from tfdistill.tasks import answer_cells

LABELS = ("billing", "US", "us", "not sure yet")
READ = {
    "billing": 0,
    " Billing. ": 0,
    "“billing”": 0,
    '"billing"': 0,
    '{"label": "BILLING", "reason": "a bill"}': 0,
    '{"intent": "billing."}': 0,
    '["billing"]': 0,
    "US": 1,
    "us.": 2,
    "Us": None,  # two labels differ in case alone
    "Not  sure yet": 3,
    "I don't know.": answer_cells.ABSTAINED,
    "": answer_cells.UNANSWERED,
    "billing, I think": None,
    '{"label": "billing", "label2": "us"}': 0,
    '{"a": "billing", "b": "us"}': None,
    '["billing", "us"]': None,
    "not billing": None,
}


def test_an_answer_is_a_label_where_only_quotes_json_case_or_a_full_stop_differ():
    cells = [*READ, None, {"label": "billing"}, ["us"], float("nan")]
    expected = [*READ.values(), -1, 0, 2, -1]
    # Enough that can be read: what cannot is then below 5%.
    padded = cells + ["billing"] * 200
    where = [f"x.csv, line {row + 2}, column 'a'" for row in range(len(padded))]
    classes, note = answer_cells.read_answers(padded, LABELS, where, abstains="I don't know")
    assert classes[: len(cells)].tolist() == [-1 if e is None else e for e in expected]
    assert "'not billing' 1 times, first in line 19" in note
    assert "5 of 219" in note
    few = cells + ["billing"] * 60
    with pytest.raises(
        errors.DataError, match=r"x.csv, answers: .* 5 of 79 that are no label: .*line 11"
    ):
        answer_cells.read_answers(few, LABELS, where, abstains="I don't know")
