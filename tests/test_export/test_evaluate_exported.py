"""An exported file under `evaluate`, and an export of a set without labels."""

import dataclasses
import json
import pathlib
import shutil
import types

import numpy as np
import pytest

from tfdistill import cli, errors, manifest, weights
from tfdistill.commands import answers
from tfdistill.data.batches import Batches
from tfdistill.manifest.confidence import Confidence
from tfdistill.run import inputs
from tfdistill.tasks import SpanRules, TaskSpec

ROOT = pathlib.Path(__file__).parents[2]
TAGS = ROOT / "android_demo/text/src/test/resources/bundles/tags-float32"


def batches(encoded):
    return Batches(encoded, batch_size=32, shuffle=False)


def metrics_of(source, encoded, task):
    return source.score(source.outputs(batches(encoded), task), encoded, task)


def test_the_labels_of_a_file_are_found_by_name_whatever_their_order(exported, toy):
    file = exported("float32")
    source = inputs.open_answerer(str(file.path.parent))
    expected = file.card.parity.file_metrics
    assert metrics_of(source, toy.encoded, toy.task) == expected
    turned = toy.task.with_labels(("maybe", "no", "yes"))
    gold = np.array([1, 2, 0], np.int32)[toy.encoded.labels]  # no, yes, maybe in their new places
    again = dataclasses.replace(toy.encoded, labels=gold)
    assert metrics_of(source, again, turned) == expected == {"accuracy": 0.9}


def test_probabilities_are_scored_as_logarithms():
    card = types.SimpleNamespace(softmax=True, task=None)
    source = inputs.ExportedSource(pathlib.Path(), card, None)
    shares = np.array([[0.25, 0.75], [0.6, 0.4]])
    task = types.SimpleNamespace(score=lambda outputs, encoded: outputs)
    np.testing.assert_allclose(source.score(shares, None, task), np.log(shares))


def test_promises_are_counted_on_other_texts_whatever_the_order_of_labels(exported, toy, tmp_path):
    folder = shutil.copytree(exported("float32").path.parent, tmp_path / "copy")
    card = manifest.read_manifest(folder)
    promise = {"max_error": 0.05, "rows": 300, "threshold": 0.6, "coverage": 0.5, "error": 0.01}
    unkept = {"max_error": 0.01, "rows": 300, "rows_needed": 500}
    record = Confidence.of_file(
        card.model.sha256, temperature=2.0, num_examples=100, promises=(unkept, promise)
    )
    manifest.write_manifest(card.model_copy(update={"confidence": record}), folder)
    source = inputs.open_answerer(str(folder))
    logits = source.outputs(batches(toy.encoded), toy.task) / 2.0
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    sure = shares.max(axis=1) > 0.6
    wrong = shares.argmax(axis=1)[sure] != toy.encoded.labels[sure]
    assert 0 < sure.mean() < 1 and 0 < wrong.mean()
    turned = toy.task.with_labels(("maybe", "no", "yes"))
    gold = np.array([1, 2, 0], np.int32)[toy.encoded.labels]
    for task, labels in ((toy.task, toy.encoded.labels), (turned, gold)):
        encoded = dataclasses.replace(toy.encoded, labels=labels)
        outputs = source.outputs(batches(encoded), task)
        (row,) = source.coverage_of_promises(outputs, encoded, task)
        expected = {"max_error": 0.05, "coverage": sure.mean(), "error": wrong.mean()}
        assert row == pytest.approx(expected)


def test_the_probabilities_are_scored_with_the_temperature_and_without(exported, toy):
    file = exported("float32")
    source = inputs.open_answerer(str(file.path.parent))
    outputs = source.outputs(batches(toy.encoded), toy.task)
    scored = source.calibration(outputs, toy.encoded, toy.task)
    temperature = file.card.confidence.temperature
    assert scored["temperature"] == temperature != 1
    for when, divisor in (("before", 1.0), ("after", temperature)):
        logits = outputs / divisor
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        nll = -log_p[np.arange(len(log_p)), toy.encoded.labels].mean()
        assert scored[when]["nll"]["value"] == pytest.approx(nll, rel=1e-5)
    # The temperature was fitted on these very texts.
    assert scored["after"]["nll"]["value"] < scored["before"]["nll"]["value"]
    line = answers._calibrated(scored)
    assert line.startswith(f"probabilities at temperature {temperature:.3g}: NLL ")


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (TaskSpec("other", "text", "label", labels=("a", "b", "c")), "the labels .*'a', 'b', 'c'"),
        (TaskSpec("score", "text", "label", kind="regression"), "regression, received classif"),
        (TaskSpec("tags", "0", "-1", kind="token", labels=("O", "B-A")), "a file for token"),
        (TaskSpec("asked", "a", "b", "c", kind="span", spans=SpanRules()), "a file for span"),
        (
            TaskSpec("many", "text", "label", kind="multi_label", labels=("no", "yes", "maybe")),
            "a file for multi_label, received classification",
        ),
    ],
)
def test_a_file_for_another_task_is_refused(task, message, exported, toy):
    source = inputs.open_answerer(str(exported("float32").path.parent))
    with pytest.raises(errors.ManifestError, match=message):
        metrics_of(source, toy.encoded, task)


@pytest.fixture
def folder(toy, tmp_path):
    """The toy as a Hugging Face folder, and its texts in files of which dev.tsv has no labels."""
    weights.save_hf(toy.model, tmp_path / "hf", labels=toy.task.labels, tokenizer=toy.vocab_file)
    rows = [f"{row[0]}\t{row[1]}" for row in zip(toy.texts.texts, toy.texts.pairs, strict=True)]
    labelled = [f"{row}\t{toy.task.labels[i % 3]}" for i, row in enumerate(rows)]
    (tmp_path / "train.tsv").write_text("\n".join(["text\tpair\tlabel", *labelled]) + "\n")
    (tmp_path / "dev.tsv").write_text("\n".join(["text\tpair", *rows]) + "\n")
    return tmp_path


@pytest.mark.slow
def test_a_set_without_labels_is_checked_for_parity_alone_and_the_command_says_so(
    folder, toy, capsys
):
    columns = ["--text-column", "text", "--pair-column", "pair", "--label-column", "label"]
    data = ["--task", "mine", "--data-dir", str(folder), *columns]
    arguments = ["export", str(folder / "hf"), *data, "--quantize", "float32", "--lengths", "16"]
    assert cli.main([*arguments, "--out", str(folder / "out")]) == 0
    said = capsys.readouterr().out
    assert "checked on 120 real inputs" in said
    assert "metric: none, since there are no labels" in said
    card = manifest.read_manifest(folder / "out")
    assert (card.parity.inputs, card.parity.file_metrics) == ("real", {})
    # The task's labels are in the order of their names; the model's outputs follow them.
    assert card.task.labels == ("maybe", "no", "yes")
    assert (card.task.text_column, card.task.pair_column) == ("text", "pair")  # of tables
    source = inputs.open_answerer(str(folder / "out"))
    assert metrics_of(source, toy.encoded, toy.task) == {"accuracy": 0.9}

    assert cli.main(["evaluate", str(folder / "out"), *data]) == 2
    assert "label_column: expected one of the columns text, pair" in capsys.readouterr().err
    labelled = ["evaluate", str(folder / "out"), *data, "--split", "train", "--patterns"]
    assert cli.main(labelled) == 2
    assert "--patterns: expected a task whose tags name entities" in capsys.readouterr().err


def test_sentences_are_counted_however_many_rows_a_file_needs_for_one(tmp_path, capsys):
    words = ["mary B-PER", "story O", "it O"]
    sentences = ["\n".join(words * 15), "\n".join(words)]
    for name in ("train.txt", "dev.txt"):
        (tmp_path / name).write_text("\n\n".join(sentences) + "\n")
    command = ["evaluate", str(TAGS), "--task", "tagged", "--kind", "token"]
    assert cli.main([*command, "--data-dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_examples"] == 2  # the file takes 24 tokens
    (tmp_path / "dev.txt").write_text("a@b.de O\nwho@in.paris O\n")  # no label is EMAIL
    assert cli.main([*command, "--data-dir", str(tmp_path), "--patterns", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == 1
