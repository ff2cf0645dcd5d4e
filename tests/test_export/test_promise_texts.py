"""The texts that a file's promises are found on: nothing was trained on them or like them."""

import dataclasses
import logging
from unittest import mock

import pytest
import tf_keras as keras

import tfdistill
from export.model.request import ExportRequest, check_promise
from tfdistill import config, errors, tasks
from tfdistill.commands import export_job
from tfdistill.data import from_config
from tfdistill.run import inputs

TRAIN = [f"{word} is a good film of this year" for word in "one the any no my our".split()]
DEV = [f"{word} film is bad" for word in "one the any no my our".split()]
PROMISE = ["the pool has these words", "a changed text of training here", "no set has this text"]
COLUMNS = {"text_column": "text", "label_column": "label"}


@pytest.fixture
def folder(tmp_path):
    """Sets in files, where only the last promise text is like none of the others."""
    sets = {"train": TRAIN, "dev": DEV, "promise": [f"{TRAIN[-1]}, 7", *PROMISE]}
    for name, texts in sets.items():
        rows = [f"{text}\t{'yn'[i % 2]}\t{'ny'[i % 2]}\n" for i, text in enumerate(texts)]
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\tmodel_answer\n" + "".join(rows))
    (tmp_path / "pool.txt").write_text("The pool has these words (2)!\n")
    return tmp_path


def changed(task):
    return tasks.Examples(task, ["A changed text of training, here"], None, None)


def test_an_export_leaves_out_texts_like_those_that_a_run_has_learnt_with_a_label_or_without(
    folder, monkeypatch, caplog
):
    settings = config.DataConfig(
        task="own",
        dir=str(folder),
        dev_limit=2,  # which cuts no training set
        unlabelled=(str(folder / "pool.txt"),),
        model_answers=config.ModelAnswersConfig(answered_by="a model 1"),
        **COLUMNS,
    )
    task, dev = from_config.labelled(settings, "dev")
    augmented = {folder / "augmented": True}
    monkeypatch.setattr("tfdistill.augmentation.is_whole", augmented.__getitem__)
    monkeypatch.setattr("tfdistill.augmentation.load_augmented", lambda *_: changed(task))
    monkeypatch.setattr(export_job.Job, "encode", lambda _, examples: examples)
    path = str(folder / "promise.tsv")
    source = inputs.Source(mock.Mock(), ("n", "y"), mock.Mock(), None)
    job = export_job.Job(source, settings, task, dev, path, folder)
    with caplog.at_level(logging.WARNING):
        # each trial of a smaller file reads by words of its own; the texts are the same
        for trial in (job, job.read_by("a model", "its words"), job.read_by("one", "fewer")):
            promise_on, answers = trial._promising()
            assert promise_on.texts == PROMISE[-1:]
            assert (answers.classes.tolist(), answers.answered_by) == ([1], "a model 1")
    assert caplog.text.count("are left out of the promise") == 1


def test_data_leaves_the_same_texts_out_of_its_promise(folder, toy_vocab_file, monkeypatch):
    named = {"promise_on": str(folder / "promise.tsv"), "unlabelled": [str(folder / "pool.txt")]}
    declared = {"model_answers": {"answered_by": "a model 1"}}
    data = tfdistill.load_data(
        folder, toy_vocab_file, max_length=8, allow_weak=True, **named, **declared, **COLUMNS
    )
    assert data.promise_examples.texts == PROMISE[1:]
    assert data.read_by(data.tokenizer).promise_examples is data.promise_examples  # read once
    data = dataclasses.replace(data, augmented_examples=changed(data.task))
    assert data.promise_examples.texts == PROMISE[-1:]
    request = ExportRequest(keras.Sequential(), "m.tflite", data=data, lengths=(8,))
    assert request.promise_answers.classes.tolist() == [1] and len(request.promise_on) == 1
    # The answers belong to the texts of the data, not to others.
    other = ExportRequest(
        keras.Sequential(), "m.tflite", data=data, promise_on=data.dev, lengths=(8,)
    )
    assert other.promise_answers is None
    answers, rows = request.promise_answers, data.dev.encoded
    with pytest.raises(errors.DataError, match="one for each of the 6 texts of promise_on, rec"):
        check_promise(rows, rows, data.task, answers)
