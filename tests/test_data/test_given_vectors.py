"""A teacher's vectors in files: read back to the bit, by text, and what is refused."""

import json

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.data import given_vectors

TASK = tasks.TaskSpec("near", "a", "score", "b", kind="embedding")
TEXTS = ["good film", 'a, "b"', "naïve\u2028x", "Good  story"]
GOOD = {"a": "x", "vector": [0.6, 0.8]}


def rows_file(path, *rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".npz"])
def test_vectors_come_back_to_the_bit_and_by_text(suffix, tmp_path, rng):
    vectors = rng.normal(size=(4, 5)).astype(np.float32)
    path = tmp_path / f"a{suffix}"
    given_vectors.write_answers(path, tasks.Examples(TASK, TEXTS, None, None), vectors)
    found = given_vectors.read_answers(path, TASK)
    assert found.given == "vector"
    wanted = [(TEXTS[2],), ("GOOD story",), (TEXTS[0],), ("goodfilm",), (TEXTS[1],)]
    assert found.find(wanted).tolist() == [2, 3, 0, -1, 1]
    assert found.logits.dtype == np.float32
    np.testing.assert_array_equal(found.logits, vectors)
    assert found.nearest(("goodfilm",)) == ("good film",)  # changed by one blank


def test_an_archive_of_half_precision_is_read(tmp_path):
    vectors = np.array([[1, 0.333, 3], [4, 5, 6]], np.float16)
    np.savez(tmp_path / "a.npz", a=np.array(["x", "y"]), vector=vectors, other=np.eye(1)[0:0, 0])
    with pytest.raises(errors.DataError, match="a row for each text"):
        given_vectors.read_answers(tmp_path / "a.npz", TASK)
    np.savez(tmp_path / "a.npz", a=np.array(["x", "y"]), vector=vectors)
    found = given_vectors.read_answers(tmp_path / "a.npz", TASK)
    np.testing.assert_array_equal(found.logits, vectors.astype(np.float32))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"vector": [1.0]}, r"line 2, 'vector': expected 2 numbers.*received 1.*several models"),
        ({"vector": [1.0, float("nan")]}, r"line 2, 'vector': expected a finite number.*nan"),
        ({"vector": [0.0, 0]}, "line 2, 'vector': expected a vector whose length.*leave out"),
        ({"vector": [1e20, 0]}, "length is from 1e-12 to 1e.15, received 1e.20"),
        ({"vector": [1.0, "much"]}, "line 2, 'vector': expected a finite number, received 'much'"),
        ({"vector": [1.0, [2.0]]}, "line 2, 'vector': expected a finite number"),
        ({"vector": "[1.0, 2"}, "line 2, 'vector'.*expected a list of numbers"),
        ({"vector": []}, "line 2, 'vector': expected a list of numbers"),
        ({"vector": 3}, "line 2, 'vector': expected a list of numbers, received 3"),
        ({}, "line 2, 'vector': expected a list of numbers, received None"),
        ({"a": "x", "vector": [0.6, 0.7]}, "line 2: expected the answer of .*line 1"),
    ],
)
def test_what_is_no_vector_is_refused_with_its_row(row, message, tmp_path):
    path = rows_file(tmp_path / "a.jsonl", GOOD, {"a": "y", **row})
    with pytest.raises(errors.DataError, match=message):
        given_vectors.read_answers(path, TASK)


def test_a_text_that_occurs_twice_may_have_nearly_the_same_vector(tmp_path):
    path = rows_file(tmp_path / "a.jsonl", GOOD, {"a": "x", "vector": [0.601, 0.8]})
    assert given_vectors.read_answers(path, TASK).find([("x",)]).tolist() == [0]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": "x", "vectors": [1.0]}, "columns 'a' and 'vector', a list of numbers, received"),
        ({"text": "x", "vector": [1.0]}, "received the columns text, vector. Both texts of a pair"),
    ],
)
def test_a_column_that_is_missing_is_named(row, message, tmp_path):
    with pytest.raises(errors.DataError, match=message):
        given_vectors.read_answers(rows_file(tmp_path / "a.jsonl", row), TASK)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones(2), "array 'vector': expected"),
        (np.ones((2, 3, 1)), "array 'vector': expected"),
        (
            np.array([[1, 2], [1, 2j]]),
            r"row 1, 'vector': expected a finite number, received \(1\+0j",
        ),
        (np.array([[1, 2], [1, np.nan]], np.float32), "row 2, 'vector'.* received nan"),
        (np.ones((3, 2)), "a row for each text"),
    ],
)
def test_an_archive_needs_a_row_of_numbers_for_each_text(array, message, tmp_path):
    np.savez(tmp_path / "a.npz", a=np.array(["x", "y"]), vector=array)
    with pytest.raises(errors.DataError, match=message):
        given_vectors.read_answers(tmp_path / "a.npz", TASK)


def test_normalised_vectors_have_length_1_as_float16_rounds_it():
    vectors = np.random.default_rng(0).normal(size=(50, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    assert given_vectors.are_normalised(vectors.astype(np.float16).astype(np.float32))
    vectors[7] *= 1.01
    assert not given_vectors.are_normalised(vectors)
