"""What an export says of how sure its file is, fitted on the answers of the file itself."""

import dataclasses
import hashlib
import json
import shutil

import numpy as np
import pytest

import export
import tfdistill
from export.checking import outputs
from export.model.request import ExportRequest
from tfdistill import analysis, cli, config, errors, manifest, model_card, weights
from tfdistill.data import from_config
from tfdistill.tasks import KINDS
from tfdistill.tflite import TfliteModel

KIND = KINDS["classification"]


@pytest.fixture(scope="module")
def halves(toy):
    """The examples that choose, and those that choose nothing."""
    return toy.encoded.select(np.arange(60)), toy.encoded.select(np.arange(60, 120))


@pytest.fixture(scope="module")
def promising(toy, halves, tmp_path_factory):
    path = tmp_path_factory.mktemp("promising") / "model.tflite"
    check_on, promise_on = halves
    arguments = toy.arguments(check_on=check_on, promise_on=promise_on, texts=None)
    export.to_tflite(toy.model, path, **arguments)
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


def test_the_card_has_the_promises(promising):
    text = (promising.parent / model_card.FILE_NAME).read_text()
    assert "## How sure it is" in text
    assert "at most 5% of the sure answers wrong: no threshold keeps it on 60 texts" in text


def test_without_texts_that_chose_nothing_there_is_no_promise(exported):
    confidence = exported("float32").card.confidence
    assert confidence.promises == () and confidence.num_examples == 120


def test_a_file_of_probabilities_has_the_temperature_of_one_of_logits(
    toy, promising, halves, tmp_path
):
    path = tmp_path / "model.tflite"
    arguments = toy.arguments(check_on=halves[0], texts=None, softmax=True)
    card = export.to_tflite(toy.model, path, **arguments)
    # Probabilities are float32 and count as 1e-12 at least.
    expected = manifest.read_manifest(promising).confidence.temperature
    assert card.confidence.temperature == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("missing", ["labels", "check_on", "task"])
def test_a_promise_without_labels_on_both_sides_is_refused(missing, toy, halves, tmp_path):
    check_on, promise_on = halves
    arguments = toy.arguments(check_on=check_on, texts=None)
    if missing == "labels":
        promise_on = dataclasses.replace(promise_on, labels=None)
    else:
        arguments[missing] = None
    error = errors.ConfigError if missing == "task" else errors.DataError
    with pytest.raises(error):
        export.to_tflite(
            toy.model, tmp_path / "m.tflite", **{**arguments, "promise_on": promise_on}
        )
    assert not list(tmp_path.iterdir())


def test_a_task_without_probabilities_is_refused():

    section = {"task": "own", "text_column": "text", "label_column": "label", "dir": "."}
    settings = config.DataConfig(**section, kind="regression", promise_on="rows.csv")
    with pytest.raises(errors.ConfigError, match=r"a task of kind classification, .*regression"):
        from_config.declared_task(settings)


@pytest.fixture
def splits(toy, tmp_path):
    """A folder with the examples in files: 20 train, 50 choose, 60 promise, 10 of which chose."""
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


def test_the_command_reads_a_file_and_leaves_texts_out_that_chose_something(
    toy, splits, tmp_path, capsys, caplog
):
    folder = tmp_path / "hf"
    weights.save_hf(toy.model, folder, labels=toy.task.labels, vocab_file=toy.vocab_file)
    options = ["--task", "toy", "--data-dir", str(tmp_path), "--text-column", "text"]
    options += ["--pair-column", "pair", "--label-column", "label", "--max-length", "16"]
    argv = ["export", str(folder), "--out", str(tmp_path / "out"), "--lengths", "8,16", *options]
    assert cli.main([*argv, "--promise-on", str(tmp_path / "promise.tsv")]) == 0
    shown = capsys.readouterr()
    assert "temperature" in shown.out and "no threshold keeps it on 50 texts" in shown.out
    assert "10 of 60 texts are training or development texts too" in shown.err + caplog.text
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
