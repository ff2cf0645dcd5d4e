"""Runs whose teacher is known by its soft labels: what they learn, and what they refuse."""

import dataclasses
import json
import types

import numpy as np
import pytest
import safetensors.numpy
import toys

from tfdistill import cli, config, data, errors, models, run, tasks, weights
from tfdistill.data import answers, soft_label_values, synthetic, vocab
from tfdistill.io import arrays
from tfdistill.run import soft_labels, students

pytestmark = pytest.mark.slow

STEP = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}
SHAPE = models.preset("bert_tiny").replace(
    num_layers=1, hidden_size=16, num_heads=2, intermediate_size=16, max_positions=32
)
TASK = synthetic.TASK
NUM_TRAIN, NUM_DEV = 48, 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Commands, a vocabulary, and a teacher and a student of random weights."""
    folder = tmp_path_factory.mktemp("given")
    synthetic.write_task(
        folder / "data", num_train=NUM_TRAIN, num_dev=NUM_DEV, num_test=10, num_documents=10
    )
    words = vocab.train_vocab(synthetic.generate(300)[0], 300)
    vocab.write_vocab(words, folder / "vocab.txt")
    for name in ("teacher", "student"):
        model = models.build_classifier(SHAPE.replace(vocab_size=len(words)), len(TASK.labels))
        weights.save_hf(model, folder / name, labels=TASK.labels, tokenizer=folder / "vocab.txt")
    return folder


def recipe_of(folder, teacher, kind="logits", stage=(), **data):
    start = dict.fromkeys(("preset", "initialise"), str(folder / "student")) | {"keep_head": True}
    section = {"task": "assistant", "dir": str(folder / "data"), "max_length": 16, **data}
    return toys.one_stage(section, teacher, start, {"kind": kind, **STEP, **dict(stage)})


def texts_of(folder, *splits):
    return [
        text for split in splits for text in tasks.load_examples(TASK, folder / "data", split).texts
    ]


def labelled(folder, path, *others):
    """Writes the first label for every text, and the second for others."""
    rows = [{TASK.text_column: text, "label": TASK.labels[1]} for text in others]
    for text in dict.fromkeys(texts_of(folder, "train", "dev")):
        rows.append({TASK.text_column: text, "label": TASK.labels[0]})
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.fixture(scope="module")
def by_model(folder, tmp_path_factory):
    """A run whose teacher is a model, and a file with the numbers that it has in memory."""
    out = tmp_path_factory.mktemp("runs") / "model"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.deliver, "drop_scratch", lambda root: None)  # the teacher's answers stay
        record = run.distill_variant(recipe_of(folder, {"source": str(folder / "teacher")}), out)
    (cache,) = (out / "teacher" / "cache").iterdir()
    train = arrays.read_arrays(cache)["logits"]
    dev = answers.read(out / "teacher" / answers.FILE_NAME).logits["model"]
    path = folder / "answers.jsonl"
    logits = np.concatenate([train, dev])[:, ::-1]
    order = np.random.default_rng(1).permutation(len(logits))  # of the rows; labels are reversed
    texts = texts_of(folder, "train", "dev")
    spec = dataclasses.replace(TASK, labels=TASK.labels[::-1])
    examples = tasks.Examples(spec, [texts[index] for index in order], None, None)
    data.soft_labels.write(path, examples, logits[order])
    return out, record, path


def weights_of(out):
    return safetensors.numpy.load_file(out / "student" / "hf" / "model.safetensors")


def test_a_student_of_a_file_is_that_of_the_same_numbers_in_memory_to_the_bit(
    folder, by_model, tmp_path, capsys
):
    out, expected, path = by_model
    record = run.distill_variant(recipe_of(folder, {"answers": [str(path)]}), tmp_path / "run")
    of_model, of_file = weights_of(out), weights_of(tmp_path / "run")
    started = safetensors.numpy.load_file(folder / "student" / "model.safetensors")
    assert of_file.keys() == of_model.keys()
    for name, array in of_file.items():
        np.testing.assert_array_equal(array, of_model[name], err_msg=name)
    assert any((of_file[name] != started[name]).any() for name in started)
    assert record.metrics == expected.metrics
    assert record.teacher_metrics == expected.teacher_metrics
    said = capsys.readouterr().err
    assert f"answers.jsonl to {NUM_TRAIN} of {NUM_TRAIN} training texts" in said
    assert f"student: starts with the weights of {folder / 'student'}" in said
    assert (tmp_path / "run" / "report.html").is_file()
    saved = (tmp_path / "run" / "student" / "hf" / "vocab.txt").read_bytes()
    assert saved == (folder / "vocab.txt").read_bytes()


@pytest.fixture
def planned(until_fit):
    """Goes as far as the first fit: the distiller, and the teacher's logits of the batches."""

    def plan(recipe, out, **options):
        distiller, train = until_fit(recipe, out, **options)
        return distiller, train._extra["teacher_logits"]

    return plan


def without_rows(path, target, *texts):
    lines = path.read_text().splitlines()
    remaining = [line for line in lines if json.loads(line)[TASK.text_column] not in texts]
    assert len(remaining) < len(lines)
    target.write_text("\n".join(remaining) + "\n")
    return target


@pytest.mark.parametrize("kind", ["joint", "prediction"])
def test_each_kind_of_answers_alone_learns_from_a_file(
    kind, folder, by_model, tmp_path, planned, capsys
):
    recipe = recipe_of(folder, {"answers": [str(by_model[2])]}, kind)
    distiller, logits = planned(recipe, tmp_path / "run")
    assert distiller.needs_only_logits() and isinstance(distiller.teacher, soft_labels.SoftLabels)
    (cache,) = (by_model[0] / "teacher" / "cache").iterdir()
    np.testing.assert_array_equal(logits, arrays.read_arrays(cache)["logits"])
    if kind == "joint":
        said = capsys.readouterr().err
        assert "no hidden states, since its teacher is known by its answers alone" in said
        assert "answers are nearly uniform" in said and "are sharpened" in said


def test_texts_without_an_answer_are_refused_or_learnt_from_gold_labels(
    folder, by_model, tmp_path, planned, capsys
):
    train, dev = texts_of(folder, "train"), texts_of(folder, "dev")
    left = train[3]
    path = without_rows(by_model[2], tmp_path / "part.jsonl", left, dev[0])
    out = tmp_path / "run"
    with pytest.raises(errors.DataError, match=r"none to \d of 48, .*answers.missing=gold"):
        run.distill_variant(recipe_of(folder, {"answers": [str(path)]}), out)
    assert not out.exists()

    settings = {"files": [str(path)], "missing": "gold"}
    _, logits = planned(recipe_of(folder, {"answers": settings}), out)
    labels = tasks.load_examples(TASK, folder / "data", "train").labels
    alike = [index for index, text in enumerate(train) if text == left]
    gold = soft_label_values.of_gold(labels[alike], TASK)
    np.testing.assert_array_equal(logits[alike], gold)
    (cache,) = (by_model[0] / "teacher" / "cache").iterdir()
    others = np.delete(np.arange(NUM_TRAIN), alike)
    np.testing.assert_array_equal(logits[others], arrays.read_arrays(cache)["logits"][others])
    said = capsys.readouterr().err
    assert f"{len(alike)} training texts are learnt from their gold labels alone" in said

    none = without_rows(by_model[2], tmp_path / "none.jsonl", *dev)
    settings["files"] = [str(none)]
    with pytest.raises(errors.DataError, match="judged by its answers"):
        run.distill_variant(recipe_of(folder, {"answers": settings}), tmp_path / "other")


def test_unlabelled_texts_are_answered_by_the_file(folder, by_model, tmp_path, planned):
    more = tmp_path / "more.txt"
    more.write_text("zero wings\none wing\n")
    path = labelled(folder, tmp_path / "all.jsonl", "zero wings", "one wing")
    recipe = recipe_of(folder, {"answers": [str(path)]}, unlabelled=[str(more)])
    _, logits = planned(recipe, tmp_path / "run")
    assert logits.argmax(axis=1).tolist() == [0] * NUM_TRAIN + [1, 1]

    without_rows(path, path, "zero wings")
    settings = {"files": [str(path)], "missing": "gold"}
    recipe = recipe_of(folder, {"answers": settings}, unlabelled=[str(more)])
    _, logits = planned(recipe, tmp_path / "other")
    assert logits.argmax(axis=1).tolist() == [0] * NUM_TRAIN + [1]  # there is no gold label


def test_answers_near_chance_are_refused_before_any_training(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(students, "train_stages", None)
    path = labelled(folder, tmp_path / "all.jsonl")
    recipe = recipe_of(folder, {"answers": [str(path)], "allow_weak": False})
    with pytest.raises(errors.TeacherError, match="the files answer other texts") as caught:
        run.distill_variant(recipe, tmp_path / "run")
    assert "Fine-tune" not in str(caught.value)


def test_a_run_goes_on_with_the_answers_that_it_began_with(folder, by_model, tmp_path, planned):
    path = tmp_path / "answers.jsonl"
    path.write_bytes(by_model[2].read_bytes())
    recipe = recipe_of(folder, {"answers": [str(path)]})
    planned(recipe, tmp_path / "run")
    planned(recipe, tmp_path / "run", resume=True)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        row[f"logits.{TASK.labels[0]}"] += 1e-3
    path.write_text("\n".join(map(json.dumps, rows)))
    with pytest.raises(errors.ConfigError, match="others: answers"):
        run.distill_variant(recipe, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages.only.kind": "patient"}, "compares the student with the teacher's layers"),
        ({"stages.only.kind": "general"}, "asks the teacher about the text of a corpus"),
        ({"stages.only.augmented": True}, "asks the teacher about augmented texts"),
        ({"student": "pruned:layers=1"}, "pruned:layers=1 is made of a teacher model"),
        ({"student.initialise": "teacher"}, "initialise: teacher is made of a teacher model"),
        ({"student": "bert_tiny"}, "data.vocab: answers come without a vocabulary"),
        ({"teacher.answers": ["none.jsonl"]}, "teacher.answers.files: none.jsonl is not there"),
        ({"teacher.source": "bert"}, "teacher.answers: expected answers or a model, received also"),
        ({"teacher.answers": None}, "teacher.source: expected a model, or files in answers"),
        ({"teacher.answers": {"files": ["a"], "temperatures": [1, 2]}}, "one for each of the 1"),
    ],
)
def test_what_needs_a_teacher_s_model_is_refused_with_the_reason(
    changes, message, folder, by_model
):
    values = recipe_of(folder, {"answers": [str(by_model[2])]}).model_dump()
    values = json.loads(json.dumps(values))
    for key, value in changes.items():
        *parents, last = key.split(".")
        section = values
        for parent in parents:
            section = section[parent]
        if last == "kind":
            section = values["stages"]
            last, value = "only", {"kind": value}
            values["stages"]["end"] = {"kind": "labels"}
            values["variants"]["student"]["stages"] = ["only", "end"]
        section[last] = {"preset": value} if last == "student" else value
    with pytest.raises(errors.ConfigError) as caught:
        faults = config.missing_inputs(config.parse_recipe(values))
        raise errors.ConfigError("\n".join(faults))
    assert message in str(caught.value)


def test_logits_that_there_are_not_are_not_compared(folder, tmp_path):
    path = labelled(folder, tmp_path / "all.jsonl")
    recipe = recipe_of(folder, {"answers": [str(path)]}, stage={"objective": "logit_mse"})
    with pytest.raises(errors.ConfigError, match="a label has none"):
        run.distill_variant(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command_takes_files_instead_of_a_teacher(folder, by_model, tmp_path, capsys):
    command = ["distill", "--answers", str(by_model[2]), "--student", "static:width=8"]
    command += ["--task", "assistant", "--data-dir", str(folder / "data"), "--dry-run"]
    command += ["--out", str(tmp_path / "run")]
    assert cli.main(command) == 2
    assert "--vocab sets data.vocab." in capsys.readouterr().err
    assert cli.main([*command, "--vocab", "train:300"]) == 0
    assert f"teacher   answers in {by_model[2]}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        cli.main([*command, "--teacher", "bert"])
    assert "--teacher: not allowed with argument --answers" in capsys.readouterr().err


def test_temperatures_of_a_regression_are_refused():
    spec = tasks.TaskSpec("likeness", "text", "score", kind="regression")
    answers = types.SimpleNamespace(missing="error", temperatures=(2.0,))
    teacher = types.SimpleNamespace(answers=answers)
    recipe = types.SimpleNamespace(teacher=teacher, used_stages={})
    with pytest.raises(errors.ConfigError, match="temperatures: the numbers of a regression"):
        soft_labels._check_stages(recipe, spec, [])
