import csv
import io

from tfdistill.report import cells
from tfdistill.results.tables import Cell, Row, Table


def read(table):
    return list(csv.reader(io.StringIO(table.csv())))


def table(*rows, columns=("File", "p50", "Why")):
    return Table("k", "What", columns, tuple(Row(row[0], tuple(row[1:])) for row in rows))


def test_numbers_are_bare_and_in_full_and_the_head_holds_their_unit():
    lines = read(
        table(
            (Cell("a"), cells.milliseconds(1.23456789), Cell("x, y\nz")),
            (Cell("b"), cells.milliseconds(None), Cell("–")),
        )
    )
    assert lines == [["File", "p50 (ms)", "Why"], ["a", "1.23456789", "x, y z"], ["b", "", ""]]


def test_an_interval_becomes_two_columns_and_a_second_line_one():
    lines = read(
        table(
            (Cell("a", "throttled"), cells.milliseconds(2.0, (1.9, 2.2)), Cell("x")),
            (Cell("b"), cells.milliseconds(3.0), Cell("y")),
        )
    )
    assert lines[0] == [
        "File", "File, detail", "p50 (ms)", "p50 (ms), 95% from", "p50 (ms), 95% to", "Why"
    ]  # fmt: skip
    assert lines[1:] == [["a", "throttled", "2", "1.9", "2.2", "x"], ["b", "", "3", "", "", "y"]]


def test_no_text_is_taken_for_a_formula():
    lines = read(table((Cell("=SUM(A1)"), cells.number(-3), Cell("@x", "-y"))))
    assert lines[1] == ["'=SUM(A1)", "-3", "'@x", "'-y"]


def test_a_table_without_rows_is_a_head():
    assert read(table()) == [["File", "p50", "Why"]]


def test_sizes_are_megabytes_and_large_numbers_stay_whole():
    lines = read(table((Cell("a"), cells.size(438_123_456), cells.number(10_000_000_001))))
    assert lines == [["File", "p50 (MB)", "Why"], ["a", "438.123456", "10000000001"]]


def test_rows_beyond_a_limit_are_left_out_and_this_is_said():
    whole = table(*((Cell(str(i)), Cell(""), Cell("")) for i in range(1500)))
    short = whole.shortened(200, "report-tables/k.csv")
    assert len(short.rows) == 200
    assert short.notes == ("1,300 more rows are in report-tables/k.csv.",)
    assert whole.shortened(1500, "there") is whole


def test_columns_that_hold_nothing_are_left_out():
    lines = table((Cell("a"), Cell("–"), Cell("x")), (Cell("b"), Cell("–"), Cell("–")))
    lines = lines.without_empty()
    assert lines.columns == ("File", "Why")
    assert [row.cells for row in lines.rows] == [(Cell("x"),), (Cell("–"),)]


def test_a_long_name_is_shortened_on_the_page_and_whole_in_csv():
    whole = "a" * 50 + "b" * 50
    cell = cells.name(whole, longest=40)
    assert len(cell.text) == 40 and cell.text.startswith("aa") and cell.text.endswith("bb")
    assert read(table((cell, Cell(""), Cell(""))))[1][0] == whole
    assert cells.name("short") == Cell("short")


def test_the_head_of_a_column_names_its_unit():
    rows = table((Cell("a"), cells.milliseconds(0.0544), Cell("x")),
                 (Cell("b"), cells.milliseconds(5.599), Cell("y")))  # fmt: skip
    assert rows.heads == ("File", "p50, ms", "Why")
    assert [row.cells[0].text for row in rows.rows] == ["0.0544", "5.60"]
