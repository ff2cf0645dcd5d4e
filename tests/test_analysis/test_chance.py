import dataclasses

import numpy as np
import pytest

from tfdistill import analysis, errors, tasks

SPEC = tasks.TaskSpec(
    name="moods", text_column="text", label_column="mood", labels=("sad", "glad", "calm")
)


def test_chance_is_what_an_answer_without_looking_scores():
    labels = np.array([0] * 6 + [1] * 3 + [2])
    assert analysis.chance_level(SPEC, labels) == 0.6
    two = dataclasses.replace(SPEC, labels=("no", "yes"), metrics=("f1",), primary_metric="f1")
    labels = np.array([0] * 6 + [1] * 3)
    assert analysis.chance_level(two, labels) == pytest.approx(2 * (3 / 9) / (3 / 9 + 1))
    flipped = dataclasses.replace(two, positive_label="no")
    assert analysis.chance_level(flipped, labels) == pytest.approx(2 * (6 / 9) / (6 / 9 + 1))
    matthews = dataclasses.replace(SPEC, metrics=("matthews",), primary_metric="matthews")
    assert analysis.chance_level(matthews, labels) == 0.0
    number = tasks.TaskSpec("r", "text", "score", kind="regression")
    assert analysis.chance_level(number, labels.astype(np.float32)) == 0.0
    auc = dataclasses.replace(two, metrics=("auc",), primary_metric="auc")
    assert analysis.chance_level(auc, labels) == 0.5


def test_chance_of_macro_f1_is_that_of_the_most_frequent_class_over_all():
    task = tasks.TaskSpec("t", "a", "b", labels=("no", "yes"), metrics=("macro_f1",))
    labels = np.array([0] * 9 + [1])
    assert analysis.chance_level(task, labels) == pytest.approx(2 * 0.9 / 1.9 / 2)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1", "exact_match"])
def test_chance_of_several_labels_is_reached_by_a_constant_answer(metric, rng):
    """The best of all sets of labels, by the metric itself."""
    import itertools

    spec = tasks.TaskSpec("topics", "text", "labels", kind="multi_label", labels=tuple("abcd"))
    spec = dataclasses.replace(spec, primary_metric=metric)
    labels = (rng.random((30, 4)) < [0.9, 0.4, 0.3, 0.1]).astype(np.float32)
    constant = [
        spec.compute_metrics(np.tile(np.array(answer) - 0.5, (30, 1)), labels)[metric]
        for answer in itertools.product((0, 1), repeat=4)
    ]
    assert analysis.chance_level(spec, labels) == pytest.approx(max(constant))


def test_chance_of_vectors_is_that_of_one_answer_for_all_pairs():
    pairs = tasks.TaskSpec("p", "a", "match", "b", kind="embedding", metrics=("accuracy", "auc"))
    labels = np.array([1.0, 0.0, 0.0, 0.0])
    assert analysis.chance_level(pairs, labels) == analysis.chance_level(pairs, 1 - labels) == 0.75
    auc = dataclasses.replace(pairs, primary_metric="auc")
    assert analysis.chance_level(auc, labels) == 0.5
    ranked = dataclasses.replace(pairs, label_column="", metrics=(), primary_metric="")
    assert analysis.chance_level(ranked, np.ones(4)) == 0.0


def test_chance_of_words_and_of_questions():
    ner = dataclasses.replace(tasks.task("ner"), labels=("O", "B-X", "I-X"))
    labels = np.array([-100, 0, -100, 0, 1, 0, -100])
    assert analysis.chance_level(ner, labels) == 0.0
    parts = dataclasses.replace(ner, primary_metric="accuracy")
    assert analysis.chance_level(parts, labels) == 3 / 4
    unanswered = np.array([True, False, False, True])
    assert analysis.chance_level(tasks.task("squad_v2"), unanswered) == 0.5
    assert analysis.chance_level(tasks.task("squad"), unanswered) == 0.0


@pytest.mark.parametrize("metric", ["accuracy", "f1"])
@pytest.mark.parametrize("positive", [None, "sad"])
def test_chance_is_reached_by_a_constant_answer(metric, positive):
    """The best of them, by the metric itself."""

    spec = dataclasses.replace(
        SPEC, metrics=(metric,), primary_metric=metric, positive_label=positive
    )
    labels = np.array([0, 0, 1, 1, 1, 1, 2, 1])
    constant = [
        spec.compute_metrics(np.tile(np.eye(3)[answer], (8, 1)), labels)[metric]
        for answer in range(3)
    ]
    assert analysis.chance_level(spec, labels) == pytest.approx(max(constant))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("checkpoint", "Fine-tune it first"),
        ("training", "Check that the texts tell"),
        ("answers", "Check the order of its labels"),
    ],
)
def test_advice_on_a_weak_teacher_fits_where_it_comes_from(source, said):
    with pytest.raises(errors.TeacherError, match=f"received 0.630. {said}.*allow_weak"):
        analysis.check_model(
            "teacher", {"accuracy": 0.63}, SPEC, np.array([0] * 60 + [1] * 40), source=source
        )


def test_a_teacher_near_chance_is_refused_unless_told():
    labels = np.array([0] * 60 + [1] * 40)
    with pytest.raises(errors.TeacherError) as caught:
        analysis.check_model("teacher", {"accuracy": 0.63}, SPEC, labels)
    assert "at least 0.640 (chance is 0.600), received 0.630" in str(caught.value)
    assert "teacher.finetune" in str(caught.value)
    analysis.check_model("teacher", {"accuracy": 0.63}, SPEC, labels, allow_weak=True)
    analysis.check_model(
        "teacher", {"accuracy": 0.65}, SPEC, labels, causes=lambda: pytest.fail("nothing to ask")
    )
    with pytest.raises(errors.TeacherError):  # worse than chance: the labels are swapped
        analysis.check_model("teacher", {"accuracy": 0.1}, SPEC, labels)
    with pytest.raises(errors.TeacherError):
        analysis.check_model("teacher", {"accuracy": float("nan")}, SPEC, labels)


def test_chance_of_f1_of_a_named_class_is_that_of_always_naming_it():
    labels = np.array([0] * 6 + [1] * 3)
    for name, share in (("no", 6 / 9), ("yes", 3 / 9)):
        task = tasks.TaskSpec("t", "a", "b", labels=("no", "yes"), metrics=(f"f1:{name}",))
        assert analysis.chance_level(task, labels) == pytest.approx(2 * share / (1 + share))


@pytest.mark.parametrize(
    ("scale", "offset", "right"),
    [(1, 0, True), (0.5, 150_000, True), (0.1, 270_000, False), (1, 20, False), (1e-6, 0, False)],
)
def test_answers_on_another_scale_than_the_labels_are_refused(scale, offset, right, rng):
    task = tasks.TaskSpec("r", "text", "score", kind="regression")
    gold = rng.normal(300_000, 5, 200)
    metrics = task.compute_metrics(scale * gold + offset, gold)
    assert metrics["pearson"] > 0.999
    if right:
        analysis.check_model("teacher", metrics, task, gold)
        return
    with pytest.raises(errors.TeacherError, match=r"scale of the labels, an R2 of at least 0\.5"):
        analysis.check_model("teacher", metrics, task, gold)
    with pytest.raises(errors.StudentError, match=r"at a Pearson correlation of 1\.000"):
        analysis.check_model("student", metrics, task, gold)
    analysis.check_model("teacher", metrics, task, gold, allow_weak=True)
    of_glue = {name: metrics[name] for name in tasks.task("stsb").metrics}
    analysis.check_model("teacher", of_glue, tasks.task("stsb"), gold)
