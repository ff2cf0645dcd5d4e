"""A teacher's answers in files: what they mean, which text each belongs to, what is refused."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import answer_logits, given_answers

TASK = tasks.TaskSpec("moods", "text", "mood", labels=("sad", "glad", "calm"))
PAIRS = dataclasses.replace(TASK, pair_column="other")
NUMBER = tasks.TaskSpec("likeness", "text", "score", kind="regression")
SEVERAL = tasks.TaskSpec("topics", "text", "topics", kind="multi_label", labels=("a", "b", "c"))


def table(tmp_path, header, *rows):
    path = tmp_path / "answers.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read(tmp_path, header, *rows, spec=TASK, **options):
    return given_answers.read_answers(table(tmp_path, header, *rows), spec, **options)


def row_of(found, *texts):
    return found.find([texts])[0]


@pytest.mark.parametrize(
    ("names", "spec"),
    [
        (("glad", "CALM", "sad"), TASK),
        (("LABEL_1", "LABEL_2", "LABEL_0"), TASK),
        (("1", "2", "0"), dataclasses.replace(TASK, label_values=("0", "1", "2"))),
    ],
)
def test_labels_are_matched_by_name_whatever_their_order(names, spec, tmp_path):
    header = ["text", *(f"logits.{name}" for name in names), "note"]
    found = read(tmp_path, header, ["x", 1.5, -2, 0.25, "seen"], spec=spec)
    assert found.given == "logits"
    np.testing.assert_array_equal(found.logits, np.array([[0.25, 1.5, -2]], np.float32))


@pytest.mark.parametrize(
    "names", [("glad", "sad"), ("glad", "sad", "calm", "odd"), ("a", "b", "c")]
)
def test_other_labels_are_refused(names, tmp_path):
    header = ["text", *(f"logits.{name}" for name in names)]
    with pytest.raises(errors.DataError, match=r"the names \['sad', 'glad', 'calm'\]"):
        read(tmp_path, header, ["x", *range(len(names))])


def test_probabilities_become_logits_of_the_same_softmax(tmp_path):
    header = ["text", "probabilities.calm", "probabilities.sad", "probabilities.glad"]
    found = read(tmp_path, header, ["x", 0.2, 0.5, 0.3], ["y", 0.33, 0.33, 0.33], ["z", 1, 0, 0])
    p = answer_logits.to_probabilities(found.logits, "classification")
    np.testing.assert_allclose(
        p, [[0.5, 0.3, 0.2], [1 / 3] * 3, [0, 0, 1]], rtol=0, atol=3e-7
    )  # float32, and the least probability
    np.testing.assert_allclose(found.logits[1], np.log(1 / 3), rtol=1e-6)  # of a sum of 0.99
    assert np.isfinite(found.logits).all()


def test_probabilities_of_several_labels_are_independent(tmp_path):
    header = ["text", *(f"probabilities.{name}" for name in "abc")]
    found = read(tmp_path, header, ["x", 0.9, 0.8, 0], spec=SEVERAL)
    np.testing.assert_allclose(found.logits[0, :2], np.log([9, 4]), rtol=1e-6)
    assert found.logits[0, 2] == np.float32(np.log(1e-7 / (1 - 1e-7)))


def test_an_answer_is_a_label_several_labels_or_a_number(tmp_path):
    found = read(tmp_path, ["text", "answer"], ["x", "calm"], ["y", "Sad"])
    assert found.given == "answer" and found.logits.argmax(axis=1).tolist() == [2, 0]
    spelt = dataclasses.replace(TASK, label_values=("0", "1", "2"))
    found = read(tmp_path, ["text", "answer"], ["x", 2], ["y", "glad"], spec=spelt)
    assert found.logits.argmax(axis=1).tolist() == [2, 1]
    found = read(tmp_path, ["text", "answer"], ["x", "a, c"], ["y", ""], spec=SEVERAL)
    assert (found.logits > 0).tolist() == [[True, False, True], [False] * 3]
    found = read(tmp_path, ["text", "answer"], ["x", "2.5"], spec=NUMBER)
    assert found.logits.tolist() == [[2.5]]


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        ("probabilities.sad probabilities.glad probabilities.calm", "0.5 0.2 0.2",
         "line 3: expected probabilities that sum to 1, received 0.9, in 1 row"),
        ("probabilities.sad probabilities.glad probabilities.calm", "1.2 -0.1 -0.1", "from 0 to 1"),
        ("logits.sad logits.glad logits.calm", "1 nan 2",
         "line 3, 'logits.glad': expected a finite number, received 'nan'"),
        ("logits.sad logits.glad logits.calm", "1 inf 2", "a finite number"),
        ("logits.sad logits.glad logits.calm", "1 1e300 2", "a finite number"),
        ("logits.sad logits.glad logits.calm", "1 much 2", "received 'much'"),
        ("answer", "angry", "line 3, 'answer': expected one of sad, glad, calm, received 'angry'"),
        ("score", "1", "logits.LABEL, probabilities.LABEL or answer, received the columns"),
    ],
)  # fmt: skip
def test_answers_that_are_none_are_refused_with_their_line(header, row, message, tmp_path):
    good = {"p": "0.2 0.3 0.5", "l": "1 2 3", "a": "sad", "s": "1"}[header[0]]
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path, ["text", *header.split()], ["x", *good.split()], ["y", *row.split()])


def test_a_text_is_found_whatever_its_case_and_blanks(tmp_path):
    found = read(tmp_path, ["text", "answer"], ["A  good film ", "glad"], ["bad", "sad"])
    assert row_of(found, "A  good film") == row_of(found, "a good Film") == 0
    assert row_of(found, "bad") == 1
    assert row_of(found, "agoodfilm") == row_of(found, "") == -1


def test_spellings_with_different_answers_are_found_exactly_or_not_at_all(tmp_path):
    found = read(tmp_path, ["text", "answer"], ["Polish", "glad"], ["polish", "sad"])
    assert row_of(found, "Polish") == 0 and row_of(found, "polish") == 1
    with pytest.raises(errors.DataError, match="one answer to all its spellings"):
        found.find([("POLISH",)])


def test_a_doubled_row_needs_the_same_answer(tmp_path):
    header = ["text", "logits.sad", "logits.glad", "logits.calm"]
    found = read(tmp_path, header, ["x", 1, 2, 3], ["x", 1, 2, 3.001])
    assert row_of(found, "x") == 0
    with pytest.raises(errors.DataError, match=r"line 3: expected the answer of .*line 2"):
        read(tmp_path, header, ["x", 1, 2, 3], ["x", 1, 3, 2])


def test_pairs_are_found_by_both_texts(tmp_path):
    rows = ["x", "y", "sad"], ["x", "z", "glad"]
    found = read(tmp_path, ["text", "other", "answer"], *rows, spec=PAIRS)
    assert row_of(found, "x", "z") == 1 and row_of(found, "z", "x") == -1
    with pytest.raises(errors.DataError, match=r"a column 'other'.*teacher.answers.key"):
        read(tmp_path, ["text", "answer"], ["x", "sad"], spec=PAIRS)


def test_a_key_column_is_exact(tmp_path):
    found = read(tmp_path, ["id", "answer"], ["a1", "sad"], ["A1", "glad"], key="id")
    assert row_of(found, "A1") == 1 and row_of(found, "a1 ") == -1
    path = tmp_path / "train.csv"
    path.write_text("id,text,mood\nA1,x,sad\na1,x,glad\n")
    spec = dataclasses.replace(TASK, labels=("sad", "glad"))
    examples = tasks.load_examples(spec, path, "train").select([1, 0])
    assert given_answers.example_keys(examples, "id") == [("a1",), ("A1",)]
    path.write_text("id,text,mood\nA1,x,sad\nA1,x,glad\n")
    with pytest.raises(errors.DataError, match="another key in each row, received 2 x 'A1'"):
        given_answers.example_keys(tasks.load_examples(spec, path, "train"), "id")


@pytest.mark.parametrize(
    ("answer", "spec"),
    [([], TASK), (["sad", "glad"], TASK), ([3.5], NUMBER), ([[3.5]], NUMBER), (10**400, NUMBER)],
)
def test_an_answer_that_is_a_list_is_refused_with_its_row(answer, spec, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "x", "answer": answer}))
    with pytest.raises(errors.DataError, match=r"line 1(, 'answer')?: expected"):
        given_answers.read_answers(path, spec)


def test_complex_numbers_are_no_answers(tmp_path):
    np.savez(tmp_path / "a.npz", text=np.array(["x"]), answer=np.array([1j]))
    with pytest.raises(errors.DataError, match="row 1, 'answer': expected a finite number"):
        given_answers.read_answers(tmp_path / "a.npz", NUMBER)
