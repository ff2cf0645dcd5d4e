"""A teacher that the user named and that is used as it is stays where it is: a run has no copy."""

import json
import shutil

import numpy as np
import pytest
import toys

from tfdistill import cli, config, errors, models, run, training, weights
from tfdistill.data import synthetic, vocab
from tfdistill.run import inputs, task_models

LABELS = synthetic.TASK.labels
STEP = {"kind": "joint", "epochs": 1, "batch_size": 16, "learning_rate": 1e-3, "min_steps": 1}


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Commands, a vocabulary and a teacher, whose labels stand in another order than the task's."""
    folder = tmp_path_factory.mktemp("named")
    synthetic.write_task(folder / "data", num_train=48, num_dev=24, num_test=16, num_documents=10)
    words = vocab.train_vocab(synthetic.generate(300)[0], 300)
    vocab.write_vocab(words, folder / "vocab.txt")
    shape = models.preset("bert_tiny").replace(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, max_positions=32
    )
    model = toys.randomise(models.build_classifier(shape, len(LABELS)))
    tokenizer = folder / "vocab.txt"
    weights.save_hf(model, folder / "teacher", labels=LABELS[::-1], tokenizer=tokenizer)
    weights.save_hf(model, folder / "unnamed", tokenizer=tokenizer)
    return folder


def recipe_of(folder, teacher="teacher", student="pruned:layers=1", **data):
    section = {"task": "assistant", "dir": str(folder / "data"), "max_length": 16, **data}
    values = toys.one_stage(
        section, {"source": str(folder / teacher), "export": True}, {"preset": student}, dict(STEP)
    ).model_dump()
    values["benchmark"] |= {"warmup": 1, "runs": 5, "min_seconds": 0.0, "repetitions": 1}
    values["export"] |= {"lengths": (16,)}
    return config.Recipe.model_validate(values)


@pytest.fixture(scope="module")
def finished(named, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, run.run_recipe(recipe_of(named), out)


def test_a_run_folder_holds_the_student_alone(finished):
    out, metrics = finished
    teacher, student = metrics.models
    weights_held = [path for path in out.rglob("*.safetensors") if "answers" not in path.name]
    assert [path.relative_to(out).as_posix() for path in weights_held] == [
        "student/hf/model.safetensors"
    ]
    files_held = sum(path.stat().st_size for path in out.rglob("*.tflite"))
    whole = sum(path.stat().st_size for path in weights_held)
    assert whole <= 1.2 * 4 * student.parameters < 4 * teacher.parameters
    assert files_held and not list(out.rglob("ckpt*"))


def test_the_teacher_is_opened_from_its_own_folder_in_the_order_of_the_task(finished, named):
    out, metrics = finished
    opened = task_models.open_saved(out / "teacher", synthetic.TASK)
    original = inputs.open_source(str(named / "teacher"))
    for ours, original_weights in zip(opened.weights, original.model.weights, strict=True):
        values = original_weights.numpy()
        turned = values[..., ::-1] if "classifier" in original_weights.name else values
        np.testing.assert_array_equal(ours.numpy(), turned, err_msg=original_weights.name)
    assert set(metrics.test_metrics) == {"teacher", "student", "file"}


def test_what_reads_a_run_works_on_it(finished, named, tmp_path, monkeypatch, capsys):
    out = shutil.copytree(finished[0], tmp_path / "run")
    monkeypatch.setattr(training, "fit", lambda *_, **__: pytest.fail("it trained again"))
    again = run.run_recipe(recipe_of(named), out, resume=True)
    assert again.models == finished[1].models and again.test_metrics == finished[1].test_metrics
    texts = ["play a song", "what is the weather"]
    data = ["--task", "assistant", "--data-dir", str(named / "data")]
    for command in (
        ["evaluate", str(out), "--json"],
        ["evaluate", str(out / "teacher"), *data],
        ["predict", str(out), *texts],
        ["predict", str(out), "--against", "teacher", *texts],
        ["export", str(out), "--out", str(tmp_path / "file"), "--lengths", "16"],
        ["report", str(out)],
    ):
        capsys.readouterr()
        assert cli.main(command) == 0, (command, capsys.readouterr().err)
        if "--json" in command:
            shown = json.loads(capsys.readouterr().out)["accuracy"]
            assert shown == pytest.approx(finished[1].models[1].metrics["accuracy"])


@pytest.mark.parametrize(
    ("teacher", "student", "data", "stays"),
    [
        ("teacher", "pruned:layers=1", {}, True),
        ("unnamed", "pruned:layers=1", {}, False),  # its outputs are matched by answers
        ("teacher", "pruned:layers=1", {"lower_case": False}, False),
        ("teacher", "pruned:layers=1", {"vocab": "vocab.txt"}, False),
    ],
)
def test_a_teacher_that_the_run_changes_is_copied(named, tmp_path, teacher, student, data, stays):
    if "vocab" in data:
        data = {"vocab": str(named / data["vocab"])}
    recipe = recipe_of(named, teacher, student, **data)
    loaded, _, _ = run.prepare.prepare(recipe, tmp_path)
    assert task_models.is_as_named(recipe, loaded, tmp_path) is stays


def test_a_changed_teacher_does_not_continue_a_run(finished, named, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "run")
    shutil.copytree(named, tmp_path / "named")
    values = recipe_of(named).model_dump()
    path = tmp_path / "named" / "teacher" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    teacher = named / "teacher"
    shutil.move(teacher, tmp_path / "aside")
    shutil.copytree(tmp_path / "named" / "teacher", teacher)
    try:
        with pytest.raises(errors.ConfigError, match=r"teacher\.source"):
            run.run_recipe(config.Recipe.model_validate(values), out, resume=True)
    finally:
        shutil.rmtree(teacher)
        shutil.move(tmp_path / "aside", teacher)
