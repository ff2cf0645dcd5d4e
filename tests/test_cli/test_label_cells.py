"""Cells of labels, through the commands: what is recognised, and what is refused with its line."""

import csv
import json

import pytest
import toys

from tfdistill import cli, models, weights
from tfdistill.data import vocab

TEXTS = [f"the {a} is {b} on day {n}" for n in range(10) for a in ("box", "cable", "lamp", "case")
         for b in ("good", "bad", "late")]  # fmt: skip
SHAPE = models.EncoderConfig(
    num_layers=1, hidden_size=16, num_heads=2, intermediate_size=16, vocab_size=120,
    max_positions=64,
)  # fmt: skip


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    vocab.write_vocab(vocab.train_vocab(TEXTS, 120), folder / "vocab.txt")
    encoder = toys.randomise(models.build_encoder(SHAPE), seed=1)
    weights.save_hf(encoder, folder / "bert", vocab_file=folder / "vocab.txt")
    return folder / "bert"


def write_csv(path, labels, texts=TEXTS, **dialect):
    rows = zip(texts, (labels[index % len(labels)] for index in range(len(texts))), strict=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, **dialect).writerows([("text", "label"), *rows])
    return path


def write_jsonl(path, labels):
    rows = [{"text": text, "label": labels[i % len(labels)]} for i, text in enumerate(TEXTS)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
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


REFUSED = {
    "nan": (["a", "b", "NaN"], "line 4", "'NaN'"),
    "null": (["a", "b", "null"], "line 4", "'null'"),
    "pandas' None": (["a", "b", "None"], "line 4", "'None'"),
    "pandas' NA": (["a", "<NA>", "b"], "line 3", "'<NA>'"),
    "n/a": (["a", "b", "N/A"], "line 4", "'N/A'"),
    "Excel's fault": (["a", "b", "#REF!"], "line 4", "'#REF!'"),
    "empty": (["a", "", "b"], "line 3", "an empty cell"),
    "blank": (["a", "  ", "b"], "line 3", "an empty cell"),
    "nan among numbers": (["1", "2", "nan"], "line 4", "'nan'"),
    "nan among decimals": (["1.5", "2.25", "nan"], "line 4", "'nan'"),
    "zero width space": (["a", "b", "a\u200b"], "line 4", "U+200B"),
    "zero width joiner": (["a", "a\u200d"], "line 3", "U+200D"),
    "word joiner": (["a", "\u2060b"], "line 3", "U+2060"),
    "byte order mark": (["a", "\ufeffb"], "line 3", "U+FEFF"),
    "soft hyphen": (["a", "po\u00adsitive"], "line 3", "U+00AD"),
    "direction": (["a", "\u202eb"], "line 3", "U+202E"),
    "Hangul filler": (["a", "a\u3164"], "line 3", "U+3164"),
    "vertical tab": (["a", "b\vc"], "line 3", "U+000B (VERTICAL TAB)"),
    "escape": (["a", "b\x1bc"], "line 3", "U+001B"),
    "replaced character": (["a", "t\ufffd"], "line 3", "U+FFFD"),
    "inf": ([*map(str, range(1, 50)), "inf"], "line 51", "'inf'"),
    "inf and decimals": (["0.5", "1.5", "-inf", "2.5"], "line 4", "'-inf'"),
    "words": (["0.25", "5 stars", *(f"{n / 7:.2f}" for n in range(118))], "line 3", "stars"),
    "thousands": (["1,234", "999", "12,500"], "line 2", "'1,234'"),
    "millions": (["1,234,567", "999", "1"], "line 2", "'1,234,567'"),
    "German thousands": (["1.234,5", "0,5", "7,25"], "line 2", "'1.234,5'"),
    "places": (["0,1,1", "1,0,0", "1,1,0"], "line 2", "names of labels"),
    "places with blanks": (["0 1 1", "1 0 0"], "line 2", "names of labels"),
    "places without marks": (["011", "100", "010"], "line 2", "names of labels"),
    "list of places": (["[0, 1, 1]", "[1, 0, 0]"], "line 2", "names of labels"),
    "list among names": (["a", "['a', 'b']", "b"], "line 3", "a list in every row"),
    "apostrophes": (["1'234", "999", "2'000"], "line 2", "1'234"),
    "underscores": (["1_000", "20"], "line 2", "'1_000'"),
    "blanks between thousands": (["7", "1\u00a0234"], "line 3", "thousands"),
    "two decimal marks": (["0.5", "1,5", "2,25"], "line 3", "'1,5'"),
    "an empty name": (["a,,b", "b", "a,b", "a"], "line 2", "an empty cell"),
    "nan among several": (["a|b", "a", "b", "a|nan"], "line 5", "'nan'"),
    "Excel's and pandas' tags": (["a", "b\U000e0041"], "line 3", "U+E0041"),
    "NumPy's list": (["['a' 'b']", "['a']"], "line 2", "a list of labels"),
    "percent": ([f"{n}%" for n in range(40)], "line 2", "'0%'"),
    "decimal comma and unit": (["0,5kg", "1,5kg"], "line 2", "'0,5kg'"),
    "currency": (["$1.50", "$2.25"], "line 2", "'$1.50'"),
    "about": ([f"~{n}" for n in range(40)], "line 2", "'~0'"),
    "out of a hundred": ([f"{n}/100" for n in range(40)], "line 2", "'0/100'"),
    "a question mark": (["a", "b", "?"], "line 4", "'?'"),
    "a dash": (["a", "b", "\u2014"], "line 4", "'\u2014'"),
    "the rule of a Markdown table": (["---", "a", "b"], "line 2", "'---'"),
    "apostrophes around": (["'a'", "'b'"], "line 2", "quotation marks"),
    "quotation marks around": (['"a"', '"b"'], "line 2", "quotation marks"),
    "blanks before": ([" a", " b"], "line 2", "' a'"),
    "blanks behind": (["a", "b ", "c"], "line 3", "'b '"),
    "probabilities": (["[0.2, 0.8]", "[0.6, 0.4]"], "line 2", "--answers"),
}  # fmt: skip


@pytest.mark.parametrize("labels, line, fact", REFUSED.values(), ids=REFUSED)
def test_a_cell_that_cannot_be_meant_is_refused_with_its_line_by_all_commands(
    quickstart, finetune, tmp_path, labels, line, fact
):
    path = write_csv(tmp_path / "x.csv", labels)
    for code, told in (quickstart(path), finetune(path)):
        assert code == 1, told
        assert line in told and fact in told and "expected" in told


REFUSED_JSON = {
    "null": (["a", "b", None], "line 3", "null"),
    "NaN": (["a", "b", float("nan")], "line 3", "null"),
    "NUL": (["a", "b\0"], "line 2", "U+0000"),
    "line separator": (["a", "b\u2028c"], "line 2", "U+2028"),
    "next line": (["a", "b\x85"], "line 2", "U+0085"),
    "tab": (["a", "b\tc"], "line 2", "U+0009 (TAB)"),
    "places": ([[0, 1, 1], [1, 0, 0]], "line 1", "names of labels"),
    "true and false": ([[False, True], [True, True]], "line 1", "names of labels"),
    "places in decimals": ([[0.0, 1.0], [1.0, 0.0]], "line 1", "names of labels"),
    "probabilities": ([[0.1, 0.9], [0.7, 0.3]], "line 1", "--answers"),
    "list and name": ([["a"], "b"], "line 2", "a list of labels"),
    "list with null": ([["a"], [None]], "line 2", "null"),
    "object": ([{"a": 1}, {"a": 0}], "line 1", "dict"),
}


@pytest.mark.parametrize("labels, line, fact", REFUSED_JSON.values(), ids=REFUSED_JSON)
def test_a_value_of_json_that_cannot_be_meant_is_refused_with_its_line(
    quickstart, finetune, tmp_path, labels, line, fact
):
    path = write_jsonl(tmp_path / "x.jsonl", labels)
    named = ("--label-column", "label")
    for code, told in (quickstart(path, *named), finetune(path)):
        assert code == 1, told
        assert line in told and fact in told


@pytest.mark.parametrize("command", ["quickstart", "finetune"])
def test_an_object_without_a_label_is_named_by_its_line(request, command, tmp_path):
    rows = [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(TEXTS)]
    del rows[6]["label"]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, told = request.getfixturevalue(command)(path)
    assert code == 1 and "line 7" in told and "a label in every row" in told


SAME = (["1", "1.0", "0"], ["10", "0010", "7"], ["+1", "1", "2"], ["-0", "0", "1"],
        ["1000", "1e3", "2"], ["\u22121", "-1", "2"],
        ["\uff11", "1", "2"], ["pos", "Pos", "neg"], ["pos", "pos ", "neg"],
        ["don't", "don\u2019t", "do"], ["non-spam", "non\u2013spam", "spam"],
        ["a", "\u0430", "b"], ["true", "1", "0"],
        ["e\u0301", "\u00e9", "tea"], ["\u2764", "\u2764\ufe0f", "tea"])  # fmt: skip


@pytest.mark.parametrize("labels", SAME, ids=repr)
def test_labels_that_are_the_same_to_a_person_are_refused(quickstart, finetune, tmp_path, labels):
    path = write_csv(tmp_path / "x.csv", labels)
    for code, told in (quickstart(path), finetune(path)):
        assert code == 1 and "names that differ" in told and repr(labels[0]) in told, told


SEVERAL = (["a|b", "a", "b"], ["a;b", "a", "b"], ["a\nb", "a", "b"], ["a#b", "a", "b"],
           ["a / b", "a", "b"], ["a+b", "a", "b"], ["a & b", "a", "b"],
           ["['a', 'b']", "['a']", "['b']"], ['["a", "b"]', '["a"]', "[]"],
           ["('a', 'b')", "('a',)", "('b',)"])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("labels", SEVERAL, ids=repr)
def test_several_labels_in_a_cell_are_several_labels(quickstart, finetune, tmp_path, labels):
    path = write_csv(tmp_path / "x.csv", labels)
    code, told = quickstart(path)
    assert code == 0 and "kind: multi_label" in told, told
    if "\n" not in labels[0]:  # the halves are split by lines
        code, told = finetune(path)
        assert code == 2 and "--kind multi_label" in told


def test_a_separator_that_was_not_named_is_asked_about(finetune, tmp_path):
    path = write_csv(tmp_path / "x.csv", ["a|b", "a", "b"])
    code, told = finetune(path, "--kind", "multi_label")
    assert code == 2 and "Add --label-separator '|'." in told, told


def test_a_named_separator_is_taken(finetune, tmp_path):
    path = write_csv(tmp_path / "x.csv", ["a|b", "a", "b"])
    more = ("--kind", "multi_label", "--label-separator", "|")
    assert finetune(path, *more)[0] == 0


@pytest.mark.parametrize("tag, fact", [("B-\u200bPER", "U+200B"), ("nan", "'nan'")])
def test_tags_of_words_have_the_same_rules(bert, tmp_path, capsys, tag, fact):
    words = "".join(f"box O\nlamp {tag if n == 3 else 'B-PER'}\n\n" for n in range(30))
    for split in ("train", "dev"):
        (tmp_path / f"{split}.txt").write_text(words, encoding="utf-8")
    command = ["--task", "own", "--kind", "token", "--data-dir", str(tmp_path), "--dry-run"]
    assert cli.main(["finetune", str(bert), *command, "--out", str(tmp_path / "out")]) == 1
    told = capsys.readouterr().err
    assert fact in told and "line 11" in told


def test_folders_of_texts_have_the_same_rules(bert, tmp_path, capsys):
    for split in ("train", "dev"):
        for name in ("good", "b\u200bad"):
            (tmp_path / split / name).mkdir(parents=True)
            for n in range(4):
                (tmp_path / split / name / f"{n}.txt").write_text(f"{TEXTS[n]} {split} {name}")
    command = ["--task", "own", "--kind", "classification", "--set", "data.layout=folders"]
    command += ["--data-dir", str(tmp_path), "--out", str(tmp_path / "out"), "--dry-run"]
    assert cli.main(["finetune", str(bert), *command]) == 1
    assert "U+200B" in capsys.readouterr().err


def test_a_named_kind_makes_one_class_of_a_cell_of_two_names(quickstart, finetune, tmp_path):
    path = write_csv(tmp_path / "x.csv", ["a|b", "a", "b"])
    code, told = quickstart(path, "--kind", "classification")
    assert code == 0 and "kind: classification (as given)" in told
    assert finetune(path, "--kind", "classification")[0] == 0


@pytest.mark.parametrize("mark", [" and ", "_", " - ", " ", "::"])
def test_names_that_are_made_of_one_another_are_asked_about(quickstart, finetune, tmp_path, mark):
    path = write_csv(tmp_path / "x.csv", [f"red{mark}blue", "red", "blue"])
    for code, told in (quickstart(path), finetune(path)):
        assert code == 2 and "--kind classification" in told and repr(f"red{mark}blue") in told


ACCEPTED = (["none", "order", "cancel"], ["None", "Anger", "Joy"], ["NA", "DE", "FR"],
            ["spam", "not spam"], ["n-1", "n-2"], ["yes", "no", "maybe"], ["0", "1"], ["00", "01"],
            ["+", "-"], ["+", "-", "neutral"], ["1/5", "2/5", "3/5"], ["5%", "10%"],
            ["'quoted'", "plain"], ["\u0441", "\u043d"],
            ["می‌شود", "نمی‌شود"], ["👨‍👩‍👧", "👍"], ["ja", "nein", "weiß nicht"])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("labels", ACCEPTED, ids=repr)
def test_names_that_can_be_meant_are_classes(quickstart, finetune, tmp_path, labels):
    path = write_csv(tmp_path / "x.csv", labels)
    code, told = quickstart(path)
    assert code == 0 and "kind: classification" in told, told
    assert finetune(path)[0] == 0


@pytest.mark.parametrize("labels", [list(map(str, range(60))), [f"{n}.0" for n in range(40)]])
def test_many_whole_numbers_are_asked_about(quickstart, finetune, tmp_path, labels):
    path = write_csv(tmp_path / "x.csv", labels)
    for code, told in (quickstart(path), finetune(path)):
        assert code == 2 and "--kind" in told and "classification" in told and "regression" in told
    code, told = quickstart(path, "--kind", "regression")
    assert code == 0 and "kind: regression" in told


def test_decimal_commas_are_numbers(quickstart, finetune, tmp_path, capsys):
    numbers = [f"{n / 7:.2f}".replace(".", ",") for n in range(120)]
    path = write_csv(tmp_path / "x.csv", numbers, delimiter=";")
    code, told = quickstart(path)
    assert code == 0 and "kind: regression" in told and "decimal comma" in told
    assert finetune(path, "--kind", "regression")[0] == 0


def test_numbers_that_may_be_two_labels_are_asked_about(quickstart, tmp_path):
    path = write_csv(tmp_path / "x.csv", ["1", "2", "1,2"])
    code, told = quickstart(path)
    assert code == 2 and "decimal comma" in told and "multi_label" in told
    assert "kind: multi_label" in quickstart(path, "--kind", "multi_label")[1]


def test_a_blank_after_each_separator_is_no_part_of_the_cells(quickstart, tmp_path):
    rows = "".join(f'"{text}, really", "{"ab"[n % 2]}"\n' for n, text in enumerate(TEXTS))
    (tmp_path / "x.csv").write_text("text, label\n" + rows.replace(", really", ""))
    code, told = quickstart(tmp_path / "x.csv")
    assert code == 0 and "labels: a 60, b 60" in told, told


def test_rows_that_a_stray_quotation_mark_joins_are_found(quickstart, finetune, tmp_path):
    rows = [f"{text},{'ab'[n % 2]}\n" for n, text in enumerate(TEXTS)]
    rows[20:20] = ['"the box,a\n', *rows[20:40], 'the lamp",b\n']
    (tmp_path / "x.csv").write_text("text,label\n" + "".join(rows))
    for code, told in (quickstart(tmp_path / "x.csv"), finetune(tmp_path / "x.csv")):
        assert code == 1 and "line 22" in told and "21 rows with their labels in one cell" in told


def test_columns_that_are_not_used_are_named(quickstart, tmp_path):
    rows = [
        f"{text},{'ab'[n % 2]},{'train' if n % 5 else 'test'}\n" for n, text in enumerate(TEXTS)
    ]
    (tmp_path / "x.csv").write_text("text,label,split\n" + "".join(rows))
    code, told = quickstart(tmp_path / "x.csv")
    assert code == 0 and "not used: the column(s) 'split'" in told


def test_a_separator_of_several_labels_is_named_by_its_option(quickstart, tmp_path):
    path = write_csv(tmp_path / "x.csv", ["a~b", "a", "b"])
    named = ("--kind", "multi_label", "--label-separator", "~")
    code, told = quickstart(path, *named)
    assert code == 0 and "labels: a 80, b 80" in told, told
