"""Formats of tables, through the commands: each is read alike, or refused with the way to one."""

import csv
import importlib.util
import io
import json
import zipfile

import pyarrow
import pyarrow.parquet
import pytest

from tfdistill import cli, errors
from tfdistill.data import columns
from tfdistill.tasks import table_files, table_limits, tables

TEXTS = [f'the {a} is {b}, he said "{n}"' for n in range(20) for a in ("box", "cable", "lamp")
         for b in ("good", "bad")]  # fmt: skip
LABELS = ["good", "bad"] * 60
EXPECTED = {"text": TEXTS, "label": LABELS}
ROWS = [("text", "label"), *zip(TEXTS, LABELS, strict=True)]


def cells(**dialect):
    text = io.StringIO(newline="")
    csv.writer(text, **dialect).writerows(ROWS)
    return text.getvalue()


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
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    table = read(tmp_path / name)
    assert table.columns == EXPECTED
    top = len(content) - len(content.lstrip("\n"))
    first = 1 if name == "x.jsonl" else 2 + ("sep=" in content[:6]) + top
    assert table.lines == list(range(first, first + 120))


def test_cells_between_tabs_may_hold_tabs_and_line_breaks_in_quotation_marks(tmp_path):
    texts = ["one\ttab", 'a "mark"', "a\nline", "plain"]
    (tmp_path / "x.tsv").write_text(
        'text\tlabel\n"one\ttab"\ta\n"a ""mark"""\tb\n"a\nline"\ta\nplain\tb\n'
    )
    table = tables.read_table(tmp_path / "x.tsv", ["text", "label"])
    assert table.columns["text"] == texts
    assert table.lines == [2, 3, 4, 6]


def test_names_in_quotation_marks_above_plain_cells_lose_them(tmp_path):
    rows = "".join(f"fine {n}\t{'ab'[n % 2]}\n" for n in range(60))
    (tmp_path / "x.tsv").write_text('"text"\t"label"\n' + rows)
    assert read(tmp_path / "x.tsv").columns["text"][0] == "fine 0"


def test_columns_that_cannot_be_labels_are_named_with_their_line(tmp_path, capsys):
    rows = [{"text": text, "label": [{"name": "a"}]} for text in TEXTS]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(tmp_path, "x.jsonl") == 1
    assert "line 1, 'label': expected a string or a number" in capsys.readouterr().err


LONE = {
    "one mark": 'he said "no\ta\nyes\tb\n',
    "a text in marks": '"good"\ta\nfine film\tb\n',
    "marks at both ends": '"good" and "bad"\ta\nfine\tb\n',
    "doubled marks alone": 'what is ""xyz""\ta\n"she said\tb\nhe" said ""\ta\n',
    "other marks beside a needed one": '"a ""b"" c"\ta\n5" disk\tb\n',
}


@pytest.mark.parametrize("rows", LONE.values(), ids=LONE)
def test_other_quotation_marks_between_tabs_are_text(tmp_path, rows):
    (tmp_path / "x.tsv").write_text(f"text\tlabel\n{rows}")
    table = tables.read_table(tmp_path / "x.tsv", ["text"])
    assert table.columns["text"] == [row.split("\t")[0] for row in rows.splitlines()]


def test_a_broken_row_among_quoted_cells_is_named(tmp_path):
    rows = ["text\tlabel", *(f'"a ""b"" {n}"\tx' for n in range(30)), '"a "b" c"\ty']
    (tmp_path / "x.tsv").write_text("\n".join(rows))
    with pytest.raises(errors.DataError, match="line 32: expected cells in quotation marks"):
        tables.read_table(tmp_path / "x.tsv", ["text"])


def test_parquet_is_read_with_lists_and_absent_values(tmp_path):
    path = tmp_path / "x.parquet"
    pyarrow.parquet.write_table(pyarrow.table(EXPECTED), path)
    assert read(path).columns == EXPECTED
    more = {"text": ["a", "b", None], "n": [1, None, 3], "x": [0.5, 1.0, None],
            "tags": [["p", "q"], [], None]}  # fmt: skip
    pyarrow.parquet.write_table(pyarrow.table(more), path)
    table = columns.read_columns(path)
    assert table.columns["n"] == ["1", tables.NULL, "3"]
    assert table.columns["x"] == ["0.5", "1.0", tables.NULL]
    assert table.columns["tags"] == ["p\x1fq\x1f", "", tables.NULL]
    with pytest.raises(errors.DataError):
        tables.read_table(path, ["text"])


def write_sheet(path, sheets):
    """Writes an Excel file by hand: strings inside the cells, numbers as they are."""
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.'
        'relationships+xml"/><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        + "".join(
            f'<Override PartName="/xl/worksheets/sheet{i}.xml" ContentType="{kind}.worksheet+xml"/>'
            for i, _ in enumerate(sheets)
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        + "".join(
            f'<sheet name="S{i}" sheetId="{i + 1}" r:id="r{i}"/>' for i, _ in enumerate(sheets)
        )
        + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
        + "".join(
            f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>'
            for i, _ in enumerate(sheets)
        )
        + "</Relationships>",
    }
    for i, rows in enumerate(sheets):
        lines = "".join(
            f'<row r="{number}">'
            + "".join(
                f"<c><v>{cell}</v></c>"
                if isinstance(cell, (int, float))
                else f'<c t="inlineStr"><is><t>{cell}</t></is></c>'
                for cell in row
            )
            + "</row>"
            for number, row in enumerate(rows, start=1)
        )
        parts[f"xl/worksheets/sheet{i}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{lines}</sheetData></worksheet>'
        )
    with zipfile.ZipFile(path, "w") as file:
        for name, text in parts.items():
            file.writestr(name, text)
    return path


def test_a_sheet_of_excel_is_read_or_its_package_is_named(tmp_path):
    rows = [(text.replace('"', "'"), label) for text, label in ROWS]
    one = write_sheet(tmp_path / "x.xlsx", [rows, []])
    numbers = write_sheet(tmp_path / "n.xlsx", [[("text", "n"), ("a", 1), ("b", 2.5)]])
    two = write_sheet(tmp_path / "y.xlsx", [rows, rows])
    if importlib.util.find_spec("openpyxl") is None:
        with pytest.raises(errors.EnvironmentFault, match=r"pip install 'tfdistill\[excel\]'"):
            read(one)
        return
    table = read(one)
    assert table.columns == {"text": [text for text, _ in rows[1:]], "label": LABELS}
    assert table.lines[0] == 2
    assert tables.read_table(numbers, ["n"]).columns["n"] == ["1", "2.5"]
    with pytest.raises(errors.DataError, match="expected one sheet, received 2 of them"):
        read(two)
    titled = write_sheet(tmp_path / "z.xlsx", [[("Survey",), *rows]])
    with pytest.raises(errors.DataError, match=r"line 2: expected 1 cells .* titles and notes"):
        read(titled)


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

    if importlib.util.find_spec("openpyxl") is None:
        return
    monkeypatch.setattr(table_limits, "MIN_SPARSE_CELLS", 10**5)
    far = [[("text", "label"), ("a", "b"), *[("", "")] * 20, ("",) * 16_000 + ("far",)] * 7]
    with pytest.raises(errors.DataError, match="Remove cells far from the table"):
        tables.read_table(write_sheet(tmp_path / "far.xlsx", far), ["text"])
    monkeypatch.setattr(table_limits, "MAX_UNPACKED", 100)
    with pytest.raises(errors.DataError, match="at most 100 bytes"):
        tables.read_table(write_sheet(tmp_path / "bomb.xlsx", [ROWS]), ["text"])


ENCODINGS = {
    "cp1252": ("“quoted” café – 5 €", "cp1252", "iconv -f cp1252 "),
    "latin1": ("café déjà", "latin1", "iconv -f latin1 "),
    "utf-16 with a mark": ("café", "utf-16", "iconv -f utf-16 "),
    "utf-16 without": ("plain", "utf-16-le", "iconv -f utf-16-le "),
    "utf-16, the other way": ("café", "utf-16-be", "iconv -f utf-16-be "),
    "utf-32": ("café", "utf-32", "iconv -f utf-32 "),
}


@pytest.mark.parametrize("text, encoding, advice", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_another_encoding_is_named(tmp_path, capsys, text, encoding, advice, suffix):
    rows = [("text", "label"), *((f"{text} number {n}", "ab"[n % 2]) for n in range(60))]
    lines = [",".join(row) for row in rows]
    if suffix == ".jsonl":
        lines = [json.dumps({"text": t, "label": n}, ensure_ascii=False) for t, n in rows[1:]]
    (tmp_path / f"x{suffix}").write_bytes("\n".join(lines).encode(encoding))
    assert main(tmp_path, f"x{suffix}") == 1
    assert advice in capsys.readouterr().err


@pytest.mark.parametrize(
    "text, encoding",
    [
        ("テストの文章です", "shift_jis"),
        ("カメラは良い", "cp932"),
        ("good 好", "gbk"),
        ("good 良い", "euc-jp"),
        ("这个相机很好", "gbk"),
        ("사진기가 좋다", "cp949"),
        ("камера хорошая", "cp1251"),
        ("камера хорошая", "koi8-r"),
        ("η κάμερα είναι καλή", "cp1253"),
    ],
)
def test_an_encoding_that_cannot_be_told_is_not_guessed(tmp_path, capsys, text, encoding):
    rows = ["text,label", *(f"{text} {n},{'ab'[n % 2]}" for n in range(60))]
    (tmp_path / "x.csv").write_bytes("\n".join(rows).encode(encoding))
    assert main(tmp_path, "x.csv") == 1
    told = capsys.readouterr().err
    assert "line 2: expected UTF-8 text" in told and "iconv" not in told


FORMATS = {
    "x.zip": "Unpack it",
    "x.csv.gz": "Unpack it",
    "x.xls": "as .xlsx",
    "x.ods": "as .xlsx",
    "x.json": "an object a line",
    "x.arrow": ".parquet",
    "x.pkl": ".parquet",
    "x.dta": "as CSV in UTF-8",
    "x": "a name without suffix",
}


@pytest.mark.parametrize("name, advice", FORMATS.items())
def test_other_formats_are_refused_with_the_way_out(tmp_path, capsys, name, advice):
    (tmp_path / name).write_bytes(b"text,label\na,b\n")
    assert main(tmp_path, name) == 1
    told = capsys.readouterr().err
    assert advice in told and len(told.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "content, what",
    [(b"PK\x03\x04...", "Excel"), (b"\x1f\x8b\x08", "gzip"), (b"PAR1..", "Parquet")],
)
def test_another_format_under_the_name_of_a_table_is_named(tmp_path, capsys, content, what):
    (tmp_path / "x.csv").write_bytes(content)
    assert main(tmp_path, "x.csv") == 1
    assert what in capsys.readouterr().err


@pytest.mark.parametrize("url", ["https://example.com/x.csv", "http://example.com/x.csv"])
def test_an_address_is_refused_in_one_line(tmp_path, capsys, url):
    teacher = tmp_path / "bert"
    teacher.mkdir()
    assert cli.main(["quickstart", "--teacher", str(teacher), "--data", url]) in (1, 2)
    told = capsys.readouterr().err
    assert "a path on this machine" in told and len(told.strip().splitlines()) == 1


def main(folder, name):
    """Runs quickstart, which reads the data before the teacher."""
    teacher = folder / "bert"
    teacher.mkdir()
    (teacher / "config.json").write_text('{"model_type": "bert"}')
    return cli.main(["quickstart", "--teacher", str(teacher), "--data", str(folder / name)])


@pytest.mark.parametrize(
    "form", ["sep=;", "tabs, all in marks", "semicolons", "objects", "parquet"]
)
def test_splits_are_read_in_every_form_by_commands(tmp_path, capsys, form):
    halves = (("train", 0, 80), ("dev", 80, 120))
    for split, first, last in halves:
        if form == "parquet":
            part = {name: cells[first:last] for name, cells in EXPECTED.items()}
            pyarrow.parquet.write_table(pyarrow.table(part), tmp_path / f"{split}.parquet")
            continue
        name, content = FORMS[form]
        lines = content.splitlines(keepends=True)
        top = len(lines) - 120
        text = "".join([*lines[:top], *lines[top + first : top + last]])
        path = tmp_path / f"{split}{name.removeprefix('x')}"
        path.write_text(text, encoding="utf-8", newline="")
    arguments = ["--task", "own", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    arguments += ["--text-column", "text", "--label-column", "label", "--dry-run"]
    assert cli.main(["finetune", "preset:bert_tiny", "--vocab", "train:200", *arguments]) == 0, (
        capsys.readouterr().err
    )
    shown = "".join(capsys.readouterr())
    assert "train 80, dev 40" in shown


def test_a_text_may_be_longer_than_the_limit_of_csv(tmp_path):
    usual = csv.field_size_limit()
    long = "word " * 30_000
    (tmp_path / "x.csv").write_text(f"text,label\n{long},a\nshort,b\n")
    table = tables.read_table(tmp_path / "x.csv", ["text", "label"])
    assert table.columns["text"] == [long, "short"]
    assert csv.field_size_limit() == usual
    # Two at once, and one that is left in the middle.
    readers = [table_files.split_rows(tmp_path / name, f"a\n{long}\n", ",") for name in "ab"]
    assert [next(rows) for rows in readers] == [(1, ["a"])] * 2
    assert csv.field_size_limit() == usual
    assert [len(cells[0]) for _, cells in readers[0]] == [len(long)]
    readers[1].close()
    assert csv.field_size_limit() == usual
