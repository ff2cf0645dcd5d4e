"""Labels through the commands: recognised and refused alike, with line; see test_data for cells."""

import csv
import json

import pytest
import toys

from tfdistill import cli

TEXTS = [f"the {a} is {b} on day {n}" for n in range(10) for a in ("box", "cable", "lamp", "case")
         for b in ("good", "bad", "late")]  # fmt: skip
SHAPE = toys.SHALLOW_STUDENT.replace(vocab_size=120, max_positions=64)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    return toys.save_encoder(folder, TEXTS, SHAPE)


def write_csv(path, labels, texts=TEXTS, **dialect):
    rows = zip(texts, (labels[index % len(labels)] for index in range(len(texts))), strict=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **dialect).writerows([("text", "label"), *rows])
    return path


@pytest.fixture
def quickstart(bert, tmp_path, capsys):
    """Runs quickstart --dry-run; returns the exit code and what was told."""

    def call(path, *more):
        command = ["--teacher", str(bert), "--data", str(path), "--out", str(tmp_path / "out")]
        code = cli.main(["quickstart", *command, "--dry-run", *more])
        return code, capsys.readouterr().err

    return call


@pytest.fixture
def finetune(bert, tmp_path, capsys):
    """Runs finetune --dry-run on two halves of a file of one line a row."""

    def call(path, *more):
        top, *rows = path.read_text(encoding="utf-8").splitlines(keepends=True)
        if path.suffix == ".jsonl":
            top, rows = "", [top, *rows]
        folder = tmp_path / "halves"
        folder.mkdir()
        half = 3 * len(rows) // 4
        for split, part in (("train", rows[:half]), ("dev", rows[half:])):
            (folder / f"{split}{path.suffix}").write_text(top + "".join(part), encoding="utf-8")
        command = ["--task", "own", "--data-dir", str(folder), "--out", str(tmp_path / "out")]
        command += ["--text-column", "text", "--label-column", "label", "--dry-run", *more]
        code = cli.main(["finetune", str(bert), *command])
        return code, capsys.readouterr().err

    return call


# Labels, the line at fault, a fact, the exit code.
REFUSED = {
    "nan": (["a", "b", "NaN"], "line 4", "'NaN'", 1),
    "two forms": (["0.5", "1,5", "2,25"], "line 3", "'1,5' beside '0.5' in line 2", 1),
    "a list among names": (["a", "['a', 'b']", "b"], "line 3", "cells of one form", 1),
    "places": (["[0, 1, 1]", "[1, 0, 0]"], "line 2", "names of labels", 1),
    "a character that nobody sees": (["a", "b", "a\u200b"], "line 4", "U+200B", 1),
    "the same to a person": (["1", "1.0", "0"], "line 2", "names that differ", 1),
    "many whole numbers": (list(map(str, range(60))), "x.csv", "--kind", 2),
    "made of one another": (["red_blue", "red", "blue"], "line 2", "'red_blue'", 2),
}


@pytest.mark.parametrize("labels, line, fact, expected_code", REFUSED.values(), ids=REFUSED)
def test_a_cell_that_cannot_be_meant_is_refused_with_its_line_by_all_commands(
    quickstart, finetune, tmp_path, labels, line, fact, expected_code
):
    path = write_csv(tmp_path / "x.csv", labels)
    for code, told in (quickstart(path), finetune(path)):
        assert code == expected_code, told
        assert (line in told or code == 2) and fact in told and "expected" in told


@pytest.mark.parametrize("command", ["quickstart", "finetune"])
def test_an_object_without_a_label_is_named_by_its_line(request, command, tmp_path):
    rows = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(TEXTS)]
    del rows[6]["label"]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, told = request.getfixturevalue(command)(path)
    assert code == 1 and "line 7" in told and "a label in every row" in told


@pytest.mark.slow
def test_several_labels_are_recognised_and_their_separator_is_asked_for(
    quickstart, finetune, tmp_path
):
    path = write_csv(tmp_path / "x.csv", ["a|b", "a", "b"])
    code, told = quickstart(path)
    assert code == 0 and "kind: multi_label" in told, told
    code, told = quickstart(path, "--kind", "classification")
    assert code == 0 and "kind: classification (as given)" in told
    code, told = quickstart(write_csv(tmp_path / "y.csv", ["a~b", "a", "b"]),
                            "--kind", "multi_label", "--label-separator", "~")  # fmt: skip
    assert code == 0 and "labels: a 80, b 80" in told, told


@pytest.mark.parametrize(
    "more, expected_code, fact",
    [
        ((), 2, "--kind multi_label"),
        (("--kind", "multi_label"), 2, "Add --label-separator '|'."),
        (("--kind", "multi_label", "--label-separator", "|"), 0, ""),
        (("--kind", "classification"), 0, ""),
    ],
)
def test_commands_that_do_not_choose_a_kind_ask_for_it(
    finetune, tmp_path, more, expected_code, fact
):
    code, told = finetune(write_csv(tmp_path / "x.csv", ["a|b", "a", "b"]), *more)
    assert code == expected_code and fact in told, told


@pytest.mark.parametrize("tag, fact", [("B-\u200bPER", "U+200B"), ("nan", "'nan'")])
def test_tags_of_words_have_the_same_rules(bert, tmp_path, capsys, tag, fact):
    words = "".join(f"box O\nlamp {tag if n == 3 else 'B-PER'}\n\n" for n in range(30))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text(words, encoding="utf-8")
    command = ["--task", "own", "--kind", "token", "--data-dir", str(tmp_path), "--dry-run"]
    assert cli.main(["finetune", str(bert), *command, "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert fact in told and "line 11" in told


def test_rows_that_a_stray_quotation_mark_joins_are_found(quickstart, finetune, tmp_path):
    rows = [f"{text},{'ab'[n % 2]}\n" for n, text in enumerate(TEXTS)]
    rows[20:20] = ['"the box,a\n', *rows[20:40], 'the lamp",b\n']
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(rows))
    for code, told in (quickstart(tmp_path / "x.csv"), finetune(tmp_path / "x.csv")):
        assert code == 1 and "line 22" in told and "21 rows with their labels in one cell" in told
