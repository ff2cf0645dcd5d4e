"""Files of rows as columns: every format gives the same cells, and says where it is at fault."""

import json
import zipfile

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.data import answer_files

TEXTS = ["a  b", 'c, "d"', "e\nf ü", ""]
LABELS = ("no", "yes, please")
SUFFIXES = (".jsonl", ".csv", ".parquet", ".npz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_written_is_read_back_to_the_bit(suffix, tmp_path, rng):
    values = rng.normal(size=(4, 2)).astype(np.float32)
    path = tmp_path / f"a{suffix}"
    answer_files.write_columns(path, {"text": TEXTS}, "logits", values, LABELS)
    columns, places = answer_files.read_columns(path)
    assert list(columns) == ["text", "logits.no", "logits.yes, please"]
    assert [str(cell) for cell in columns["text"]] == TEXTS
    for index, label in enumerate(LABELS):
        read = np.asarray(columns[f"logits.{label}"], np.float64).astype(np.float32)
        np.testing.assert_array_equal(read, values[:, index])
    assert len(set(places)) == 4 and all(str(path) in place for place in places)
    answer_files.write_columns(path, {"text": TEXTS}, "answer", values[:, :1], ())
    columns, _ = answer_files.read_columns(path)
    read = np.asarray(columns["answer"], np.float64).astype(np.float32)
    np.testing.assert_array_equal(read, values[:, 0])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_mapping_in_a_cell_is_a_column_for_each_name_and_a_missing_cell_is_none(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "a", "logits": {"x": 1}}, {"logits": {"y": 2}, "text": "b"}]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    columns, places = answer_files.read_columns(path)
    assert columns == {"text": ["a", "b"], "logits.x": [1, None], "logits.y": [None, 2]}
    assert places == [f"{path}, line 1", f"{path}, line 2"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n[1]', "line 2: expected a JSON object, received list"),
        ("a.jsonl", b'{"text": ', "line 1: expected a JSON object, received a fault"),
        ("a.jsonl", b"\n\n", "at least one row"),
        ("a.csv", b'text,answer\n"a,1\n', "comma-separated"),
        ("a.parquet", b"PAR1 and no more", "a Parquet file"),
        ("a.npz", b"PK\x03\x04 and no more", "NumPy arrays"),
        ("a.txt", b"text", "one of .jsonl, .csv, .tsv, .parquet, .npz, received .txt"),
        ("none.csv", None, "expected a file, received none"),
    ],
)
def test_a_faulty_file_is_one_error_that_names_the_place(name, content, message, tmp_path):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(errors.DataError, match=message):
        answer_files.read_columns(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"text": np.array(["a", {}], object)}, "without Python objects"),
        ({"text": np.array(["a", "b"]), "logits": np.ones((2, 2))}, "names of its columns"),
        ({"text": np.array(["a", "b"]), "answer": np.ones(3)}, "a row for each text"),
        ({"text": np.array(["a", "b"]), "labels": np.array("x")}, "'labels': expected names"),
        ({"text": np.array("a")}, "names of its columns"),
    ],
)
def test_an_archive_that_fits_no_table_is_refused(arrays, message, tmp_path):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(errors.DataError, match=message):
        answer_files.read_columns(tmp_path / "a.npz")


def test_a_damaged_archive_is_refused_wherever_the_damage_is(tmp_path):
    path = tmp_path / "a.npz"
    answer_files.write_columns(path, {"text": TEXTS}, "logits", np.eye(4, 2), LABELS)
    content, refused = path.read_bytes(), 0
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        try:
            answer_files.read_columns(path)
        except errors.DataError:
            refused += 1
    assert refused > len(content) // 14  # a date or a comment may be damaged unseen


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("text.txt", "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)}"),
        ("text.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (10**30,)}"),
        ("text.npy", f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**30},)}}"),
        ("text.npy", f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({10**9},)}}"),
        ("text.npy", f"{{'descr': '<U0', 'fortran_order': False, 'shape': ({10**30},)}}"),
        ("text.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1)}"),
        ("text.npy", "{'descr': [1], 'fortran_order': False, 'shape': (1,)}"),
        ("text.npy", "(" * 500),
        ("text.npy", "{'descr'"),
    ],
)
def test_a_header_is_held_against_the_bytes_before_memory_is_asked_for(name, header, tmp_path):
    coded = header.encode() + b"\n"
    content = b"\x93NUMPY\x01\x00" + len(coded).to_bytes(2, "little") + coded + bytes(8)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr(name, content)
    with pytest.raises(errors.DataError, match="NumPy arrays without Python objects"):
        answer_files.read_columns(tmp_path / "a.npz")


def test_cells_of_columns_that_are_not_wanted_are_not_kept(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"text": "a", "logits": {"x": i}, "other": {f"k{i}": i}} for i in range(3)]
    path.write_text("\n".join(map(json.dumps, rows)))
    columns, _ = answer_files.read_columns(path, names=["text"], prefixes=("logits.",))
    assert columns["text"] == ["a"] * 3 and columns["logits.x"] == [0, 1, 2]
    assert [columns[f"other.k{i}"] for i in range(3)] == [[], [], []]


def test_other_suffixes_are_not_written(tmp_path):
    with pytest.raises(errors.DataError, match=r"one of .jsonl, .csv, .parquet, .npz"):
        answer_files.check_writable(tmp_path / "a.tsv")
