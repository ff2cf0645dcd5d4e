"""Data that no model can learn well from, named before the training, and weights of classes."""

import csv

import numpy as np
import pytest
import toys

from tfdistill import cli, models, weights
from tfdistill.training import callbacks

pytestmark = pytest.mark.slow

TEXTS = [f"the {a} is {b} on day {n} of {m}" for n in range(10) for a in ("box", "cable", "lamp")
         for b in ("good", "bad", "late", "red") for m in ("may", "june")]  # fmt: skip
SHAPE = toys.SHALLOW_STUDENT.replace(vocab_size=120, max_positions=128)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    return toys.save_encoder(folder, TEXTS, SHAPE)


def write(path, labels, texts=TEXTS):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *zip(texts, labels, strict=True)])
    return str(path)


def quickstart(bert, path, folder, *more):
    """Plans a quickstart, with its recipe."""
    arguments = ["--teacher", str(bert), "--data", path, "--out", str(folder / "out")]
    return cli.main(["quickstart", *arguments, "--dry-run", "-v", *more])


def split(folder, labels, texts=TEXTS, held_out=40):
    """Writes train.csv and dev.csv, the last texts; returns the options that name them."""
    write(folder / "train.csv", labels[:-held_out], texts[:-held_out])
    write(folder / "dev.csv", labels[-held_out:], texts[-held_out:])
    return ["--task", "own", "--data-dir", str(folder), "--text-column", "text",
            "--label-column", "label", "--out", str(folder / "out")]  # fmt: skip


def test_a_label_in_nearly_all_rows_is_refused_where_accuracy_chooses(bert, tmp_path, capsys):
    labels = ["rare" if n in (0, 239) else "usual" for n in range(240)]
    arguments = split(tmp_path, labels)
    assert cli.main(["finetune", str(bert), *arguments, "--dry-run"]) == 1
    told = capsys.readouterr().err
    assert "'usual' in 99.5%" in told and "data.class_weights=balanced" in told
    macro = ["--set", "data.metrics=[macro_f1,accuracy]", "--class-weights", "balanced"]
    assert cli.main(["finetune", str(bert), *arguments, "--dry-run", *macro]) == 0


def test_a_rare_label_is_named_where_accuracy_chooses(bert, tmp_path, capsys):
    arguments = split(tmp_path, ["rare" if n % 20 == 0 else "usual" for n in range(240)])
    assert cli.main(["finetune", str(bert), *arguments, "--dry-run"]) == 0
    told = "".join(capsys.readouterr())
    assert "'rare' has 10 of 200 training rows" in told and "class_weights=balanced" in told
    assert cli.main(["finetune", str(bert), *arguments, "--dry-run", "--set",
                     "data.metrics=[macro_f1]"]) == 0  # fmt: skip
    assert "training rows" not in "".join(capsys.readouterr())


def test_a_development_set_of_one_label_is_refused(bert, tmp_path, capsys):
    labels = ["a", "b"] * 100 + ["a"] * 40
    assert cli.main(["finetune", str(bert), *split(tmp_path, labels), "--dry-run"]) == 1
    assert "only 'a': whoever always answers it is right" in capsys.readouterr().err


def test_quickstart_does_not_offer_accuracy_for_rare_labels(bert, tmp_path, capsys):
    labels = ["rare" if n % 20 == 0 else "usual" for n in range(240)]
    path = write(tmp_path / "x.csv", labels)
    assert quickstart(bert, path, tmp_path, "--class-weights", "balanced") == 0
    shown, told = capsys.readouterr()
    assert "metric: macro_f1" in told and "--class-weights balanced" in told
    assert "class_weights: balanced" in shown
    assert shown.index("- macro_f1") < shown.index("- accuracy")
    even = write(tmp_path / "y.csv", ["a", "b"] * 120)
    assert quickstart(bert, even, tmp_path) == 0
    shown, told = capsys.readouterr()
    assert "macro_f1" not in shown + told and "- accuracy" in shown


THAI = [f"โทรศัพท์{word}มาก หมายเลข {n}" for n in range(120) for word in ("ดี", "แย่")]
HALF = [f"{text} {word}" for text, word in zip(TEXTS, THAI, strict=True)]


@pytest.mark.parametrize("texts", [THAI, HALF], ids=["all", "part"])
def test_words_that_the_vocabulary_cannot_write_are_named_before_training(
    bert, tmp_path, capsys, texts
):
    labels = ["a", "b"] * 120
    path = write(tmp_path / "x.csv", labels, texts)
    assert quickstart(bert, path, tmp_path) == 1
    assert "of the words are unknown to this vocabulary" in capsys.readouterr().err
    assert quickstart(bert, path, tmp_path, "--set", "teacher.allow_weak=true") == 0
    capsys.readouterr()
    arguments = split(tmp_path, labels, texts)
    assert cli.main(["finetune", str(bert), *arguments, "--epochs", "1"]) == 1
    assert "of the words are unknown to this vocabulary" in capsys.readouterr().err


def test_class_weights_are_refused_where_nothing_reads_them(bert, tmp_path, capsys):
    arguments = split(tmp_path, [f"{n / 7:.2f}" for n in range(240)])
    weighted = ["--class-weights", "balanced", "--dry-run"]
    assert cli.main(["finetune", str(bert), *arguments, "--kind", "regression", *weighted]) == 2
    assert "a task of kind classification" in capsys.readouterr().err
    arguments = split(tmp_path, ["a", "b"] * 120)
    teacher = toys.randomise(models.build_classifier(SHAPE, 2))
    weights.save_hf(teacher, tmp_path / "tuned", labels=["a", "b"], tokenizer=bert / "vocab.txt")
    distill = ["distill", "--teacher", str(tmp_path / "tuned"), "--student", "tinybert_4l_312d"]
    distill += arguments
    assert cli.main([*distill, *weighted]) == 2
    assert "a training on gold labels" in capsys.readouterr().err
    assert cli.main([*distill, *weighted, "--set", "stages.joint.loss_weights.label=1"]) == 0


@pytest.mark.thorough
def test_class_weights_weigh_the_loss_of_the_gold_labels(bert, tmp_path, capsys):
    labels = ["rare" if n % 10 == 0 else "usual" for n in range(240)]
    losses = {}
    for name, more in (("plain", ()), ("weighted", ("--class-weights", "balanced"))):
        (tmp_path / name).mkdir()
        arguments = split(tmp_path / name, labels)
        arguments += ["--epochs", "1", "--min-steps", "1", "--batch-size", "200"]
        arguments += ["--set", "teacher.allow_weak=true", *more]
        assert cli.main(["finetune", str(bert), *arguments]) == 0, capsys.readouterr().err
        told = capsys.readouterr().err
        # 20 and 180 of 200 rows: 200 / (2 * 20) and 200 / (2 * 180).
        assert ("class weights: rare 5, usual 0.556" in told) == bool(more)
        history = next((tmp_path / name / "out").rglob("history.csv"))
        losses[name] = float(callbacks.read_history(history)[0]["loss"])
    assert np.isfinite(list(losses.values())).all() and losses["plain"] != losses["weighted"]
