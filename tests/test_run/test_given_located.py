"""Runs that learn tags and spans from files: to the bit what they learn from numbers in memory."""

import json

import numpy as np
import pytest
import toys

from tfdistill import cli, config, errors, models, run, tasks, training, weights
from tfdistill.data import answer_logits
from tfdistill.data.batches import Batches
from tfdistill.run import given

TAGS = ("O", "B-X", "I-X")
SENTENCES = ("good films", "a bad film", "unwatchable bad story", "good story")
NER = tasks.TaskSpec("ner", "0", "-1", kind="token", labels=TAGS)
SPAN = {"task": "squad_v2", "max_length": 14, "doc_stride": 3, "max_question_length": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, toy_vocab_file):
    """Tags and questions, teachers of both and their students, of random weights."""
    folder = tmp_path_factory.mktemp("located")
    for split, first in (("train", 0), ("dev", 1)):
        lines, paragraphs = [], []
        for number, text in enumerate(SENTENCES[first:]):
            tags = [TAGS[(number + i) % 3] for i in range(len(text.split()))]
            lines += [f"{w} {t}" for w, t in zip(text.split(), tags, strict=True)] + [""]
            start = text.index(" ") + 1
            answer = {"text": text[start:], "answer_start": start}
            qas = [{"id": f"{number}", "question": "good?", "answers": [answer]}]
            paragraphs.append({"context": text, "qas": qas})
        (folder / f"{split}.txt").write_text("\n".join(lines))
        data = {"data": [{"paragraphs": paragraphs}]}
        (folder / f"{split}-v2.0.json").write_text(json.dumps(data))
    size = len(toy_vocab_file.read_text().splitlines())
    shape = toys.STUDENT.replace(num_layers=1, vocab_size=size, max_positions=16)
    made = (("token", "teacher", 3), ("token", "student", 3), ("span", "teacher", 2))
    for seed, (kind, name, width) in enumerate(made):
        model = toys.randomise(models.build_random(shape, models.Head(kind, width)), seed)
        labels = TAGS if kind == "token" else None
        weights.save_hf(model, folder / kind / name, labels=labels, vocab_file=toy_vocab_file)
    for kind, task in (("token", "ner"), ("span", "squad_v2")):
        command = ["answers", str(folder / kind / "teacher"), "--data-dir", str(folder)]
        command += ["--task", task, "--max-length", "14", "--doc-stride", "3"]
        assert cli.main([*command, "--out", str(folder / f"{kind}.jsonl")]) == 0
    return folder


def rows_of(folder, kind):
    return [json.loads(line) for line in (folder / f"{kind}.jsonl").read_text().splitlines()]


def written(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


def recipe_of(folder, kind, teacher, stage=()):
    data = {"task": "ner", "max_length": 14} if kind == "token" else SPAN
    start = str(folder / kind / ("student" if kind == "token" else "teacher"))
    step = {"kind": "logits", "epochs": 2, "batch_size": 2, "learning_rate": 1e-2, **dict(stage)}
    return config.parse_recipe(
        {
            "name": "located",
            "data": {**data, "dir": str(folder)},
            "teacher": {"export": False, "allow_weak": True, **teacher},
            "student": {"preset": start, "initialise": start, "keep_head": True},
            "stages": {"only": step},
            "variants": {"student": {"stages": ["only"]}},
            "baselines": "none",
        }
    )


def test_a_tagger_of_a_file_is_that_of_the_numbers_in_memory_to_the_bit(
    folder, tmp_path, until_fit
):
    rows = rows_of(folder, "token")
    assert [row["words"] for row in rows] == [text.split() for text in SENTENCES]
    for row in rows:  # in another order of labels
        row["logits"] = dict(reversed(row["logits"].items()))
    path = written(tmp_path / "tags.jsonl", rows[::-1])
    distiller, train = until_fit(recipe_of(folder, "token", {"answers": [path]}), tmp_path / "run")
    assert isinstance(distiller.teacher, given.GivenTeacher)
    teacher = weights.load_token_classifier(folder / "token" / "teacher").model
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


def test_spans_of_a_file_stand_at_the_pieces_that_show_them(folder, tmp_path, until_fit):
    recipe = recipe_of(folder, "span", {"answers": [str(folder / "span.jsonl")]})
    _, train = until_fit(recipe, tmp_path / "run")
    logits, encoded = train._token_extra["teacher_logits"], train.encoded
    teacher = weights.load_span_classifier(folder / "span" / "teacher").model
    memory = training.predict_logits(teacher, Batches(encoded, shuffle=False))
    assert len(encoded) > len(SENTENCES)
    alone = np.isin(encoded.sources, np.flatnonzero(np.bincount(encoded.sources) == 1))
    shown = encoded.span_sources.characters[:, 0] >= 0
    inside = np.repeat(alone, encoded.lengths) & shown
    assert inside.any()
    np.testing.assert_array_equal(logits[inside], memory[inside])
    inner = np.ones(len(logits), bool)
    inner[encoded.offsets[:-1]] = False  # [CLS]
    assert (logits[inner & ~shown] == np.float32(-1e30)).all()
    score = json.loads((tmp_path / "run" / "teacher" / "result.json").read_text())
    assert score["num_examples"] == len(SENTENCES) - 1


def test_what_a_file_lacks_is_refused_or_learnt_from_gold(folder, tmp_path, until_fit):
    rows = rows_of(folder, "token")
    rows[0]["words"] = ["goodfilms"]
    rows[0]["logits"] = {name: values[:1] for name, values in rows[0]["logits"].items()}
    path = written(tmp_path / "tags.jsonl", rows)
    with pytest.raises(errors.DataError, match=r"none to 1 of 4, the first 'good films'.*goodfil"):
        run.distill(recipe_of(folder, "token", {"answers": [path]}), tmp_path / "run")
    settings = {"files": [path], "missing": "gold"}
    _, train = until_fit(recipe_of(folder, "token", {"answers": settings}), tmp_path / "run")
    logits = train._token_extra["teacher_logits"]
    gold = answer_logits.of_gold(np.array([0, 1]), NER)  # the tags of the first sentence
    np.testing.assert_array_equal(logits[logits.any(axis=1)][:2], gold)


def test_contexts_are_the_same_to_the_character(folder, tmp_path):
    rows = rows_of(folder, "span")
    rows[1]["context"] = "a bad  film"
    recipe = recipe_of(folder, "span", {"answers": [written(tmp_path / "a.jsonl", rows)]})
    with pytest.raises(errors.DataError, match=r"with other blanks.*'a bad  film'"):
        run.distill(recipe, tmp_path / "run")
    given_all = {"answers": [str(folder / "span.jsonl")]}
    recipe = recipe_of(folder, "span", given_all, {"prediction": "logit_mse"})
    with pytest.raises(errors.ConfigError, match="compares logits at every token"):
        run.distill(recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()
