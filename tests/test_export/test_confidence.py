"""What an export says of how sure its file is, fitted on the answers of the file itself."""

import dataclasses
import hashlib
import json
import shutil
import types
from unittest import mock

import numpy as np
import planted_outputs
import pytest
import tf_keras as keras

import tfdistill
from export.checking import confidence, outputs, reference, verify
from export.checking.evidence import Evidence
from export.conversion import convert
from export.model.request import ExportRequest
from tfdistill import analysis, cli, config, errors, manifest, weights
from tfdistill.analysis import promises
from tfdistill.commands import export_job, inspection
from tfdistill.data import from_config, unlabelled
from tfdistill.data.batches import Batches
from tfdistill.manifest import familiarity
from tfdistill.manifest.confidence import Confidence, Promise, moved_coverage
from tfdistill.results import model_card
from tfdistill.run import inputs
from tfdistill.tasks import KINDS
from tfdistill.tflite import TfliteModel
from tfdistill.tokenization.reading import read_vocab

pytestmark = pytest.mark.slow

KIND = KINDS["classification"]


@pytest.fixture(scope="module")
def halves(toy):
    """The examples that choose, and those that choose nothing."""
    return toy.encoded.select(np.arange(60)), toy.encoded.select(np.arange(60, 120))


@pytest.fixture(scope="module")
def choosing(toy, halves):
    """The toy with the examples that choose."""
    return dataclasses.replace(toy, encoded=halves[0], texts=None)


@pytest.fixture(scope="module")
def promising(choosing, halves, tmp_path_factory):
    path = tmp_path_factory.mktemp("promising") / "model.tflite"
    choosing.export(path, promise_on=halves[1])
    return path


def test_the_record_is_fitted_on_what_the_file_answers(promising, halves):
    card = manifest.read_manifest(promising)
    with TfliteModel(promising) as file:
        rows = [(outputs.file_outputs(file, half), half) for half in halves]
    again = analysis.fit_confidence(KIND, *rows, model_sha256=card.model.sha256)
    assert card.confidence == again
    assert card.confidence.num_examples == 60
    # A tenth of the labels is wrong: 60 texts keep 10% for no share of the answers.
    assert [promise.rows for promise in card.confidence.promises] == [60] * 4
    assert all(promise.threshold is None for promise in card.confidence.promises)
    text = (promising.parent / model_card.FILE_NAME).read_text()
    assert "at most 5% of the sure answers wrong: no threshold keeps it on 60 texts" in text


@pytest.fixture(scope="module")
def telling(choosing, halves, tmp_path_factory):
    """A file that tells texts of another kind."""
    path = tmp_path_factory.mktemp("telling") / "model.tflite"
    with mock.patch.multiple(familiarity, FEWEST_TEXTS=60, FEWEST_ROWS=60):
        choosing.export(path, calibrate_on=halves[0], promise_on=halves[1])
    return path


def test_training_texts_tell_those_of_another_kind(toy, telling, halves):
    check_on, promise_on = halves
    card = manifest.read_manifest(telling)
    tokens = read_vocab(toy.vocab_file)
    with mock.patch.multiple(familiarity, FEWEST_TEXTS=60, FEWEST_ROWS=60):
        again = familiarity.fit_familiarity(check_on, promise_on, tokens)
    assert card.confidence.familiarity == again
    assert again.covers(promise_on).mean() == pytest.approx(0.95, abs=0.02)


def test_an_edited_familiarity_is_refused(telling, tmp_path):
    folder = shutil.copytree(telling.parent, tmp_path / "copy")
    card = json.loads((folder / "model.json").read_bytes())
    card["confidence"]["familiarity"]["threshold"] -= 1
    card.pop("checksum", None)
    (folder / "model.json").write_text(json.dumps(card))
    with pytest.raises(errors.ManifestError):
        manifest.read_manifest(folder)


def test_texts_of_another_kind_are_not_sure_in_an_evaluation(toy, telling, halves):
    source = inputs.open_answerer(str(telling.parent), toy.task)
    _, rows = halves
    record = source.card.confidence
    promise = Promise(max_error=0.1, rows=60, threshold=0.0, coverage=0.9, error=0.0)
    changed = record.model_copy(update={"promises": (promise,)})
    source = dataclasses.replace(
        source, card=source.card.model_copy(update={"confidence": changed})
    )
    with TfliteModel(telling) as file:
        answers = outputs.file_outputs(file, rows)
    (row,) = source.coverage_of_promises(answers, rows, toy.task)
    assert row["coverage"] < 1
    assert row["coverage"] == pytest.approx(record.familiarity.covers(rows).mean())


@pytest.fixture(scope="module")
def probable(choosing, tmp_path_factory):
    """A file of probabilities, in float32."""
    path = tmp_path_factory.mktemp("probable") / "model.tflite"
    return path, choosing.export(path, softmax=True, quantize="float32")


def test_a_file_of_probabilities_has_the_temperature_inside(toy, halves, probable):
    path, card = probable
    logits = outputs.model_logits(toy.model, halves[0])
    temperature = analysis.fit_temperature(logits, halves[0].labels)
    record = card.confidence
    assert record.temperature == 1 != record.temperature_inside
    # Padding to a length moves the logits by 1e-6.
    assert record.temperature_inside == pytest.approx(temperature, rel=1e-4)
    with TfliteModel(path) as file:
        scores = outputs.file_outputs(file, halves[1])
    expected = outputs.softmax_of(outputs.model_logits(toy.model, halves[1]) / temperature)
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    assert "inside the file, fitted on 60 texts" in record.summary[0]


def test_the_commands_know_both_temperatures(toy, halves, probable, exported):
    path, card = probable
    assert inspection._temperature_inside(path) == card.confidence.temperature_inside != 1
    assert inspection._temperature_inside(exported("float32").path) == 1
    source = inputs.open_answerer(str(path.parent))
    rows = Batches(halves[0], batch_size=32, shuffle=False)
    scored = source.calibration(source.outputs(rows, toy.task), halves[0], toy.task)
    assert scored["temperature"] == card.confidence.temperature_inside
    logits = outputs.model_logits(toy.model, halves[0]) / scored["temperature"]
    expected = analysis.negative_log_likelihood(logits, halves[0].labels)
    assert scored["after"]["nll"]["value"] == pytest.approx(expected, rel=1e-4)


def test_a_model_in_wrappers_has_its_temperature_outside(toy):
    wrapped = keras.Sequential([keras.layers.TimeDistributed(keras.layers.Dense(3))])
    plan = types.SimpleNamespace(
        task=toy.task,
        examples=toy.encoded,
        model=wrapped,
        real_examples=True,
        request=types.SimpleNamespace(softmax=True),
        at_temperature=lambda temperature: temperature,
    )
    assert confidence.at_temperature([plan]) == [1.0]


def test_a_file_of_probabilities_without_its_temperature_is_refused(choosing, tmp_path):
    plan = choosing.plan(softmax=True, quantize="float32")
    converted = convert.convert(plan, tmp_path)
    cooled = dataclasses.replace(converted, plan=plan.at_temperature(2.0))
    with pytest.raises(errors.ExportError, match="float32 conversion, len8: max error"):
        verify.verify(cooled)
    # The weights of another temperature than the plan's are not the trained ones.
    other = dataclasses.replace(cooled.plan, temperature=2.1)
    faults = reference.weights(Evidence(dataclasses.replace(converted, plan=other), tmp_path))
    assert [fault.split(":")[0] for fault in faults] == [
        "weight classifier/kernel",
        "weight classifier/bias",
    ]
    assert not reference.weights(Evidence(cooled, tmp_path))


@pytest.mark.parametrize("fault", planted_outputs.PROBABILITIES)
def test_a_planted_fault_of_the_temperature_is_refused(fault, choosing):
    planted, plan = planted_outputs.PROBABILITIES[fault], choosing.plan(softmax=True)
    right = confidence.at_temperature([plan])
    assert reference.weights(types.SimpleNamespace(plan=right[0])) == []
    with planted.planted():
        wrong = confidence.at_temperature([plan])
    faults = reference.weights(types.SimpleNamespace(plan=wrong[0]))
    assert any(planted.message in line for line in faults)


def test_a_weight_near_nothing_is_the_trained_one_over_the_temperature():
    trained = np.array([1e-40, -3e-45, 1e-30, 0.5], np.float32)
    for temperature in (0.3, 1.7, 40.0):
        divided = trained / np.float32(temperature)
        assert reference._is_trained(trained, divided, temperature)
        assert not reference._is_trained(trained, divided, 1.001 * temperature)


@pytest.mark.parametrize(
    ("missing", "error"),
    [
        ("labels", errors.DataError),
        ("check_on", errors.DataError),
        ("task", errors.ConfigError),
    ],
)
def test_a_promise_without_labels_on_both_sides_is_refused(
    missing, error, choosing, halves, tmp_path
):
    without = {"promise_on": dataclasses.replace(halves[1], labels=None)}
    changes = without if missing == "labels" else {missing: None}
    with pytest.raises(error):
        choosing.export(tmp_path / "m.tflite", **{"promise_on": halves[1], **changes})
    assert not list(tmp_path.iterdir())


def test_a_task_without_probabilities_is_refused():
    section = {"task": "own", "text_column": "text", "label_column": "label", "dir": "."}
    settings = config.DataConfig(**section, kind="regression", promise_on="rows.csv")
    with pytest.raises(errors.ConfigError, match=r"a task of kind classification, .*regression"):
        from_config.declared_task(settings)


@pytest.fixture
def splits(toy, tmp_path, monkeypatch):
    """A folder with the examples in files: 20 train, 50 choose, 60 promise, 10 of which chose.

    The words of the toy differ in digits alone, by which texts are told apart here.
    """
    monkeypatch.setattr(unlabelled, "similar_text", unlabelled.normal_text)
    rows = [
        f"{text}\t{pair}\t{toy.task.labels[label]}\n"
        for text, pair, label in zip(
            toy.texts.texts, toy.texts.pairs, toy.texts.labels, strict=True
        )
    ]
    for name, part in (("train", rows[:20]), ("dev", rows[20:70]), ("promise", rows[60:])):
        (tmp_path / f"{name}.tsv").write_text("text\tpair\tlabel\n" + "".join(part))
    return tmp_path


COLUMNS = {"text_column": "text", "pair_column": "pair", "label_column": "label"}


def test_the_data_of_a_task_gives_the_texts_that_chose_nothing(toy, splits):
    path = str(splits / "promise.tsv")
    options = {"task": "toy", "max_length": 16, **COLUMNS}
    data = tfdistill.load_data(splits, toy.vocab_file, promise_on=path, **options)
    request = ExportRequest(toy.model, "m.tflite", data=data, lengths=(8, 16))
    names = [data.task.labels[label] for label in request.promise_on.labels]
    assert names == [toy.task.labels[label] for label in toy.texts.labels[70:]]
    np.testing.assert_array_equal(request.promise_on.row(0), toy.encoded.row(70))
    without = tfdistill.load_data(splits, toy.vocab_file, **options)
    assert ExportRequest(toy.model, "m.tflite", data=without, lengths=(8,)).promise_on is None


def test_texts_of_no_label_come_after_the_labelled_ones(toy, splits):
    named = {"promise_on": str(splits / "promise.tsv"), "other": str(splits / "other.tsv")}
    rows = "".join(f"good film {i}\tbad\n" for i in (1, 2, 2, 3))
    (splits / "other.tsv").write_text(f"text\tpair\n{rows}")
    options = {"task": "toy", "max_length": 16, **COLUMNS}
    data = tfdistill.load_data(splits, toy.vocab_file, **named, **options)
    promise_on = ExportRequest(toy.model, "m.tflite", data=data, lengths=(8, 16)).promise_on
    assert len(promise_on) == 50 + 3 and promise_on.labels.tolist()[50:] == [-100] * 3
    assert promises.has_label(promise_on).tolist() == [True] * 50 + [False] * 3
    with pytest.raises(errors.ConfigError, match=r"data\.other: expected data\.promise_on too"):
        tfdistill.load_data(splits, toy.vocab_file, other=named["other"], **options)
    with open(splits / "other.tsv", "a") as file:
        file.write(f"{toy.texts.texts[80]}\t{toy.texts.pairs[80]}\n")
    with pytest.raises(errors.DataError, match="no text of the promise set, received 1 row"):
        _ = tfdistill.load_data(splits, toy.vocab_file, **named, **options).promise_examples


def test_the_command_reads_a_file_and_leaves_texts_out_that_chose_something(
    toy, splits, tmp_path, capsys, caplog
):
    folder = tmp_path / "hf"
    weights.save_hf(toy.model, folder, labels=toy.task.labels, tokenizer=toy.vocab_file)
    options = ["--task", "toy", "--data-dir", str(tmp_path), "--text-column", "text"]
    options += ["--pair-column", "pair", "--label-column", "label", "--max-length", "16"]
    argv = ["export", str(folder), "--out", str(tmp_path / "out"), "--lengths", "8,16", *options]
    assert cli.main([*argv, "--promise-on", str(tmp_path / "promise.tsv")]) == 0
    shown = capsys.readouterr()
    assert "temperature" in shown.out and "no threshold keeps it on 50 texts" in shown.out
    assert "10 of 60 texts are like another one" in shown.err + caplog.text
    card = manifest.read_manifest(tmp_path / "out")
    # What was copied beside another file says nothing about it.
    other = tmp_path / "other"
    shutil.copytree(tmp_path / "out", other)
    model = (other / "model.tflite").read_bytes() + b"\0"
    (other / "model.tflite").write_bytes(model)
    digest = hashlib.sha256(model).hexdigest()
    values = json.loads((other / "model.json").read_text().replace(card.model.sha256, digest))
    del values["checksum"]
    (other / "model.json").write_text(json.dumps(values))
    with pytest.raises(errors.ManifestError, match="fitted on this file"):
        manifest.read_manifest(other)


def record_of(card, coverage, rows=400):
    """A confidence with a promise of 5%, as if it were found on so many texts."""
    sure = {"threshold": 0.75, "coverage": coverage, "error": 0.02}
    promises = ({"max_error": 0.05, "rows": rows, **sure},)
    return Confidence.of_file(
        card.model.sha256, temperature=1.5, num_examples=300, promises=promises
    )


def test_a_file_that_answers_over_two_points_more_or_fewer_texts_is_named(exported):
    card = exported("float32").card
    shares = {"a": 0.84, "b": 0.825, "c": 0.81, "d": 0.87}
    records = {name: record_of(card, share) for name, share in shares.items()}
    records |= {"without": None, "other texts": record_of(card, 0.5, rows=300)}
    expected = ["c by -3 points at 5%", "d by +3 points at 5%"]
    assert moved_coverage(records) == expected


def test_a_compressed_student_is_compared_with_the_file_before(exported, tmp_path, monkeypatch):
    card = exported("float32").card
    before = tmp_path / "student"
    shutil.copytree(exported("float32").path.parent, before / "export")
    manifest.write_manifest(
        card.model_copy(update={"confidence": record_of(card, 0.9)}), before / "export"
    )
    after = card.model_copy(update={"confidence": record_of(card, 0.8)})
    run, target = tmp_path / "int8", tmp_path / "int8" / "export"

    def moved():
        return moved_coverage(export_job.confidences(str(run), target, after))

    assert moved() == []  # nothing was there before
    recipe = types.SimpleNamespace(
        stages={"quantize": types.SimpleNamespace(compress={"method": "quantize"})},
        student=types.SimpleNamespace(initialise=str(before / "student" / "hf")),
    )
    monkeypatch.setattr(config, "saved_recipe", lambda run: recipe)
    assert moved() == ["float32 for cpu by -10 points at 5%"]
    (before / "export" / "model.json").write_text("{}")
    assert moved() == []
