import dataclasses

import numpy as np
import pytest

from tfdistill import errors, tasks
from tfdistill.tasks import texts

TASK = tasks.TaskSpec("toy", "text", "label", labels=("no", "yes"))
EMBEDDING = tasks.TaskSpec("own", "a", "score", "b", kind="embedding")


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("\t".join(row) for row in rows) + "\n", encoding="utf-8")
    return path


def folder_of(root, **splits):
    for split, labels in splits.items():
        rows = [(f"text {index}", label) for index, label in enumerate(labels)]
        write(root / f"{split}.tsv", ("text", "label"), *rows)
    return root


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["b", "a", "c", "a"], ("a", "b", "c")),
        (["10", "9", "-1", "9"], ("-1", "9", "10")),
        (["1.5", "1e1", "2"], ("1.5", "2", "1e1")),
        (["10", "9", "x"], ("10", "9", "x")),
    ],
)
def test_label_names_come_from_the_train_split(tmp_path, values, labels):
    spec = dataclasses.replace(TASK, labels=())
    folder = folder_of(tmp_path, train=values, dev=values[:1])
    for split in ("train", "dev"):
        examples = tasks.load_examples(spec, folder, split)
        assert examples.spec.labels == labels
        assert examples.labels[0] == labels.index(values[0])
    assert spec.with_labels_of(folder).labels == labels


def test_label_names_are_not_guessed_from_a_dev_file(tmp_path):
    spec = dataclasses.replace(TASK, labels=())
    folder = folder_of(tmp_path, dev=["a", "b"])
    with pytest.raises(errors.DataError, match="a folder with a train split"):
        tasks.load_examples(spec, folder / "dev.tsv", "dev")
    assert tasks.load_examples(spec, folder / "dev.tsv", "train").spec.labels == ("a", "b")


REGRESSION = tasks.TaskSpec("r", "text", "label", kind="regression")
FINITE = "(a finite number|a label in every row|cells of one form)"
# The task, labels of the training file, the message.
REFUSED = [
    (dataclasses.replace(TASK, labels=()), ["a", "a"], "at least two different labels"),
    (TASK, ["yes", "no", "maybe", "never"],
     r"train\.tsv, line 4, column 'label': expected one of 'no', 'yes', received 'maybe'"),
    *((REGRESSION, ["1.5", value], f"line 3, .*{FINITE}") for value in ("high", "", "nan", "inf")),
    (REGRESSION, ["1700000001", "1700000002"], "line 2, .*numbers that float32 holds"),
    (REGRESSION, ["1e-50", "0"], "line 2, .*numbers that float32 holds"),
    (REGRESSION, ["1", "1e39"], r"line 3, .*a number up to 3.4e\+38, .* '1e39'"),
    (dataclasses.replace(TASK, labels=()), ["a|b", "a", "b"], "kind='multi_label'"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "values", "message"), REFUSED)
def test_labels_that_are_none_of_the_task_are_refused_with_their_line(
    tmp_path, spec, values, message
):
    with pytest.raises((errors.DataError, errors.ConfigError), match=message):
        spec = spec.with_labels_of(folder_of(tmp_path, train=values), stated=False)
        tasks.load_examples(spec, tmp_path, "train")


@pytest.mark.parametrize(
    "cells",
    [["3.3", "3.3"], ["0.3", "0.30000000000000004", "0.1"], ["0.3", "0.30000000000000004"], []],
)
def test_numbers_that_are_rounded_a_little_are_read(cells):
    read = texts.numbers(cells, ["line 0", "line 1", "line 2"])
    np.testing.assert_array_equal(read, np.array(cells, np.float32))
    assert read.dtype == np.float32


ANYWHERE = {"may_hide_labels": True}
# The split, its labels (None: no column), options, what is read ("": refused).
HIDDEN = [
    ("test", None, {}, None),
    ("test", None, {"labelled": True}, "a column 'label', received the columns 'text'"),
    ("dev", None, {}, "a column 'label', received the columns 'text'"),
    ("dev", None, {"labelled": False}, None),
    ("dev", None, ANYWHERE, None),
    ("dev", ["-1", "-1"], ANYWHERE, None),
    ("dev", ["yes", "no"], ANYWHERE, [1, 0]),
    ("dev", ["-1", "no"], ANYWHERE, "received '-1'"),
    ("test", ["yes", "no"], {}, [1, 0]),
    ("test", ["-1", "-1"], {}, None),
    ("test", ["-1", "no"], {}, "received '-1'"),
]


@pytest.mark.parametrize(("split", "labels", "options", "expected"), HIDDEN)
def test_labels_may_be_hidden_in_a_test_split_or_on_request(
    tmp_path, split, labels, options, expected
):
    if labels is None:
        write(tmp_path / f"{split}.tsv", ("text",), ("a",))
    else:
        folder_of(tmp_path, **{split: labels})
    if isinstance(expected, str):
        with pytest.raises(errors.DataError, match=expected):
            tasks.load_examples(TASK, tmp_path, split, **options)
        return
    read = tasks.load_examples(TASK, tmp_path, split, **options).labels
    assert (None if read is None else read.tolist()) == expected


def test_a_label_of_the_task_hides_nothing(tmp_path):
    spec = tasks.TaskSpec("mood", "text", "label", labels=("-1", "0", "1"))
    (tmp_path / "test.csv").write_text("text,label\nbad,-1\nworse,-1\n")
    assert tasks.load_examples(spec, tmp_path, "test").labels.tolist() == [0, 0]


def test_a_split_is_found_under_its_other_names(tmp_path):
    for name in ("validation", "test_matched", "dev_mismatched"):
        folder_of(tmp_path, **{name: ["yes", "no"]})
    assert tasks.split_file(tmp_path, "dev").name == "validation.tsv"
    assert tasks.split_file(tmp_path, "test").name == "test_matched.tsv"
    assert tasks.split_file(tmp_path, "dev_mismatched").name == "dev_mismatched.tsv"


@pytest.mark.parametrize("name", ["held.jsonl", "held.bio"])
def test_a_split_of_tagged_texts_may_be_a_file_elsewhere(name, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / name).write_text("")
    task = tasks.TaskSpec("ner", "text", "entities", kind="token")
    assert task.split_file(tmp_path / "data", str(tmp_path / name)) == tmp_path / name


def test_a_split_may_be_any_table_with_the_labels_of_the_task(tmp_path):
    folder = folder_of(tmp_path, train=["yes", "no"])
    other = folder_of(tmp_path / "other", held_out=["no", "no"]) / "held_out.tsv"
    assert tasks.load_examples(TASK, folder, str(other)).labels.tolist() == [0, 0]
    with pytest.raises(errors.DataError, match=r"absent\.tsv: not there"):
        tasks.load_examples(TASK, folder, "absent.tsv")


def test_missing_files_are_explained(tmp_path):
    with pytest.raises(errors.DataError, match=r"nowhere: not there"):
        tasks.load_examples(TASK, tmp_path / "nowhere", "train")
    with pytest.raises(errors.DataError, match=r"train\.xlsx, received a folder without data"):
        tasks.load_examples(TASK, tmp_path, "train")
    folder_of(tmp_path, dev=["yes"])
    with pytest.raises(errors.DataError):
        tasks.load_examples(TASK, tmp_path, "train")
    (tmp_path / "dev.csv").write_text("text,label\na,yes\n")
    with pytest.raises(errors.DataError, match=r"one file, received dev\.tsv, dev\.csv"):
        tasks.load_examples(TASK, tmp_path, "dev")


def test_another_label_order_keeps_the_spelling_of_the_file(tmp_path):
    folder = tmp_path
    write(folder / "dev.tsv", ("sentence", "label"), ("bad", "0"), ("good", "1"))
    turned = tasks.task("sst2").with_labels(("positive", "negative"))
    assert tasks.load_examples(turned, folder, "dev").labels.tolist() == [1, 0]


def test_broken_rows_of_qqp_are_left_out_and_counted(tmp_path):
    header = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
    rows = [("1", "1", "2", "a?", "b?", "1"), ("torn",), ("2", "3", "4", "c?", "d?", "0")]
    write(tmp_path / "train.tsv", header, *rows)
    examples = tasks.load_examples(tasks.task("qqp"), tmp_path, "train")
    assert (examples.texts, examples.skipped) == (["a?", "c?"], 1)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metrics": ("accurracy",)}, "received 'accurracy'. Did you mean 'accuracy'"),
        *(({"metrics": (name,), "primary_metric": name}, "f1:LABEL of one of")
          for name in ("f1:maybe", "accuracy:no", "f1:")),
        ({"metrics": ("auc",), "primary_metric": "auc", "labels": ("a", "b", "c")},
         "labels: expected two for the metric auc"),
        ({"primary_metric": "f1"}, r"one of \('accuracy',\), received 'f1'"),
        ({"labels": ("a", "a")}, "each name once"),
        ({"labels": ("a",)}, "at least two"),
        ({"labels": "ab"}, "a list of names, received 'ab'"),
        ({"kind": "regression"}, "none for the kind regression"),
        ({"label_values": ("0",)}, "one for each label"),
        ({"positive_label": "maybe"}, "received 'maybe'"),
        ({"kind": "multilabel"}, "received 'multilabel'. Did you mean 'multi_label'"),
        ({"layout": "squad"}, r"layout: expected one of table, folders, received 'squad'"),
        ({"metrics": ("pearson",)}, "metric: expected one of accuracy, f1, macro_f1, matthews"),
        ({"kind": "span", "labels": (), "metrics": ("accuracy",)}, "one of f1, exact_match"),
        ({"kind": "token", "metrics": ("entity_f1",), "primary_metric": ""}, "O, B-TYPE"),
        ({"kind": "span"}, "none for the kind span"),
        ({"kind": "embedding", "label_column": "", "labels": ()}, "pair_column: expected the col"),
        ({"kind": "embedding", "pair_column": "b"}, "labels: expected none for the kind embedding"),
    ],
)  # fmt: skip
def test_a_contradictory_task_is_refused(fields, message):
    if "kind" in fields:
        fields = {"layout": "", "metrics": (), "primary_metric": "", **fields}
    elif "layout" not in fields and "metrics" not in fields:
        fields = {"layout": "", **fields}
    with pytest.raises(errors.ConfigError, match=message):
        dataclasses.replace(TASK, **fields)


@pytest.mark.parametrize(
    ("name", "labels", "message"),
    [
        ("sst2", ("good", "bad"), r"the names \('negative', 'positive'\), received"),
        ("stsb", ("a", "b"), "numbers, no names"),
        ("squad", ("start", "end"), "answers, no names"),
        (EMBEDDING, ("x", "y"), "similarities, no names"),
    ],
)
def test_names_that_are_none_of_the_task_are_refused(name, labels, message):
    with pytest.raises(errors.DataError, match=message):
        (tasks.task(name) if isinstance(name, str) else name).with_labels(labels)


def test_tasks_are_found_by_any_spelling_of_their_name():
    assert tasks.task("SST-2") is tasks.task("sst2")
    assert tasks.task("sts_b").num_labels == 1
    assert tasks.task("mnli").num_labels == 3
    with pytest.raises(errors.ConfigError, match=r"received 'sst3'\. Did you mean 'sst2'"):
        tasks.task("sst3")


# Several labels.

TOPICS = tasks.TaskSpec("topics", "text", "labels", kind="multi_label")


def test_several_labels_may_be_a_list_of_json_or_stand_between_other_marks(tmp_path):
    (tmp_path / "train.jsonl").write_text(
        '{"text": "x", "labels": ["a, b", "c"]}\n{"text": "y", "labels": []}\n'
        '{"text": "z", "labels": "c"}\n'
    )
    examples = tasks.load_examples(TOPICS, tmp_path, "train")
    assert examples.spec.labels == ("a, b", "c")
    assert examples.labels.tolist() == [[1, 1], [0, 0], [0, 1]]
    write(tmp_path / "dev.tsv", ("text", "labels"), ("x", "c|a, b"))
    other = dataclasses.replace(examples.spec, label_separator="|")
    assert tasks.load_examples(other, tmp_path, "dev").labels.tolist() == [[1, 1]]
    one = dataclasses.replace(TASK, label_column="labels", labels=())
    with pytest.raises(errors.DataError, match="one label, received the list"):
        tasks.load_examples(one, tmp_path, "train")


def test_an_unknown_one_of_several_labels_is_named_with_its_line(tmp_path):
    write(tmp_path / "train.tsv", ("text", "labels"), ("x", "red,blue"))
    write(tmp_path / "dev.tsv", ("text", "labels"), ("x", "red"), ("y", "blue,pink"))
    message = r"dev\.tsv, line 3, column 'labels': expected one of 'blue', 'red', received 'pink'"
    with pytest.raises(errors.DataError, match=message):
        tasks.load_examples(TOPICS, tmp_path, "dev")


# Rows of each split as the README of the data counts them; None: hidden or absent. The last
# figure, dev examples of class 1, was counted with cut and uniq.
COUNTS = {
    "sst2": ("SST-2", 67349, 872, 1821, 444),
    "cola": ("CoLA", 8551, 1043, 1063, 721),
    "mrpc": ("MRPC", 3667, 408, 1725, 279),
    "rte": ("RTE", 2490, 277, 3000, 131),
    "stsb": ("STS-B", 5749, 1500, 1379, None),
    "wnli": ("WNLI", 635, 71, 146, 31),
    "qnli": ("QNLI", None, 5463, 5463, 2761),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", COUNTS)
def test_real_glue_files_are_read_whole(shared_data, name):
    folder, train, dev, test, second = COUNTS[name]
    spec = tasks.task(name)
    for split, count in (("train", train), ("dev", dev), ("test", test)):
        if count is None:
            with pytest.raises(errors.DataError, match=f"split '{split}'"):
                tasks.load_examples(spec, shared_data / "glue" / folder, split)
            continue
        examples = tasks.load_examples(spec, shared_data / "glue" / folder, split)
        assert len(examples) == count
        assert (examples.labels is None) == (split == "test")
        assert (examples.pairs is None) == (spec.pair_column is None)
        assert not any("\t" in text or "\ufeff" in text for text in examples.texts)
        if split == "dev" and second is not None:
            assert int((examples.labels == 1).sum()) == second


def test_an_embedding_is_measured_on_pairs_of_texts_by_themselves(tmp_path):
    (tmp_path / "dev.tsv").write_text("a\tscore\tb\nfirst\t2.5\tsecond\nthird\t0\tfourth\n")
    examples = tasks.load_examples(EMBEDDING, tmp_path, "dev")
    assert examples.texts == ["first", "second", "third", "fourth"]
    assert examples.labels.tolist() == [2.5, 2.5, 0, 0]
    assert (examples.pairs, examples.lines, examples.num_scored) == (None, [2, 2, 3, 3], 2)
    assert examples.first(1).texts == ["first", "second"]
    unlabelled = tasks.TaskSpec("own", "a", "", "b", kind="embedding")
    assert unlabelled.primary_metric == "mrr"
    assert tasks.load_examples(unlabelled, tmp_path, "dev").labels.tolist() == [1, 1, 1, 1]
    (tmp_path / "dev.tsv").write_text("a\tscore\tb\nfirst\tmuch\tsecond\n")
    with pytest.raises(errors.DataError):
        tasks.load_examples(EMBEDDING, tmp_path, "dev")


@pytest.mark.parametrize(
    ("name", "content", "lines"),
    [
        ("train.tsv", "a\tb\tscore\nx\ty\t1\ny\tz\t2\n", [2, 3, 3]),
        ("train.tsv", "a\nx\ny\nx\nz\n", [2, 3, 5]),
        ("train.txt", "x\n\n y \nz\nx\n", [1, 3, 4]),
    ],
)
def test_an_embedding_learns_from_texts_each_once(tmp_path, name, content, lines):
    (tmp_path / name).write_text(content)
    examples = tasks.load_examples(EMBEDDING, tmp_path, "train")
    assert sorted(examples.texts) == ["x", "y", "z"]
    assert sorted(examples.lines) == lines
    assert examples.labels is None
    assert not examples.paired
    with pytest.raises(
        errors.ConfigError, match=r"metrics: expected recall_at_1.* without a label"
    ):
        dataclasses.replace(EMBEDDING, label_column="")
