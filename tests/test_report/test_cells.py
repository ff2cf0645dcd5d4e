import csv
import io

from tfdistill.report import cells
from tfdistill.results.tables import Cell, Row, Table


def read(table):
    return list(csv.reader(io.StringIO(table.csv())))


def table(*rows, columns=("File", "p50", "Why")):
    return Table("k", "What", columns, tuple(Row(row[0], tuple(row[1:])) for row in rows))


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


def test_rows_beyond_a_limit_are_left_out_and_this_is_said():
    whole = table(*((Cell(str(i)), Cell(""), Cell("")) for i in range(1500)))
    short = whole.shortened(200, "report-tables/k.csv")
    assert len(short.rows) == 200
    assert short.notes == ("1,300 more rows are in report-tables/k.csv.",)
    assert whole.shortened(1500, "there") is whole
