import pytest

from tfdistill import errors
from tfdistill.tasks import label_cells, label_kinds, label_rules, tables

LIST = tables.LIST_MARK


def judge(cells, kind=None, separator=None):
    return label_cells.judge(cells, [f"line {i}" for i in range(len(cells))], kind, separator)


@pytest.mark.parametrize(
    ("cell", "separator", "names"),
    [
        ("joy;love;", ";", ["joy", "love"]),
        ("joy; ", ";", ["joy"]),
        ("|joy|love|", "|", ["joy", "love"]),
        ("#joy #love", "#", ["joy", "love"]),
        ("joy;;love", ";", ["joy", "", "love"]),  # which the rules refuse
        (";", ";", [""]),
        (" ", ";", []),
    ],
)
def test_a_separator_may_stand_at_the_ends_of_a_cell(cell, separator, names):
    assert label_kinds.names_in(cell, separator) == names


def test_a_form_with_several_answers_is_recognised():
    cells, judged = judge(["joy;", "love;", "joy;love;"] * 5)
    assert (judged.kind, judged.separator) == ("multi_label", ";")
    assert label_kinds.names_in(cells[2], judged.separator) == ["joy", "love"]


def test_one_answer_of_such_a_form_in_each_row_is_asked_for():
    with pytest.raises(errors.DataError, match=r"received 'joy;'.*--label-separator ';'"):
        judge(["joy;", "love;"] * 5)
    assert judge(["joy;", "love;"] * 5, "multi_label", ";")[1].kind == "multi_label"
    assert judge(["a;", "b"] * 5)[1].kind == "classification"  # a name


def test_lists_of_one_label_are_classes():
    cells, judged = judge([f"joy{LIST}", f"love{LIST}"] * 5)
    assert (cells[:2], judged.kind) == (["joy", "love"], "classification")
    assert judge([f"joy{LIST}"] * 2, "classification")[0] == ["joy", "joy"]
    assert judge(["['joy']", "['love']"])[0] == ["joy", "love"]
    assert judge([f"joy{LIST}"] * 2, "multi_label")[0] == [f"joy{LIST}"] * 2
    assert judge([f"joy{LIST}", f"joy{LIST}love{LIST}"])[1].kind == "multi_label"
    assert judge([f"joy{LIST}", "", f"love{LIST}"])[1].kind == "multi_label"  # [] is none of them
    with pytest.raises(errors.DataError, match="a list of labels"):
        judge([f"joy{LIST}", "love"])
    with pytest.raises(errors.DataError, match="one label, received the list"):
        judge([f"joy{LIST}", f"joy{LIST}love{LIST}"], "classification")


def test_of_many_names_each_is_not_compared_with_all():
    class Names(list):
        looked_at = 0

        def __iter__(self):
            Names.looked_at += 1
            return super().__iter__()

    names = Names(f"name {index}" for index in range(300))
    assert all(rule.fault(name, names) == "" for rule in label_rules.RULES for name in names)
    assert Names.looked_at <= 2 * len(names)  # the marks around them and behind them: to the first
    assert label_rules.RULES[0].fault("nan", names)


def test_a_separator_of_no_character_is_refused():
    with pytest.raises(errors.ConfigError, match="at least one character"):
        label_cells.judge(["a|b", "a"], ["line 2", "line 3"], "multi_label", "")
