"""Students that start as a part of their teacher and learn answers and states together."""

import json

import numpy as np
import pytest
import safetensors.numpy

from tfdistill import config, errors, results, run
from tfdistill.data import synthetic
from tfdistill.run import initialise, stage_batches, stages

STEP = {"epochs": 1, "batch_size": 16}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assistant")
    synthetic.write_task(folder, num_train=400, num_dev=60, num_test=10, num_documents=10)
    return folder


def recipe_of(data_dir, **changes):
    values = {
        "name": "joint",
        "data": {"task": "assistant", "dir": str(data_dir), "max_length": 24, "vocab": "train:400"},
        "teacher": {
            "source": "preset:bert_tiny",
            "finetune": {"epochs": 8, "batch_size": 16, "learning_rate": 2e-3},
            "export": False,
        },
        "student": {"preset": "pruned:layers=1,ffn=64,heads=1,width=64", "initialise": "auto"},
        "stages": {"joint": {"kind": "joint", **STEP, "min_steps": 40}},
        "variants": {"student": {"stages": ["joint"]}},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            values[section] = {**values[section], name: value}
        else:
            values[section] = value
    return config.parse_recipe(values)


@pytest.fixture(scope="module")
def distilled(data_dir, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "joint"
    return out, run.distill(recipe_of(data_dir), out)


def test_a_pruned_student_has_the_shape_that_was_asked_for(distilled):
    _, record = distilled
    assert record.architecture["num_layers"] == 1
    assert record.architecture["hidden_size"] == 64
    assert record.architecture["intermediate_size"] == 64
    assert record.architecture["num_heads"] == 1


def test_it_starts_close_to_its_teacher_and_ends_closer(distilled):
    out, record = distilled
    assert (out / "stages" / initialise.START).is_file()
    history = (out / record.history[0].csv).read_text().splitlines()
    columns = history[0].split(",")
    losses = [float(row.split(",")[columns.index("loss")]) for row in history[1:]]
    assert losses[-1] < losses[0]
    teacher = record.teacher_metrics["accuracy"]
    assert teacher > 0.5
    assert record.metrics["accuracy"] > 0.8 * teacher  # from random weights 30 steps give 0.1


def test_a_floor_of_steps_is_reached_by_more_epochs(distilled, data_dir):
    out, _ = distilled
    result = results.read_result_file(
        out / "stages" / "joint" / "seed-1" / "result.json", results.FitResult
    )
    assert result.steps == 50  # 25 batches an epoch, two epochs instead of the one named
    stage = recipe_of(data_dir).stages["joint"]
    assert stage_batches.num_epochs(stage, 25) == 2
    assert stage_batches.num_epochs(stage, 100) == 1


def test_its_baselines_are_measured_once(distilled):
    out, record = distilled
    assert [row.name for row in record.baselines] == ["majority", "tfidf", "word_vectors"]
    saved = json.loads((out / "results" / "baselines.json").read_text())
    assert saved["rows"][1]["metrics"]["accuracy"] == record.baselines[1].metrics["accuracy"]
    majority, tfidf, _ = (row.metrics["accuracy"] for row in record.baselines)
    assert majority < 0.3 < tfidf


def test_a_run_without_baselines_measures_none(distilled, data_dir, tmp_path):
    record = run.distill(
        recipe_of(data_dir, baselines=False, student__allow_weak=True), tmp_path / "run"
    )
    assert record.baselines == ()


def test_a_second_run_of_the_same_recipe_starts_from_the_same_weights(distilled, data_dir):
    out, _ = distilled
    before = safetensors.numpy.load_file(out / "stages" / initialise.START)
    again = out.parent / "again"
    run.distill(recipe_of(data_dir), again)
    after = safetensors.numpy.load_file(again / "stages" / initialise.START)
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)


def test_a_student_that_fits_no_teacher_starts_from_its_word_vectors(data_dir, tmp_path):
    other = {"preset": "bert_tiny", "num_layers": 1, "hidden_act": "relu"}  # the teacher has GELU
    out = tmp_path / "run"
    start = {"initialise": "auto", "allow_weak": True}
    run.distill(recipe_of(data_dir, student={**other, **start}), out)
    assert not (out / "stages" / initialise.START).exists()


def test_a_student_larger_than_its_teacher_cannot_be_pruned(data_dir, tmp_path):
    wide = {"preset": "bert_tiny", "num_layers": 3, "initialise": "pruned"}
    with pytest.raises(errors.ConfigError, match=r"num_layers .* at most the teacher's 2"):
        run.distill(recipe_of(data_dir, student=wide), tmp_path / "run")


def test_a_student_without_a_teacher_cannot_be_pruned(data_dir, tmp_path):
    recipe = recipe_of(
        data_dir,
        student__initialise="pruned",
        stages={"labels": {"kind": "labels", **STEP, "learning_rate": 1e-3}},
        variants={"student": {"stages": ["labels"]}},
    )
    with pytest.raises(errors.ConfigError, match="first stage of kind labels"):
        run.distill(recipe, tmp_path / "run")


def test_a_student_near_chance_is_saved_and_refused(data_dir, tmp_path):
    recipe = recipe_of(
        data_dir,
        student__initialise="random",
        stages={"joint": {"kind": "joint", **STEP, "min_steps": 1, "learning_rate": 1e-7}},
    )
    out = tmp_path / "run"
    with pytest.raises(errors.StudentError, match=r"chance is .* --allow-weak"):
        run.distill(recipe, out)
    assert (out / "student" / "hf" / "config.json").is_file()
    values = recipe.model_dump()
    values["student"]["allow_weak"] = True
    record = run.distill(config.Recipe.model_validate(values), out, resume=True)
    assert record.metrics["accuracy"] < 0.5


def test_a_teacher_near_chance_is_saved_and_refused(data_dir, tmp_path):
    weak = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-8}
    out = tmp_path / "run"
    with pytest.raises(errors.TeacherError, match="chance is"):
        run.finetune(recipe_of(data_dir, teacher__finetune=weak), out)
    assert (out / "teacher" / "model" / "hf" / "config.json").is_file()


def test_a_shape_that_no_folder_can_hold_is_refused_before_any_training(data_dir, tmp_path):
    recipe = recipe_of(data_dir, student={"preset": "pruned:heads=1,head_size=48"})
    with pytest.raises(errors.ConfigError, match=r"divides the width 128, .* 1 heads of 48"):
        run.distill(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "teacher").exists()


def test_the_rate_falls_with_the_width_beyond_what_was_measured():
    assert stages.joint_rate(192) == stages.joint_rate(384) == 3e-4
    assert stages.joint_rate(768) == pytest.approx(1.5e-4)


def test_a_shape_that_is_no_part_of_the_teacher_is_named_before_any_training(data_dir, tmp_path):
    recipe = recipe_of(data_dir, student={"preset": "pruned:layers=5"})
    with pytest.raises(errors.ConfigError, match="at most the teacher's 2"):
        run.distill(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "teacher").exists()
