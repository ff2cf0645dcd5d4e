"""One call answers texts with a Keras model; wrong types raise errors of ours."""

import dataclasses

import numpy as np
import pytest
import toys

import export
import tfdistill
from tfdistill import errors, models, tasks, training
from tfdistill.data import batches

WORDS = [f"w{letter}" for letter in "abcdefghijklmnop"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    toys.write_labelled(folder, WORDS, ("no", "yes", "maybe"), toys.SHALLOW_TEACHER)
    draw = np.random.default_rng(3)
    lines = [
        f"{' '.join(draw.choice(WORDS, 4))},{('no', 'yes', 'maybe')[i % 3]}" for i in range(90)
    ]
    (folder / "rows.csv").write_text("text,answer\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def data(folder):
    return tfdistill.load_data(folder / "rows.csv", tokenizer=str(folder / "teacher"))


@pytest.fixture(scope="module")
def teacher(folder, data):
    return tfdistill.load_teacher(str(folder / "teacher"), task=data.task)


def answers_of(model, data, examples):
    logits = training.predict_logits(model, batches.Batches(data.encode(examples), shuffle=False))
    return np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)


def test_a_text_and_a_list_have_the_labels_of_the_largest_logits(data, teacher):
    texts = data.dev_examples.texts
    shares = answers_of(teacher, data, data.dev_examples)
    answers = tfdistill.predict(teacher, texts, data=data)
    assert [answer.label for answer in answers] == [data.task.labels[i] for i in shares.argmax(1)]
    np.testing.assert_allclose(  # both in float64 of the same float32 logits
        [answer.probability for answer in answers], shares.max(axis=1), rtol=1e-5
    )
    one = tfdistill.predict(teacher, texts[0], data=data)
    assert (one.text, one.label, one.sure) == (texts[0], answers[0].label, None)


def test_several_labels_numbers_and_pairs_are_read_by_their_kind(data, teacher):
    logits = training.predict_logits(teacher, data.dev)
    several = dataclasses.replace(data.task, kind="multi_label", metrics=(), primary_metric="")
    rows = tfdistill.predict(
        teacher, data.dev_examples.texts, data=dataclasses.replace(data, task=several)
    )
    names = np.array(data.task.labels)
    assert [row.label for row in rows] == [tuple(names[row > 0]) for row in logits]
    number = toys.randomise(models.build_classifier(models.config_of(teacher), 1))
    spec = tasks.TaskSpec("n", "a", "b", kind="regression", pair_column="c")
    pairs = dataclasses.replace(data, task=spec)
    answer = tfdistill.predict(number, ("wa wb", "wc"), data=pairs)
    encoded = data.encode(tasks.Examples(spec, ["wa wb"], ["wc"], None))
    expected = training.predict_logits(number, batches.Batches(encoded))[0, 0]
    assert (answer.label, answer.pair, answer.probability) == (float(expected), "wc", None)
    with pytest.raises(errors.DataError, match="second text"):
        tfdistill.predict(number, "wa", data=pairs)
    with pytest.raises(errors.DataError, match=r"a text, received \(3,\)"):
        tfdistill.predict(teacher, ["wa", 3], data=data)


def test_batches_iterate_have_a_length_and_refuse_another_size(data, teacher):
    train = batches.Batches(data.train.encoded, batch_size=16, seed=5)
    read = list(train)
    assert len(train) == train.steps_per_epoch == len(read) > 1
    for (features, labels), indices in zip(read, train.plan(0), strict=True):
        np.testing.assert_array_equal(labels, data.train.encoded.labels[indices])
        assert features["input_ids"].shape == features["attention_mask"].shape
    distiller = tfdistill.LogitDistiller(teacher, teacher)
    distiller.compile("adam")
    for call in (distiller.fit, distiller.evaluate):
        with pytest.raises(errors.ConfigError, match=r"Batches\(data.train.encoded, batch_size=8"):
            call(train, batch_size=8)


@pytest.mark.parametrize(
    "call",
    [
        lambda folder, data, model: tfdistill.load_data(folder / "rows.csv", tokenizer=None),
        lambda folder, data, model: tfdistill.load_teacher(None),
        lambda folder, data, model: tfdistill.load_teacher(str(folder / "teacher"), task=data),
        lambda folder, data, model: tfdistill.build_student(3, model, data),
        lambda folder, data, model: tfdistill.build_student("static", "teacher", data),
        lambda folder, data, model: tfdistill.distill(model, "student", data, folder / "out"),
        lambda folder, data, model: tfdistill.distill(model, model, data.train, folder / "out"),
        lambda folder, data, model: tfdistill.evaluate(model, data),
        lambda folder, data, model: tfdistill.fit(model, data.train, epochs=1, folder=folder),
        lambda folder, data, model: tfdistill.Distiller(model, "student", {}),
        lambda folder, data, model: tfdistill.predict(str(folder), "wa", data=data),
        lambda folder, data, model: tfdistill.predict(model, None, data=data),
        lambda folder, data, model: tfdistill.run_recipe("tinybert_4l", folder / "out"),
        lambda folder, data, model: tfdistill.load_recipe(7),
        lambda folder, data, model: export.to_tflite(str(folder), folder / "m.tflite", data=data),
    ],
)
def test_wrong_types_are_refused_with_their_name_and_no_option(call, folder, data, teacher):
    with pytest.raises(errors.WrongTypeError) as caught:
        call(folder, data, teacher)
    assert isinstance(caught.value, TypeError) and "--" not in str(caught.value)
    assert ": expected a " in str(caught.value)
    assert not (folder / "out").exists()


def test_data_errors_name_arguments_of_python(folder, data):
    (folder / "two.csv").write_text("one,two\n" + "good film,bad film\n" * 60)
    with pytest.raises(errors.TfdistillError) as caught:
        tfdistill.load_data(folder / "two.csv", tokenizer=str(folder / "teacher"))
    assert "_column=" in str(caught.value) and "--" not in str(caught.value)
