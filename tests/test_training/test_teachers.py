import dataclasses
import logging

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import analysis, errors, models, tasks, training
from tfdistill.data import batches, parallel, windows
from tfdistill.tasks import decoding
from tfdistill.tokenization.reading import read_tokenizer
from tfdistill.training import teachers as training_teachers

SPEC = tasks.TaskSpec(
    name="moods", text_column="text", label_column="mood", labels=("sad", "glad", "calm")
)


@pytest.fixture(scope="module")
def teacher():
    return toys.classifier(toys.SHALLOW_TEACHER, seed=1)


@pytest.fixture
def calls(teacher):
    """Counts the traces of the teacher's forward pass."""
    layer, counted = teacher.get_layer("layer_0_query"), []
    call = layer.call
    layer.call = lambda *args, **kwargs: (counted.append(1), call(*args, **kwargs))[1]
    yield counted
    layer.call = call


def one_by_one(model, encoded):
    """The answer to each example alone, without padding."""
    rows = []
    for index in range(len(encoded)):
        ids = encoded.row(index)[None]
        features = {
            "input_ids": tf.constant(ids),
            "attention_mask": tf.ones_like(ids),
            "token_type_ids": tf.constant(encoded.row_types(index)[None].astype(np.int32)),
        }
        rows.append(model(features, training=False).numpy()[0])
    return np.array(rows)


# Answers.


@pytest.fixture(scope="module")
def answers(teacher):
    return one_by_one(teacher, toys.encoded(9))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"shuffle": False}, {"shuffle": True}, {"bucketing": False}, {"token_budget": 20}],
)
def test_answers_are_in_the_order_of_the_examples(teacher, answers, options):
    ordered = batches.Batches(toys.encoded(9), batch_size=4, **options)
    assert (np.concatenate(ordered.plan(0)) != np.arange(9)).any()
    received = training.predict_logits(teacher, ordered)
    assert received.dtype == np.float32
    np.testing.assert_allclose(received, answers, rtol=1e-4, atol=1e-5)


def test_answers_come_without_dropout_and_to_a_part_not_at_all(teacher, answers):
    noisy = models.build_classifier(toys.SHALLOW_TEACHER.replace(dropout=0.5), toys.NUM_LABELS)
    noisy.set_weights(teacher.get_weights())
    received = training.predict_logits(noisy, batches.Batches(toys.encoded(9), batch_size=4))
    np.testing.assert_allclose(received, answers, rtol=1e-4, atol=1e-5)
    # With drop_remainder some examples have none; there must not be a made-up one.
    part = batches.Batches(toys.encoded(9), batch_size=4, drop_remainder=True)
    with pytest.raises(errors.DataError, match="all 9 examples, received 8"):
        training.predict_logits(teacher, part)


def test_evaluation_is_the_metric_of_answers_and_of_entities(teacher, answers, per_token):
    encoded = toys.encoded(9)
    right = answers.argmax(axis=1)
    labels = np.where(np.arange(9) < 6, right, (right + 1) % 3).astype(np.int32)
    labelled = dataclasses.replace(encoded, labels=labels)
    metrics = training.evaluate(teacher, batches.Batches(labelled, batch_size=4), SPEC)
    assert metrics == {"accuracy": pytest.approx(6 / 9)}
    unlabelled = batches.Batches(dataclasses.replace(encoded, labels=None))
    with pytest.raises(errors.DataError):
        training.evaluate(teacher, unlabelled, SPEC)
    model, alone = per_token["token"]
    spec = dataclasses.replace(tasks.task("ner"), labels=("O", "B-X", "I-X"))
    zeros = np.zeros(len(alone), np.int32)
    encoded = dataclasses.replace(toys.encoded(7), labels=zeros, token_labels=True)
    labels = decoding.decode_words(alone, encoded, spec.labels).words.astype(np.int32)
    assert not np.array_equal(labels, alone.argmax(axis=1))
    encoded = dataclasses.replace(encoded, labels=labels)
    rows = batches.Batches(encoded, batch_size=3)
    assert training.evaluate(model, rows, spec) == dict.fromkeys(spec.metrics, 1.0)
    np.testing.assert_array_equal(analysis.gold_labels(rows.encoded), labels)
    wrong = dataclasses.replace(encoded, labels=(labels + 1) % 3)
    assert training.evaluate(model, batches.Batches(wrong), spec)["accuracy"] == 0.0


@pytest.mark.parametrize("head", ["token", "span"])
def test_answers_of_tokens_are_in_the_order_of_the_ids(per_token, head):
    model, alone = per_token[head]
    received = training.predict_logits(model, batches.Batches(toys.encoded(7)))
    assert received.shape == (toys.encoded(7).num_tokens, 3 if head == "token" else 2)
    np.testing.assert_allclose(received, alone, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def per_token():
    """Models of both heads, and their answers to each example alone."""
    built = {
        "token": models.build_token_classifier(toys.SHALLOW_STUDENT, 3),
        "span": models.build_span_classifier(toys.SHALLOW_STUDENT),
    }
    encoded = toys.encoded(7)
    rows = {}
    for head, model in built.items():
        toys.randomise(model, 4)
        alone = [one_by_one(model, encoded.select([index]))[0] for index in range(len(encoded))]
        rows[head] = (model, np.concatenate(alone))
    return rows


def test_evaluation_of_questions_scores_the_answers(per_token, toy_vocab_file):
    from tfdistill.tasks import spans, squad

    model, _ = per_token["span"]
    model = toys.randomise(
        models.build_span_classifier(toys.SHALLOW_STUDENT.replace(vocab_size=120)), 4
    )
    questions = [
        squad.Question(str(number), "is it", context, (context.split()[0],), 0)
        for number, context in enumerate(("the film", "bad", "a good story"))
    ]
    tokenizer = read_tokenizer(toy_vocab_file)
    encoded = windows.encode_questions(questions, tokenizer, 12)
    spec = tasks.task("squad")
    rows = batches.Batches(encoded, batch_size=2)
    decoded = spans.decode(training.predict_logits(model, rows), encoded, spec.spans)
    told = [
        dataclasses.replace(question, answers=(decoded[index].text,))
        for index, question in enumerate(questions)
    ]
    right = dataclasses.replace(
        encoded, span_sources=dataclasses.replace(encoded.span_sources, questions=tuple(told))
    )
    assert training.evaluate(model, batches.Batches(right), spec)["exact_match"] == 1.0
    received = training.evaluate(model, rows, spec)
    expected = squad.score_answers(questions, [decoded[index].text for index in range(3)])
    assert received == expected
    bare = batches.Batches(dataclasses.replace(encoded, labels=None))
    assert analysis.gold_labels(rows.encoded).tolist() == [False] * 3
    with pytest.raises(errors.DataError, match="labelled examples"):
        analysis.gold_labels(bare.encoded)


# The cache.


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(training_teachers, "BLOCK", 4)


def test_what_was_answered_before_a_stop_is_kept(teacher, small_blocks, monkeypatch, tmp_path):
    whole = training.cached_logits(teacher, toys.encoded(9), tmp_path / "whole")
    stopped, calls = toys.stopping(training.predictor, call=3)
    monkeypatch.setattr(models, "predictor", stopped)
    with pytest.raises(KeyboardInterrupt):
        training.cached_logits(teacher, toys.encoded(9), tmp_path / "out")
    again = training.cached_logits(teacher, toys.encoded(9), tmp_path / "out")
    np.testing.assert_array_equal(again, whole)
    assert calls == [4, 4, 1, 1]


DIRECT = ("--runner", "DirectRunner")
_on_workers = []  # the teacher, as a pipeline's workers find it


def load():
    return _on_workers[-1]


def test_a_pipeline_gives_the_same_answers(teacher, small_blocks, monkeypatch, tmp_path):
    here = training.cached_logits(teacher, toys.encoded(9), tmp_path / "here")
    run = parallel.run_pipeline
    monkeypatch.setattr(
        parallel, "run_pipeline", lambda *arguments: run(*arguments[:3])
    )  # as in other processes
    _on_workers.append(toys.classifier(toys.SHALLOW_TEACHER, seed=2))
    options = {"pipeline": DIRECT, "load": load}
    with pytest.raises(errors.TeacherError, match="examples 0 to 3: teacher of a worker"):
        training.cached_logits(teacher, toys.encoded(9), tmp_path / "there", **options)
    _on_workers.append(toys.classifier(toys.SHALLOW_TEACHER, seed=1))
    there = training.cached_logits(teacher, toys.encoded(9), tmp_path / "there", **options)
    np.testing.assert_array_equal(there, here)
    assert len(list((tmp_path / "there").iterdir())) == 1
    with pytest.raises(errors.ConfigError, match="load: expected a function"):
        training.cached_logits(teacher, toys.encoded(9), tmp_path / "b", pipeline=DIRECT)


def test_the_cache_knows_its_teacher_and_its_examples(teacher, monkeypatch, tmp_path):
    encoded = toys.encoded(9)

    def changed(**values):
        return dataclasses.replace(encoded, **values)

    def copy(**changes):
        config = models.config_of(teacher).replace(**changes)
        model = models.build_classifier(config, toys.NUM_LABELS)
        model.set_weights(teacher.get_weights())
        return model

    other = copy()
    bias = other.get_layer("layer_0_output").bias
    bias.assign_add([0.0] * 11 + [1e-6])
    ids, types = encoded.ids.copy(), encoded.types.copy()
    ids[-1], types[-1] = ids[-1] % 29 + 1, 1 - types[-1]
    offsets = encoded.offsets.copy()
    offsets[1] += 1
    cases = {
        "as it is": (teacher, encoded),
        "weights": (other, encoded),
        "head": (copy(family="tinybert"), encoded),
        "activation": (copy(hidden_act="relu"), encoded),
        "precision": (models.with_policy(teacher, "bfloat16"), encoded),
        "ids": (teacher, changed(ids=ids)),
        "types": (teacher, changed(types=types)),
        "cuts": (teacher, changed(offsets=offsets)),
        "order": (teacher, encoded.select(np.arange(9)[::-1])),
    }
    calls = []
    monkeypatch.setattr(
        models,
        "predictor",
        lambda model: lambda data: np.full((9, 3), calls.append(1) or len(calls), np.float32),
    )
    for count, (name, (model, examples)) in enumerate(cases.items(), start=1):
        logits = training.cached_logits(model, examples, tmp_path)
        assert (logits == count).all(), name
    # Labels are nothing that a teacher sees.
    relabelled = changed(labels=1 - encoded.labels)
    assert (training.cached_logits(copy(), relabelled, tmp_path) == 1).all()
    assert len(list(tmp_path.iterdir())) == len(calls) == len(cases)


def test_a_damaged_cache_is_noticed_and_computed_again(teacher, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    before = training.cached_logits(teacher, toys.encoded(9), tmp_path)
    (cache,) = tmp_path.iterdir()
    cache.write_bytes(cache.read_bytes()[:-1] + b"\x7f")
    np.testing.assert_array_equal(
        training.cached_logits(teacher, toys.encoded(9), tmp_path), before
    )
    assert str(cache) in (said := caplog.text) and "computed again" in said
