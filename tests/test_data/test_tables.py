import json

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from tfdistill import errors, tasks
from tfdistill.data import labelled_file
from tfdistill.tasks import table_files, tables


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_quotation_marks_in_tsv_are_text(tmp_path):
    path = write(tmp_path / "x.tsv", 'text\tlabel\n"she said\t1\nhe" said ""\t0\n')
    table = tables.read_table(path, ["text", "label"])
    assert table.columns == {"text": ['"she said', 'he" said ""'], "label": ["1", "0"]}
    assert table.lines == [2, 3]


def test_csv_is_read_as_rfc_4180_writes_it(tmp_path):
    content = 'text,label\r\n"a, ""b""\nc",1\r\nd,0\r\n'
    table = tables.read_table(write(tmp_path / "x.csv", content), ["text", "label"])
    assert table.columns["text"] == ['a, "b"\nc', "d"]
    assert table.lines == [2, 4]  # the first row takes two lines


def test_json_lines_give_strings(tmp_path):
    rows = [{"text": "a\nb\t\u2028", "label": 1}, {"text": "c", "label": True, "more": []}]
    content = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n\n"
    table = tables.read_table(write(tmp_path / "x.jsonl", content), ["text"], ["label", "none"])
    assert table.columns == {"text": ["a\nb\t\u2028", "c"], "label": ["1", "true"]}


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path, suffix):
    separator = {".tsv": "\t", ".csv": ","}[suffix]
    path = write(tmp_path / f"x{suffix}", f"text{separator}label\na{separator}b\n", "utf-8-sig")
    assert tables.read_table(path, ["text"]).columns == {"text": ["a"]}


def test_only_line_feeds_end_a_row_of_tsv(tmp_path):
    path = write(tmp_path / "x.tsv", "text\tlabel\na\u2028b\x85c\x0cd\t1\r\ne\t0")
    columns = tables.read_table(path, ["text", "label"]).columns
    assert columns == {"text": ["a\u2028b\x85c\x0cd", "e"], "label": ["1", "0"]}


def test_files_without_a_header_are_read_by_position(tmp_path):
    header = ("source", "label", "mark", "sentence")
    path = write(tmp_path / "x.tsv", "s1\t1\t\tGood.\ns2\t0\t*\tBad.\n")
    table = tables.read_table(path, ["sentence", "label"], header=header)
    assert table.columns == {"sentence": ["Good.", "Bad."], "label": ["1", "0"]}
    assert table.lines == [1, 2]
    path = write(tmp_path / "y.tsv", "index\tsentence\n0\tGood.\n")
    table = tables.read_table(path, ["sentence"], ["label"], header=header)
    assert table.columns == {"sentence": ["Good."]}


def test_short_rows_are_refused_or_counted(tmp_path):
    path = write(tmp_path / "x.tsv", "id\ttext\tlabel\n1\ta\t1\n2\tb\n3\tc\t0\n")
    with pytest.raises(errors.DataError, match=r"x\.tsv, line 3: expected 3 cells .* received 2"):
        tables.read_table(path, ["text", "label"])
    table = tables.read_table(path, ["text", "label"], skip_short_rows=True)
    assert (table.columns["text"], table.lines, table.skipped) == (["a", "c"], [2, 4], 1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", "", "expected rows, received an empty file"),
        ("x.jsonl", " \n\n", "expected rows, received an empty file"),
        ("x.tsv", "text\tlabel\n", "at least one row, received only a header"),
        (
            "x.tsv",
            "txt\tlabel\na\tb\n",
            "a column 'text', received the columns 'txt', 'label'. Did you mean 'txt'",
        ),
        ("x.csv", "a,b\nc,d\n", "a column 'text', received the columns 'a', 'b'. Valid choices: a"),
        ("x.tsv", "text\ttext\na\tb\n", "one column 'text', received 2 of them"),
        ("x.csv", 'text,label\n"a"b,1\n', r"x\.csv, line 2: expected comma-separated"),
        ("x.csv", 'text,label\na,1\n"b,1\n', r"x\.csv, line 3: expected comma-separated"),
        ("x.jsonl", '{"text": "a"}\n{"text": \n', r"x\.jsonl, line 2: expected a JSON object"),
        ("x.jsonl", '["text"]\n', "line 1: expected a JSON object, received list"),
        (
            "x.jsonl",
            '{"text": "a"}\n{"txt": "b"}\n',
            "line 2: expected a value for 'text', received none",
        ),
        ("x.jsonl", '{"text": null}\n', "line 1: expected a value for 'text'"),
        ("x.xml", "text\na\n", r"one of \.tsv, \.csv, \.jsonl.*received \.xml"),
    ],
)
def test_an_unusable_file_is_refused(tmp_path, name, content, message):
    with pytest.raises(errors.DataError, match=message):
        tables.read_table(write(tmp_path / name, content), ["text"])


def test_other_encodings_are_refused_with_their_line(tmp_path):
    path = write(tmp_path / "x.tsv", "text\nplain\ncafé\n", "latin-1")
    with pytest.raises(errors.DataError, match="line 3: expected UTF-8 text, received byte 0xe9"):
        tables.read_table(path, ["text"])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(errors.DataError, match=r"nowhere\.tsv: not there"):
        tables.read_table(tmp_path / "nowhere.tsv", ["text"])


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("x.tsv", "What is it ?\t3\nWho is it ?\t4\n", "looks like data: put a line"),
        ("x.csv", "A long sentence is no name.,good\nb,bad\n", "such as 'text,label' on top"),
        ("x.csv", "texts,label\na,b\n", "Did you mean 'texts'?"),
    ],
)
def test_a_first_row_that_is_no_header_is_explained(tmp_path, name, text, remedy):
    with pytest.raises(errors.DataError) as caught:
        tables.read_table(write(tmp_path / name, text), ["text", "label"])
    assert remedy in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "latin1"])
def test_names_in_another_encoding_are_refused(tmp_path, encoding):
    path = write(tmp_path / "x.tsv", "täxt\tlabel\na\t1\n", encoding)
    with pytest.raises(errors.DataError, match=f"line 1: .*iconv -f {encoding} -t utf-8"):
        tables.column_names(path)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl"])
def test_blank_lines_between_rows_are_left_out_and_named(tmp_path, name):
    row = {"x.csv": "a,1", "x.tsv": "a\t1", "x.jsonl": '{"text": "a", "label": 1}'}[name]
    blank = {"x.csv": ",", "x.tsv": "\t", "x.jsonl": " "}[name]
    lines = [] if name == "x.jsonl" else [row.replace("a", "text").replace("1", "label")]
    lines += [row, "", row, blank, row, "", ""]
    table = tables.read_table(write(tmp_path / name, "\n".join(lines)), ["text", "label"])
    first = 1 if name == "x.jsonl" else 2
    assert table.columns["text"] == ["a"] * 3
    assert table.lines == [first, first + 2, first + 4]
    assert table.blank_lines == (first + 1, first + 3)


def test_a_place_is_told_when_it_is_asked_for(tmp_path):
    table = tables.read_table(write(tmp_path / "x.csv", "text,label\na,1\n\nb,2\n"), None)
    places = tables.Places(table, "label")
    assert (len(places), places[1]) == (2, f"{table.path}, line 4, column 'label'")
    assert list(places) == places[:] and places[-1] == places[1]


def test_equal_cells_are_one_object_while_they_are_few(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MOST_REPEATED", 2)
    lines = ["text,label", *(f"text {row},label {row % 2}" for row in range(6))]
    columns = tables.read_table(write(tmp_path / "x.csv", "\n".join(lines)), None).columns
    assert len({id(cell) for cell in columns["label"]}) == 2
    assert columns["text"] == [f"text {row}" for row in range(6)]


def test_a_row_with_more_cells_than_the_header_is_refused(tmp_path):
    path = write(tmp_path / "x.csv", "text,label\nfine,1,,\nwell, it works,0\n")
    with pytest.raises(errors.DataError, match=r"line 3: expected 2 cells .* quotation marks"):
        tables.read_table(path, ["text", "label"])


def test_a_nul_in_a_text_of_json_is_refused_as_in_a_file_of_cells(tmp_path):
    path = write(tmp_path / "x.jsonl", '{"text": "a"}\n{"text": "a\\u0000b"}\n')
    with pytest.raises(errors.DataError, match=r"line 2, 'text'.*U\+0000"):
        tables.read_table(path, ["text"])


def test_a_row_may_come_twice_in_a_file_without_a_line_of_names(tmp_path):
    path = write(tmp_path / "x.tsv", "a\t1\na\t1\n")
    table = tables.read_table(path, ["text"], header=("text", "label"))
    assert table.columns["text"] == ["a", "a"]


@pytest.mark.parametrize("names", ["text,label", "Text,LABEL", "text, label "])
def test_a_second_line_of_names_is_refused(tmp_path, names):
    path = write(tmp_path / "x.csv", f"text,label\na,1\n{names}\nb,0\n")
    with pytest.raises(errors.DataError, match="line 3: expected a row"):
        tables.read_table(path, ["text"])


def test_a_text_may_be_the_name_of_its_only_column_in_another_case(tmp_path):
    path = write(tmp_path / "x.csv", "review\nReview\nfine\n")
    assert tables.read_table(path, ["review"]).columns["review"] == ["Review", "fine"]


def test_two_columns_of_one_name_in_parquet_are_refused(tmp_path):
    columns = [pyarrow.array(["a", "b"])] * 3
    table = pyarrow.Table.from_arrays(columns, names=["text", "label", "label"])
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(errors.DataError, match="one column 'label'"):
        tables.read_table(tmp_path / "x.parquet", ["text", "label"])


def test_row_numbers_that_pandas_wrote_are_no_column(tmp_path):
    frame = pandas.DataFrame({"text": ["a", "b"], "label": ["x", "y"]}, index=[7, 3])
    frame.to_parquet(tmp_path / "x.parquet")
    path = tmp_path / "x.parquet"
    assert table_files.header_of(path) == ["text", "label"]
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


@pytest.mark.parametrize("number", [3, -2])
def test_a_number_of_no_class_is_refused(tmp_path, number):
    columns = {"text": ["a", "b"], "label": [0, number]}
    path = write_features(tmp_path / "x.parquet", columns, FEATURES)
    fault = f"line 2, 'label': expected a class from 0 to 2, or -1, received {number}"
    with pytest.raises(errors.DataError, match=fault):
        tables.read_table(path, ["text"])


@pytest.mark.parametrize("features", [None, {}, {"label": {"dtype": "int64", "_type": "Value"}}])
def test_numbers_without_names_of_classes_stay_numbers(tmp_path, features):
    columns = {"text": ["a", "b"], "label": [1, -1]}
    path = write_features(tmp_path / "x.parquet", columns, features)
    assert tables.read_table(path, ["label"]).columns["label"] == ["1", "-1"]


def test_features_that_are_no_json_are_refused(tmp_path):
    table = pyarrow.table({"text": ["a"]}).replace_schema_metadata({"huggingface": "{"})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    with pytest.raises(errors.DataError, match="huggingface of its schema, line 1: expected JSON"):
        tables.read_table(tmp_path / "x.parquet", ["text"])


def test_classes_keep_the_order_of_their_numbers(tmp_path):
    columns = {"text": [f"text number {row}" for row in range(90)], "label": [0, 1, 2] * 30}
    path = write_features(tmp_path / "train.parquet", columns, FEATURES)
    in_order = ("sad", "calm", "angry")
    spec = tasks.TaskSpec("mine", "text", "label").with_labels_of(tmp_path)
    assert spec.labels == in_order
    assert tasks.load_examples(spec, tmp_path, "train").labels.tolist() == columns["label"]
    data = labelled_file.read_labelled_file(path, "mine")
    assert data.task.labels == data.section(tmp_path)["labels"] == in_order
    columns["label"] = [0, 2] * 45  # a class that does not occur
    write_features(path, columns, FEATURES)
    assert tasks.TaskSpec("mine", "text", "label").with_labels_of(path).labels == ("sad", "angry")


def test_a_built_in_task_is_read_by_numbers_and_by_names(tmp_path):
    columns = {"sentence": ["a", "b", "c"], "label": [1, 0, 1]}
    features = {"label": {"names": ["negative", "positive"], "_type": "ClassLabel"}}
    for written in (features, {}):
        write_features(tmp_path / "train.parquet", columns, written)
        examples = tasks.load_examples(tasks.task("sst2"), tmp_path, "train")
        assert examples.labels.tolist() == columns["label"]


def test_a_column_that_is_there_twice_is_refused_where_it_may_be_absent_too(tmp_path):
    path = tmp_path / "test.csv"
    path.write_text("text,label,label\none,a,b\n")
    with pytest.raises(errors.DataError, match="one column 'label', received 2 of them"):
        tables.read_table(path, ["text"], ["label"])
