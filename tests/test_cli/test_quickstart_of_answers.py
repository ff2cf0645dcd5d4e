"""`tfdistill quickstart` on a model's answers: probabilities, abstained texts, suspects."""

import csv
import json
import re

import numpy as np
import pytest
import toys
from test_cli.test_few_rows import FILL, WORDS

from tfdistill import config, models
from tfdistill.data import from_config, model_answers

SHAPE = models.EncoderConfig(
    num_layers=2, hidden_size=16, num_heads=2, intermediate_size=32, vocab_size=200,
    max_positions=32,
)  # fmt: skip
QUICK = [
    *("teacher.finetune.min_steps=4", "teacher.finetune.epochs=1", "teacher.allow_weak=true"),
    *("stages.joint.epochs=1", "stages.joint.min_steps=null", "student.allow_weak=true"),
    *("benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1"),
]


def rows_of(count, seed=1):
    random, names = np.random.default_rng(seed), list(WORDS)
    for index in range(count):
        label = names[index % 3]
        fill, other = random.choice(FILL, 3), names[(index + 1) % 3]
        text = f"{fill[0]} {random.choice(WORDS[label])} {fill[1]} {fill[2]} {'abcde'[index % 5]}"
        shares = {label: 0.8, other: 0.2}
        if index % 20 == 4:
            shares = {other: 0.7, label: 0.3}  # a wrong one
        yield {"text": f"{text}{index}x{index // 7}", "probabilities": shares}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answered")
    rows = list(rows_of(400))
    for row in rows[::40]:
        row["probabilities"] = None
    for row in rows[1::40]:
        row["probabilities"] = {"unsure": 1.0}
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    toys.save_encoder(folder, [row["text"] for row in rows], SHAPE)
    return folder


def command(inputs, *more):
    settings = [part for value in QUICK for part in ("--set", value)]
    base = [
        "quickstart",
        "--teacher",
        str(inputs / "bert"),
        "--data",
        str(inputs / "answers.jsonl"),
    ]
    return [*base, "--abstains", "unsure", "--student", "pruned:layers=1", *settings, *more]


@pytest.fixture(scope="module")
def done(inputs):
    called = toys.call(command(inputs, "--out", str(inputs / "run"), "--drop-suspects"))
    called.run = inputs / "run"
    return called


@pytest.mark.slow
def test_the_encoder_learns_each_kind_of_answer_and_the_best_is_taken(done):
    assert done.code == 0, done.told
    best = {}
    for target in ("hard", "soft", "sharpened"):
        history = done.run / "teacher" / "finetune" / target / "history.csv"
        with history.open() as file:
            best[target] = max(float(row["val_accuracy"]) for row in csv.DictReader(file))
    (told,) = re.findall(r"fine-tuned on (\w+) answers: accuracy (.*)", done.told)
    assert best[told[0]] == max(best.values())
    assert told[1] == ", ".join(f"{target} {score:.3f}" for target, score in best.items())
    metrics = json.loads((done.run / "metrics.json").read_text())
    assert metrics["models"][0]["metrics"]["accuracy"] == pytest.approx(max(best.values()))
    page = (done.run / "report.md").read_text()
    assert told[1] in page and "training answers in suspects.csv" in page


@pytest.mark.slow
def test_suspects_train_nothing_and_other_texts_are_distilled_from(done):
    with (done.run / "suspects.csv").open(encoding="utf-8", newline="") as file:
        suspects = list(csv.DictReader(file))
    with (done.run / "data" / "train.csv").open(encoding="utf-8", newline="") as file:
        train = {row["text"]: row for row in csv.DictReader(file)}
    assert suspects and {row["text"] for row in suspects} <= train.keys()
    for row in suspects:
        assert row["answer"] == train[row["text"]]["label"] != row["other_answer"]
    left = len(train) - len(suspects)
    assert f"{left} training and" in done.told
    assert "data: 10 texts without labels" in done.told
    with (done.run / "teacher" / "finetune" / "history.csv").open() as file:
        steps = int(next(csv.DictReader(file))["step"])
    assert steps == -(-left // 32)
    settings = config.data_of_run(str(done.run))
    assert [path for path in settings.unlabelled if str(done.run) in path] == list(
        settings.unlabelled
    )
    _, test = from_config.labelled(settings, "test")
    read = model_answers.read_model_answers(settings, test)
    assert read.classes.tolist() == test.labels.tolist()  # there is no gold label


@pytest.mark.slow
def test_the_plan_says_what_is_learnt_and_how_many_suspects_there_may_be(inputs, tmp_path, capsys):
    called = toys.call(
        command(inputs, "--out", str(tmp_path / "run"), "--drop-suspects", "--dry-run")
    )
    assert called.code == 0, called.told
    assert "400 rows, 390 of 400 texts have an answer in 'probabilities'" in called.told
    assert "learnt: 0 gold labels, 380 answers, and 10 texts without a label" in called.told
    assert "no label: 10 texts answered 'unsure'" in called.told
    assert "fine-tuned on the labels, on the probabilities and on these sharpened" in called.told
    (train,) = re.findall(r"train (\d+), dev", called.told)
    assert f"suspects: at most {int(train) // 40} of the training answers" in called.told
    refused = toys.call(command(inputs, "--kind", "regression", "--out", str(tmp_path / "run")))
    assert refused.code == 2 and "--abstains with --kind" in refused.told
