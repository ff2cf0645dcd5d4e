"""Students that start as a part of their teacher and learn answers and states together."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import safetensors.numpy
import toys

from tfdistill import cli, config, errors, models, results, run, training, weights
from tfdistill.data import answers, batches, synthetic, vocab
from tfdistill.run import baselines, initialise, inputs, lessons, stages

pytestmark = pytest.mark.slow

STEP = {"epochs": 1, "batch_size": 16}
SAME = ("False", "True")  # whether the texts of a pair are


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
    assert result.best_epoch is None  # the last one is kept: its texts have noise
    stage = recipe_of(data_dir).stages["joint"]
    assert stage.num_epochs(25) == 2
    assert stage.num_epochs(100) == 1


def test_its_baselines_are_measured_once(distilled):
    out, record = distilled
    assert [row.name for row in record.baselines] == [
        *("majority", "tfidf", "word_vectors", "frozen_teacher"),
    ]
    assert record.baselines[3].note == "the fine-tuned teacher"  # there is none before
    saved = json.loads((out / "results" / "baselines.json").read_text())
    assert saved["rows"][1]["metrics"]["accuracy"] == record.baselines[1].metrics["accuracy"]
    majority, tfidf, _, frozen = (row.metrics["accuracy"] for row in record.baselines)
    assert majority < 0.3 < tfidf
    assert frozen > 0.5
    _, words, vectors, states = record.baselines
    assert words.latency_ms > 0 and vectors.latency_ms > 0 and states.latency_ms is None
    assert states.parameters > record.parameters > vectors.parameters > words.parameters > 100
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
    *_, frozen, alone = record.baselines
    assert (frozen.note, alone.name) == ("the fine-tuned teacher", "no_teacher")
    assert alone.metrics["accuracy"] == record.metrics["accuracy"] > 0.5
    for stage in ("no_teacher_baseline", "joint"):
        assert steps_of(tmp_path / "run" / "stages" / stage) == 50
    loss = (
        tmp_path / "run" / "stages" / "no_teacher_baseline" / "seed-1" / "history.csv"
    ).read_text()
    assert loss.startswith("epoch,step,loss,label,")


def test_the_mean_of_the_states_is_that_of_the_real_tokens_of_either_text():
    model = toys.classifier(toys.SHALLOW_TEACHER)
    rows = [[2, 7, 9, 3, 8, 3], [2, 5, 3, 4, 6, 7, 3], [2, 11, 3, 3]]
    second = [4, 3, 3]
    encoded = batches.EncodedExamples(
        ids=np.concatenate(rows).astype(np.int32),
        offsets=np.cumsum([0, *map(len, rows)]),
        types=np.concatenate(
            [np.arange(len(row)) >= cut for row, cut in zip(rows, second, strict=True)]
        ).astype(np.uint8),
    )
    width = 12
    means = baselines.mean_states(model, encoded)
    single = dataclasses.replace(encoded, types=np.zeros_like(encoded.types))
    alone = baselines.mean_states(model, single)
    assert means.shape == (3, 4 * width) and alone.shape == (3, width)
    view = models.taps(model)
    for index, (row, cut) in enumerate(zip(rows, second, strict=True)):
        features = {
            "input_ids": np.array([row], np.int32),
            "attention_mask": np.ones((1, len(row)), np.int32),
        }
        for types, result in ((encoded, means), (single, alone)):
            kinds = types.row_types(index).astype(np.int32)[None]
            states = view({**features, "token_type_ids": kinds})["sequence_output"].numpy()[0]
            u, v = states[:cut].mean(axis=0), states[cut:].mean(axis=0)
            expected = np.concatenate([u, v, np.abs(u - v), u * v])
            if types is single:
                expected = states.mean(axis=0)
            np.testing.assert_allclose(result[index], expected, rtol=1e-4, atol=1e-5)


@pytest.fixture
def not_trained(monkeypatch):
    """Ends a run where its first stage would be trained."""

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "fit", interrupt)


@pytest.mark.thorough
def test_a_second_run_of_the_same_teacher_starts_from_the_same_weights(
    distilled, data_dir, not_trained
):
    out, _ = distilled
    before = safetensors.numpy.load_file(out / "stages" / initialise.START)
    again = out.parent / "again"
    with pytest.raises(KeyboardInterrupt):
        run.distill_variant(recipe_of(data_dir, out, baselines="none"), again)
    after = safetensors.numpy.load_file(again / "stages" / initialise.START)
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name], err_msg=name)


def test_a_student_that_fits_no_teacher_starts_from_its_word_vectors(
    distilled, data_dir, tmp_path, capsys, not_trained
):
    other = {"preset": "bert_tiny", "num_layers": 1, "hidden_act": "relu"}  # the teacher has GELU
    out = tmp_path / "run"
    student = {**other, "initialise": "auto"}
    with pytest.raises(KeyboardInterrupt):
        run.distill_variant(
            recipe_of(data_dir, distilled[0], student=student, baselines="none"), out
        )
    assert "not pruned: " in capsys.readouterr().err
    assert not (out / "stages" / initialise.START).exists()


def test_a_student_larger_than_its_teacher_cannot_be_pruned(distilled, data_dir, tmp_path):
    wide = {"preset": "bert_tiny", "num_layers": 3, "initialise": "pruned"}
    with pytest.raises(errors.ConfigError):
        run.distill_variant(recipe_of(data_dir, distilled[0], student=wide), tmp_path / "run")


def test_a_student_without_a_teacher_cannot_be_pruned(distilled, data_dir):
    with pytest.raises(errors.ConfigError, match="begins with labels"):
        recipe_of(
            data_dir,
            distilled[0],
            student__initialise="pruned",
            stages={"labels": {"kind": "labels", **STEP, "learning_rate": 1e-3}},
            variants={"student": {"stages": ["labels"]}},
        )


@pytest.mark.thorough
def test_a_student_near_chance_is_saved_and_refused(distilled, data_dir, tmp_path):
    recipe = recipe_of(
        data_dir,
        distilled[0],
        student__initialise="random",
        stages={"joint": {"kind": "joint", **STEP, "min_steps": 1, "learning_rate": 1e-7}},
        baselines="none",
    )
    out = tmp_path / "run"
    with pytest.raises(errors.StudentError, match=r"chance is .* --allow-weak") as caught:
        run.distill_variant(recipe, out)
    assert "it started from random weights" in str(caught.value)
    assert (out / "report.html").is_file()
    assert (out / "student" / "hf" / "config.json").is_file()
    values = recipe.model_dump()
    values["student"]["allow_weak"] = True
    record = run.distill_variant(config.Recipe.model_validate(values), out, resume=True)
    assert record.metrics["accuracy"] < 0.5


@pytest.mark.thorough
def test_a_tuned_model_near_chance_is_kept_with_a_warning(data_dir, tmp_path, capsys):
    weak = {"epochs": 1, "batch_size": 16, "learning_rate": 1e-8}
    out = tmp_path / "run"
    run.finetune(recipe_of(data_dir, teacher__finetune=weak), out)
    shown = capsys.readouterr().err
    assert (
        "WARNING" in shown
        and "chance is" in shown
        and "updates: give it more, with --set teacher.finetune.epochs=N" in shown
    )
    assert (out / "report.html").is_file()
    assert (out / "teacher" / "model" / "hf" / "config.json").is_file()


def test_a_shape_that_no_folder_can_hold_is_refused_before_any_training(data_dir, tmp_path):
    recipe = recipe_of(data_dir, student={"preset": "pruned:heads=1,head_size=48"})
    with pytest.raises(errors.ConfigError, match=r"divides the width 128, .* 1 heads of 48"):
        run.distill_variant(recipe, tmp_path / "run")
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


def test_a_shape_that_is_no_part_of_the_teacher_is_named_before_any_training(data_dir, tmp_path):
    recipe = recipe_of(data_dir, student={"preset": "pruned:layers=5"})
    with pytest.raises(errors.ConfigError, match="at most the teacher's 2"):
        run.distill_variant(recipe, tmp_path / "run")
    assert not (tmp_path / "run" / "teacher").exists()


@pytest.fixture(scope="module")
def few(data_dir, distilled, tmp_path_factory):
    """48 labelled commands, 80 without labels, and the options of `distill` for them."""
    folder = tmp_path_factory.mktemp("few")
    rows = (data_dir / "train.tsv").read_text().splitlines()
    for name in ("dev.tsv", "test.tsv", synthetic.CORPUS_NAME):
        (folder / name).write_bytes((data_dir / name).read_bytes())
    (folder / "train.tsv").write_text("\n".join(rows[:49]) + "\n")
    labelled = {row.split("\t")[0].lower() for row in rows[:49]}
    column = rows[0].split("\t").index(synthetic.TASK.text_column)
    others = dict.fromkeys(row.split("\t")[column] for row in rows[49:])
    others = [text for text in others if text.lower() not in labelled][:80]
    (folder / "more.txt").write_text("\n".join([*others, others[0].upper()]) + "\n")
    options = [
        *("--teacher", str(distilled[0] / "teacher" / "model" / "hf"), "--allow-weak"),
        *("--task", "assistant", "--data-dir", str(folder), "--max-length", "24"),
        *("--student", "pruned:layers=1,heads=1", "--batch-size", "16", "--epochs", "1"),
        *("--baselines", "none"),
    ]
    return folder, options


def steps_of(folder):
    return results.read_result_file(folder / "seed-1" / "result.json", results.FitResult).steps


def test_a_joint_stage_learns_from_unlabelled_texts_and_a_labels_stage_does_not(
    few, tmp_path, capsys
):
    folder, options = few
    out, more = tmp_path / "run", folder / "more.txt"
    command = ["distill", *options, "--stages", "joint,labels", "--unlabelled", str(more)]
    command += ["--set", "stages.joint.min_steps=null", "--set", "student.initialise=random"]
    command += ["--out", str(out)]
    assert cli.main(command) == 0
    said = capsys.readouterr().err
    assert "80 texts without labels, 1 empty or repeated" in said
    assert said.count("labels need gold labels and learn from the 48 labelled texts") == 1
    assert steps_of(out / "stages" / "joint") == 8  # (48 + 80) / 16
    assert steps_of(out / "stages" / "joint+labels") == 3  # 48 / 16

    more.write_text(more.read_text() + "one more text\n")
    assert cli.main([*command, "--resume"]) == 2
    assert "others: unlabelled" in capsys.readouterr().err

    dev = (folder / "dev.tsv").read_text().splitlines()[1]
    more.write_text(dev.split("\t")[0].upper() + "\n")
    assert cli.main([*command[:-1], str(tmp_path / "other")]) == 1
    assert "no text of the development set, received 1 row" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()


@pytest.mark.thorough
def test_a_corpus_puts_a_general_stage_in_front(few, tmp_path, capsys):
    folder, options = few
    out = tmp_path / "run"
    command = ["distill", *options, "--corpus", str(folder / synthetic.CORPUS_NAME)]
    command += ["--set", "stages.joint.min_steps=null", "--out", str(out), "--json"]
    assert cli.main(command) == 0
    printed = capsys.readouterr()
    assert "hidden states alone" in printed.err  # the teacher has two heads
    record = json.loads(printed.out)
    assert record["stages"] == ["general", "joint"]
    (general, _) = (pathlib.Path(out / file["csv"]).read_text() for file in record["history"])
    header, *rows = (line.split(",") for line in general.splitlines())
    assert "hidden" in header and "attention" not in header
    assert float(rows[-1][header.index("hidden")]) > 0
    assert (out / "stages" / initialise.START).is_file()  # cut out of the task's teacher


@pytest.mark.thorough
def test_a_student_is_compared_at_the_layers_that_it_was_cut_from(
    distilled, data_dir, tmp_path, until_fit, capsys
):
    recipe = recipe_of(
        data_dir,
        distilled[0],
        student={"preset": "pruned:layers=1,choose=bottom,embedding=32"},
        baselines="none",
    )
    distiller, _ = until_fit(recipe, tmp_path / "run")
    layers_kept = safetensors.numpy.load_file(tmp_path / "run" / "stages" / initialise.START)[
        "layers"
    ]
    assert tuple(layers_kept) == (0,)
    assert "hidden states, student layer <- teacher layer: 0 <- 0" in capsys.readouterr().err
    shape = models.config_of(distiller.student)
    assert (shape.attention_width // shape.num_heads, shape.embedding_size) == (64, 32)


def test_layers_are_chosen_in_one_place_alone(data_dir):
    student = {"preset": "pruned:layers=1,choose=greedy", "teacher_layers": "top"}
    with pytest.raises(errors.ConfigError, match="none beside choose=greedy"):
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
    assert record.metrics["accuracy"] > 0.5
    opened = inputs.open_source(str(out))
    assert models.config_of(opened.model) == models.StaticConfig(
        embedding_size=24, dense_size=128, vocab_size=models.config_of(opened.model).vocab_size
    )


@pytest.mark.thorough
def test_texts_are_noisy_where_the_teacher_answers_during_the_training(
    distilled, data_dir, tmp_path, until_fit, capsys
):
    tuned, _ = distilled

    def texts(name, preset=None, **joint):
        stages_ = {"joint": {"kind": "joint", **STEP, **joint}}
        recipe = recipe_of(
            data_dir, tuned, stages=stages_, student__initialise="random", baselines="none"
        )
        if preset is not None:
            recipe = recipe.model_copy(
                update={"student": recipe.student.model_copy(update={"preset": preset})}
            )
        _, train = until_fit(recipe, tmp_path / name)
        said = "tokens replaced" in capsys.readouterr().err
        assert lessons.has_noise(recipe.stages["joint"], train) == said
        batch = [features for features, _ in train.dataset()]
        return said, [features["input_ids"].numpy() for features in batch], batch[0].keys()

    said, plain, _ = texts("off", token_noise=0)
    assert not said
    said, noisy, _ = texts("usual")
    assert said
    rows = np.concatenate([(a != b).any(axis=1) for a, b in zip(plain, noisy, strict=True)])
    assert 0.4 < rows.mean() < 0.8  # three quarters of the texts, less those of a low drawn rate
    # A static student learns from stored answers, which are those of the texts as they are.
    said, stored, features = texts("static", "static")
    assert not said and "teacher_logits" in features
    assert all(map(np.array_equal, plain, stored))
    with pytest.raises(errors.ConfigError, match=r"token_noise.*stored answers"):
        texts("explicit", "static", token_noise=0.5)


@pytest.mark.thorough
def test_where_texts_have_noise_nothing_drops_and_the_last_epoch_is_kept(
    distilled, data_dir, tmp_path, monkeypatch
):
    class Stop(Exception):
        pass

    def fit(distiller, *_, monitor, **_options):
        fits.append((distiller.drops, monitor))
        raise Stop

    fits = []
    monkeypatch.setattr(stages.training, "fit", fit)
    for name, joint in (("usual", {}), ("plain", {"token_noise": 0})):
        stage = {"kind": "joint", **STEP, **joint}
        recipe = recipe_of(data_dir, distilled[0], stages={"joint": stage}, baselines="none")
        with pytest.raises(Stop):
            run.distill_variant(recipe, tmp_path / name)
    assert fits == [(False, None), (True, "accuracy")]


@pytest.mark.thorough
def test_the_teacher_answers_other_pairs_where_the_task_has_pairs(
    distilled, data_dir, tmp_path, until_fit, capsys
):
    folder = tmp_path / "data"
    folder.mkdir()
    words = "set play call stop light music timer alarm".split()
    rows = [f"{a} it\t{b} it now\t{a == b}" for a in words for b in words]
    for split, part in (("train", rows[1::4] + rows[2::4] + rows[3::4]), ("dev", rows[::4])):
        text = "\n".join(["first\tsecond\tsame", *part, ""])
        (folder / f"{split}.tsv").write_text(text, encoding="utf-8")

    tokens = [*("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"), *words, "it", "now"]
    vocab.write_vocab(tokens, tmp_path / "vocab.txt")
    shape = models.preset("bert_tiny").replace(vocab_size=len(tokens))
    teacher = models.build_classifier(shape, 2)
    vocab_file = tmp_path / "vocab.txt"
    weights.save_hf(teacher, tmp_path / "teacher", labels=SAME, tokenizer=vocab_file)

    def texts(name, **joint):
        columns = {"text_column": "first", "pair_column": "second", "label_column": "same"}
        recipe = recipe_of(
            folder,
            data={"task": "likeness", "dir": str(folder), "max_length": 24, **columns}
            | {"vocab": "teacher"},
            teacher={"source": str(tmp_path / "teacher"), "allow_weak": True, "export": False},
            stages={"joint": {"kind": "joint", **STEP, **joint}},
            student__initialise="random",
            baselines="none",
        )
        _, train = until_fit(recipe, tmp_path / name)
        said = "made of other texts" in capsys.readouterr().err
        return said, [features["token_type_ids"].numpy() for features, _ in train.dataset()]

    said, plain = texts("off", token_noise=0)
    assert not said
    said, other = texts("usual")
    assert said
    # "play it" [SEP] "stop it now": the second text of an equal or an exchanged pair is shorter.
    rows = np.concatenate([(a != b).any(axis=1) for a, b in zip(plain, other, strict=True)])
    assert 0.15 < rows.mean() < 0.5  # two thirds of the half
    said, other = texts("tokens", pair_noise=0)
    assert not said and all(map(np.array_equal, plain, other))
    with pytest.raises(errors.ConfigError, match=r"pair_noise.*without pairs"):
        joint = {"kind": "joint", **STEP, "pair_noise": 0.5}
        single = recipe_of(data_dir, distilled[0], stages={"joint": joint}, baselines="none")
        until_fit(single, tmp_path / "single")


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
