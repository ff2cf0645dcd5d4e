"""A task's examples as an exported file is fed with them, and what answers to them are worth."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from tfdistill import cli, errors, tasks
from tfdistill.benchmark import inputs as fed
from tfdistill.data import batches
from tfdistill.io import files
from tfdistill.run import labelled
from tfdistill.tasks import squad
from tfdistill.tasks.spec import TaskSpec
from tfdistill.tasks.words import joined
from tfdistill.tokenization.reading import read_tokenizer

DEV = [
    ("turn the light on", "light"),
    ("play music", "music"),
    ("set an alarm for seven please turn the light off an alarm for seven", "alarm"),
]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for split in ("train", "dev"):
        lines = ["text\tlabel", *("\t".join(row) for row in DEV)]
        (folder / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    columns = {"text_column": "text", "label_column": "label"}
    return {"task": "toy", "dir": str(folder), **columns}


def test_texts_are_encoded_and_judged_as_the_file_has_it(export_folder, data, vocab):
    rows = labelled.labelled_rows([export_folder], data)
    index = {word: i for i, word in enumerate(vocab)}
    first, _, long = rows.examples
    words = ["[CLS]", *DEV[0][0].split(), "[SEP]"]
    assert first.input_ids == tuple(index[word] for word in words)
    assert (first.text, first.pair, first.token_type_ids) == (DEV[0][0], None, (0,) * 6)
    assert len(long.input_ids) == 16
    names = rows.source.card.task.labels
    task_names = rows.task.labels
    assert [task_names[row.label] for row in rows.examples] == [label for _, label in DEV]
    assert set(names) == set(task_names)
    rows = labelled.labelled_rows([export_folder], data)
    names = list(rows.source.card.task.labels)
    right = [np.eye(3)[names.index(label)] for _, label in DEV]
    assert rows.metric(right)["accuracy"] == 1.0
    assert rows.metric([right[1], right[1], right[2]])["accuracy"] == pytest.approx(2 / 3)


def test_what_a_task_does_not_fit_is_refused(export_folder, data, tmp_path, tflite_files):
    other = shutil.copytree(export_folder, tmp_path / "other")
    assert len(labelled.labelled_rows([export_folder, other], data).examples) == 3
    card = json.loads((other / "model.json").read_text())
    card["tokenizer"]["lower_case"] = False
    files.atomic_write_json(other / "model.json", card)
    with pytest.raises(errors.ConfigError, match="a run of its own"):
        labelled.labelled_rows([export_folder, other], data)
    with pytest.raises(errors.ManifestError, match=r"manifest"):
        labelled.labelled_rows([tflite_files / "fast.tflite"], data)
    for split in ("train", "dev"):
        file = pathlib.Path(data["dir"], f"{split}.tsv")
        file.write_text(file.read_text().replace("\tmusic", "\tsong"))
    with pytest.raises(errors.ManifestError):
        labelled.labelled_rows([export_folder], data)


def test_the_command_feeds_a_task_s_examples(export_folder, data, capsys):
    quick = "--runs 2 --min-seconds 0 --repetitions 1 --warmup 1 --lengths 16 --json".split()
    options = ["--task", "toy", "--data-dir", data["dir"]]
    columns = ["--text-column", "text", "--label-column", "label"]
    assert cli.main(["benchmark", str(export_folder), *quick, *options, *columns]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["models"][0]["inputs"] == {"source": "task", "num_examples": 3}
    assert not any("golden" in note for note in printed["notes"])


# Kinds of tasks, without files


@pytest.fixture
def tokenizer(tmp_path, vocab):
    (tmp_path / "words.txt").write_text("\n".join(vocab) + "\n")
    return read_tokenizer(tmp_path / "words.txt")


def test_words_carry_a_label_for_each_token_and_several_labels_and_numbers_are_kept(tokenizer):
    spec = TaskSpec("tags", "0", "1", kind="token", labels=("O", "B-X", "I-X"))
    gold = np.empty(2, object)
    gold[:] = [np.array([0, 1, 2], np.int32), np.array([1], np.int32)]
    words = [["turn", "the", "light"], ["play"]]
    texts, places = zip(*map(joined, words), strict=True)
    examples = tasks.Examples(spec, list(texts), None, gold, word_offsets=list(places))
    encoded = batches.encode_examples(examples, tokenizer, 8)
    first, second = labelled._rows(encoded, examples)
    assert first.label == (-100, 0, 1, 2, -100)
    assert second.label == (-100, 1, -100)
    assert (first.text, len(first.input_ids)) == ("turn the light", 5)
    spec = TaskSpec("many", "text", "label", kind="multi_label", labels=("a", "b"))
    gold = np.array([[0, 1], [1, 1]], np.float32)
    examples = tasks.Examples(spec, ["play", "on off"], None, gold)
    encoded = batches.encode_examples(examples, tokenizer, 8)
    assert [row.label for row in labelled._rows(encoded, examples)] == [(0, 1), (1, 1)]
    number = dataclasses.replace(encoded, labels=np.array([0.5, 2.0], np.float32))
    assert [row.label for row in labelled._rows(number, examples)] == [0.5, 2.0]
    unknown = dataclasses.replace(encoded, labels=None)
    assert [row.label for row in labelled._rows(unknown, examples)] == [None, None]
    assert isinstance(labelled._rows(unknown, examples)[0], fed.LabelledExample)


def test_a_question_about_a_long_text_has_windows_without_a_text(tokenizer):
    spec = TaskSpec("ask", "question", "answers", pair_column="context", kind="span")
    contexts = ["play music", "turn the light on off please play music set an alarm for seven"]
    questions = [
        squad.Question(str(i), "what is", context, (context.split()[0],), 0)
        for i, context in enumerate(contexts)
    ]
    gold = np.array([[0, 4], [0, 4]], np.int32)
    examples = tasks.Examples(spec, ["what is"] * 2, contexts, gold, questions=questions)
    encoded = batches.encode_examples(examples, tokenizer, 12, doc_stride=4)
    short, *windows = labelled._rows(encoded, examples)
    assert (short.text, short.pair) == ("what is", "play music")
    assert short.label == (4, 4)  # [CLS] what is [SEP] play
    assert len(windows) > 1
    assert {(row.text, row.pair) for row in windows} == {(None, None)}
    assert all(row.token_type_ids[-1] == 1 for row in windows)
