"""Tables are aligned, and wrapped at words where they do not fit."""

from tfdistill import tables

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
