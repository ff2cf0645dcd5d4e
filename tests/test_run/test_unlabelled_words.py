"""Students of taggers learn what the teacher says of the words of texts that nobody tagged."""

import json

import numpy as np
import pytest
import tensorflow as tf
from test_run.test_soft_labels_of_words import TAGS, recipe_of, written
from test_run.test_soft_labels_of_words import folder as folder  # a fixture

from tfdistill import cli, losses, training, weights
from tfdistill.data.batches import Batches
from tfdistill.losses.batch import StepInputs
from tfdistill.tasks.encoded import UNKNOWN, UNLABELLED

TEXTS = [["unwatchable", "film"], ["badly", "story", "films"]]


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """Records that nobody tagged, and one with a tag that is wrong: it is not read."""
    rows = [{"tokens": TEXTS[0]}, {"tokens": TEXTS[1], "ner_tags": ["B-X"] * 3}]
    return written(tmp_path_factory.mktemp("bare") / "bare.jsonl", rows)


def further(train):
    """The last rows, windows of texts without tags, and their tokens."""
    encoded = train.encoded
    first = np.flatnonzero(encoded.labels == UNKNOWN)[0]
    row = int(np.searchsorted(encoded.offsets, first, side="right")) - 1
    assert not (encoded.labels[encoded.offsets[row] :] >= 0).any()
    return np.arange(row, len(encoded)), np.arange(encoded.offsets[row], encoded.num_tokens)


def test_a_student_learns_the_words_of_texts_without_tags_from_the_logits_of_its_teacher(
    folder, bare, tmp_path, until_fit
):
    teacher = {"source": str(folder / "teacher")}
    recipe = recipe_of(folder, teacher, unlabelled=[bare])
    distiller, train = until_fit(recipe, tmp_path / "run")
    rows, tokens = further(train)
    labels = train.encoded.labels[tokens]
    assert set(labels.tolist()) == {UNKNOWN, UNLABELLED}
    assert (labels == UNKNOWN).sum() == sum(map(len, TEXTS)) < len(labels) - 2 * len(rows)
    memory = training.predict_logits(
        weights.load_model(folder / "teacher", "token").model, Batches(train.encoded, shuffle=False)
    )
    answers = train._token_extra["teacher_logits"]
    np.testing.assert_allclose(answers[tokens], memory[tokens], rtol=1e-4, atol=1e-5)

    distiller.compile("sgd")

    def loss():
        distiller.reset_metrics()
        batch = tf.nest.map_structure(tf.convert_to_tensor, train.batch(rows))
        return distiller.test_step(batch)["loss"].numpy()

    before = loss()
    for label, learnt in ((UNLABELLED, False), (UNKNOWN, True)):
        answers[tokens[labels == label]] += np.float32([3, 0, 0])
        assert (loss() != before) == learnt  # the first piece of a word answers for it
    start = distiller.student.get_weights()
    distiller.train_step(tf.nest.map_structure(tf.convert_to_tensor, train.batch(rows)))
    moved = zip(start, distiller.student.get_weights(), strict=True)
    assert any((a != b).any() for a, b in moved)


def test_gold_losses_and_stages_with_gold_labels_know_none_of_these_words(
    folder, bare, tmp_path, until_fit
):
    logits = tf.random.stateless_normal((1, 4, 3), (1, 2))
    values = []
    for label in (UNKNOWN, UNLABELLED):
        labels = tf.constant([[1, label, 2, label]])
        ones = tf.ones((1, 4))
        batch = StepInputs({}, {"logits": logits}, labels, ones, ones[:, 0], {})
        values.append(float(losses.gold_loss(batch, "token")))
    assert values[0] == values[1] > 0
    recipe = recipe_of(folder, {"source": str(folder / "teacher")}, unlabelled=[bare])
    stage = recipe.stages["only"].model_copy(update={"loss_weights": {"label": 0.5}})
    recipe = recipe.model_copy(update={"stages": {"only": stage}})
    _, train = until_fit(recipe, tmp_path / "run")
    assert UNKNOWN not in train.encoded.labels and (train.encoded.labels >= 0).sum() == 10


@pytest.mark.slow
def test_answers_in_files_to_these_words_are_learnt_and_texts_without_are_left_out(
    folder, bare, tmp_path, until_fit, capsys
):
    command = ["answers", str(folder / "teacher"), "--data-dir", str(folder), "--task", "ner"]
    path = tmp_path / "answers.jsonl"
    command += ["--max-length", "14", "--unlabelled", bare, "--out", str(path)]
    assert cli.main(command) == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["words"] for row in rows][-2:] == TEXTS
    path = written(path, rows[:-2] + rows[-1:])  # none to the first
    teacher = {"answers": {"files": [path], "missing": "gold"}}
    _, train = until_fit(recipe_of(folder, teacher, unlabelled=[bare]), tmp_path / "run")
    assert "unlabelled texts without an answer are left out" in capsys.readouterr().err
    _, tokens = further(train)
    answered = tokens[train.encoded.labels[tokens] == UNKNOWN]
    learnt = train._token_extra["teacher_logits"][answered]
    assert len(answered) == len(TEXTS[1])
    expected = np.transpose([rows[-1][f"logits.{tag}"] for tag in TAGS])
    np.testing.assert_allclose(learnt, expected, rtol=1e-5, atol=1e-6)
