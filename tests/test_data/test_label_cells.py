"""Cells of labels: what they are recognised as, and what is refused with its row."""

import itertools

import pytest

from tfdistill import errors
from tfdistill.tasks import label_cells, label_kinds
from tfdistill.tasks.table_files import LIST_MARK as LIST
from tfdistill.tasks.table_files import NULL


def judge(cells, kind=None, separator=None):
    return label_cells.judge(cells, [f"line {i}" for i in range(len(cells))], kind, separator)


# Cells, the row at fault and a fact of the message; " / " in it: of either.
FORM, MISSING, PLACES = "cells of one form", "a label in every row", "names of labels"
UNSEEN, ONE_LINE = "that can be seen", "one line of text"
DECIMALS = [f"{n / 7:.2f}" for n in range(60)]
REFUSED = [
    (["a", "b", "NaN"], 2, f"{MISSING}, received 'NaN'"),
    (["a", "b", "null"], 2, MISSING),
    (["a", "b", "None"], 2, MISSING),
    (["a", "<NA>", "b"], 1, MISSING),
    (["NA", "anger", "joy"], 0, MISSING),
    (["a", "N/A"], 1, MISSING),
    (["a", "#REF!"], 1, MISSING),
    (["a", "", "b"], 1, "an empty cell"),
    (["a", "  ", "b"], 1, "an empty cell"),
    (["a", NULL], 1, "received null"),
    (["1", "2", "nan"], 2, MISSING),
    (["1.5", "2.25", "nan"], 2, MISSING),
    ([*DECIMALS, "nan"], 60, MISSING),
    (["a|b", "a", "b", "a|nan"], 3, MISSING),
    (["a,,b", "b", "a,b", "a"], 0, "an empty cell"),
    ([f"a{LIST}", f"{NULL}{LIST}"], 1, "received null"),
    (["a", "b", "a\u200b"], 2, f"{UNSEEN}.*U\\+200B"),
    (["a", "a\u200d"], 1, "U\\+200D"),
    (["a", "\ufeffb"], 1, "U\\+FEFF"),
    (["a", "po\u00adsitive"], 1, "U\\+00AD"),
    (["a", "a\u3164"], 1, f"{UNSEEN}.*U\\+3164"),
    (["a", "b\U000e0041"], 1, "U\\+E0041"),
    (["a", "b\vc"], 1, f"{ONE_LINE}.*VERTICAL TAB"),
    (["a", "b\x1bc"], 1, "U\\+001B"),
    (["a", "b\u2028c"], 1, f"{ONE_LINE}.*U\\+2028"),
    (["a", "t\ufffd"], 1, "U\\+FFFD"),
    ([" a", " b"], 0, "without blanks around"),
    (["a", "b ", "c"], 1, "without blanks around"),
    ([*map(str, range(1, 50)), "inf"], 49, f"{FORM}.*'inf' beside '1' in line 0"),
    (["0.5", "1.5", "-inf", "2.5"], 2, FORM),
    (["0.25", "5 stars", *DECIMALS], 1, f"{FORM}.*'5 stars' beside '0.25'"),
    ([*map(str, range(30)), "many"], 30, FORM),
    (["1,234", "999", "12,500"], 0, "marks between thousands"),
    (["1,234", "2,345"], 0, "marks between thousands"),
    (["1,234,567", "999", "1"], 0, FORM),
    (["1.234,5", "0,5", "7,25"], 0, f"{FORM}.*beside '0,5' in line 1"),
    (["1'234", "999", "2'000"], 0, FORM),
    (["7", "1\u00a0234"], 1, FORM),
    (["0.5", "1,5", "2,25"], 1, f"{FORM}.*'1,5' beside '0.5'"),
    (["[0, 1, 1]", "[1, 0, 0]"], 0, f"{PLACES}, received '0, 1, 1'"),
    ([f"0{LIST}1{LIST}", f"1{LIST}1{LIST}"], 0, PLACES),
    ([f"false{LIST}true{LIST}"] * 2, 0, PLACES),
    ([f"0.0{LIST}1.0{LIST}"] * 2, 0, PLACES),
    ([f"1{LIST}1{LIST}", f"0{LIST}"], 0, PLACES),
    (["[0.2, 0.8]", "[0.6, 0.4]"], 0, f"{PLACES}.*--answers"),
    ([f"a{LIST}", f"a{LIST}0.5{LIST}"], 1, "--answers"),
    (["a", "['a', 'b']", "b"], 1, f"{FORM}.*beside 'a' in line 0"),
    ([f"joy{LIST}", "love"], 1, f"{FORM}.*'love' beside 'joy'"),
    (["['a' 'b']", "['a']"], 0, "a list of labels in every row"),
    (["{'a': 1}", "['a']"], 0, "a list of labels in every row"),
]


@pytest.mark.parametrize(("cells", "row", "fact"), REFUSED, ids=repr)
def test_a_cell_that_cannot_be_meant_is_refused_with_its_row(cells, row, fact):
    with pytest.raises(errors.DataError, match=rf"(?s)^line {row}: .*{fact}"):
        judge(cells)


@pytest.mark.parametrize(
    "cell",
    [
        '{"choices": ["anger", "joy"]}',
        "{'choices': ['anger']}",
        '[{"label": "joy"}]',
        "['anger' 'joy']",
        '["anger", "joy"]',
    ],
)
def test_a_structured_cell_among_names_is_a_name_only_on_request(cell):
    for kind in (None, "multi_label"):
        with pytest.raises(errors.DataError, match=rf"^line 2: .*{FORM}.*kind=.classification"):
            judge(["joy", "love", cell] * 5, kind)
    assert judge(["joy", "love", cell] * 5, "classification")[0][2] == cell


SEVERAL = [f"joy{LIST}", f"joy{LIST}love{LIST}"]
RECOGNISED = [
    (["a", "b", "b"], "classification", ","),
    (["1", "2", "5"] * 9, "classification", ","),
    (["0.5", "1", "2"], "regression", ","),
    (["a", "b", "a|b"], "multi_label", "|"),
    (["a", "b", "a, b"], "multi_label", ","),
    (["a\nb", "a", "b"], "multi_label", "\n"),
    (["a & b", "a", "b"], "multi_label", "&"),
    (["joy;", "love;", "joy;love;"] * 5, "multi_label", ";"),
    (["('a', 'b')", "('a',)", "[]"], "multi_label", ","),
    (SEVERAL, "multi_label", ","),
    ([SEVERAL[0], ""], "multi_label", ","),  # [] is none of them
    ([f"0{LIST}", f"0{LIST}1{LIST}"], "multi_label", ","),
    (["Washington, DC", "Portland, OR", "Paris"], "classification", ","),
    (["none", "order"], "classification", ","),
    (["None", "Anger", "Joy"], "classification", ","),
    (["NA", "DE", "FR"], "classification", ","),
    (["1", "2", "other"], "classification", ","),
    (["+", "-", "neutral"], "classification", ","),
    (["5%", "10%"], "classification", ","),
    (["'a'", "'b'"], "classification", ","),
    (["a;", "b;"], "classification", ","),
    (["[spam]", "(1)", "ham"], "classification", ","),
    (["می‌شود", "نمی‌شود"], "classification", ","),
    (["👨‍👩‍👧", "👍"], "classification", ","),
    (["rock & roll", "jazz", "blues & soul"], "classification", ","),
    (["yes|no", "maybe"], "classification", ","),
    (["New York", "New York City", "red", "red wine"], "classification", ","),
    (["alarm/set", "alarm/query", "clock/set", "set/volume"], "classification", ","),
    (["en-de", "de-en", "en-fr", "fr-en"], "classification", ","),
    (["1/3", "2/3", "3/3"], "classification", ","),
    (["yes/no", "no/yes", "no/no", "yes/yes"], "classification", ","),
    (["Cause-Effect(e1,e2)", "Cause-Effect(e2,e1)", "Other"], "classification", ","),
]


@pytest.mark.parametrize(("cells", "kind", "separator"), RECOGNISED, ids=repr)
def test_what_is_plainly_meant_is_read(cells, kind, separator):
    assert judge(cells)[1][:2] == (kind, separator)


@pytest.mark.parametrize("cells", [["0,5", "1", "2,25"], ["0,125", "1,250", "3"]])
def test_decimal_commas_are_numbers(cells):
    read, judged = judge(cells)
    assert read == [cell.replace(",", ".") for cell in cells]
    assert judged.kind == "regression" and "decimal comma" in judged.why
    assert judge(cells, "classification")[0] == cells


WHOLE = r"data.kind: .*classification .* or regression"
# Cells, what the message says, the kind that makes them plain.
ASKED = [
    (list(map(str, range(21))), WHOLE, "regression"),
    ([f"{n}.0" for n in range(40)], WHOLE, "regression"),
    (["1", "2", "1,2"], r"^line 2, data.kind: .*decimal comma.*multi_label", "multi_label"),
    *((["red", f"red{mark}blue", "blue"], rf"^line 1, .*'red{mark}blue'", "classification")
      for mark in (" and ", "_", " - ", " ", "::")),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "told", "kind"), ASKED)
def test_what_may_be_meant_in_two_ways_is_asked_about(cells, told, kind):
    with pytest.raises(errors.ConfigError, match=told):
        judge(cells)
    assert judge(cells, kind)[1][:2] == (kind, ",")
    if told is WHOLE:
        assert judge(cells[:20])[1].kind == "classification"


MARKS = ["|", "/", " / ", ";", "; ", "&", " + ", " - ", ", ", " and ", "||", "\u3001", "\uff0c"]


@pytest.mark.parametrize("mark", MARKS)
def test_names_that_few_parts_make_are_refused_with_the_row(mark):
    moods = ("anger", "hope", "joy", "love")
    ordered = [mark.join(pair) for pair in itertools.combinations(moods, 2)]
    swapped = ["joy", *map(mark.join, [("anger", "hope"), ("love", "fear"), ("hope", "anger")])]
    for cells in (ordered, swapped, [*ordered[:2], "joy", ordered[3]]):
        for kind in (None, "multi_label")[: 1 + (mark != ", ")]:  # which is the usual one
            with pytest.raises(
                errors.ConfigError, match=r"^line [01], data.kind: .*classification"
            ):
                judge(cells * 5, kind)
        assert judge(cells * 5, "classification")[0] == cells * 5
    assert judge(ordered * 5, "multi_label", mark.strip())[1].separator == mark.strip()


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


def test_lists_of_one_label_are_classes_and_no_separator_is_refused():
    cells, judged = judge([f"joy{LIST}", f"love{LIST}"] * 5)
    assert (cells[:2], judged.kind) == (["joy", "love"], "classification")
    assert judge([f"joy{LIST}"] * 2, "classification")[0] == ["joy", "joy"]
    assert judge(["['joy']", "['love']"])[0] == ["joy", "love"]
    assert judge([f"joy{LIST}"] * 2, "multi_label")[0] == [f"joy{LIST}"] * 2
    assert judge([f"joy{LIST}", "love"], "multi_label")[0] == [f"joy{LIST}", "love"]
    with pytest.raises(errors.DataError, match="one label, received the list"):
        judge(SEVERAL, "classification")
    with pytest.raises(errors.ConfigError, match="at least one character"):
        judge(["a|b", "a"], "multi_label", "")


SAME = ["1 1.0", "10 0010", "+1 1", "-0 0", "1000 1e3", "\u22121 -1", "\uff11 1", "pos Pos",
        "true 1", "e\u0301 \u00e9", "\u2764 \u2764\ufe0f", ".5 0.50"]  # fmt: skip


def test_labels_are_the_same_to_a_person_by_their_form():
    for first, second in map(str.split, SAME):
        assert label_cells.same_label(first) == label_cells.same_label(second)
    assert label_cells.same_label(" a  b") == label_cells.same_label("A b\t")
    others = ["1", "-1", "1.5", "10", "a", "ab", "don't", "don\u2019t", "", "1" * 20, "1" * 19]
    assert len(set(map(label_cells.same_label, others))) == len(others)
