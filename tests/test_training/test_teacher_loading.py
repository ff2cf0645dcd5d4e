import dataclasses
import shutil
import types

import numpy as np
import pytest
import toys

import export
import tfdistill
from tfdistill import compress, errors, models, tasks, training, weights
from tfdistill.data import batches
from tfdistill.tokenization.reading import read_tokenizer

pytestmark = pytest.mark.slow

FEATURES = toys.features((5, 3, 6, 4))
HUAWEI = ("contradiction", "entailment", "neutral")
HUGGING_FACE = ("entailment", "neutral", "contradiction")


@pytest.fixture(scope="module")
def mnli():
    spec = tasks.task("mnli")
    assert spec.labels == HUGGING_FACE
    return spec


@pytest.fixture
def model():
    return toys.classifier(toys.SHALLOW_STUDENT, seed=3)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A three-class BERT on disk, its labels in Huawei's order."""
    model = toys.classifier(toys.SHALLOW_STUDENT, seed=3)
    folder = tmp_path_factory.mktemp("saved") / "bert"
    weights.save_hf(model, folder, labels=HUAWEI)
    return folder, model(FEATURES).numpy()


# The order of the labels.


def test_outputs_are_put_into_the_order_of_the_label_names(model, mnli):
    before = model(FEATURES).numpy()
    training.align_labels(model, HUAWEI, mnli)
    after = model(FEATURES).numpy()
    for index, name in enumerate(HUGGING_FACE):
        np.testing.assert_allclose(after[:, index], before[:, HUAWEI.index(name)], rtol=1e-6)
    assert np.abs(after - before).max() > 0.1
    aware = compress.quantize_aware(model)
    compress.observe(aware, [FEATURES])
    before = aware(FEATURES, training=False).numpy()

    training.align_labels(aware, HUAWEI, mnli)

    order = [HUAWEI.index(label) for label in mnli.labels]
    np.testing.assert_array_equal(aware(FEATURES, training=False).numpy(), before[:, order])


GENERIC = ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("names", "of_task", "order"),
    [
        (HUAWEI, HUGGING_FACE, [1, 2, 0]),
        (("Neutral", "CONTRADICTION", "entailment"), HUGGING_FACE, [2, 0, 1]),
        (HUGGING_FACE, HUGGING_FACE, None),
        # Names without meaning tell the order only where they are the labels.
        (GENERIC, HUGGING_FACE, None),
        ((), HUGGING_FACE, None),
        (None, HUGGING_FACE, None),
        (GENERIC, GENERIC[::-1], [2, 1, 0]),
        # Names that differ by case alone are told apart.
        (("US", "a", "us"), ("US", "a", "us"), None),
        (("us", "US", "a"), ("US", "a", "us"), [1, 2, 0]),
    ],
)
def test_the_order_is_that_of_the_names(model, names, of_task, order):
    task = tasks.TaskSpec("mine", "text", "label", labels=of_task)
    assert training.label_order(model, names, task) == order


@pytest.mark.parametrize(
    ("names", "of_task"), [(("Us", "a", "us"), ("US", "a", "us")), (GENERIC[::-1], HUGGING_FACE)]
)
def test_names_that_tell_no_order_are_refused(model, names, of_task):
    task = tasks.TaskSpec("mine", "text", "label", labels=of_task)
    with pytest.raises(errors.TeacherError, match="labels of the model"):
        training.label_order(model, names, task)


def test_outputs_of_other_heads_are_put_into_order_too():
    tags = models.build_token_classifier(toys.SHALLOW_STUDENT, 3)
    toys.randomise(tags, 5)
    ner = dataclasses.replace(tasks.task("ner"), labels=("O", "B-X", "I-X"))
    before = tags(FEATURES).numpy()
    training.align_labels(tags, ("B-X", "I-X", "O"), ner)
    np.testing.assert_allclose(tags(FEATURES).numpy(), before[..., [2, 0, 1]], rtol=1e-6)
    with pytest.raises(errors.TeacherError, match="B-Y"):
        training.align_labels(tags, ("B-X", "B-Y", "O"), ner)
    assert training.label_order(tags, ("O", "I-X", "B-X"), ner) == [0, 2, 1]  # no IOB1
    for scheme, others in (("IO", ("O", "I-X")), ("BILOU", ("O", "B-X", "I-X", "L-X", "U-X"))):
        with pytest.raises(errors.TeacherError, match=f"expected BIO, .* received {scheme}, such"):
            training.label_order(tags, others, ner)


def test_other_names_are_refused(model, mnli):
    before = model.get_weights()
    with pytest.raises(errors.TeacherError, match=r"'entailment'.*received .*'joy'"):
        training.align_labels(model, ("joy", "neutral", "contradiction"), mnli)
    with pytest.raises(errors.TeacherError, match="labels"):
        training.align_labels(model, ("neutral", "neutral", "contradiction"), mnli)
    with pytest.raises(errors.TeacherError, match="2 outputs for sst2, received 3"):
        training.align_labels(model, HUAWEI, tasks.task("sst2"))
    toys.check_equal(before, model.get_weights())


# Teachers by name.


def test_a_teacher_answers_in_the_order_of_its_task(saved, mnli):
    folder, logits = saved
    order = [HUAWEI.index(name) for name in HUGGING_FACE]
    for task in ("mnli", mnli):
        teacher = tfdistill.load_teacher(folder, task)
        np.testing.assert_allclose(teacher(FEATURES), logits[:, order], rtol=1e-5, atol=1e-6)
    backwards = dataclasses.replace(mnli, labels=HUGGING_FACE[::-1], label_values=())
    teacher = tfdistill.load_teacher(str(folder), backwards)
    np.testing.assert_allclose(teacher(FEATURES), logits[:, order[::-1]], rtol=1e-5, atol=1e-6)


def test_a_teacher_without_a_task_keeps_its_own_order_or_has_no_head(saved, tmp_path):
    folder, logits = saved
    teacher = tfdistill.load_teacher(folder, num_labels=3)
    np.testing.assert_allclose(teacher(FEATURES), logits, rtol=1e-5, atol=1e-6)
    encoder = tfdistill.load_teacher(folder)
    assert models.num_labels_of(encoder) is None
    assert models.config_of(encoder).num_layers == 1
    folder, logits = saved
    shutil.copytree(folder, tmp_path / "student" / "hf")
    teacher = tfdistill.load_teacher(str(tmp_path), num_labels=3)
    np.testing.assert_allclose(teacher(FEATURES), logits, rtol=1e-5, atol=1e-6)


def test_a_teacher_of_another_task_is_refused(saved):
    folder, _ = saved
    with pytest.raises(errors.TfdistillError, match="2 labels, received 3"):
        tfdistill.load_teacher(folder, "sst2")
    with pytest.raises(errors.ConfigError):
        tfdistill.load_teacher(folder, "mnly")
    with pytest.raises(errors.WeightsError):
        tfdistill.load_teacher(folder / "nowhere")


def test_a_teacher_of_words_or_spans_comes_with_its_head(tmp_path):
    ner = dataclasses.replace(tasks.task("ner"), labels=("O", "B-X", "I-X"))
    tags = toys.randomise(models.build_token_classifier(toys.SHALLOW_STUDENT, 3), 5)
    weights.save_hf(tags, tmp_path / "tags", labels=("I-X", "O", "B-X"))
    loaded = tfdistill.load_teacher(str(tmp_path / "tags"), ner)
    expected = tags(FEATURES).numpy()[..., [1, 2, 0]]
    np.testing.assert_allclose(loaded(FEATURES), expected, rtol=1e-5, atol=1e-6)
    span = toys.randomise(models.build_span_classifier(toys.SHALLOW_STUDENT), 5)
    weights.save_hf(span, tmp_path / "span")
    loaded = tfdistill.load_teacher(str(tmp_path / "span"), "squad")
    np.testing.assert_allclose(loaded(FEATURES), span(FEATURES), rtol=1e-5, atol=1e-6)
    with pytest.raises(errors.TeacherError, match="'span'"):
        tfdistill.load_teacher(str(tmp_path / "tags"), "squad")


# The lines of the README, at toy size: what the command line refuses, they refuse.


@pytest.fixture(scope="module")
def lines(tmp_path_factory, toy_vocab_file):
    """A task with its data, a folder without a head, and one with a head."""
    words = ["good", "bad", "film", "story", "seven", "playing"]
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 80)
    texts = [" ".join([words[label], *random.choice(words[2:], 3)]) for label in labels]
    task = tasks.TaskSpec("films", "text", "label", labels=("good", "bad"))
    tokenizer = read_tokenizer(toy_vocab_file)
    encoded = batches.encode_examples(
        tasks.Examples(task, texts, None, np.int32(labels)), tokenizer, 12
    )
    shape = toys.SHALLOW_STUDENT.replace(vocab_size=tokenizer.vocab_size)
    folder = tmp_path_factory.mktemp("folders")
    encoder = toys.randomise(models.build_encoder(shape), 5)
    weights.save_hf(encoder, folder / "headless", tokenizer=toy_vocab_file)
    model = toys.classifier(shape, 2, seed=3)
    trainer = tfdistill.LabelTrainer(model)
    trainer.compile(optimizer=tfdistill.adamw(1e-2))
    trainer.fit(batches.Batches(encoded), epochs=30, verbose=0)
    weights.save_hf(model, folder / "tuned", labels=task.labels, tokenizer=toy_vocab_file)
    return types.SimpleNamespace(task=task, encoded=encoded, folder=folder, shape=shape)


def _distil(lines, teacher, *, epochs=1, **options):
    student = models.build_classifier(lines.shape, 2)
    distiller = tfdistill.LogitDistiller(teacher, student)
    # A graph takes long to make for three steps.
    distiller.compile(optimizer=tfdistill.adamw(1e-2), run_eagerly=epochs == 1)
    dev = batches.Batches(lines.encoded, shuffle=False)
    data = batches.Batches(lines.encoded)
    distiller.fit(data, epochs=epochs, verbose=0, validation_data=dev, **options)
    return student


@pytest.mark.parametrize("width", [{"task": "sst2"}, {"num_labels": 2}, {"task": "squad"}])
def test_a_folder_without_a_head_is_no_teacher_unless_a_new_one_is_asked_for(lines, width):
    folder = str(lines.folder / "headless")
    with pytest.raises(errors.TeacherError):
        tfdistill.load_teacher(folder, **width)
    model = tfdistill.load_teacher(folder, **width, new_head=True)
    assert models.num_labels_of(model) == 2


def test_a_teacher_near_chance_is_refused_before_the_first_step(lines):
    teacher = tfdistill.load_teacher(str(lines.folder / "headless"), lines.task, new_head=True)
    with pytest.raises(errors.TeacherError, match=r"chance is .*allow_weak=True"):
        _distil(lines, teacher)
    assert _distil(lines, teacher, allow_weak=True) is not None


def test_a_student_near_chance_is_not_exported_unless_told(lines, tmp_path):
    teacher = tfdistill.load_teacher(str(lines.folder / "tuned"), lines.task)
    options = {"task": lines.task, "check_on": lines.encoded, "quantize": "float32"}
    good = _distil(lines, teacher, epochs=20)
    export.to_tflite(good, tmp_path / "good.tflite", **options)
    weak = toys.classifier(lines.shape, 2, seed=4)
    with pytest.raises(errors.StudentError):
        export.to_tflite(weak, tmp_path / "weak" / "m.tflite", **options)
    assert not (tmp_path / "weak").exists()
    export.to_tflite(weak, tmp_path / "weak" / "m.tflite", allow_weak=True, **options)


def test_data_of_another_task_or_without_one_say_nothing_of_a_teacher(lines):
    teacher = tfdistill.load_teacher(str(lines.folder / "headless"), lines.task, new_head=True)
    for changes in ({"task": None}, {"labels": None}, {"task": tasks.task("stsb")}):
        encoded = dataclasses.replace(lines.encoded, **changes)
        distiller = tfdistill.LogitDistiller(teacher, models.build_classifier(lines.shape, 2))
        distiller.compile(run_eagerly=True)
        distiller.fit(batches.Batches(lines.encoded), verbose=0, steps_per_epoch=1,
                      validation_data=batches.Batches(encoded, shuffle=False))  # fmt: skip
