"""Runs that learn tags from files: to the bit what they learn from numbers in memory."""

import json

import numpy as np
import pytest
import toys

from tfdistill import cli, errors, models, run, tasks, training, weights
from tfdistill.data import soft_label_values
from tfdistill.data.batches import Batches
from tfdistill.run import soft_labels

TAGS = ("O", "B-X", "I-X")
SENTENCES = ("good films", "a bad film", "unwatchable bad story", "good story")
NER = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=TAGS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    """Tags, a teacher and a student of random weights, and the teacher's soft labels."""
    folder = tmp_path_factory.mktemp("words")
    for split, first in (("train", 0), ("dev", 1)):
        lines = []
        for number, text in enumerate(SENTENCES[first:]):
            lines += [f"{word} {TAGS[(number + i) % 3]}" for i, word in enumerate(text.split())]
            lines.append("")
        (folder / f"{split}.txt").write_text("\n".join(lines))
    size = len(toy_vocab_file.read_text().splitlines())
    shape = toys.STUDENT.replace(num_layers=1, vocab_size=size, max_positions=16)
    for seed, name in enumerate(("teacher", "student")):
        model = toys.randomise(models.build_random(shape, models.Head("token", 3)), seed)
        weights.save_hf(model, folder / name, labels=TAGS, tokenizer=toy_vocab_file)
    command = ["answers", str(folder / "teacher"), "--data-dir", str(folder), "--task", "ner"]
    assert cli.main([*command, "--max-length", "14", "--out", str(folder / "tags.jsonl")]) == 0
    return folder


def rows_of(folder):
    return [json.loads(line) for line in (folder / "tags.jsonl").read_text().splitlines()]


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def recipe_of(folder, teacher, **data):
    start = str(folder / "student")
    step = {"kind": "logits", "epochs": 2, "batch_size": 2, "learning_rate": 1e-2}
    section = {"task": "ner", "max_length": 14, "dir": str(folder), **data}
    student = {"preset": start, "initialise": start, "keep_head": True, "allow_weak": False}
    return toys.one_stage(section, teacher, student, step)


@pytest.mark.slow
def test_a_tagger_of_a_file_is_that_of_the_numbers_in_memory_to_the_bit(
    folder, tmp_path, until_fit
):
    rows = rows_of(folder)
    assert [row["words"] for row in rows] == [text.split() for text in SENTENCES]
    # In another order of rows and labels.
    path = written(tmp_path / "tags.jsonl", [dict(reversed(row.items())) for row in rows[::-1]])
    distiller, train = until_fit(recipe_of(folder, {"answers": [path]}), tmp_path / "run")
    assert isinstance(distiller.teacher, soft_labels.SoftLabels)
    teacher = weights.load_model(folder / "teacher", "token").model
    memory = training.predict_logits(teacher, Batches(train.encoded, shuffle=False))
    students = []
    start = distiller.student.get_weights()
    firsts = train.encoded.labels >= 0
    distiller.compile("sgd")  # without a state that the first fit would leave
    for logits in (train._token_extra["teacher_logits"], memory):
        assert np.array_equal(logits[firsts], memory[firsts])
        assert logits is memory or not logits[~firsts].any()
        train._token_extra["teacher_logits"] = logits
        distiller.student.set_weights(start)
        distiller.fit(train.dataset(), verbose=0)
        students.append(distiller.student.get_weights())
    assert all((a == b).all() for a, b in zip(*students, strict=True))
    assert any((a != b).any() for a, b in zip(students[0], start, strict=True))


def test_what_a_file_lacks_is_refused_or_learnt_from_gold(folder, tmp_path, until_fit):
    rows = rows_of(folder)
    rows[0] = {name: values[:1] for name, values in rows[0].items()} | {"words": ["goodfilms"]}
    path = written(tmp_path / "tags.jsonl", rows)
    with pytest.raises(errors.DataError, match=r"none to 1 of 4, the first 'good films'.*goodfil"):
        run.distill_variant(recipe_of(folder, {"answers": [path]}), tmp_path / "run")
    settings = {"files": [path], "missing": "gold"}
    _, train = until_fit(recipe_of(folder, {"answers": settings}), tmp_path / "run")
    logits = train._token_extra["teacher_logits"]
    gold = soft_label_values.of_gold(np.array([0, 1]), NER)  # the tags of the first sentence
    np.testing.assert_array_equal(logits[logits.any(axis=1)][:2], gold)


def test_spans_need_a_teacher_that_is_a_model(folder, tmp_path):
    for split, contexts in (("train", ("a good film", "bad")), ("dev", ("a story", "a bad play"))):
        paragraphs = []
        for context in contexts:
            answer = {"text": context[:3], "answer_start": 0}
            entry = {"id": context, "question": "good?", "answers": [answer]}
            paragraphs.append({"context": context, "qas": [entry]})
        data = {"data": [{"paragraphs": paragraphs}]}
        (tmp_path / f"{split}-v1.1.json").write_text(json.dumps(data))
    teacher = {"answers": [str(folder / "tags.jsonl")]}
    recipe = recipe_of(folder, teacher, task="squad", dir=str(tmp_path), doc_stride=4)
    with pytest.raises(errors.ConfigError):
        run.distill_variant(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
