"""`tfdistill export FOLDER --data FILE`: a fine-tuned model and its labelled rows become a file."""

import csv
import json
import shlex
import shutil

import numpy as np
import pytest
import toys

import export
from tfdistill import cli, config, errors, load_data, models, training, weights
from tfdistill.commands import quickstart_budget, quickstart_recipe
from tfdistill.data import batches
from tfdistill.predictor import Predictor
from tfdistill.run import teachers
from tfdistill.tokenization.reading import read_tokenizer

WORDS = [f"w{chr(ord('a') + i)}" for i in range(20)]
NAMES = ("yes", "maybe", "no")  # in the order of the outputs, which is not that of the file
ROWS = 150


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of random weights in `named`, and in `rows.csv` what it answers to random texts."""
    folder = tmp_path_factory.mktemp("export data")
    source = toys.write_labelled(folder, WORDS, NAMES, toys.SHALLOW_TEACHER, seed=4, scale=0.6)
    draw = np.random.default_rng(2)
    texts = list({" ".join(draw.choice(WORDS, 5)): None for _ in range(ROWS)})
    model = weights.load_model(source, "sequence").model
    encoded = read_tokenizer(folder / "vocab.txt", True).encode_batch(texts, None, 12)
    logits = training.predict_logits(model, batches.Batches(encoded, shuffle=False))
    bias = model.get_layer(models.read_head(model).layer).bias
    bias.assign_sub(np.median(logits, axis=0))  # every label is answered
    answers = (logits - np.median(logits, axis=0)).argmax(axis=1)
    assert np.bincount(answers, minlength=3).min() > 20
    source = weights.save_hf(
        model, folder / "named", labels=NAMES, tokenizer=folder / "vocab.txt", overwrite=True
    )
    write(folder / "rows.csv", zip(texts, (NAMES[i] for i in answers), strict=True))
    write(
        folder / "chance.csv",
        zip(texts, np.array(NAMES)[draw.integers(3, size=len(texts))], strict=True),
    )
    rename(shutil.copytree(source, folder / "unnamed"), [f"LABEL_{i}" for i in range(3)])
    one = toys.randomise(models.build_classifier(models.config_of(model), 1), 1)
    weights.save_hf(one, folder / "number", tokenizer=folder / "vocab.txt")
    return folder


def write(path, rows, columns=("text", "answer")):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([columns, *rows])


def rename(folder, names):
    path = folder / "config.json"
    described = json.loads(path.read_text())
    described["id2label"] = dict(enumerate(names))
    described["label2id"] = {name: number for number, name in enumerate(names)}
    path.write_text(json.dumps(described))


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]


@pytest.mark.slow
@pytest.mark.spine
def test_outputs_without_names_get_those_of_the_file_and_a_checked_file_serves_again(
    folder, tmp_path, capsys, monkeypatch
):
    model, assets = str(folder / "unnamed"), tmp_path / "assets"
    command = ["export", model, "--data", str(folder / "rows.csv"), "--lengths", "12"]
    assert cli.main([*command, "--quantize", "float32"]) == 0
    printed = capsys.readouterr()
    assert "LABEL_1 is maybe, LABEL_2 is no, LABEL_0 is yes; 100.0% of the rows" in printed.err
    assert "no promise: " in printed.err
    assert "accuracy: file 1.0000, model 1.0000" in printed.out
    with Predictor(folder / "unnamed" / "export") as predictor:
        assert predictor.promise is None
        for text, label in rows_of(folder / "rows.csv"):
            assert predictor.predict(text).label == label
    written = (folder / "unnamed" / "export" / "model.tflite").stat()

    with monkeypatch.context() as patch:
        patch.setattr(export, "to_tflite", None)
        again = [*command, "--quantize", "float32", "--android", str(assets)]
        assert cli.main(again) == 0
    assert "checked before, and used again" in capsys.readouterr().err
    assert (folder / "unnamed" / "export" / "model.tflite").stat() == written
    bundle = assets / "bundles" / "unnamed-float32"
    assert (bundle / "labels.txt").read_text().split() == ["maybe", "no", "yes"]
    # A damaged file is none; neither is another request, nor the same of another file.
    exported = folder / "unnamed" / "export" / "model.tflite"
    whole = exported.read_bytes()
    exported.write_bytes(whole[:-1])
    assert cli.main([*command, "--quantize", "float32"]) == 0
    assert "export is not used again: model.tflite: expected sha256" in capsys.readouterr().err
    shutil.rmtree(folder / "unnamed" / "export-float32")
    exported.write_bytes(whole)
    longer = [*command[:-1], "10", "--quantize", "float32"]
    assert cli.main(longer) == 0 and "used again" not in capsys.readouterr().err
    assert (folder / "unnamed" / "export-float32" / "model.tflite").is_file()


@pytest.mark.slow
def test_a_run_matches_outputs_without_names_too(folder):
    data = load_data(folder / "rows.csv", tokenizer=str(folder / "unnamed"))
    model = teachers.load_classifier(str(folder / "unnamed"), data)
    assert training.evaluate(model, data.dev)["accuracy"] == 1.0
    chance = load_data(folder / "chance.csv", tokenizer=str(folder / "unnamed"))
    with pytest.raises(errors.TeacherError, match="in one way, received"):
        teachers.load_classifier(str(folder / "unnamed"), chance)


@pytest.mark.parametrize(
    ("model", "file", "options", "parts"),
    [
        ("named", [("x", "good"), ("y", "bad"), ("z", "ugly")], "", ["ugly", "yes, maybe, no"]),
        ("named", [("x", "good"), ("y", "bad")], "", ["3 output(s), the task 2"]),
        ("named", [("x", "1.5"), ("y", "2.5")], "", ["(numbers)", "3 output(s)"]),
        ("named", [("x", "yes")], "", ["at least two different labels, received only 'yes'"]),
        ("number", [("x", "yes"), ("y", "no")], "", ["1 output(s), the task 2"]),
        ("named", None, "", ["at least 40 different texts, received 3"]),
        ("empty", [("x", "yes"), ("y", "no")], "", ["config.json"]),
        ("named", [("x", "yes"), ("y", "no")], "--label-column mood", ["'mood'"]),
        ("named", [("x", "yes"), ("y", "no")], "--answered-by gpt", ["--promise-on FILE too"]),
    ],
)
def test_files_of_other_answers_are_refused_before_anything_is_converted(
    folder, tmp_path, capsys, model, file, options, parts
):
    (folder / "empty").mkdir(exist_ok=True)
    path = tmp_path / "other.csv"
    kinds = [("x", "yes"), ("y", "no"), ("z", "no")] if file is None else file
    number = 1 if file is None else 40
    write(path, [(f"{text} w{i}", label) for i in range(number) for text, label in kinds])
    command = ["export", str(folder / model), "--data", str(path), "--out", str(tmp_path / "out")]
    assert cli.main([*command, *options.split()]) in (1, 2)
    told = capsys.readouterr().err
    assert [part for part in parts if part not in told] == []
    assert not (tmp_path / "out").exists()


def test_a_bundle_without_texts_is_refused_at_once(folder, tmp_path, capsys):
    command = ["export", str(folder / "named"), "--android", str(tmp_path)]
    assert cli.main(command) == 2
    assert "Add --data FILE" in capsys.readouterr().err


@pytest.mark.slow
def test_without_data_a_file_answers_by_the_names_of_the_folder(folder, tmp_path):
    for model in ("named", "number"):
        out = str(tmp_path / model)
        options = ["--out", out, "--lengths", "12", "--quantize", "float32"]
        assert cli.main(["export", str(folder / model), *options]) == 0
    with Predictor(tmp_path / "named") as predictor:
        for text, label in rows_of(folder / "rows.csv"):
            assert predictor.predict(text).label == label
    with Predictor(tmp_path / "number") as predictor:
        assert isinstance(predictor.predict("wa").label, float)


@pytest.mark.slow
def test_the_proposed_student_is_the_one_of_quickstart(folder, capsys, monkeypatch):
    from tfdistill.commands import export_data

    monkeypatch.setattr(quickstart_recipe, "is_small", lambda *_: False)
    monkeypatch.setattr(quickstart_budget, "_GOALS_MB", (1e-3,))  # 9 MB hold the teacher
    values = {"task": "rows", "file": str(folder / "rows.csv"), "text_column": "text"}
    settings = config.parse_section(config.DataConfig, values, source="test", place="data")
    first, command = export_data.check_fit(str(folder / "named"), settings)
    assert "a smaller file: about " in first and " minutes on this machine" in first
    assert cli.main([*shlex.split(command)[1:], "--dry-run", "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    assert planned["recipe"]["student"]["preset"] in first
