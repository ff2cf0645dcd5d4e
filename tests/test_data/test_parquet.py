"""Tables that are no text: Parquet files of datasets and of frames, and sheets of Excel."""

import json
import sys

import numpy as np
import openpyxl
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from tfdistill import errors, tasks
from tfdistill.data import columns, labelled_file
from tfdistill.tasks import parquet, table_files, table_limits, tables

TEXTS = [f"the text number {n}" for n in range(120)]
LABELS = ["good", "bad"] * 60
EXPECTED = {"text": TEXTS, "label": LABELS}
ROWS = [("text", "label"), *zip(TEXTS, LABELS, strict=True)]


def test_parquet_is_read_with_lists_and_absent_values(tmp_path):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table(EXPECTED), path)
    assert tables.read_table(path, None).columns == EXPECTED
    more = {"text": ["a", "b", None], "n": [1, None, 3], "x": [0.5, 1.0, None],
            "tags": [["p", "q"], [], None]}  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(more), path)
    table = columns.read_columns(path)
    null = table_files.NULL
    assert [table.columns[name] for name in ("n", "x")] == [["1", null, "3"], ["0.5", "1.0", null]]
    assert table.columns["tags"] == ["p\x1fq\x1f", "", null]
    with pytest.raises(errors.DataError):
        tables.read_table(path, ["text"])
    twice = pyarrow.Table.from_arrays([pyarrow.array(["a"])] * 2, names=["text", "text"])
    pyarrow.parquet.write_table(twice, path)
    with pytest.raises(errors.DataError, match="one column 'text'"):
        tables.read_table(path, ["text"])
    frame = pandas.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}, index=[7, 3])
    frame.to_parquet(path)  # with row numbers, which are no column
    assert tables.column_names(path) == ["text", "label"]
    assert [row for _, row in table_files.read_rows(path).rows] == frame.to_numpy().tolist()


# As `datasets` writes them: a class, and lists of one in three versions.
MOODS = {"names": ["sad", "calm", "angry"], "_type": "ClassLabel"}
FEATURES = {
    "text": {"dtype": "string", "_type": "Value"},
    "label": {"num_classes": 3, "names_file": None, "id": None, **MOODS},
    "listed": [MOODS],
    "sequence": {"feature": MOODS, "length": -1, "_type": "Sequence"},
    "list": {"feature": MOODS, "_type": "List"},
}


def write_features(path, columns, features):
    """Writes a Parquet file as a Dataset of Hugging Face does."""
    described = json.dumps({"info": {"features": features}})
    table = pyarrow.table(columns).replace_schema_metadata({"huggingface": described})
    pyarrow.parquet.write_table(table, path)
    return path


def test_classes_of_hugging_face_are_read_by_their_names(tmp_path):
    lists = [[0, 2], [], None]
    columns = {"text": ["a", "b", "c"], "label": [2, 0, -1],
               "listed": lists, "sequence": lists, "list": lists}  # fmt: skip
    path = write_features(tmp_path / "x.parquet", columns, FEATURES)
    table = tables.read_table(path, None)
    assert table.columns["text"] == ["a", "b", "c"]
    assert table.columns["label"] == ["angry", "sad", tables.NULL]
    for column in ("listed", "sequence", "list"):
        assert table.columns[column] == ["sad\x1fangry\x1f", "", tables.NULL]


@pytest.mark.parametrize("features", [None, {}, {"label": {"dtype": "int64", "_type": "Value"}}])
def test_numbers_without_names_of_classes_stay_numbers(tmp_path, features):
    columns = {"text": ["a", "b"], "label": [1, -1]}
    path = write_features(tmp_path / "x.parquet", columns, features)
    assert tables.read_table(path, ["label"]).columns["label"] == ["1", "-1"]


def test_a_number_of_no_class_and_features_that_are_no_json_are_refused(tmp_path):
    for number in (3, -2):
        columns = {"text": ["a", "b"], "label": [0, number]}
        path = write_features(tmp_path / "x.parquet", columns, FEATURES)
        fault = f"line 2, 'label': expected a class from 0 to 2, or -1, received {number}"
        with pytest.raises(errors.DataError, match=fault):
            tables.read_table(path, ["text"])
    table = pyarrow.table({"text": ["a"]}).replace_schema_metadata({"huggingface": "{"})
    pyarrow.parquet.write_table(table, path)
    with pytest.raises(errors.DataError, match="huggingface of its schema, line 1: expected JSON"):
        tables.read_table(path, ["text"])


def test_a_built_in_task_is_read_by_numbers_and_by_names(tmp_path):
    columns = {"sentence": ["a", "b", "c"], "label": [1, 0, 1]}
    features = {"label": {"names": ["negative", "positive"], "_type": "ClassLabel"}}
    for written in (features, {}):
        write_features(tmp_path / "train.parquet", columns, written)
        examples = tasks.load_examples(tasks.task("sst2"), tmp_path, "train")
        assert examples.labels.tolist() == columns["label"]


def write_sheet(path, *sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for rows in sheets:
        sheet = book.create_sheet()
        for row in rows:
            sheet.append([cell if cell != "" else None for cell in row])
    book.save(path)
    return path


def test_a_sheet_of_excel_is_read_or_its_package_is_named(tmp_path, monkeypatch):
    one = write_sheet(tmp_path / "x.xlsx", ROWS, [])
    table = tables.read_table(one, None)
    assert (table.columns, table.lines[0]) == (EXPECTED, 2)
    numbers = write_sheet(tmp_path / "n.xlsx", [("text", "n"), ("a", 1), ("b", 2.5)])
    assert tables.read_table(numbers, ["n"]).columns["n"] == ["1", "2.5"]
    with pytest.raises(errors.DataError, match="expected one sheet, received 2 of them"):
        tables.read_table(write_sheet(tmp_path / "y.xlsx", ROWS, ROWS), None)
    with pytest.raises(errors.DataError, match=r"line 2: expected 1 cells .* titles and notes"):
        tables.read_table(write_sheet(tmp_path / "z.xlsx", [("Survey",), *ROWS]), None)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(errors.EnvironmentFault, match=r"pip install 'tfdistill\[excel\]'"):
        tables.read_table(one, None)


@pytest.mark.slow
def test_small_files_that_unpack_to_huge_tables_are_refused(tmp_path, monkeypatch):
    lines = [json.dumps({"text": "a", "label": "b", f"extra {n}": 1}) for n in range(8_000)]
    (tmp_path / "keys.jsonl").write_text("\n".join(lines))
    with pytest.raises(errors.DataError, match="24000 values in a table of 64016000 cells"):
        tables.read_table(tmp_path / "keys.jsonl", ["text"])

    column = pyarrow.array(["a"] * 20_000).dictionary_encode()
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), tmp_path / "rows.parquet")
    monkeypatch.setattr(table_limits, "MAX_CELLS", 19_999)
    with pytest.raises(errors.DataError, match="at most 19999 values, received 20000"):
        tables.read_table(tmp_path / "rows.parquet", ["text"])

    monkeypatch.setattr(table_limits, "MAX_CELLS", 10**6)
    repeated = pyarrow.table({"text": ["x" * 10_000] * 2_000})
    pyarrow.parquet.write_table(repeated, tmp_path / "repeated.parquet")
    assert (tmp_path / "repeated.parquet").stat().st_size < 20_000
    with monkeypatch.context() as limited:
        limited.setattr(table_limits, "MAX_UNPACKED", 10**7)
        with pytest.raises(errors.DataError, match="at most 10000000 bytes, received 1"):
            tables.read_table(tmp_path / "repeated.parquet", ["text"])
    lists = pyarrow.table({"text": [[0] * 600_000] * 2})
    pyarrow.parquet.write_table(lists, tmp_path / "lists.parquet")
    with pytest.raises(errors.DataError, match="received 1200000 in a file of"):
        tables.read_table(tmp_path / "lists.parquet", ["text"])

    monkeypatch.setattr(table_limits, "MIN_SPARSE_CELLS", 10**5)
    far = [("text", "label"), ("a", "b"), *[("", "")] * 20, ("",) * 16_000 + ("far",)]
    with pytest.raises(errors.DataError, match="Remove cells far from the table"):
        tables.read_table(write_sheet(tmp_path / "far.xlsx", far * 7), ["text"])
    monkeypatch.setattr(table_limits, "MAX_UNPACKED", 100)
    with pytest.raises(errors.DataError, match="at most 100 bytes"):
        tables.read_table(write_sheet(tmp_path / "bomb.xlsx", ROWS), ["text"])


NUM_ROWS = 60
UNWRITABLE = {
    "Interval": pandas.cut(range(NUM_ROWS), 3),
    "object": [object()] * NUM_ROWS,
    "dict": [{}] * NUM_ROWS,
    "complex": [1j] * NUM_ROWS,
    "int": [2**80] * NUM_ROWS,
}


def frame_with(**cells):
    texts = [f"sentence number {index} of many" for index in range(NUM_ROWS)]
    return pandas.DataFrame({"text": texts, "label": ["good", "bad"] * (NUM_ROWS // 2), **cells})


def test_numbers_among_texts_are_text(tmp_path):
    frame = frame_with(source=[7, None, *["a7"] * (NUM_ROWS - 3), 1.5])
    rows = parquet.read_parquet(parquet.path_of(frame, tmp_path))
    assert [rows[index]["source"] for index in (0, 1, 2, -1)] == ["7", None, "a7", "1.5"]
    assert frame["source"][0] == 7


@pytest.mark.parametrize("types", UNWRITABLE)
def test_a_column_that_parquet_cannot_hold_is_refused_with_the_way_out(types, tmp_path):
    frame = frame_with(source_id=UNWRITABLE[types])
    with pytest.raises(errors.DataError, match=r"columns that Parquet can hold.*astype\(str\)"):
        parquet.path_of(frame, tmp_path)
    read = labelled_file.read_labelled_file(
        parquet.path_of(frame.astype({"source_id": str}), tmp_path), "own"
    )
    assert read.task.labels == ("bad", "good")


def test_columns_of_one_name_are_refused(tmp_path):
    frame = frame_with(more=np.arange(NUM_ROWS))
    frame.columns = ["text", "label", "label"]
    with pytest.raises(errors.DataError, match=r"its own name, received .*label"):
        parquet.path_of(frame, tmp_path)
