"""Quantities have digits and units; tables are aligned, and wrapped where they do not fit."""

import pathlib
import re

import pytest

from tfdistill.results import quantities, tables

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (0.00123, "0.00123"),
        (0.9996, "1.00"),
        (1, "1.00"),
        (9.994, "9.99"),
        (9.996, "10.0"),
        (43.56, "43.6"),
        (99.96, "100"),
        (1234.4, "1,234"),
    ],
)
def test_three_digits_are_kept_also_across_a_rounding_up(value, written):
    assert quantities.digits(value) == written


def test_every_quantity_has_its_unit_and_what_is_absent_is_a_dash():
    assert quantities.size(14_860_000) == "14.9 MB"
    assert quantities.size(999) == "999 B"
    assert (quantities.size(23_140), quantities.megabytes(23_140)) == ("23.1 kB", "0.0231")
    assert quantities.count(14_350_248) == "14.4 M"
    shown = (quantities.size, quantities.megabytes, quantities.count)
    assert {show(None) for show in shown} == {"–"}


@pytest.mark.parametrize(
    ("one", "other", "written"),
    [
        (0.913, 0.9, ("0.913", "0.900")),
        (0.90304, 0.90301, ("0.90304", "0.90301")),
        (8_003_200 / 1e6, 8, ("8.003", "8.000")),
        (0.5, 0.5, ("0.500", "0.500")),
        (0.5, float("nan"), ("0.500", "nan")),
        (1.0, 1.0 + 1e-15, ("1.00000000000", "1.00000000000")),
    ],
)
def test_what_differs_looks_different(one, other, written):
    assert quantities.apart(one, other) == written


def test_no_other_function_writes_megabytes():
    for package in ("tfdistill", "export"):
        for file in (ROOT / package).rglob("*.py"):
            faults = re.findall(r"\{[^{}]*/ 1e6:[^{}]*\}", file.read_text())
            assert not faults, f"{file}: {faults}: use quantities.size, megabytes or count"


# Tables.

LONG = [
    ["file", "p50 ms", "remarks"],
    ["student", "1.234", "throttled; the same file; Android 14 -> Android 15"],
    ["teacher", "12.345", ""],
]


def test_a_table_is_wrapped_at_words_where_it_does_not_fit_the_terminal(monkeypatch):
    whole = tables.table(LONG)  # into a file
    assert len(whole) == 4
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    assert tables.table(LONG) == whole
    monkeypatch.setenv("COLUMNS", "40")
    lines = tables.table(LONG, left=1)
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[2:-1]).split()) == (
        "student 1.234 throttled; the same file; Android 14 -> Android 15"
    )
    assert lines[-1] == "teacher  12.345"  # narrow columns keep their width
    monkeypatch.setenv("COLUMNS", "10")
    lines = tables.table([["name"], ["x" * 40]])
    assert lines == ["name", "-" * 16, "x" * 16, "x" * 16, "x" * 8]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("<b>*a*_b_`c`|d\n[e](f)", r"&lt;b&gt;\*a\*\_b\_\`c\`\|d \[e\](f)"),
        ("a\u2028b\x0bc", "a b c"),
        ("\u202eturned\u2066\u200f", "turned"),  # nothing moves the text behind it
        ("a\x00b", "a\ufffdb"),
        ("\u0646\u200c\u0645", "\u0646\u200c\u0645"),  # a joiner shapes letters
        ("&amp;", "&amp;amp;"),
    ],
)
def test_foreign_text_is_one_line_of_plain_text_in_markdown(text, written):
    assert tables.markdown(text) == written
