"""Soft labels in files: what they mean, which text each belongs to, what is refused."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import soft_label_values, soft_labels
from tfdistill.tasks.words import joined

TASK = tasks.TaskSpec("moods", "text", "mood", labels=("sad", "glad", "calm"))
PAIRS = dataclasses.replace(TASK, pair_column="other")
NUMBER = tasks.TaskSpec("likeness", "text", "score", kind="regression")
SEVERAL = tasks.TaskSpec("topics", "text", "topics", kind="multi_label", labels=("a", "b", "c"))


def table(tmp_path, header, *rows):
    path = tmp_path / "answers.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def read(tmp_path, header, *rows, spec=TASK):
    return soft_labels.read(table(tmp_path, header, *rows), spec)


def row_of(file, *texts):
    return file.find([texts])[0]


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
    file = read(tmp_path, header, ["x", 1.5, -2, 0.25, "seen"], spec=spec)
    assert file.holds == "logits"
    np.testing.assert_array_equal(file.values, np.array([[0.25, 1.5, -2]], np.float32))


@pytest.mark.parametrize(
    "names", [("glad", "sad"), ("glad", "sad", "calm", "odd"), ("a", "b", "c")]
)
def test_other_labels_are_refused(names, tmp_path):
    header = ["text", *(f"logits.{name}" for name in names)]
    with pytest.raises(errors.DataError, match=r"the names \['sad', 'glad', 'calm'\]"):
        read(tmp_path, header, ["x", *range(len(names))])


def test_probabilities_become_logits_of_the_same_softmax(tmp_path):
    header = ["text", "probabilities.calm", "probabilities.sad", "probabilities.glad"]
    file = read(tmp_path, header, ["x", 0.2, 0.5, 0.3], ["y", 0.33, 0.33, 0.33], ["z", 1, 0, 0])
    rounded = read(tmp_path, header, ["x", 0.33, 0.33, 0.32], ["y", 0.34, 0.34, 0.34])
    np.testing.assert_allclose(np.exp(rounded.values).sum(axis=1), 1, rtol=1e-6)  # by 0.02 off
    p = soft_label_values.to_probabilities(file.values, "classification")
    np.testing.assert_allclose(
        p, [[0.5, 0.3, 0.2], [1 / 3] * 3, [0, 0, 1]], rtol=0, atol=3e-7
    )  # float32, and the least probability
    np.testing.assert_allclose(file.values[1], np.log(1 / 3), rtol=1e-6)  # of a sum of 0.99
    assert np.isfinite(file.values).all()


def test_objects_of_probabilities_are_read_as_their_columns(tmp_path):
    path = tmp_path / "answers.jsonl"
    rows = [{"calm": 0.2, "sad": 0.5, "glad": 0.3}, {"glad": 1.0}]
    lines = [json.dumps({"text": f"t{i}", "probabilities": row}) for i, row in enumerate(rows)]
    path.write_text("\n".join(lines))
    header = ["text", "probabilities.sad", "probabilities.glad", "probabilities.calm"]
    columns = read(tmp_path, header, ["t0", 0.5, 0.3, 0.2], ["t1", 0, 1, 0])
    file = soft_labels.read(path, TASK)
    assert file.holds == "probabilities" and file.rows == columns.rows
    np.testing.assert_array_equal(file.values, columns.values)
    for holds, value, expected in (
        ("probabilities", {**rows[0], "odd": 0}, r"the names \['sad', 'glad', 'calm'\]"),
        ("probabilities", "sad", "line 2: expected probabilities: an object"),
        ("probabilities", None, r"line 2, 'probabilities\.sad'"),
        ("probabilities", "  ", r"line 2, 'probabilities\.sad'"),
        ("logits", {"sad": 1.0, "glad": 0.0}, r"line 2, 'logits\.calm'"),  # no logit is 0
    ):
        pair = [{"text": "t", holds: rows[0]}, {"text": "u", holds: value}]
        path.write_text("\n".join(map(json.dumps, pair)))
        with pytest.raises(errors.DataError, match=expected):
            soft_labels.read(path, TASK)


def test_probabilities_of_several_labels_are_independent(tmp_path):
    header = ["text", *(f"probabilities.{name}" for name in "abc")]
    file = read(tmp_path, header, ["x", 0.9, 0.8, 0], spec=SEVERAL)
    np.testing.assert_allclose(file.values[0, :2], np.log([9, 4]), rtol=1e-6)
    assert file.values[0, 2] == np.float32(np.log(1e-7 / (1 - 1e-7)))


@pytest.mark.parametrize("spec", [TASK, SEVERAL])
def test_probabilities_are_no_logits(spec, tmp_path):
    header = ["text", *(f"logits.{name}" for name in spec.labels)]
    rows = ["x", 0.9, 0.1, 0], *([f"y{number}", 0.3, 0.34, 0.35] for number in range(19))
    with pytest.raises(errors.DataError, match=r"in all 20 rows. Name .* probabilities\.LABEL"):
        read(tmp_path, header, *rows, spec=spec)
    read(tmp_path, header, *rows, ["z", 2.0, -1.0, 0.0], spec=spec)
    read(tmp_path, header, rows[0], spec=spec)  # one row tells nothing


def test_certain_rows_have_a_label_several_labels_or_a_number(tmp_path):
    file = read(tmp_path, ["text", "label"], ["x", "calm"], ["y", "Sad"])
    assert file.holds == "label" and file.values.argmax(axis=1).tolist() == [2, 0]
    spelt = dataclasses.replace(TASK, label_values=("0", "1", "2"))
    file = read(tmp_path, ["text", "label"], ["x", 2], ["y", "glad"], spec=spelt)
    assert file.values.argmax(axis=1).tolist() == [2, 1]
    file = read(tmp_path, ["text", "label"], ["x", "a, c"], ["y", ""], spec=SEVERAL)
    assert (file.values > 0).tolist() == [[True, False, True], [False] * 3]
    file = read(tmp_path, ["text", "label"], ["x", "2.5"], spec=NUMBER)
    assert file.values.tolist() == [[2.5]]


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
        ("label", "angry", "line 3, 'label': expected one of sad, glad, calm, received 'angry'"),
        ("score", "1", "probabilities.LABEL or label, received the columns text, score"),
    ],
)  # fmt: skip
def test_what_is_no_soft_label_is_refused_with_its_line(header, row, message, tmp_path):
    chances = {"probabilities": "0.2 0.3 0.5", "logits": "1 2 3"}
    good = chances.get(header.partition(".")[0], "sad")
    with pytest.raises(errors.DataError, match=message):
        read(tmp_path, ["text", *header.split()], ["x", *good.split()], ["y", *row.split()])


def test_a_text_is_found_as_it_is_but_for_blanks_at_its_ends(tmp_path):
    file = read(tmp_path, ["text", "label"], ["A  good film ", "glad"], ["bad", "sad"])
    assert row_of(file, "A  good film") == 0 and row_of(file, "bad") == 1
    assert row_of(file, "a good film") == row_of(file, "") == -1
    assert file.nearest(("a good film",)) == ("A  good film",) and file.nearest(("c",)) is None


def test_a_doubled_row_needs_the_same_answer(tmp_path):
    header = ["text", "logits.sad", "logits.glad", "logits.calm"]
    file = read(tmp_path, header, ["x", 1, 2, 3], ["x", 1, 2, 3.001])
    assert row_of(file, "x") == 0
    with pytest.raises(errors.DataError, match=r"line 3: expected the soft labels of .*line 2"):
        read(tmp_path, header, ["x", 1, 2, 3], ["x", 1, 3, 2])


@pytest.mark.parametrize(
    ("label", "spec"),
    [([], TASK), (["sad", "glad"], TASK), ([3.5], NUMBER), ([[3.5]], NUMBER), (10**400, NUMBER)],
)
def test_a_list_is_no_label_and_no_number(label, spec, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "x", "label": label}))
    with pytest.raises(errors.DataError, match=r"line 1(, 'label')?: expected"):
        soft_labels.read(path, spec)


WORDS = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=("O", "B-X", "I-X"))
OF_WORDS = {
    "words": ["Ann", "ran"],
    "logits.B-X": [1.5, -1], "logits.O": [0.25, 2], "logits.I-X": [0, 0],
}  # fmt: skip
VECTORS = tasks.TaskSpec("near", "a", "score", "b", kind="embedding")
TEXTS = ["good film", 'a, "b"', "naïve\u2028x", "Good  story"]


def read_lines(tmp_path, spec, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return soft_labels.read(path, spec)


def test_words_are_found_by_the_words_with_the_labels_by_name(tmp_path):
    longer = {"words": ["So", "Ann", "ran"], **{name: [0, 0, 0] for name in list(OF_WORDS)[1:]}}
    file = read_lines(tmp_path, WORDS, OF_WORDS, longer)
    assert file.find([("Ann", "ran"), ("So", "Ann", "ran"), ("Ann ran",)]).tolist() == [0, 1, -1]
    np.testing.assert_array_equal(file.values[:2], [[0.25, 1.5, 0], [2, -1, 0]])
    np.testing.assert_array_equal(file.of_rows(np.array([1, 0])), file.values[[2, 3, 4, 0, 1]])
    file = read_lines(tmp_path, WORDS, {"words": ["Ann", "ran"], "label": ["B-X", "o"]})
    assert file.values.argmax(axis=1).tolist() == [1, 0]
    chances = {"O": [0.5, 0.1], "B-X": [0.5, 0.1], "I-X": [0, 0.8]}
    chances = {f"probabilities.{name}": column for name, column in chances.items()}
    file = read_lines(tmp_path, WORDS, {"words": ["Ann", "ran"], **chances})
    expected = np.log([[0.5, 0.5, 1e-7], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(file.values, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"logits.I-X": None}, r"labels of .*the names \['O', 'B-X'"),
        ({"logits.B-X": [1]}, r"line 1, 'logits.B-X': expected a list of 2 .*received 1"),
        ({"logits.B-X": 3}, "a list of 2 entries, one a word, received 3"),
        ({"logits.B-X": [1, None]}, "line 1, word 2, 'logits.B-X': expected a finite number"),
        ({"words": []}, "line 1, 'words': expected a list that is not empty"),
        ({"words": "Ann ran"}, "line 1, 'words': expected a list"),
    ],
)
def test_what_is_wrong_with_words_is_refused_with_its_place(changes, message, tmp_path):
    row = {name: cell for name, cell in (OF_WORDS | changes).items() if cell is not None}
    with pytest.raises(errors.DataError, match=message):
        read_lines(tmp_path, WORDS, row)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"vector": [1.0]}, r"line 2, 'vector': expected 2 numbers.*received 1.*several models"),
        ({"vector": [1.0, float("nan")]}, r"line 2, 'vector': expected a finite number.*nan"),
        ({"vector": [0.0, 0]}, "line 2, 'vector': expected a vector whose length.*leave out"),
        ({"vector": [1e20, 0]}, "length is from 1e-12 to 1e.15, received 1e.20"),
        ({"vector": [1.0, "much"]}, "line 2, 'vector': expected a finite number, received 'much'"),
        ({"vector": [1.0, [2.0]]}, "line 2, 'vector': expected a finite number"),
        ({"vector": "[1.0, 2]"}, "line 2, 'vector'.*expected a list of numbers"),
        ({"vector": []}, "line 2, 'vector': expected a list of numbers"),
        ({}, "line 2, 'vector': expected a list of numbers.*received None"),
        ({"a": "x", "vector": [0.6, 0.7]}, "line 2: expected the soft labels of .*line 1"),
    ],
)
def test_what_is_no_vector_is_refused_with_its_row(row, message, tmp_path):
    with pytest.raises(errors.DataError, match=message):
        read_lines(tmp_path, VECTORS, {"a": "x", "vector": [0.6, 0.8]}, {"a": "y", **row})


def test_a_text_that_occurs_twice_may_have_nearly_the_same_vector(tmp_path):
    rows = ({"a": "x", "vector": [0.6, 0.8]}, {"a": "x", "vector": [0.601, 0.8]})
    assert read_lines(tmp_path, VECTORS, *rows).find([("x",)]).tolist() == [0]
    with pytest.raises(errors.DataError, match="vector, received the columns a, vectors"):
        read_lines(tmp_path, VECTORS, {"a": "x", "vectors": [1.0]})


def examples_of(kind):
    if kind == "token":
        words = [["good", "films"], ["bad"]]
        tags = np.empty(2, object)
        tags[:] = [np.zeros(len(row), np.int32) for row in words]
        texts, places = zip(*map(joined, words), strict=True)
        return tasks.Examples(WORDS, list(texts), None, tags, word_offsets=list(places))
    spec = {"embedding": VECTORS, "regression": NUMBER, "pairs": PAIRS}.get(kind, TASK)
    return tasks.Examples(spec, TEXTS, TEXTS[::-1] if kind == "pairs" else None, None)


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("kind", ["classes", "pairs", "regression", "embedding", "token"])
def test_what_is_written_is_read_back_to_the_bit(kind, suffix, tmp_path, rng):
    examples, path = examples_of(kind), tmp_path / f"a{suffix}"
    width = {"regression": 1, "embedding": 5}.get(kind, 3)
    values = rng.normal(size=(3 if kind == "token" else 4, width)).astype(np.float32)
    if suffix == ".csv" and kind in ("embedding", "token"):
        with pytest.raises(errors.DataError, match=r"one of .jsonl, .parquet, which hold lists"):
            soft_labels.write(path, examples, values)
        return
    soft_labels.write(path, examples, values)
    file = soft_labels.read(path, examples.spec)
    np.testing.assert_array_equal(file.values, values)
    order = np.arange(len(examples))[::-1]
    keys = soft_labels.example_keys(examples.select(order))
    assert file.find(keys).tolist() == order.tolist()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_line_ends_of_texts_do_not_lose_their_answers(suffix, tmp_path):
    texts = ["first\r\nsecond", "one\rtwo", "three\nfour"]
    examples = tasks.Examples(TASK, texts, None, None)
    soft_labels.write(tmp_path / f"a{suffix}", examples, 3 * np.eye(3, dtype=np.float32))
    file = soft_labels.read(tmp_path / f"a{suffix}", TASK)
    assert file.find(soft_labels.example_keys(examples)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"text": "a"}\n[1]'),
        ("a.jsonl", b'{"text": '),
        ("a.jsonl", b"\n\n"),
        ("a.csv", b'text,label\n"a,1\n'),
        ("a.csv", b"text,logits.sad,logits.sad\na,1,2\n"),
        ("a.parquet", b"PAR1 and no more"),
        ("a.npz", b"PK\x03\x04 and no more"),
        ("none.csv", None),
    ],
)
def test_a_faulty_file_is_one_error_that_names_it_as_are_other_suffixes_and_spans(
    name, content, tmp_path
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.DataError, match=name):
        soft_labels.read(path, TASK)
    with pytest.raises(errors.DataError, match=r"one of .jsonl, .csv, .parquet, received .tsv"):
        soft_labels.check_writable(tmp_path / "a.tsv")
    with pytest.raises(errors.ConfigError, match="answers inside texts"):
        soft_labels.read(tmp_path / "a.jsonl", tasks.task("squad"))


def test_labels_that_differ_in_case_alone_keep_their_columns(tmp_path):
    spec = tasks.TaskSpec("own", "text", "label", labels=("US", "us"))
    (tmp_path / "a.csv").write_text("text,logits.us,logits.US\none,1,2\ntwo,3,4\n")
    np.testing.assert_array_equal(
        soft_labels.read(tmp_path / "a.csv", spec).values, [[2, 1], [4, 3]]
    )
    (tmp_path / "b.csv").write_text("text,label\none,US\ntwo,us\n")
    assert soft_labels.read(tmp_path / "b.csv", spec).values.argmax(axis=1).tolist() == [0, 1]
    (tmp_path / "b.csv").write_text("text,label\none,US\ntwo,Us\n")
    with pytest.raises(errors.DataError, match="line 3, 'label': expected one of US, us"):
        soft_labels.read(tmp_path / "b.csv", spec)
