"""Students that start as a part of their teacher and learn answers and states together."""

import json
import types

import numpy as np
import pytest
import tf_keras as keras
import toys

from tfdistill import config, errors, models, results, run, training
from tfdistill.data import answers, synthetic
from tfdistill.run import baselines, initialise, inputs, stages
from tfdistill.tasks.encoded import Template, join, runs_of

pytestmark = pytest.mark.slow

STEP = {"epochs": 1, "batch_size": 16}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("assistant")
    synthetic.write_task(folder, num_train=400, num_dev=60, num_test=10, num_documents=10)
    return folder


def recipe_of(data_dir, tuned=None, **changes):
    """The recipe of a toy run; `tuned` is a run whose fine-tuned teacher it takes over."""
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
    if tuned is not None:
        values["teacher"] = {"source": str(tuned / "teacher" / "model" / "hf"), "export": False}
        values["data"]["vocab"] = "teacher"
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
    return out, run.distill_variant(recipe_of(data_dir), out)


def result_of(folder):
    return results.read_result_file(folder / "seed-1" / "result.json", results.FitResult)


def test_it_starts_close_to_its_teacher_and_ends_closer(distilled):
    out, record = distilled
    sizes = ("num_layers", "hidden_size", "intermediate_size", "num_heads")
    assert [record.architecture[name] for name in sizes] == [1, 64, 64, 1]
    history = (out / record.history[0].csv).read_text().splitlines()
    columns = history[0].split(",")
    losses = [float(row.split(",")[columns.index("loss")]) for row in history[1:]]
    assert losses[-1] < losses[0]
    teacher = record.teacher_metrics["accuracy"]
    assert teacher > 0.5
    assert record.metrics["accuracy"] > 0.8 * teacher  # from random weights 30 steps give 0.1


def test_a_floor_of_steps_is_reached_by_more_epochs(distilled, data_dir):
    out, _ = distilled
    result = result_of(out / "stages" / "joint")
    assert result.steps == 50  # 25 batches an epoch, two epochs instead of the one named
    assert result.best_epoch is None  # the last one is kept: its texts have noise
    stage = recipe_of(data_dir).stages["joint"]
    assert stage.num_epochs(25) == 2
    assert stage.num_epochs(100) == 1


def test_its_baselines_are_measured_once(distilled):
    out, record = distilled
    # No frozen teacher: this one was nothing before it was fine-tuned.
    assert [row.name for row in record.baselines] == ["majority", "tfidf", "word_vectors"]
    saved = json.loads((out / "results" / "baselines.json").read_text())
    assert saved["rows"][1]["metrics"]["accuracy"] == record.baselines[1].metrics["accuracy"]
    majority, tfidf, _ = (row.metrics["accuracy"] for row in record.baselines)
    assert majority < 0.3 < tfidf
    _, words, vectors = record.baselines
    assert words.latency_ms > 0 and vectors.latency_ms > 0
    assert record.parameters > vectors.parameters > words.parameters > 100
    recorded = answers.read(out / "baselines" / "tfidf" / answers.FILE_NAME)
    assert (recorded.logits["model"].argmax(axis=1) == recorded.gold).mean() == tfidf


@pytest.mark.thorough
def test_the_student_without_a_teacher_starts_as_the_student_and_learns_as_long(
    distilled, data_dir, tmp_path
):
    # At a rate of next to nothing both end where they start: cut out of the teacher.
    still = {"kind": "joint", **STEP, "min_steps": 26, "learning_rate": 1e-9}
    values = recipe_of(data_dir, stages={"joint": still}, baselines="all").model_dump()
    source = str(distilled[0] / "teacher" / "model" / "hf")
    values["teacher"] |= {"source": source, "finetune": None}
    values["student"]["allow_weak"] = True
    record = run.distill_variant(config.Recipe.model_validate(values), tmp_path / "run")
    *_, alone = record.baselines
    assert [row.name for row in record.baselines[2:]] == ["word_vectors", "no_teacher"]
    assert alone.metrics["accuracy"] == record.metrics["accuracy"] > 0.3
    for stage in ("no_teacher_baseline", "joint"):
        assert result_of(tmp_path / "run" / "stages" / stage).steps == 50
    folder = tmp_path / "run" / "stages" / "no_teacher_baseline" / "seed-1"
    assert (folder / "history.csv").read_text().startswith("epoch,step,loss,label,")


@pytest.mark.parametrize("separators", [1, 2])
def test_the_mean_of_the_states_is_that_of_the_real_tokens_of_either_text(separators):
    model = toys.classifier(toys.SHALLOW_TEACHER)
    texts = [([7, 9], [8]), ([5], [4, 6, 7]), ([11], [])]
    template = Template(0, 2, 3, separators, 2 - separators)  # a Unigram types no second text
    encoded = join(
        *(runs_of([*map(np.array, part)]) for part in zip(*texts, strict=True)), template
    )
    second = [1 + len(first) + separators for first, _ in texts]
    width = 12

    def features(second_texts):
        data = types.SimpleNamespace(
            train_examples=types.SimpleNamespace(pairs=second_texts),
            tokenizer=types.SimpleNamespace(template=template),
            train=types.SimpleNamespace(encoded=encoded),
            dev=types.SimpleNamespace(encoded=encoded),
        )
        _, rows, make, _ = baselines._states_of(model, data)
        return make(rows)

    means, alone = features([""] * 3), features(None)
    assert means.shape == (3, 4 * width) and alone.shape == (3, width)
    view = models.taps(model)
    for index, cut in enumerate(second):
        row = encoded.row(index)[None]
        features = {"input_ids": row, "attention_mask": np.ones_like(row)}
        features["token_type_ids"] = encoded.row_types(index).astype(np.int32)[None]
        states = view(features)["sequence_output"].numpy()[0]
        u, v = states[:cut].mean(axis=0), states[cut:].mean(axis=0)
        expected = np.concatenate([u, v, np.abs(u - v), u * v])
        np.testing.assert_allclose(means[index], expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(alone[index], states.mean(axis=0), rtol=1e-4, atol=1e-5)


@pytest.fixture
def not_trained(monkeypatch):
    """Ends a run where its first stage would be trained."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", interrupt)


def test_a_student_that_fits_no_teacher_starts_from_its_word_vectors(
    distilled, data_dir, tmp_path, capsys, not_trained
):
    other = {"preset": "bert_tiny", "num_layers": 1, "hidden_act": "relu"}  # the teacher has GELU
    out = tmp_path / "run"
    student = {**other, "initialise": "auto"}
    recipe = recipe_of(data_dir, distilled[0], student=student, baselines="none")
    with pytest.raises(KeyboardInterrupt):
        run.distill_variant(recipe, out)
    assert "not pruned: " in capsys.readouterr().err
    assert not (out / "stages" / initialise.START).exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"student": {"preset": "pruned:heads=1,head_size=48"}}, "divides the width 128, .* heads"),
        ({"student": {"preset": "pruned:layers=5"}}, "at most the teacher's 2"),
        ({"student": {"preset": "bert_tiny", "num_layers": 3, "initialise": "pruned"}}, "3"),
        ({"student__initialise": "pruned", "variants": {"student": {"stages": ["labels"]}},
          "stages": {"labels": {"kind": "labels", **STEP, "learning_rate": 1e-3}}},
         "begins with labels"),
    ],
)  # fmt: skip
def test_a_shape_that_no_teacher_starts_is_refused_before_any_training(
    changes, message, data_dir, tmp_path
):
    with pytest.raises(errors.ConfigError, match=message):
        run.distill_variant(recipe_of(data_dir, **changes), tmp_path / "run")
    assert not (tmp_path / "run" / "teacher").exists()


@pytest.mark.parametrize(
    ("shape", "rate", "steps"),
    [
        (models.preset("bert_tiny").replace(hidden_size=192), 3e-4, 4000),
        (models.preset("bert_tiny").replace(hidden_size=768), 1.5e-4, 1000),
        (models.StaticConfig(embedding_size=384), 3e-3, 1000),
    ],
)
def test_rate_and_steps_follow_from_the_width_unless_they_are_named(shape, rate, steps):
    usual = stages.by_width(config.new_stage("joint"), shape)
    assert (usual.learning_rate, usual.min_steps) == (rate, steps)
    named = config.new_stage("joint", learning_rate=1e-5, min_steps=None)
    assert stages.by_width(named, shape) == named


def test_a_student_near_its_teacher_takes_smaller_and_fewer_steps(monkeypatch):
    random = np.random.default_rng(0)
    answers = {"teacher": random.normal(size=(20, 3)) * (1, 2, 3)}
    answers["student"] = answers["teacher"] + random.normal(size=(20, 3)) / 2
    teacher, student = (keras.Sequential(name=name) for name in answers)
    shape = models.preset("bert_tiny").replace(hidden_size=384)
    monkeypatch.setattr(stages.training, "predict_logits", lambda model, dev: answers[model.name])
    monkeypatch.setattr(stages.models, "config_of", lambda model: shape)
    data = types.SimpleNamespace(of_task=types.SimpleNamespace(dev=None))
    lesson = types.SimpleNamespace(teacher=teacher, teacher_data=data, same_tokens=True)

    missed = varied = 0.0
    for row in range(20):
        for column in range(3):
            mean = sum(answers["teacher"][:, column]) / 20
            varied += (answers["teacher"][row, column] - mean) ** 2
            missed += (answers["teacher"][row, column] - answers["student"][row, column]) ** 2

    def resolved(layers=(0,), **named):
        stage = config.new_stage("joint", temperature=1.0, **named)
        return stages._resolved(stage, lesson, student, layers)

    def rate(layers=(0,), **named):
        return resolved(layers, **named).learning_rate

    assert rate() == pytest.approx(3e-4 * (3 * missed / varied) ** 2) and rate() < 2e-4
    assert rate(learning_rate=2e-4) == 2e-4 and rate(layers=None) == 3e-4
    assert rate(compress={"method": "quantize"}) == 3e-4  # which changes the student first
    assert resolved().min_steps == 1000
    errors_made = answers["student"] - answers["teacher"]
    answers["student"] = answers["teacher"] + errors_made * np.sqrt(0.03 * varied / missed)
    assert resolved().min_steps == 250 and resolved(min_steps=700).min_steps == 700


def test_layers_are_chosen_in_one_place_alone(data_dir):
    student = {"preset": "pruned:layers=1,choose=bottom", "teacher_layers": "top"}
    with pytest.raises(errors.ConfigError, match="none beside choose=bottom"):
        recipe_of(data_dir, student=student)
    named = {"preset": "bert_tiny", "num_layers": 1, "teacher_layers": [0]}
    assert initialise.chosen_layers(recipe_of(data_dir, student=named).student) == (0,)


def test_a_static_student_starts_from_the_teachers_words(distilled, data_dir, tmp_path, capsys):
    recipe = recipe_of(
        data_dir,
        teacher={"source": str(distilled[0] / "teacher" / "model" / "hf"), "export": False},
        data__vocab="teacher",
        student={"preset": "static:width=24"},
        stages={"joint": {"kind": "joint", **STEP, "min_steps": 100}},
        baselines="none",
    )
    out = tmp_path / "run"
    record = run.distill_variant(recipe, out)
    assert "no hidden states, since it has no layers" in capsys.readouterr().err
    assert record.metrics["accuracy"] > 0.3
    opened = inputs.open_source(str(out))
    assert models.config_of(opened.model) == models.StaticConfig(
        embedding_size=24, dense_size=128, vocab_size=models.config_of(opened.model).vocab_size
    )


def test_noise_does_not_go_with_gold_labels(data_dir):
    with pytest.raises(errors.ConfigError, match=r"token_noise.*gold labels"):
        recipe_of(
            data_dir,
            stages={"joint": {"kind": "joint", "token_noise": 0.5, "loss_weights": {"label": 1.0}}},
        )
    joint = config.new_stage("joint")
    assert joint.noisy_share == 0.75
    assert config.new_stage("joint", loss_weights={"label": 0.5}).noisy_share == 0
    saved = joint.model_dump()
    assert config.new_stage(**saved).noisy_share == 0.75
    assert config.new_stage(**saved).noisy_pairs == 0.5
    assert config.new_stage("joint", token_noise=0).noisy_pairs == 0
    assert config.new_stage("joint", token_noise=0, pair_noise=0.2).noisy_pairs == 0.2
