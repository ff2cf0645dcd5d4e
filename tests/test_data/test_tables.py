"""Tables: every format and form is read alike, or refused with its line and the way out."""

import csv
import io
import json
import random

import pytest

from tfdistill import errors
from tfdistill.data import columns
from tfdistill.tasks import table_files, tables

TEXTS = [f'the {a} is {b}, he said "{n}"' for n in range(20) for a in ("box", "cable", "lamp")
         for b in ("good", "bad")]  # fmt: skip
LABELS = ["good", "bad"] * 60
EXPECTED = {"text": TEXTS, "label": LABELS}
ROWS = [("text", "label"), *zip(TEXTS, LABELS, strict=True)]


def cells(**dialect):
    text = io.StringIO(newline="")
    csv.writer(text, **dialect).writerows(ROWS)
    return text.getvalue()


def write(path, content, encoding="utf-8"):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def read(path):
    """What quickstart and finetune read of a file."""
    every = columns.read_columns(path)
    named = tables.read_table(path, ["text", "label"])
    assert every.columns == named.columns and every.lines == named.lines
    assert tables.column_names(path) == ["text", "label"]
    return named


FORMS = {
    "commas": ("x.csv", cells()),
    "semicolons": ("x.csv", cells(delimiter=";")),
    "vertical bars": ("x.txt", cells(delimiter="|")),
    "tabs in .csv": ("x.csv", cells(delimiter="\t")),
    "commas in .tsv": ("x.tsv", cells()),
    "tabs, marks where needed": ("x.tsv", cells(delimiter="\t")),
    "tabs, all in marks": ("x.tsv", cells(delimiter="\t", quoting=csv.QUOTE_ALL)),
    "tabs, marks and line feeds": ("x.tsv", cells(delimiter="\t", lineterminator="\n")),
    "line breaks of an old Mac": ("x.csv", cells(lineterminator="\r")),
    "blank lines on top": ("x.csv", "\n\n" + cells()),
    "rows of empty cells on top": ("x.csv", ",,\n , \n" + cells()),
    "blank lines on top of tabs": ("x.tsv", "\n\n" + cells(delimiter="\t")),
    "sep=;": ("x.csv", "sep=;\r\n" + cells(delimiter=";")),
    "sep=,": ("x.csv", "sep=,\n" + cells()),
    "sep=tab": ("x.csv", "sep=\t\r\n" + cells(delimiter="\t")),
    "quoted sep": ("x.csv", '"sep=;"\r\n' + cells(delimiter=";")),
    "byte order mark": ("x.csv", "\ufeff" + cells()),
    "byte order mark and sep": ("x.csv", "\ufeffsep=;\r\n" + cells(delimiter=";")),
    "objects": (
        "x.jsonl",
        "".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in ROWS[1:]),
    ),
}


@pytest.mark.parametrize("name, content", FORMS.values(), ids=FORMS)
def test_every_form_of_a_table_gives_the_same_columns(tmp_path, name, content):
    table = read(write(tmp_path / name, content))
    assert table.columns == EXPECTED
    top = content[: content.find("text")].count("\n") if name != "x.jsonl" else 0
    first = 1 if name == "x.jsonl" else 2 + top
    assert table.lines == list(range(first, first + 120))


# Suffix, content, the texts, their lines.
CELLS = {
    "marks in tsv are text": (
        ".tsv", '"she said\t1\nhe" said ""\t0\n', ['"she said', 'he" said ""'], [2, 3]
    ),
    "one mark": (".tsv", 'he said "no\ta\nyes\tb\n', ['he said "no', "yes"], [2, 3]),
    "a text in marks": (".tsv", '"good"\ta\nfine\tb\n', ['"good"', "fine"], [2, 3]),
    "marks at both ends": (".tsv", '"a" and "b"\ta\nfine\tb\n', ['"a" and "b"', "fine"], [2, 3]),
    "a mark beside cells in marks": (
        ".tsv", '"a ""b"" c"\ta\n5" disk\tb\n', ['"a ""b"" c"', '5" disk'], [2, 3]
    ),
    "Excel's marks between tabs": (
        ".tsv", '"one\ttab"\ta\n"a ""mark"""\tb\n"a\nline"\ta\nplain\tb\n',
        ["one\ttab", 'a "mark"', "a\nline", "plain"], [2, 3, 4, 6],
    ),
    "only line feeds end a row of tsv": (
        ".tsv", "a\u2028b\x85c\x0cd\re\t1\r\nf\t0", ["a\u2028b\x85c\x0cd\re", "f"], [2, 3]
    ),
    "RFC 4180": (".csv", '"a, ""b""\nc",1\r\nd,0\r\n', ['a, "b"\nc', "d"], [2, 4]),
    "a carriage return": (".csv", "a,1\rb,2\nc,3\n", ["a", "b", "c"], [2, 3, 4]),
    "empty cells behind": (".csv", "fine,1,,\nwell,0\n", ["fine", "well"], [2, 3]),
    "blank lines": (".csv", "a,1\n\nb,1\n,\nc,2\n\n", ["a", "b", "c"], [2, 4, 6]),
    "blank lines of tsv": (".tsv", "a\t1\n\nb\t1\n\t\nc\t2\n\n", ["a", "b", "c"], [2, 4, 6]),
    "the name of one column": (".csv", "text,0\n", ["text"], [2]),
}  # fmt: skip


@pytest.mark.parametrize("suffix, content, texts, lines", CELLS.values(), ids=CELLS)
def test_cells_are_split_as_their_format_says(tmp_path, suffix, content, texts, lines):
    for names in ("text\tlabel\n", '"text"\t"label"\n' if suffix == ".tsv" else "text\tlabel\n"):
        top = names if suffix == ".tsv" else names.replace("\t", ",")
        table = tables.read_table(write(tmp_path / f"x{suffix}", top + content), ["text"])
        assert (table.columns["text"], table.lines) == (texts, lines)
    assert all(table.lines[0] < line < table.lines[-1] for line in table.blank_lines)
    assert len(table.blank_lines) == (2 if content[-2:] == "\n\n" else "\n\t\n" in content)


def test_between_tabs_all_cells_but_numbers_may_be_in_marks(tmp_path):
    path = write(tmp_path / "x.tsv", '"text"\t"label"\n"a"\t1\n\t\n"b"\t2.5\n')
    assert read(path).columns == {"text": ["a", "b"], "label": ["1", "2.5"]}


def test_a_blank_after_each_separator_is_no_part_of_the_cells(tmp_path):
    path = write(tmp_path / "x.csv", 'text, label\n"a, really", "b"\nc, d\n')
    assert read(path).columns == {"text": ["a, really", "c"], "label": ["b", "d"]}


@pytest.mark.parametrize("separator", [",", ";", "|", "\t"])
def test_what_the_csv_module_writes_is_read_as_it_reads_it(tmp_path, separator):
    """Its own reader, a row at a time, is the oracle of cells and lines."""
    chance = random.Random(separator)
    pieces = ["a film", "b", '"', ",", ";", "|", "\t", "\n", "\u2028", "\x0c", " ", "0,5", ""]
    for number in range(150):
        rows = [
            ["".join(chance.choices(pieces, k=chance.randrange(4))) + "x" for _ in range(3)]
            for _ in range(chance.randrange(1, 9))
        ]
        text = io.StringIO(newline="")
        quoting = chance.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
        writer = csv.writer(text, delimiter=separator, lineterminator="\n", quoting=quoting)
        writer.writerows([["text", "label", "more"], *rows])
        reader = csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=separator)
        ends = [0, *(reader.line_num for _ in reader)]
        path = write(tmp_path / f"{number}.csv", text.getvalue())
        table = tables.read_table(path, None)
        assert [*zip(*table.columns.values(), strict=True)] == [*map(tuple, rows)]
        assert table.lines == [line + 1 for line in ends[1:-1]]


def test_a_fault_is_told_before_those_below_it(tmp_path):
    path = write(tmp_path / "x.csv", 'text,label\na,1\nb\n"c"d,1\n')
    with pytest.raises(errors.DataError, match="line 3: expected 2 cells"):
        tables.read_table(path, ["text", "label"])
    assert tables.column_names(path) == ["text", "label"]


def test_files_without_a_header_are_read_by_position(tmp_path):
    header = ("source", "label", "mark", "sentence")
    path = write(tmp_path / "x.tsv", "s1\t1\t\tGood.\ns1\t1\t\tGood.\n")
    table = tables.read_table(path, ["sentence", "label"], header=header)
    assert table.columns == {"sentence": ["Good."] * 2, "label": ["1"] * 2}
    assert table.lines == [1, 2]
    path = write(tmp_path / "y.tsv", "index\tsentence\n0\tGood.\n")
    table = tables.read_table(path, ["sentence"], ["label"], header=header)
    assert table.columns == {"sentence": ["Good."]}
    with pytest.raises(errors.DataError, match="line 1: expected the 4 cells source, label"):
        tables.read_table(path, ["mark"], header=header)


def test_short_rows_are_refused_or_counted(tmp_path):
    path = write(tmp_path / "x.tsv", "id\ttext\tlabel\n1\ta\t1\n2\tb\n3\tc\t0\n")
    with pytest.raises(errors.DataError, match=r"x\.tsv, line 3: expected 3 cells .* received 2"):
        tables.read_table(path, ["text", "label"])
    assert tables.read_table(path, ["text"]).columns["text"] == ["a", "b", "c"]
    table = tables.read_table(path, ["text", "label"], skip_short_rows=True)
    assert (table.columns["text"], table.lines, table.skipped) == (["a", "c"], [2, 4], 1)


EMPTY, QUOTES = "expected rows, received an empty file", "expected comma-separated"
AGAIN, NULL = "line 3: expected a row, received the names", r"line 2, 'text'.*U\+0000"
REFUSED = [
    ("x.tsv", "", EMPTY),
    ("x.jsonl", " \n\n", EMPTY),
    ("x.csv", ",,\n\n", "blank lines only"),
    ("x.tsv", "text\tlabel\n", "at least one row, received only a header"),
    ("x.tsv", "txt\tlabel\na\tb\n", "received the columns 'txt', 'label'. Did you mean 'txt'"),
    ("x.csv", "a,b\nc,d\n", "a column 'text', received the columns 'a', 'b'. Valid choices: a"),
    ("x.tsv", "text\ttext\na\tb\n", "one column 'text', received 2 of them"),
    ("x.csv", "text,label,label\na,b,c\n", "one column 'label', received 2 of them"),
    ("x.csv", "text,label\na,1\nwell, it works,0\n", "line 3: expected 2 cells .* quotation marks"),
    ("x.csv", "text,label\na,1\ntext,label\nb,0\n", AGAIN),
    ("x.csv", "text,label\na,1\n Text,LABEL \nb,0\n", AGAIN),
    ("x.csv", 'text,label\n"a"b,1\n', rf"x\.csv, line 2: {QUOTES}"),
    ("x.csv", 'text,label\na,1\n"b,1\n', rf"x\.csv, line 3: {QUOTES}"),
    ("x.csv", "sep=x\ntext,label\n", "line 1: expected sep= with a comma"),
    ("x.tsv", "text\tl\n" + '"a ""b"""\tx\n' * 30 + '"a "b" c"\ty', "line 32: .*marks"),
    ("x.jsonl", '{"text": "a"}\n{"text": \n', r"x\.jsonl, line 2: expected a JSON object"),
    ("x.jsonl", '["text"]\n', "line 1: expected a JSON object, received list"),
    ("x.jsonl", '{"text": "a"}\n{"txt": "b"}\n', "line 2: expected a value for 'text'"),
    ("x.jsonl", '{"text": null}\n', "line 1: expected a value for 'text'"),
    ("x.jsonl", '{"text": "a"}\n{"text": "a\\u0000b"}\n', NULL),
    ("x.jsonl", '{"text": [{"name": "a"}]}\n', "line 1, 'text': expected a string or a number"),
    ("x.csv", "text,label\na,1\nb\0,1\n", "line 3: .*a NUL character"),
    ("x.tsv", "text\nplain\ncafé\n".encode("latin-1"), "line 3: expected UTF-8.* byte 0xe9"),
    ("x.csv", b"PK\x03\x04...", "a packed file .zip, Excel"),
    ("x.csv", b"\x1f\x8b\x08", "gzip"),
    ("x.csv", b"PAR1..", "Parquet"),
    ("x.parquet", b"text", "a Parquet file"),
    ("x.xml", "text\na\n", r"one of \.tsv, \.csv, \.jsonl.*received \.xml"),
    ("x.zip", b"PK", r"received \.zip\. Unpack an archive"),
    ("x.json", "[]", "an object a line.*kind='token'"),
    ("x", b"PK", "a name without suffix"),
]  # fmt: skip


@pytest.mark.parametrize("name, content, fact", REFUSED, ids=repr)
def test_an_unusable_file_is_refused(tmp_path, name, content, fact):
    with pytest.raises(errors.DataError, match=fact):
        tables.read_table(write(tmp_path / name, content), ["text"], ["label"])
    with pytest.raises(errors.DataError, match=r"nowhere\.tsv: not there"):
        tables.read_table(tmp_path / "nowhere.tsv", ["text"])


ENCODINGS = [
    ("“quoted” café – 5 €", "cp1252", "cp1252"),
    ("café déjà", "latin1", "latin1"),
    *(("café", name, name) for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32")),
    ("テストの文章です", "shift_jis", None),
    ("good 好", "gbk", None),
    ("good 良い", "euc-jp", None),
    ("사진기가 좋다", "cp949", None),
    ("камера хорошая", "cp1251", None),
    ("камера хорошая", "koi8-r", None),
    ("η κάμερα είναι καλή", "cp1253", None),
]


@pytest.mark.parametrize("text, encoding, likely", ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_another_encoding_is_named_or_not_guessed(tmp_path, text, encoding, likely, suffix):
    rows = ["text,label", *(f"{text} number {n},{'ab'[n % 2]}" for n in range(60))]
    if suffix == ".jsonl":
        rows = [json.dumps({"text": row}, ensure_ascii=False) for row in rows]
    path = write(tmp_path / f"x{suffix}", "\n".join(rows), encoding)
    for function in (columns.read_columns, tables.column_names):
        with pytest.raises(errors.DataError, match=r"line [12]: expected UTF-8 text") as caught:
            function(path)
        assert likely is None or f"iconv -f {likely} -t utf-8" in str(caught.value)
        assert likely is not None or "iconv" not in str(caught.value)


def test_a_place_is_told_when_it_is_asked_for(tmp_path):
    table = tables.read_table(write(tmp_path / "x.csv", "text,label\na,1\n\nb,2\n"), None)
    places = tables.Places(table, "label")
    assert (len(places), places[1]) == (2, f"{table.path}, line 4, column 'label'")
    assert list(places) == [places[0], places[1]] and places[-1] == places[1]


def test_equal_cells_are_one_object_while_they_are_few(tmp_path, monkeypatch):
    lines = ["text,label", *(f"text {row},label {row % 2}" for row in range(6))]
    path = write(tmp_path / "x.csv", "\n".join(lines))
    expected = tables.read_table(path, None)
    monkeypatch.setattr(tables, "_MOST_REPEATED", 2)
    monkeypatch.setattr(tables, "_BATCH", 4)
    table = tables.read_table(path, None)
    assert len({id(cell) for cell in table.columns["label"]}) == 2
    assert (table.columns, table.lines) == (expected.columns, expected.lines)
    assert table.columns["text"] == [f"text {row}" for row in range(6)]


def test_a_text_may_be_longer_than_the_limit_of_csv(tmp_path):
    usual, long = csv.field_size_limit(), "word " * 30_000
    readers = [table_files.split_rows(tmp_path / name, f"a\n{long}\n", ",") for name in "ab"]
    assert [next(rows) for rows in readers] == [(1, ["a"])] * 2  # of which one is left there
    assert csv.field_size_limit() == usual
    assert [len(cells[0]) for _, cells in readers[0]] == [len(long)]
    readers[1].close()
    assert csv.field_size_limit() == usual
