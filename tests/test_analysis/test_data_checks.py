import dataclasses
import pathlib

import numpy as np
import pytest

from tfdistill import analysis, errors, tasks

TASK = tasks.TaskSpec("t", "text", "label", labels=("no", "yes"))


def examples(texts, labels=None, spec=TASK, pairs=None):
    if labels is None:
        labels = [index % 2 for index in range(len(texts))]
    return tasks.Examples(spec, list(texts), pairs, np.asarray(labels))


def texts(name, count):
    return [f"{name} {index}" for index in range(count)]


GOOD = examples(texts("train", 100)), examples(texts("dev", 60))


def faults_of(*args, **options):
    return "\n".join(analysis.check_data(*args, **options).faults)


def warnings_of(*args, **options):
    return "\n".join(analysis.check_data(*args, **options).warnings)


def test_good_data_has_no_findings():
    findings = analysis.check_data(TASK, *GOOD, lengths=np.full(100, 8), max_length=16)
    assert findings == analysis.DataFindings()
    findings.check()


def task(*labels, **changes):
    return dataclasses.replace(TASK, labels=labels, **changes)


NUMBERS = tasks.TaskSpec("t", "text", "label", kind="regression")
OWN = task(*map(str, range(99)))
TRAIN, DEV = GOOD
FAULTS = {
    "an empty label": (
        task("", "yes"), TRAIN, DEV,
        "a name in every row, received '' (50 examples, first example 1)",
    ),
    "one class": (TASK, examples(texts("train", 9), [1] * 9), DEV, "only 'yes'"),
    "a class of the development set alone": (
        task("no", "yes", "maybe"), TRAIN, examples(texts("dev", 60), [2] * 60), "'maybe'",
    ),
    "more classes than rows": (
        task(*"abcdefghijkl"), examples(texts("train", 10)), DEV, "12 classes in 10 rows",
    ),
    "a label of its own in most rows": (
        OWN, examples(texts("train", 100), [*range(99), 0]), DEV,
        "99 classes in 100 rows, 98 of them in one row",
    ),
    "no development row": (TASK, TRAIN, examples(texts("dev", 0)), "at least 2 rows"),
    "one development row": (TASK, TRAIN, examples(texts("dev", 1)), "at least 2 rows"),
    "a development set of training rows": (TASK, TRAIN, TRAIN.select(range(60)), "60 of 60"),
    "equal numbers": (
        NUMBERS, examples(texts("train", 100), [2.5] * 100, NUMBERS), DEV, "only 2.5",
    ),
    "no text": (TASK, examples([" "] * 100), DEV, "right column"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "train", "dev", "fault"), FAULTS.values(), ids=FAULTS)
def test_data_from_which_nothing_can_be_learnt_are_refused(spec, train, dev, fault):
    assert fault in faults_of(spec, train, dev)


RARE = task("no", "yes", "rare")
SEVERAL = tasks.TaskSpec("t", "text", "label", kind="multi_label", labels=("a", "b"))
TAGS = np.zeros((100, 2), np.float32)
TAGS[7:, 1] = TAGS[3, 0] = 1
WARNINGS = {
    "few development rows": (TASK, TRAIN, examples(texts("dev", 25)), "±0.20"),  # 0.98 / 5
    "empty texts": (TASK, examples([*texts("train", 98), "", "\t"]), DEV, "2 empty"),
    "a training text": (TASK, TRAIN, examples(["Train 1", *texts("dev", 59)]), "1 of 60"),
    "a class of one row": (
        RARE, examples(texts("train", 100), [0, 1] * 49 + [0, 2]), DEV, "'rare'",
    ),
    "rows of no label": (
        SEVERAL, examples(texts("train", 100), TAGS, SEVERAL), DEV,
        "6 of 100 training rows have no label (6 examples, first",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "train", "dev", "told"), WARNINGS.values(), ids=WARNINGS)
def test_what_may_be_wrong_with_the_data_is_told(spec, train, dev, told):
    assert told in warnings_of(spec, train, dev)


def test_a_text_with_two_labels_is_shown():
    train = examples([*texts("train", 98), "Twice  said", "twice said"], [0, 1] * 50)
    assert "1 training text(s)" in warnings_of(TASK, train, GOOD[1])
    assert "'twice said'" in warnings_of(TASK, train, GOOD[1])
    same = dataclasses.replace(train, labels=np.array([0, 1] * 49 + [1, 1]))
    assert warnings_of(TASK, same, GOOD[1]) == ""


def test_the_first_text_of_another_pair_is_not_the_same_one():
    pairs = examples(texts("train", 100), pairs=["x"] * 100)
    other = examples(texts("train", 60), pairs=["y"] * 60)
    assert warnings_of(TASK, pairs, other) == ""


def test_texts_that_are_cut_are_counted_with_the_length_that_would_do():
    lengths = np.array([10] * 70 + [100] * 30)
    warnings = warnings_of(TASK, *GOOD, lengths=lengths, max_length=64)
    assert "30%" in warnings and "30 examples, first example 71" in warnings
    assert "max_length 112 would hold 100%" in warnings
    longer = warnings_of(TASK, *GOOD, lengths=np.array([700] * 20 + [9] * 80), max_length=64)
    assert "max_length 512 would hold 80%" in longer  # what BERT's position table serves
    longest = warnings_of(TASK, *GOOD, lengths=np.array([700] * 20 + [9] * 80), max_length=512)
    assert "are cut" in longest and longest.endswith("a BERT reads at most 512.")
    assert warnings_of(TASK, *GOOD, lengths=lengths, max_length=128) == ""


def test_findings_name_the_file_and_the_first_line(tmp_path):
    rows = [f"text {i}\t{'no' if i % 2 else 'yes'}" for i in range(60)]
    rows[30:30] = ["", "text 1\tyes", "\t", " \tno"]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n\n")
    (tmp_path / "dev.tsv").write_text("text\tlabel\n" + "new one\tno\n" * 59 + "Text  2\tyes\n")
    train, dev = (tasks.load_examples(TASK, tmp_path, split) for split in ("train", "dev"))
    findings = analysis.check_data(TASK, train, dev)
    assert findings.faults == ()
    assert findings.warnings == (
        "train.tsv has 2 blank line(s), first line 32: they are left out.",
        "The training set has 1 empty text(s) of 62: train.tsv, line 35.",
        "1 training text(s) have two or more different labels: 'text 1' (train.tsv, line 3).",
        "1 of 60 development texts are training texts too: 'text 2' (dev.tsv, line 61). The metric "
        "is too good by up to that share.",
    )
    spelt = train.spec.labels
    assert spelt == ("no", "yes")
    fault = analysis.check_data(task("Yes", "yes"), train, dev).faults[0]
    assert "'Yes' (31 examples, first train.tsv, line 3)" in fault


def test_an_empty_name_among_several_labels_is_refused():
    spec = tasks.TaskSpec("t", "text", "label", kind="multi_label", labels=("", "a", "A "))
    labels = np.zeros((100, 3), np.float32)
    labels[7, 0] = labels[8:, 1] = 1
    fault = faults_of(spec, examples(texts("train", 100), labels, spec), GOOD[1])
    assert "'' (example 8)" in fault
    assert "'a' (92 examples, first example 9) and 'A ' (0)" in fault


def test_all_faults_are_reported_at_once():
    with pytest.raises(errors.DataError) as caught:
        analysis.check_data(task("yes", "Yes"), GOOD[0], examples(["dev"])).check()
    assert len(str(caught.value).splitlines()) == 2


def test_of_rows_that_are_cross_validated_each_finding_is_told_once():
    train = dataclasses.replace(TRAIN.select(range(25)), path=pathlib.Path("x"), blank_lines=(3,))
    told = analysis.check_data(TASK, train, train).warnings
    assert sum("blank line" in warning for warning in told) == 1
    assert any("Cross-validation has 25 examples" in warning for warning in told)


def test_development_texts_that_differ_in_punctuation_alone_are_counted():
    train = examples([f"this is {name} text" for name in texts("one", 100)])
    copies = examples([f"{text} !" for text in train.texts[:60]])
    assert "60 of 60 development texts are training texts too but for" in warnings_of(
        TASK, train, copies
    )
    others = examples([f"this is {name} row" for name in texts("one", 60)])
    assert "but for" not in warnings_of(TASK, train, others)
    mixed = examples([*train.texts[:40], *copies.texts[:20]])  # of a refusal equal ones count
    (fault,) = analysis.check_data(TASK, train, mixed).faults
    assert "received 40 of 60 that it has" in fault
