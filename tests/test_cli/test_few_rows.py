"""`tfdistill quickstart` on few rows of each label: an encoder tuned on pairs, cross-validated."""

import csv
import json
import re

import numpy as np
import pytest
import toys

from tfdistill import cli, config, manifest, models
from tfdistill.data import answers

WORDS = {
    "music": ("song", "tune", "band", "play"),
    "weather": ("rain", "sun", "wind", "snow"),
    "alarm": ("wake", "bell", "clock", "ring"),
}
FILL = ("please", "now", "the", "it", "then", "we", "a", "to")
SHAPE = models.EncoderConfig(
    num_layers=1, hidden_size=32, num_heads=2, intermediate_size=32, vocab_size=200,
    max_positions=32,
)  # fmt: skip
QUICK = ("benchmark.runs=3", "benchmark.min_seconds=0", "benchmark.repetitions=1")


def drawn(seed, count):
    random = np.random.default_rng(seed)
    rows = []
    for label, words in WORDS.items():
        rows += [
            (f"{random.choice(FILL)} {random.choice(words)} {' '.join(random.choice(FILL, 2))} {i}",
             label)
            for i in range(count)
        ]  # fmt: skip
    return rows


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """An encoder in `bert`, 8 rows of each label in `few.csv`, as many others in `more.csv`."""
    folder = tmp_path_factory.mktemp("few")
    for name, seed in (("few", 1), ("more", 2)):
        with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([("text", "label"), *drawn(seed, 8)])
    texts = [text for text, _ in drawn(3, 40)]
    toys.save_encoder(folder, texts, SHAPE)
    return folder


def quickstart(folder, *more):
    settings = [part for value in QUICK for part in ("--set", value)]
    data, teacher = str(folder / "few.csv"), str(folder / "bert")
    return ["quickstart", "--teacher", teacher, "--data", data, *settings, *more]


@pytest.fixture(scope="module")
def done(inputs):
    called = toys.call(quickstart(inputs, "--out", str(inputs / "run")))
    called.run = inputs / "run"
    return called


@pytest.mark.spine
@pytest.mark.slow
def test_all_rows_train_and_figures_are_those_of_rows_left_out(done):
    assert done.code == 0, done.told
    assert "24 rows of 3 labels: all of them train, and are cross-validated" in done.told
    assert "--class-weights" not in done.told  # which a frozen encoder does not take
    metrics = json.loads((done.run / "metrics.json").read_text())
    (teacher,) = metrics["models"]
    score = teacher["metrics"]["accuracy"]
    (told,) = re.findall(r"accuracy, cross-validated: .*", done.told)
    on_pairs, as_it_is = map(float, re.findall(r"(?:pairs of rows|as it is) (\d\.\d+)", told))
    assert round(score, 3) == max(on_pairs, as_it_is)
    assert told.endswith("the fine-tuned one" if on_pairs >= as_it_is else "as it is")
    assert done.told.count("teacher, without fold") >= 5
    scores = {row["name"]: row["metrics"]["accuracy"] for row in metrics["baselines"]}
    assert scores["frozen_teacher"] < 1 and scores["tfidf"] < 1  # rows that no fold has seen
    lines = (done.run / "data" / "train.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 25 and not (done.run / "data" / "dev.csv").exists()
    logits = answers.read(done.run / "teacher" / answers.FILE_NAME).logits["model"]
    assert len(logits) == 24


@pytest.mark.spine
@pytest.mark.slow
def test_the_file_holds_the_head_and_promises_nothing(done):
    card = manifest.read_manifest(done.run / "export")
    assert card.confidence is None and card.parity is not None and not card.parity.file_metrics
    assert "no promise: 45 or more labelled texts that trained nothing" in done.told
    names = {path.name for path in (done.run / "export").iterdir()}
    assert {"model.tflite", "labels.txt", "vocab.txt"} <= names
    assert not (done.run / "teacher" / "export").exists()
    page = (done.run / "report.md").read_text()
    assert "All metrics are cross-validated" in page
    assert "on which checkpoints may have been chosen" not in page
    assert "on 24 cross-validated examples" in page and "development examples" not in page
    header = next(line for line in done.shown.splitlines() if "accuracy (" in line)
    assert header.split()[:3] == ["accuracy", "(cross-validated)", "size"]


@pytest.mark.slow
def test_a_training_that_needs_a_development_set_asks_for_one(done, tmp_path, capsys):
    arguments = ["compress", str(done.run), "--out", str(tmp_path / "out"), "--dry-run"]
    assert cli.main(arguments) == 2
    assert "no development set: name a labelled file" in capsys.readouterr().err


@pytest.mark.spine
@pytest.mark.slow
def test_predict_answers_with_a_probability(done, capsys):
    assert cli.main(["predict", str(done.run), "please play the song", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["label"] in WORDS and 0 < shown["probability"] < 1 and shown["sure"] is None


@pytest.mark.slow
def test_it_is_exported_again_from_its_run_with_a_promise(done, inputs, tmp_path):
    command = ["export", str(done.run), "--quantize", "float32", "--out", str(tmp_path / "again")]
    assert cli.main(command) == 0
    card = manifest.read_manifest(tmp_path / "again")
    assert card.confidence is None and not card.parity.file_metrics
    more = ["--promise-on", str(inputs / "more.csv"), "--overwrite"]
    assert cli.main([*command, *more]) == 0
    confidence = manifest.read_manifest(tmp_path / "again").confidence
    assert (confidence.temperature, confidence.num_examples) == (1.0, 0)
    assert {promise.rows for promise in confidence.promises} == {24}


def test_minutes_that_few_rows_cannot_keep_are_refused(inputs, capsys):
    command = quickstart(inputs, "--max-minutes", "0.001", "--out", str(inputs / "none"))
    assert cli.main(command) == 2
    assert "No student is trained" in capsys.readouterr().err


@pytest.mark.parametrize(
    "option",
    [
        ("--finetune", "always"),
        ("--student", "tinybert_4l_312d"),
        ("--class-weights", "balanced"),
    ],
)
def test_who_names_a_student_or_a_training_gets_it(inputs, option, capsys):
    assert cli.main(quickstart(inputs, *option, "--dry-run")) != 0
    assert "at least 40 different texts, received 24" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "method"), [("--student", "contrastive"), ("--finetune", "labels")]
)
def test_a_student_of_few_rows_has_a_teacher_tuned_on_pairs(
    inputs, tmp_path, capsys, option, method
):
    with open(tmp_path / "few.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *drawn(4, 20)])
    (tmp_path / "bert").symlink_to(inputs / "bert")
    value = {"--student": "tinybert_4l_312d", "--finetune": "always"}[option]
    command = quickstart(tmp_path, option, value, "--dry-run", "--json")
    command += ["--out", str(tmp_path / "o")]
    assert cli.main(command) == 0
    shown = capsys.readouterr()
    recipe = config.parse_recipe(json.loads(shown.out)["recipe"], source="test")
    assert recipe.teacher.finetune.method == method and not recipe.data.cross_fitted
    assert "split: train" in shown.err


def test_the_recipe_has_a_teacher_that_is_the_student(inputs, capsys):
    out = str(inputs / "dry")
    assert cli.main([*quickstart(inputs), "--dry-run", "--json", "--out", out]) == 0
    page = json.loads(capsys.readouterr().out)
    recipe = config.parse_recipe(page["recipe"], source="test")
    tuned = recipe.teacher.finetune
    assert recipe.data.cross_fitted and (tuned.method, tuned.min_steps) == ("contrastive", 40)
    assert recipe.student.is_teacher and not recipe.stages
