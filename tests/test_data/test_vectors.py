"""Word vectors: the two text formats, neighbours by cosine, faults with their line."""

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.data.vectors import WordVectors, read_vectors

GLOVE = "cat 1 0.5 0\ndog 0.9 0.6 0\ncar -1 0 2e-1\n"


@pytest.fixture
def write(tmp_path):
    def make(content):
        path = tmp_path / "vectors.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.mark.parametrize(
    "content", [GLOVE, f"3 3\n{GLOVE}", GLOVE.replace("\n", " \r\n"), GLOVE + "cat 9 9 9\n"]
)
def test_glove_and_word2vec_files_hold_the_same_vectors(write, content):
    vectors = read_vectors(write(content))
    assert vectors.words == ("cat", "dog", "car")
    expected = np.array([[1, 0.5, 0], [0.9, 0.6, 0], [-1, 0, 0.2]], np.float32)
    np.testing.assert_array_equal(vectors.values, expected)
    np.testing.assert_array_equal(vectors["car"], expected[2])
    assert (vectors.width, len(vectors), "cat" in vectors, "Cat" in vectors) == (3, 3, True, False)


def test_a_limit_reads_the_first_lines_only(write):
    assert read_vectors(write(f"3 3\n{GLOVE}"), limit=2).words == ("cat", "dog")
    assert read_vectors(write(f"{GLOVE}broken"), limit=3).words == ("cat", "dog", "car")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a word on each line, received an empty file"),
        ("4 3\n" + GLOVE, "4 words, as its first line says, received 3.*cut short"),
        ("cat 1 2 3\ndog 1 2\n", r"line 2: expected a word in UTF-8 and 3 numbers"),
        ("cat 1 2 3\ndog 1 x 3\n", r"line 2: .*could not convert"),
        ("cat 1 2 3\ndog 1 nan 3\n", r"line 2: expected finite numbers, received those of 'dog'"),
        ("cat 1 inf\n", r"line 1: expected finite numbers"),
        ("cat\n", r"line 1: expected a word in UTF-8"),
        (b"cat 1 2\n\xff\xfe 1 2\n", r"line 2: expected a word in UTF-8"),
    ],
)
def test_a_broken_file_is_refused_with_its_line_and_a_missing_one(write, content, message):
    path = write(content)
    with pytest.raises(errors.DataError, match=message):
        read_vectors(path)
    path.unlink()
    with pytest.raises(errors.DataError, match=r"vectors\.txt.*not a file.*GloVe"):
        read_vectors(path)


def test_neighbours_equal_a_loop_over_cosines_also_in_parts(rng, monkeypatch):
    values = rng.standard_normal((40, 5)).astype(np.float32) * rng.uniform(0.1, 9, (40, 1))
    words = [f"w{i}" for i in range(40)]
    vectors = WordVectors(words, values)
    nearest = vectors.nearest(["w3", "unknown", "w17", "w3"], 7)
    for word, neighbours in zip(("w3", "w17"), (nearest[0], nearest[2]), strict=True):
        vector = values[words.index(word)]
        cosines = {
            other: float(row @ vector / np.linalg.norm(row) / np.linalg.norm(vector))
            for other, row in zip(words, values, strict=True)
            if other != word
        }
        assert neighbours == sorted(cosines, key=cosines.__getitem__, reverse=True)[:7]
    assert nearest[1] == []
    assert nearest[3] == nearest[0]
    monkeypatch.setattr("tfdistill.data.vectors._MAX_PRODUCTS", 90)  # asked in parts
    assert vectors.nearest(["w3", "unknown", "w17", "w3"], 7) == nearest


def test_equally_near_words_come_in_the_order_of_the_file():
    vectors = WordVectors(list("abcdef"), np.array([[1, 0]] + [[0, 2], [0, 3]] * 2 + [[1, 1]]))
    assert vectors.nearest(["a"], 3) == [["f", "b", "c"]]
    assert vectors.nearest(["a"], 99) == [["f", "b", "c", "d", "e"]]
    # A vector of zeros is near to nothing and breaks nothing.
    vectors = WordVectors(list("abc"), np.array([[1, 0], [0, 0], [1, 1]]))
    assert vectors.nearest(["a", "b"], 2) == [["c", "b"], ["a", "c"]]


def test_values_must_fit_the_words():
    for words, values in ((["a"], np.ones((2, 3))), (["a", "a"], np.ones((2, 3))), (["a"], [1])):
        with pytest.raises(errors.ShapeError, match="different words and a row for each"):
            WordVectors(words, np.array(values))


@pytest.mark.shared_data
def test_real_vectors_have_sensible_neighbours(shared_data):
    vectors = read_vectors(shared_data / "embeddings" / "glove.twitter.25d.12k.txt")
    assert (len(vectors), vectors.width) == (11_925, 25)
    near = vectors.nearest(["good", "movie"], 15)
    assert {"nice", "better"} <= set(near[0]) and {"movies", "scene"} <= set(near[1])
