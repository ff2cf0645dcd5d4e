"""Stages that compress the student, in a run from the teacher to the file."""

import pathlib
import shutil

import compressed_layers
import numpy as np
import pytest
from safetensors.numpy import load_file

from tfdistill import compress, config, errors, manifest, models, run, training, weights
from tfdistill.commands import export as export_command
from tfdistill.commands import models as command
from tfdistill.data import synthetic, vocab
from tfdistill.io import arrays
from tfdistill.run import inputs

STEP = {"kind": "prediction", "epochs": 2, "batch_size": 16, "learning_rate": 1e-3}
METHODS = ("prune", "cluster", "quantize")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assistant")
    synthetic.write_task(folder, num_train=96, num_dev=40, num_test=10, num_documents=40)
    return folder


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    """A teacher of random weights: what is tested is the path, not what it knows."""
    folder = tmp_path_factory.mktemp("teacher")
    words = vocab.train_vocab(synthetic.generate(300)[0], 300)
    vocab.write_vocab(words, folder / "vocab.txt")
    shape = models.preset("bert_tiny").replace(
        num_layers=1, hidden_size=16, intermediate_size=32, vocab_size=len(words), max_positions=32
    )
    labels = synthetic.TASK.labels
    model = models.build_classifier(shape, len(labels))
    return weights.save_hf(model, folder / "hf", labels=labels, tokenizer=folder / "vocab.txt")


def recipe_of(data_dir, teacher):
    itself = {"teacher": "student"}
    values = {
        "name": "toy",
        "data": {"task": "assistant", "dir": str(data_dir), "max_length": 24, "vocab": "teacher"},
        "teacher": {"source": str(teacher), "allow_weak": True, "export": False},
        "student": {
            "preset": "bert_tiny",
            "num_layers": 1,
            "hidden_size": 16,
            "intermediate_size": 32,
            "allow_weak": True,
        },
        "stages": {
            "prune": {**STEP, "compress": {"method": "prune", **itself}},
            "cluster": {
                **STEP,
                "kind": "intermediate",
                "compress": {"method": "cluster", "clusters": 8, **itself},
            },
            "quantize": {**STEP, "compress": {"method": "quantize"}},
        },
        "variants": {"int8": {"stages": list(METHODS)}},
        "baselines": "none",
        "export": {"lengths": [24], "quantize": "static_wi8_ai8"},
        "benchmark": {"warmup": 1, "runs": 5, "min_seconds": 0, "repetitions": 1},
    }
    return config.parse_recipe(values)


@pytest.fixture(scope="module")
def recipe(data_dir, teacher):
    return recipe_of(data_dir, teacher)


def test_a_student_is_exported_as_what_it_was_trained_for(tmp_path):
    recipe = recipe_of("data", "teacher")
    (tmp_path / config.RECIPE_FILE).write_text(config.dump_recipe(recipe))
    usual = export_command._usual_form
    assert usual(str(tmp_path), ["cpu"]).quantize == "static_wi8_ai8"
    section = config.ExportConfig(quantize="dynamic_wi4_afp32_block32", goal_mb=9)
    variants = {"p": config.VariantConfig(stages=("prune",))}
    pruned = recipe.model_copy(update={"variants": variants, "export": section})
    (tmp_path / config.RECIPE_FILE).write_text(config.dump_recipe(pruned))
    assert usual(str(tmp_path), ["cpu"]) == section
    for others in ((str(tmp_path), ["cpu", "gpu"]), (str(tmp_path / "hf"), ["cpu"])):
        assert usual(*others) == config.ExportConfig()  # no blocks on a GPU


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "compressed"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run.deliver, "drop_scratch", lambda root: None)  # weights of stages stay
        run.run_recipe(recipe, out)
    return out


@pytest.mark.slow
def test_a_run_prunes_clusters_quantizes_and_exports_int8_without_calibration(finished, tmp_path):
    card = manifest.read_manifest(finished / "export")
    assert card.quantization == "static_wi8_ai8"
    opened = inputs.open_source(str(finished)).model
    assert compress.is_quantize_aware(opened)
    plain = compress.strip(opened)
    assert min(compressed_layers.sparsity_of(plain).values()) >= 0.5
    assert max(compressed_layers.clusters_of(plain).values()) <= 8
    assert models.config_of(plain) == models.config_of(opened)
    shutil.copytree(finished / "student" / "hf", tmp_path / "hf")  # as an error of export advises
    assert not compress.is_quantize_aware(inputs.open_source(str(tmp_path / "hf")).model)


def check_equal(ours, expected):
    """Equal arrays: safetensors does not order the entries that describe the file."""
    assert ours.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(ours[name], array, err_msg=name)


@pytest.mark.slow
def test_a_stage_that_is_done_is_loaded_as_it_was_left(recipe, finished):
    student_folder = finished / "student"
    before = arrays.read_arrays(student_folder / compress.RANGES)
    weights = (student_folder / "hf" / "model.safetensors").read_bytes()
    for path in (finished / "results" / "int8-1.json", finished / "metrics.json"):
        path.unlink()
    student_folder.rename(student_folder.with_name("moved"))

    run.run_recipe(recipe, finished, resume=True)

    check_equal(arrays.read_arrays(student_folder / compress.RANGES), before)
    assert (student_folder / "hf" / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
@pytest.mark.thorough
def test_a_run_that_is_killed_within_each_stage_ends_like_one_that_was_not(
    recipe, finished, tmp_path, monkeypatch
):
    original, cut = training.fit, []

    def one_epoch(distiller, train, **options):
        if options["folder"].parent in cut or options["epochs"] < 2:
            return original(distiller, train, **options)
        cut.append(options["folder"].parent)
        original(distiller, train, **{**options, "epochs": 1})
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", one_epoch)
    monkeypatch.setattr(run, "_deliver", lambda *_: {})
    # As a run whose teacher is done.
    of_students = ("stages", "students", "student", "export", "results", "metrics.json")
    shutil.copytree(finished, tmp_path / "out", ignore=shutil.ignore_patterns(*of_students))
    for _ in METHODS:
        with pytest.raises(KeyboardInterrupt):
            run.run_recipe(recipe, tmp_path / "out", resume=True)
    run.run_recipe(recipe, tmp_path / "out", resume=True)

    assert len(cut) == len(METHODS)
    for name in (compress.RANGES, "hf/model.safetensors"):
        ours = tmp_path / "out" / "students" / "int8" / "seed-1" / name
        check_equal(load_file(ours), load_file(finished / "student" / name))


def arguments(*more):
    from tfdistill import cli

    usual = ["--task", "assistant", "--out", "out"]
    return cli.parser().parse_args(["compress", "student", *usual, *more])


def test_the_command_makes_a_stage_of_each_method():
    recipe = command.compression_recipe(
        arguments(*("--methods", "prune,quantize", "--set", "stages.prune.compress.sparsity=0.75"))
    )

    assert recipe.student.keep_head and recipe.student.initialise == "student"
    assert recipe.variants["student"].stages == ("prune", "quantize")
    settings = [recipe.stages[name].compress for name in ("prune", "quantize")]
    assert [value and value.method for value in settings] == ["prune", "quantize"]
    assert all(value and value.teacher == "student" for value in settings)
    assert settings[0] is not None and settings[0].sparsity == 0.75
    assert recipe.teacher.source == "student"


def test_a_named_teacher_is_learnt_from():
    recipe = command.compression_recipe(arguments("--teacher", "large"))
    assert recipe.teacher.source == "large"
    assert recipe.stages["quantize"].compress is not None
    assert recipe.stages["quantize"].compress.teacher == "teacher"


@pytest.mark.parametrize("methods", ["quantise", "quantize,prune"])
def test_the_command_refuses_unknown_methods_and_wrong_orders(methods):
    with pytest.raises(errors.ConfigError, match="quantize"):
        command.compression_recipe(arguments("--methods", methods))


@pytest.mark.parametrize(
    ("option", "usual", "method"), [("sparsity", 0.5, "prune"), ("clusters", 32, "cluster")]
)
def test_the_command_refuses_an_option_that_its_method_does_not_read(option, usual, method):
    told = f"stages.quantize.compress.{option}: expected none with method quantize"
    with pytest.raises(errors.ConfigError, match=told):
        command.compression_recipe(arguments("--set", f"stages.quantize.compress.{option}={usual}"))
    settings = command.compression_recipe(arguments("--methods", method)).stages[method].compress
    assert getattr(settings, option) == usual


@pytest.mark.slow
def test_the_command_compresses_a_finished_student_and_keeps_its_head(
    teacher, data_dir, tmp_path, capsys
):
    from tfdistill import cli

    usual = ["--task", "assistant", "--data-dir", str(data_dir), "--max-length", "24"]
    out = tmp_path / "out"
    options = ["--methods", "prune", "--epochs", "1", "--learning-rate", "1e-9"]
    options += ["--set", "teacher.allow_weak=true", "--set", "student.allow_weak=true"]
    options += ["--set", "baselines=none"]

    assert cli.main(["compress", str(teacher), *usual, *options, "--out", str(out)]) == 0

    place = next(
        pathlib.Path(line.removeprefix("model: "))
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("model: ")
    )
    before = inputs.open_source(str(teacher)).model.get_layer("classifier").get_weights()
    after = inputs.open_source(str(place.parent)).model
    np.testing.assert_allclose(after.get_layer("classifier").get_weights()[0], before[0], atol=1e-6)
    assert min(compressed_layers.sparsity_of(after).values()) == pytest.approx(0.5, abs=0.01)
