import itertools

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


MARKS = ["|", "/", " / ", ";", "; ", "&", " + ", " - ", ", ", " and ", "||", "\u3001", "\uff0c"]


@pytest.mark.parametrize("mark", MARKS)
def test_names_that_few_parts_make_are_refused_with_the_row(mark):
    moods = ("anger", "hope", "joy", "love")
    ordered = [mark.join(pair) for pair in itertools.combinations(moods, 2)]
    swapped = ["joy", *map(mark.join, [("anger", "hope"), ("love", "fear"), ("hope", "anger")])]
    for cells in (ordered, swapped, [*ordered[:2], "joy", ordered[3]]):
        for kind in (None, "multi_label")[: 1 + (mark != ", ")]:  # which is the usual one
            with pytest.raises(errors.ConfigError, match=r"^line [01], --kind: .*classification"):
                judge(cells * 5, kind)
        assert judge(cells * 5, "classification")[0] == cells * 5
    assert judge(ordered * 5, "multi_label", mark.strip())[1].separator == mark.strip()


@pytest.mark.parametrize(
    "names",
    [
        ["rock & roll", "jazz", "blues & soul"],
        ["a/b testing", "operations", "ci/cd"],
        ["yes|no", "maybe"],
        ["New York", "New York City", "red", "red wine"],
        ["alarm/set", "alarm/query", "clock/set", "clock/query", "set/volume"],
        ["en-de", "de-en", "en-fr", "fr-en"],
        ["1/3", "2/3", "3/3"],
        ["yes/no", "no/yes", "no/no", "yes/yes"],
        ["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other"],
        ["10 - 20", "20 - 30", "30 - 40"],
        ["[spam]", "(1)", "ham"],
    ],
    ids=str,
)
def test_names_with_marks_that_do_not_make_one_another_are_classes(names):
    assert judge(names * 10)[1].kind == "classification"


@pytest.mark.parametrize(
    "cell",
    [
        '{"choices": ["anger", "joy"]}',
        "{'choices': ['anger', 'joy']}",
        '[{"label": "joy"}]',
        "['anger' 'joy']",
        '["anger", "joy"]',
    ],
)
def test_a_structured_cell_among_names_is_refused_with_the_row(cell):
    for kind in (None, "multi_label"):
        with pytest.raises(errors.DataError, match=r"^line 2: expected a list .*classification"):
            judge(["joy", "love", cell] * 5, kind)
    assert judge(["joy", "love", cell] * 5, "classification")[0][2] == cell
