"""Texts for an index: what is read, what is left out, and what is named."""

import pytest

from tfdistill import errors
from tfdistill.data import index_rows


def test_rows_of_a_table_keep_their_answers_and_lines(tmp_path):
    path = tmp_path / "faq.csv"
    path.write_text(
        'question,answer\n how ?,"so, then"\nwhy?,\n,lost\nhow ?,"so, then"\nhow ?,other\n'
    )
    rows = index_rows.read_rows(path, "question", "answer")
    assert rows.texts == ["how ?", "why?", "how ?"]
    assert rows.answers == ["so, then", "", "other"]
    assert rows.lines == [2, 3, 6]
    assert rows.notes == (
        "left out, without a text: line 4",
        "left out, repeated: line 5 as line 2",
    )


def test_plain_text_has_a_text_a_line_and_no_answers(tmp_path):
    path = tmp_path / "faq.txt"
    path.write_text("b\n\n" + "a\n" * 8)
    rows = index_rows.read_rows(path)
    assert (rows.texts, rows.answers, rows.lines) == (["b", "a"], None, [1, 3])
    assert rows.notes[0].endswith("line 8 as line 3, and 2 more")
    with pytest.raises(errors.ConfigError, match="expected a table"):
        index_rows.read_rows(path, "text")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "how?\tso\n", "line 1: expected a text without tabs"),
        ("a.csv", "text\n", "at least one row"),
        ("a.csv", "", "text"),
        ("a.csv", 'text,other\n"  ",x\n', "expected at least one text, received none"),
        ("a.csv", "question\nx\n", "a column 'text', received .* text_column"),
        ("a.txt", " \n\n", "expected at least one text, received none"),
        ("a.jsonl", '{"text": "' + "x" * 100_001 + '"}\n', "line 1: expected a text of at most"),
        ("a.jsonl", '{"text": "a"}\n{"text": [1]}\n', "a string or a number, received list"),
    ],
)
def test_a_corpus_without_texts_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(errors.DataError, match=message):
        index_rows.read_rows(tmp_path / name)
