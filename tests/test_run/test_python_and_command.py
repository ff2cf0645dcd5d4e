"""The Python of the README trains the student of the command line, bit for bit."""

import csv
import dataclasses
import json
import pathlib
import re
import shutil

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest
import toys

import tfdistill
from tfdistill import cli, config, errors, models, training
from tfdistill.run import initialise, prepare, stages

README = pathlib.Path(__file__).parents[2] / "README.md"
WORDS = ("good", "bad", "film", "story", "dull", "bright", "a", "the", "very", "and")
STUDENT = "pruned:layers=3,ffn=768"
STEPS = 8  # instead of the 1,000 of the default, at least


def label_of(kind: str, random: np.random.Generator) -> str:
    if kind == "regression":
        return f"{random.random():.3f}"
    if kind == "multi_label":
        return "|".join(name for name in ("calm", "fast", "loud") if random.random() < 0.6)
    return str(random.choice(["negative", "positive"]))


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder of each kind of task with my-data.csv and a teacher for its labels."""
    folders = {}

    def folder_of(kind):
        if kind not in folders:
            folders[kind] = tmp_path_factory.mktemp(kind)
            write(folders[kind], kind)
        return folders[kind]

    return folder_of


def write(folder: pathlib.Path, kind: str) -> None:
    """Writes my-data.csv and a teacher, which is as wide as the README's needs."""
    random = np.random.default_rng(0)
    shape = models.preset("bert_tiny").replace(
        num_layers=4, hidden_size=24, num_heads=12, intermediate_size=768
    )
    labels = {"regression": (), "multi_label": ("calm", "fast", "loud")}
    names = labels.get(kind, ("negative", "positive"))
    toys.write_labelled(folder, WORDS, names, shape, scale=0.1)
    with (folder / "my-data.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(120):
            text = " ".join(random.choice(WORDS, random.integers(6, 12)))
            writer.writerow([text, label_of(kind, random)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    # Toy models answer near chance; what refuses them has tests of its own.
    monkeypatch.setattr("tfdistill.analysis.chance.MARGIN", -10.0)
    monkeypatch.setattr("tfdistill.analysis.chance._OF_SCALE", -1e6)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def begin(begun, folder):
    """Puts a teacher and my-data.csv of a kind of task into the folder."""
    return lambda kind: shutil.copytree(begun(kind), folder, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def loaded(begun):
    """The data, a teacher and a student of its shape, of a classification."""
    place = begun("classification")
    data = tfdistill.load_data(place / "my-data.csv", tokenizer=str(place / "teacher"))
    teacher = tfdistill.load_teacher(str(place / "teacher"), task=data.task)
    student = models.build_model(models.config_of(teacher), models.read_head(teacher))
    return data, teacher, student


def run_readme(before_export: bool) -> dict:
    """Runs the README's Python, with fewer steps; returns its names."""
    block = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)[0]
    assert len(block.split("\n\n")[-1].strip().splitlines()) <= 10
    block, count = re.subn(r'("runs/python")\)', rf"\1, min_steps={STEPS})", block)
    assert count == 1
    if before_export:
        block = block[: block.index("export.to_tflite")]
    names: dict = {"__name__": "example"}
    exec(compile(block, "README.md", "exec"), names)
    return names


def run_command(*more: str) -> None:
    """Runs the README's `tfdistill distill`, with fewer steps."""
    (line,) = re.findall(r"^tfdistill (distill [^#\n]*)", README.read_text("utf-8"), re.M)
    assert "--teacher teacher --data my-data.csv" in line and STUDENT in line
    more = (*more, "--min-steps", str(STEPS), "--baselines", "none")
    assert cli.main([*line.split(), *more]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "classification",
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in ("regression", "multi_label")),
    ],
)
def test_the_python_of_the_readme_trains_the_student_of_its_command(kind, begin):
    begin(kind)
    names = run_readme(before_export=kind != "classification")
    run_command()
    data, student = names["data"], names["student"]
    assert data.task.kind == kind
    other = tfdistill.load_teacher("runs/student/student/hf", task=data.task)
    assert len(student.weights) == len(other.weights)
    loaded = {variable.name: variable.numpy() for variable in other.weights}
    for variable in student.weights:
        np.testing.assert_array_equal(variable, loaded[variable.name], err_msg=variable.name)
    for batches in (data.dev, data.test):
        np.testing.assert_array_equal(
            training.predict_logits(student, batches), training.predict_logits(other, batches)
        )
    moved = tfdistill.build_student(STUDENT, names["teacher"], data)
    assert any((moved.get_weights()[i] != w).any() for i, w in enumerate(student.get_weights()))


@pytest.mark.thorough
def test_other_settings_give_the_command_s_student_too(begin):
    """A narrower student, whose projections start in its basis; a seed; keys of the recipe."""
    begin("classification")
    narrow = "pruned:layers=2,ffn=64,heads=6,width=12,choose=bottom"
    data = tfdistill.load_data("my-data.csv", tokenizer="teacher", max_length=16, seed=5)
    teacher = tfdistill.load_teacher("teacher", task=data.task)
    student = tfdistill.build_student(narrow, teacher, data, seed=5)
    keys = {"token_noise": 0.25, "keep_best": False, "temperature": 2.0}
    tfdistill.distill(
        teacher, student, data, "runs/python", seed=5, epochs=1, min_steps=STEPS, **keys
    )
    changes = [part for key, value in keys.items()
               for part in ("--set", f"stages.joint.{key}={str(value).lower()}")]  # fmt: skip
    command = ["distill", "--teacher", "teacher", "--data", "my-data.csv", "--out", "runs/student"]
    command += ["--student", narrow, "--max-length", "16", "--seed", "5", "--epochs", "1"]
    command += ["--baselines", "none", "--min-steps", str(STEPS)]
    assert cli.main([*command, *changes]) == 0
    other = tfdistill.load_teacher("runs/student/student/hf", task=data.task)
    for ours, of_command in zip(student.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, of_command)


@pytest.mark.slow
def test_the_data_of_one_file_are_split_by_the_seed(begin):
    begin("classification")
    one, again, other = (
        tfdistill.load_data("my-data.csv", tokenizer="teacher", seed=seed) for seed in (1, 1, 2)
    )
    assert one.dev_examples.texts == again.dev_examples.texts != other.dev_examples.texts
    assert one.task.name == "my-data" and one.settings.doc_stride == 64
    held_out = {*one.dev_examples.texts}
    assert one.test is not None and not held_out & {*one.train_examples.texts}
    for batches in (one.train, one.dev, one.test):
        assert batches.encoded.task == one.task


def test_all_faults_of_the_settings_are_named_before_any_work(folder, loaded):
    data, teacher, student = loaded
    with pytest.raises(errors.ConfigError) as caught:
        tfdistill.load_data("my-data.csv", "teacher", max_lengthh=3, dev_limit=0)
    assert "max_length" in str(caught.value) and "dev_limit" in str(caught.value)
    with pytest.raises(errors.ConfigError, match="preset"):
        tfdistill.build_student("bert_tyni", teacher, data)
    with pytest.raises(errors.ConfigError, match="joint"):
        tfdistill.distill(teacher, student, data, "out", kind="joynt")
    with pytest.raises(errors.ConfigError) as caught:
        tfdistill.distill(teacher, student, data, "out", token_noize=0.1, patience=0)
    assert "token_noise" in str(caught.value) and "patience" in str(caught.value)
    with pytest.raises(errors.ConfigError, match="general"):
        tfdistill.distill(teacher, student, data, "out", kind="general")
    assert not (folder / "out").exists()


def test_a_teacher_near_chance_is_refused_unless_told(monkeypatch, folder, loaded):
    data, teacher, student = loaded
    monkeypatch.setattr("tfdistill.analysis.chance.MARGIN", 2.0)
    monkeypatch.setattr(stages, "build_stage", None)
    with pytest.raises(errors.TeacherError):
        tfdistill.distill(teacher, student, data, "out")
    with pytest.raises(TypeError):  # it is taken, and gets as far as the stage
        tfdistill.distill(teacher, student, data, "out", allow_weak=True)


@pytest.mark.slow
def test_a_student_knows_how_it_began_until_it_is_gone(begin):
    begin("classification")
    data = tfdistill.load_data("my-data.csv", tokenizer="teacher")
    teacher = tfdistill.load_teacher("teacher", task=data.task)
    student = tfdistill.build_student("pruned:layers=2,ffn=64,heads=6,width=12", teacher, data)
    origin = initialise.origin_of(student)
    assert origin.layers is not None and len(origin.layers) == 2
    assert origin.basis is not None and origin.basis.shape == (24, 12)
    assert initialise.origin_of(teacher).layers is None


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"labels": ("a", "b")}, "data.labels"),
        ({"dir": "elsewhere"}, "data.dir"),
        ({"encoding": "cp1252"}, "data.encoding"),
        ({"dev_split": "test"}, "data.dev_split"),
        ({"layout": "folders"}, "data.layout"),
        ({"kind": "span"}, "data.kind"),
        ({"kind": "embedding"}, "data.kind"),
        ({"augment": {}}, r"data\.augment: "),
    ],
)
def test_what_one_file_does_not_read_is_refused_by_name(settings, key, begin):
    begin("classification")
    with pytest.raises(errors.ConfigError, match=key):
        tfdistill.load_data("my-data.csv", tokenizer="teacher", **settings)


@pytest.mark.slow
def test_the_separator_of_several_labels_can_be_named(folder, begin):
    begin("multi_label")
    text = (folder / "my-data.csv").read_text().replace("|", "~")
    (folder / "my-data.csv").write_text(text)
    data = tfdistill.load_data(
        "my-data.csv", tokenizer="teacher", kind="multi_label", label_separator="~"
    )
    assert data.task.labels == ("calm", "fast", "loud")


@pytest.mark.slow
def test_a_folder_goes_on_with_what_it_began_with_alone(folder, begin):
    begin("classification")
    data = tfdistill.load_data("my-data.csv", tokenizer="teacher")
    teacher = tfdistill.load_teacher("teacher", task=data.task)
    student = tfdistill.build_student("pruned:layers=1,ffn=64,choose=bottom", teacher, data)
    start = student.get_weights()

    def distil(where="out", data=data, **settings):
        settings = {"kind": "logits", **settings}  # whose steps are traced the fastest
        student.set_weights(start)
        tfdistill.distill(teacher, student, data, where, epochs=1, min_steps=STEPS, **settings)
        return np.concatenate([weight.ravel() for weight in student.get_weights()])

    first = distil()
    np.testing.assert_array_equal(distil(), first)
    for settings, key in (
        ({"temperature": 4}, "stage.temperature"),
        ({"seed": 2}, "seed"),
        ({"data": tfdistill.load_data("my-data.csv", tokenizer="teacher", seed=3)}, "train"),
        ({"data": tfdistill.load_data("my-data.csv", "teacher", max_length=9)}, "max_length"),
    ):
        with pytest.raises(errors.ConfigError, match=rf"others: .*{key}"):
            distil(**settings)
    assert not np.array_equal(distil(seed=2, overwrite=True), first)
    with pytest.raises(errors.ConfigError):
        distil("new", temperature=2, token_noise=0.5)
    assert not (folder / "new").exists()


@pytest.mark.slow
def test_a_folder_of_somebody_else_is_left_alone(folder, loaded):
    data, teacher, student = loaded
    (folder / "mine").mkdir()
    (folder / "mine" / "history.csv").write_text("epoch\n1\n")
    for overwrite in (False, True):
        with pytest.raises(errors.OutputExistsError, match=r"history\.csv"):
            tfdistill.distill(teacher, student, data, "mine", overwrite=overwrite)
    assert [path.name for path in (folder / "mine").iterdir()] == ["history.csv"]


class ClassDataset:
    """As the one of Hugging Face's datasets: numbers in columns, `features` in what it writes."""

    def __init__(self, columns, features):
        self.columns, self.features = columns, features

    def to_parquet(self, path):
        metadata = {"huggingface": json.dumps({"info": {"features": self.features}})}
        table = pyarrow.table(self.columns).replace_schema_metadata(metadata)
        pyarrow.parquet.write_table(table, path)


def test_class_labels_of_a_dataset_are_their_names(begin):
    begin("classification")
    frame = pandas.read_csv("my-data.csv")
    names = ["positive", "negative"]  # in this order, not that of the alphabet
    columns = {"text": list(frame["text"]), "label": [names.index(name) for name in frame["label"]]}
    features = {
        "text": {"dtype": "string", "_type": "Value"},
        "label": {"names": names, "_type": "ClassLabel"},
    }
    data = tfdistill.load_data(ClassDataset(columns, features), tokenizer="teacher")
    assert data.task.labels == tuple(names)
    said = set(zip(frame["text"], frame["label"], strict=True))
    read = data.dev_examples
    assert (
        len(read)
        and {(text, names[label]) for text, label in zip(read.texts, read.labels, strict=True)}
        <= said
    )


@pytest.mark.parametrize("table", [[{"text": "a", "label": "b"}], {"train": None}, None])
def test_what_is_no_table_is_refused(table, begin):
    begin("classification")
    with pytest.raises(errors.DataError, match="path: expected a path, a pandas DataFrame"):
        tfdistill.load_data(table, tokenizer="teacher")


def test_what_distill_does_not_carry_out_is_refused_by_name(folder, begin, loaded, monkeypatch):
    begin("classification")
    data = tfdistill.load_data("my-data.csv", tokenizer="teacher", class_weights="balanced")
    _, teacher, student = loaded
    idle = {"compress": {"method": "prune"}, "augmented": True, "max_length": 127}
    with pytest.raises(errors.ConfigError) as caught:
        tfdistill.distill(teacher, student, data, "out", **idle)
    keys = [line.partition(":")[0] for line in str(caught.value).splitlines()]
    assert keys == [*idle, "data.class_weights"]
    assert not (folder / "out").exists()
    monkeypatch.setattr(stages, "build_stage", None)
    for settings in (
        {"kind": "labels", "max_length": 128},
        {"loss_weights": {"label": 0.5}, "max_length": 200},
    ):
        with pytest.raises(TypeError):  # it is taken, and gets as far as the stage
            tfdistill.distill(teacher, student, data, "out", overwrite=True, **settings)


def test_texts_without_labels_are_learnt_as_on_the_command_line(folder, begin):
    begin("classification")
    usual = tfdistill.load_data("my-data.csv", tokenizer="teacher")
    learnt, held_out = usual.train_examples.texts[0], usual.dev_examples.texts[0]
    more = ["a very good story", "the dull film and the bright story"]
    (folder / "more.txt").write_text("\n".join([*more, learnt.upper(), more[0]]) + "\n")
    data = tfdistill.load_data("my-data.csv", tokenizer="teacher", unlabelled=["more.txt"])
    assert list(data.unlabelled_examples.texts) == more
    assert len(data.texts()) == len(data.texts(labelled=True)) + 2 == len(usual.texts()) + 2
    recipe = config.parse_recipe(
        {
            "name": "toy",
            "data": {**data.settings.model_dump(), "file": "my-data.csv"},
            "teacher": "teacher",
            "student": "bert_tiny",
            "stages": {"joint": {"kind": "joint"}},
            "variants": {"student": {"stages": ["joint"]}},
        }
    )
    of_run = prepare.prepare(recipe, folder / "run")[0]
    np.testing.assert_array_equal(of_run.texts().ids, data.texts().ids)
    (folder / "more.txt").write_text(held_out + "\n")
    with pytest.raises(errors.DataError, match="no text of the development set"):
        tfdistill.load_data("my-data.csv", tokenizer="teacher", unlabelled=["more.txt"])


@pytest.mark.slow
def test_a_folder_knows_what_else_its_model_followed_from(folder, begin, monkeypatch):
    begin("classification")
    trained = []

    def build(*arguments):
        return (lambda *_: trained.append(arguments)), ()

    monkeypatch.setattr(stages, "build_stage", build)
    cut = {"tokenizer": "teacher", "max_length": 6}
    data = tfdistill.load_data("my-data.csv", **cut)
    teacher = tfdistill.load_teacher("teacher", task=data.task)

    def distil(data=data, seed=1):
        student = tfdistill.build_student(
            "bert_tiny", teacher, data, initialise="random", seed=seed
        )
        tfdistill.distill(teacher, student, data, "out", kind="labels", allow_weak=True)

    distil()
    distil()
    (folder / "more.txt").write_text("a very good story\n")
    for more, key in (
        ({"class_weights": "balanced"}, "class_weights"),
        ({"metrics": ("macro_f1", "accuracy")}, "metrics"),
        ({"unlabelled": ("more.txt",)}, "tokens"),
    ):
        with pytest.raises(errors.ConfigError, match=rf"others: {key}"):
            distil(tfdistill.load_data("my-data.csv", **cut, **more))
    other = tfdistill.load_data("my-data.csv", **cut, truncation="middle")
    for part in ("train", "dev"):
        with pytest.raises(errors.ConfigError, match="others: tokens"):
            distil(dataclasses.replace(data, **{part: getattr(other, part)}))
    with pytest.raises(errors.ConfigError, match="others: start"):
        distil(seed=2)
    assert len(trained) == 2


def test_a_cased_vocabulary_is_read_as_its_folder_says(folder, begin):
    begin("classification")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    data = tfdistill.load_data("my-data.csv", tokenizer="vocab.txt")
    assert data.tokenizer.lower_case is False


def test_numbers_among_the_texts_of_a_column_are_texts(begin):
    begin("classification")
    frame = pandas.read_csv("my-data.csv")
    expected = tfdistill.load_data(frame, tokenizer="teacher")
    frame["source_id"] = [7] + ["a7"] * (len(frame) - 1)
    data = tfdistill.load_data(frame, tokenizer="teacher")
    np.testing.assert_array_equal(data.train.encoded.ids, expected.train.encoded.ids)
