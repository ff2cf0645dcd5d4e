"""Tables are aligned, and wrapped at words where they do not fit."""

import pytest

from tfdistill.results import tables

LONG = [
    ["file", "p50 ms", "remarks"],
    ["student", "1.234", "throttled; the same file; Android 14 -> Android 15"],
    ["teacher", "12.345", ""],
]


def test_a_table_fits_the_terminal_by_wrapping_its_widest_column_at_words():
    lines = tables.table(LONG, left=1, width=40)
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines[2:-1]).split()) == (
        "student 1.234 throttled; the same file; Android 14 -> Android 15"
    )
    assert lines[-1] == "teacher  12.345"  # narrow columns keep their width


def test_a_table_is_not_wrapped_where_it_fits_or_output_is_no_terminal(monkeypatch):
    whole = tables.table(LONG)
    assert len(whole) == 4 and tables.table(LONG, width=200) == whole
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "40")
    assert tables.table(LONG) == tables.table(LONG, width=40)
    assert tables.table(LONG, indent=3) == [f"   {line}" for line in tables.table(LONG, width=37)]


def test_a_table_of_long_words_is_as_narrow_as_it_can_be():
    lines = tables.table([["name"], ["x" * 40]], width=10)
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
