"""predict reads a table by its columns and a line as a text, never a row of a table as a text."""

import json
import pathlib
import shutil
import sys

import pytest

from tfdistill import cli

BUNDLE = (
    pathlib.Path(__file__).parents[2] / "android_demo/text/src/test/resources/bundles/pairs-float32"
)
PAIRS = "first\tsecond\tlabel\ngood film\ta fine one\tyes\nbad film\ta bore\tno\n"


@pytest.fixture
def exported(tmp_path):
    """Writes an export of pairs or of single texts, with the names of its columns or without."""

    def write(*, pair=True, named=True):
        folder = tmp_path / "export"
        shutil.copytree(BUNDLE, folder)
        card = json.loads((folder / "model.json").read_text("utf-8"))
        card["task"]["pair"] = pair
        if named:
            card["task"] |= {"text_column": "first", "pair_column": "second" if pair else None}
        (folder / "model.json").write_text(json.dumps(card), "utf-8")
        return folder

    return write


def predict(capsys, *arguments):
    code = cli.main(["predict", *map(str, arguments), "--json"])
    shown = capsys.readouterr()
    rows = [json.loads(line) for line in shown.out.splitlines()]
    return code, [(row["text"], row.get("pair")) for row in rows], shown.err


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl"])
def test_a_table_is_read_by_the_columns_that_the_export_names(suffix, tmp_path, exported, capsys):
    file = tmp_path / f"pairs{suffix}"
    rows = [line.split("\t") for line in PAIRS.splitlines()]
    lines = [",".join(row) if suffix == ".csv" else "\t".join(row) for row in rows]
    if suffix == ".jsonl":
        lines = [json.dumps(dict(zip(rows[0], row, strict=True))) for row in rows[1:]]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    wanted = [("good film", "a fine one"), ("bad film", "a bore")]
    assert predict(capsys, exported(), "--file", file)[:2] == (0, wanted)


def test_an_export_without_the_names_asks_for_the_columns(tmp_path, exported, capsys):
    file, export = tmp_path / "pairs.tsv", exported(named=False)
    file.write_text(PAIRS, "utf-8")
    code, answers, err = predict(capsys, export, "--file", file)
    assert (code, answers) == (2, []) and "--text-column and --pair-column" in err
    columns = ("--text-column", "second", "--pair-column", "first")
    code, answers, _ = predict(capsys, export, "--file", file, *columns)
    assert (code, answers[0]) == (0, ("a fine one", "good film"))
    code, answers, err = predict(capsys, export, "a\tb", *columns)
    assert (code, answers) == (2, []) and "expected a table in --file" in err


@pytest.mark.parametrize(
    ("pair", "lines", "place", "received"),
    [
        (True, PAIRS, "line 1", "the names of columns"),
        (True, "second\tFirst\n", "line 1", "the names of columns"),
        (True, PAIRS.partition("\n")[2], "line 1", "2 tab(s)"),
        (True, "a\tb\n\nc\td\te\n", "line 3", "2 tab(s)"),
        (True, "a\tb\nno tab\n", "line 2", "0 tab(s)"),
        (False, "first\ngood film\n", "line 1", "the names of columns"),
        (False, "label,first\nyes,good film\n", "line 1", "the names of columns"),
        (False, "good film\nbad film\tno\n", "line 2", "1 tab(s)"),
        (False, "\ufeffgood film\tyes\r\n", "line 1", "1 tab(s)"),
    ],
)
@pytest.mark.parametrize("piped", [False, True])
def test_a_row_of_a_table_is_no_line(
    pair, lines, place, received, piped, tmp_path, exported, capsys, monkeypatch
):
    file = tmp_path / "lines.txt"
    file.write_text(lines, "utf-8")
    arguments = [exported(pair=pair)] + ([] if piped else ["--file", file])
    with file.open(encoding="utf-8-sig") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        code, _, err = predict(capsys, *arguments)
    assert code == 1 and f"{place}: expected" in err and received in err


def test_lines_are_answered_as_before(tmp_path, exported, capsys):
    file = tmp_path / "lines.txt"
    file.write_text("good film\ta fine one\n\nbad film\ta bore\n", "utf-8")
    code, answers, err = predict(capsys, exported(), "--file", file)
    assert (code, answers[1], len(answers)) == (0, ("bad film", "a bore"), 2)
    assert "1 blank line(s) were left out" in err
