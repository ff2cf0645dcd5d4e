"""One toy recipe from the teacher to the report, and everything that can go wrong on the way."""

import json
import pathlib
import shutil
import types

import numpy as np
import pytest
import safetensors.numpy
import yaml

from export.checking import verify
from tfdistill import config, errors, manifest, results, run, tasks, training
from tfdistill.data import from_config, parallel, synthetic
from tfdistill.io import reading
from tfdistill.run import inputs, prepare, records, students, teachers


def toy_values(data_dir: pathlib.Path) -> dict:
    step = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-3}
    return {
        "name": "toy",
        "data": {"task": "assistant", "dir": str(data_dir), "max_length": 24, "vocab": "train:400"},
        "teacher": {
            "source": "preset:bert_tiny",
            "finetune": {**step, "epochs": 2},
            "allow_weak": True,
        },
        "student": {
            "preset": "bert_tiny",
            "num_layers": 1,
            "hidden_size": 16,
            "intermediate_size": 32,
            "allow_weak": True,
        },
        "stages": {
            "labels": {"kind": "labels", **step},
            "general": {"kind": "general", **step, "max_tokens": 1500},
            "intermediate": {"kind": "intermediate", **step},
            "prediction": {"kind": "prediction", **step},
        },
        "variants": {
            "no_teacher": {"stages": ["labels"]},
            "task_stages": {"stages": ["intermediate", "prediction"]},
            "full": {"stages": ["general", "intermediate", "prediction"]},
        },
        "export": {"lengths": [24]},
        "benchmark": {"warmup": 1, "runs": 5, "min_seconds": 0, "repetitions": 1},
    }


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assistant")
    synthetic.write_task(folder, num_train=160, num_dev=40, num_test=10, num_documents=40)
    return folder


@pytest.fixture(scope="module")
def values(data_dir):
    return toy_values(data_dir)


@pytest.fixture(scope="module")
def finished(values, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "toy"
    metrics = run.run_recipe(config.parse_recipe(values), out)
    return out, metrics


def test_a_run_folder_holds_recipe_versions_logs_metrics_models_export_and_report(finished):
    out, metrics = finished
    at_top = "recipe.yaml environment.json metrics.json benchmark.json report.html report.md"
    student = "student/hf/config.json student/hf/model.safetensors"
    stages = "stages/general/seed-1/result.json students/full/seed-1/answers.safetensors"
    exports = "export/model.tflite teacher/export/model.json teacher/finetune/history.csv"
    names = " ".join((at_top, student, stages, exports)).split()
    assert [name for name in names if not (out / name).is_file()] == []
    assert reading.read_json(out / "metrics.json") == metrics.model_dump(mode="json")
    packages = json.loads((out / "environment.json").read_text())["packages"]
    assert packages["tensorflow"].startswith("2.20")


def test_the_metrics_name_every_variant_with_its_stages(finished):
    _, metrics = finished
    assert {model.name: model.stages for model in metrics.models} == {
        "teacher": ("labels",),
        "no_teacher": ("labels",),
        "task_stages": ("intermediate", "prediction"),
        "full": ("general", "intermediate", "prediction"),
    }
    assert metrics.chosen == "students/full/seed-1"
    assert metrics.synthetic_data is True


@pytest.fixture
def on_test_set(finished, values, data_dir, tmp_path):
    """Scores the models of the finished run with another test.tsv, or none."""

    def score(content: str | None, tuned: bool = True, **changes: str) -> tuple:
        for split in ("train", "dev"):
            shutil.copy(data_dir / f"{split}.tsv", tmp_path)
        if content is not None:
            (tmp_path / "test.tsv").write_text(content)
        data = {**values["data"], "dir": str(tmp_path), **changes}
        teacher = {**values["teacher"], **({} if tuned else {"source": "./bert", "finetune": None})}
        recipe = config.parse_recipe({**values, "data": data, "teacher": teacher})
        spec = from_config.task_of(recipe.data, tmp_path)
        train, dev = (tasks.load_examples(spec, tmp_path, split) for split in ("train", "dev"))
        context = types.SimpleNamespace(task=spec, train_examples=train, dev_examples=dev)
        data = types.SimpleNamespace(of_task=context)
        fields = records.test_metrics(
            types.SimpleNamespace(recipe=recipe, root=finished[0], data=data)
        )
        assert not fields.get("test_counts")  # of entities
        return fields.get("test_metrics", {}), fields["caveats"]

    return score


def test_the_test_set_is_scored_as_the_development_set_is(
    finished, data_dir, on_test_set, monkeypatch
):
    out, metrics = finished
    assert list(metrics.test_metrics) == ["teacher", "student", "file"]
    original, opened = inputs.open_answerer, []

    def opening(source, task):  # the figures of a toy and of its file are mostly the same
        opened.append(pathlib.Path(source).relative_to(out).as_posix())
        return original(source, task)

    monkeypatch.setattr(inputs, "open_answerer", opening)
    again, _ = on_test_set((data_dir / "dev.tsv").read_text())
    assert opened == ["teacher", "student", "export"]
    by_folder = {model.folder: model.metrics for model in metrics.models}
    assert again["teacher"] == pytest.approx(by_folder["teacher"])
    assert again["student"] == pytest.approx(by_folder[metrics.chosen])
    parity = manifest.read_manifest(out / "export").parity
    assert parity is not None and again["file"] == pytest.approx(parity.file_metrics)
    assert metrics.test_metrics != again  # of other rows


def test_a_teacher_that_may_have_seen_the_rows_is_a_caveat(finished, on_test_set):
    assert not any("was not fine-tuned" in caveat for caveat in on_test_set(None)[1])
    assert "The teacher was not fine-tuned in this run" in on_test_set(None, tuned=False)[1][-1]
    out, metrics = finished
    assert metrics.caveats == on_test_set(None)[1]  # of a small development set
    text = (out / "export" / "README.md").read_text("utf-8")
    assert metrics.caveats and all(f"- {caveat}" in text for caveat in metrics.caveats)
    file = manifest.read_manifest(out / "export")
    assert file.parity.test_metrics == metrics.test_metrics["file"]


def test_a_test_set_that_shares_texts_with_the_training_set_is_named(data_dir, on_test_set, capsys):
    train, dev = ((data_dir / f"{name}.tsv").read_text().splitlines() for name in ("train", "dev"))
    training_texts = {line.split("\t")[0] for line in train[1:]}
    shared = sum(line.split("\t")[0] in training_texts for line in dev[1:])
    scores, caveats = on_test_set("\n".join([*dev, train[1], train[2]]))
    expected = f"{shared + 2} of {len(dev) + 1} test texts are training texts too"
    assert scores and caveats[-1].startswith(expected)
    assert f"WARNING: {expected}" in capsys.readouterr().err


def test_a_test_set_without_labels_or_none_has_no_figures(data_dir, on_test_set, capsys):
    lines = (data_dir / "test.tsv").read_text().splitlines()
    assert on_test_set(None)[0] == {}
    texts = [line.split("\t")[0] for line in lines]
    assert texts[0] == "text" and on_test_set("\n".join(texts))[0] == {}
    section = {"task": "own", "text_column": "text", "label_column": "label"}
    assert on_test_set("\n".join(lines), **section)[0] != {}
    assert on_test_set("\n".join(lines), **section, dev_split="test")[0] == {}
    assert "WARNING: no figures" not in capsys.readouterr().err
    assert on_test_set("\n".join([*lines, "play a song\tno_such_intent"]))[0] == {}
    said = capsys.readouterr().err
    assert "WARNING: no figures on the test set: " in said and "no_such_intent" in said


def test_resuming_a_finished_run_trains_nothing(finished, values, tmp_path, monkeypatch):
    metrics = finished[1]
    out = shutil.copytree(finished[0], tmp_path / "toy")
    monkeypatch.setattr(
        training, "fit", lambda *a, **k: pytest.fail("trained a finished stage again")
    )
    again = run.run_recipe(config.parse_recipe(values), out, resume=True)
    assert again.models == metrics.models and again.test_metrics == metrics.test_metrics


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("teacher/model", "model.safetensors"),
        ("students/no_teacher/seed-1", "config.json"),
        ("student", "vocab.txt"),
    ],
)
def test_a_changed_file_of_a_saved_model_is_found_before_it_is_used(
    finished, tmp_path, folder, name
):
    out = tmp_path / "run"
    shutil.copytree(finished[0], out, ignore=shutil.ignore_patterns("export", "stages"))
    assert inputs.open_source(str(out / folder)).labels
    path = out / folder / "hf" / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(errors.WeightsError, match=f"hf/{name}: expected the file that was saved"):
        inputs.open_source(str(out / folder))


@pytest.mark.thorough
def test_a_format_that_differs_too_far_falls_back_to_one_that_does_not(
    finished, values, tmp_path, monkeypatch, capsys
):
    out = tmp_path / "run"
    shutil.copytree(finished[0], out)
    shutil.rmtree(out / "export")
    (out / "benchmark.json").unlink()

    def plant(evidence):  # a toy is too small to lose anything
        return ["planted fault"] * (evidence.plan.quantization.name == "dynamic_wi8_afp32")

    monkeypatch.setattr(verify, "RUNNING", (*verify.RUNNING, verify.FileCheck("planted", plant)))
    with pytest.raises(errors.ParityError):
        run.run_recipe(config.parse_recipe(values), out, resume=True)
    assert not (out / "export").exists()

    formats = {"also_quantize": ["dynamic_wi8_afp32"], "fallback": ["weight_only_wi8_afp32"]}
    changed = {**values, "export": {**values["export"], **formats}}
    capsys.readouterr()
    metrics = run.run_recipe(config.parse_recipe(changed), out, resume=True)
    card = manifest.read_manifest(out / "export")
    assert card.quantization == "weight_only_wi8_afp32" and not card.quantized_layers
    assert card.parity is not None and card.parity.num_examples == 40
    told = capsys.readouterr().err
    assert "no dynamic_wi8_afp32 file, another is looked for: " in told
    assert "dynamic_wi8_afp32: " in told and "beyond bounds" in told
    assert "took weight_only_wi8_afp32: a quarter of the size at float32's speed" in told
    # What is compared like for like follows the format of the student.
    alike = "teacher-weight_only_wi8_afp32"
    assert [file.name for file in metrics.exports] == ["student", "teacher", alike]
    measured = json.loads((out / "benchmark.json").read_text())
    assert measured["models"][0]["name"] == alike
    again = run.run_recipe(config.parse_recipe(changed), out, resume=True)
    assert again.exports == metrics.exports


@pytest.mark.parametrize(("key", "value"), [("fallback", ["float16"]), ("size_mb", 8)])
def test_a_file_for_several_devices_has_no_fallback_and_no_size(values, key, value):
    formats = {"variants": {"gpu": "float16"}, key: value}
    with pytest.raises(errors.ConfigError, match=rf"{key}: expected none with export\.variants"):
        config.parse_recipe({**values, "export": formats})


@pytest.mark.slow
def test_workers_of_a_pipeline_find_the_teacher_in_the_run_folder(
    finished, values, tmp_path, monkeypatch
):
    out, _ = finished
    recipe = config.parse_recipe({**values, "teacher": {**values["teacher"], "dtype": "bfloat16"}})
    shutil.copytree(out / "teacher" / "model", tmp_path / "teacher" / "model")
    prepared, _, _ = prepare.prepare(recipe, out)
    work, pipelines = parallel.run_pipeline, []

    def elsewhere(*units):
        pipelines.append(units[2])
        work(*units[:3])  # without the teacher that is loaded here

    monkeypatch.setattr(parallel, "run_pipeline", elsewhere)
    monkeypatch.chdir(tmp_path)
    answers = []
    for pipeline in (("--runner", "DirectRunner"), None):
        pool = teachers.TeacherModels(recipe, prepared.task, pathlib.Path(), pipeline)
        model = pool.for_stage(recipe.stages["prediction"])
        answers.append(pool.answers(model, prepared.train.encoded))
        (cache,) = (tmp_path / "teacher" / "cache").iterdir()
        cache.unlink()
    assert pipelines == [("--runner", "DirectRunner")]
    np.testing.assert_array_equal(*answers)


@pytest.mark.spine
@pytest.mark.slow
def test_a_run_that_was_interrupted_ends_like_one_that_was_not(
    finished, values, tmp_path, monkeypatch
):
    reference, _ = finished
    out = tmp_path / "toy"
    # Its last variant would train after both: what it trains changes neither.
    variants = {name: values["variants"][name] for name in ("no_teacher", "task_stages")}
    recipe = config.parse_recipe({**values, "variants": variants})
    original = training.fit

    def interrupted(distiller, train, **options):
        if options["description"].startswith("intermediate+prediction"):
            raise KeyboardInterrupt
        return original(distiller, train, **options)

    with monkeypatch.context() as patch:
        patch.setattr(training, "fit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.run_recipe(recipe, out)
    assert not (out / "metrics.json").exists()
    place, other = (
        students.stage_folder(out, recipe, (stage,), 1) / students.STUDENT
        for stage in ("intermediate", "labels")
    )
    content = place.read_bytes()
    shutil.copy(other, place)
    with pytest.raises(errors.WeightsError, match="made from stages/intermediate/seed-1"):
        run.run_recipe(recipe, out, resume=True)
    place.write_bytes(content)
    with monkeypatch.context() as patch:
        # The rest of the path is tested above: here only the students count.
        patch.setattr(run, "_deliver", lambda context, trained: trained)
        run.run_recipe(recipe, out, resume=True)
    for place in ("no_teacher", "task_stages"):
        ours, whole = (
            weights_of(root / "students" / place / "seed-1") for root in (out, reference)
        )
        assert ours.keys() == whole.keys()
        for name, array in ours.items():
            np.testing.assert_array_equal(array, whole[name], err_msg=name)


def weights_of(folder: pathlib.Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(folder / "hf" / "model.safetensors")


def held(root: pathlib.Path) -> dict[str, int]:
    """File -> bytes of a run folder, as `du` finds it."""
    found_files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.stat().st_size for path in found_files}


def test_a_finished_run_holds_each_model_once(finished):
    out, metrics = finished
    models = 4 * sum(model.parameters for model in metrics.models)
    large = {
        name: size
        for name, size in held(out).items()
        if name.endswith((".safetensors", ".keras")) or "ckpt" in name
    }
    assert sum(large.values()) <= 1.2 * models
    assert sorted(name for name in large if "answers" not in name) == [
        "student/hf/model.safetensors",
        "students/no_teacher/seed-1/hf/model.safetensors",
        "students/task_stages/seed-1/hf/model.safetensors",
        "teacher/model/hf/model.safetensors",
    ]


def test_a_student_whose_result_is_lost_is_trained_again(finished, values, tmp_path, monkeypatch):
    """Also after a kill between a result and what follows it, with a file of the user's."""
    out = shutil.copytree(finished[0], tmp_path / "toy")
    (out / "results" / "task_stages-1.json").unlink()
    later = shutil.ignore_patterns("README.md")  # written when the student is there
    place = out / "students" / "full" / "seed-1"
    shutil.copytree(out / "student", place, dirs_exist_ok=True, ignore=later)
    users_files = out / "stages" / "mine.safetensors", place / "mine.txt"
    for path in users_files:
        path.write_text("")
    before = weights_of(out / "students" / "task_stages" / "seed-1")
    run.run_recipe(config.parse_recipe(values), out, resume=True)
    again = weights_of(out / "students" / "task_stages" / "seed-1")
    for name, array in before.items():
        np.testing.assert_array_equal(again[name], array, err_msg=name)
    new = held(out).keys() - held(finished[0]).keys()
    assert {name for name in new if "tfevents" not in name} == {
        path.relative_to(out).as_posix() for path in users_files
    }


def test_missing_inputs_are_all_named_before_anything_is_written(values, tmp_path):
    broken = {**values, "data": {"task": "sst2", "dir": str(tmp_path / "nowhere")}}
    with pytest.raises(errors.ConfigError) as caught:
        run.run_recipe(config.parse_recipe(broken), tmp_path / "out")
    for part in ("nowhere", "data.vocab", "stages.general.corpus"):
        assert part in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_teacher_near_chance_is_refused(values, tmp_path):
    weak = yaml.safe_load(yaml.safe_dump(values))
    weak["teacher"]["allow_weak"] = False
    weak["teacher"]["finetune"] = {"epochs": 1, "batch_size": 160, "learning_rate": 1e-6}
    with pytest.raises(errors.TeacherError, match="Check that the texts tell") as caught:
        run.run_recipe(config.parse_recipe(weak), tmp_path / "out")
    assert "Fine-tune it" not in str(caught.value)


def test_the_median_seed_is_chosen_not_the_best():
    trained = [
        results.ModelResult(name="full", role="student", seed=seed, metrics={"accuracy": value})
        for seed, value in ((1, 0.9), (2, 0.7), (3, 0.8), (4, float("nan")), (5, 0.95))
    ]
    assert records.choose(trained[:3], "full", "accuracy").seed == 3
    assert records.choose(trained, "full", "accuracy").seed == 3  # no metric is the worst
