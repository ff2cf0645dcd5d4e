import dataclasses
import itertools
import math

import numpy as np
import pytest

from tfdistill import analysis, errors, tasks

SPEC = tasks.TaskSpec(
    name="moods", text_column="text", label_column="mood", labels=("sad", "glad", "calm")
)


YES_OR_NO = tasks.TaskSpec("t", "a", "b", labels=("no", "yes"))
NER = dataclasses.replace(tasks.task("ner"), labels=("O", "B-X", "I-X"))
WORDS = [-100, 0, -100, 0, 1, 0, -100]
UNANSWERED = [True, False, False, True]
CHANCES = {
    "the most frequent class": (SPEC, {}, [0] * 6 + [1] * 3 + [2], 0.6),
    "always the second": (YES_OR_NO, {"primary_metric": "f1"}, [0] * 6 + [1] * 3, 1 / 2),
    "always the positive one": (
        YES_OR_NO, {"primary_metric": "f1", "positive_label": "no"}, [0] * 6 + [1] * 3, 4 / 5,
    ),
    "always the named one": (YES_OR_NO, {"primary_metric": "f1:no"}, [0] * 6 + [1] * 3, 4 / 5),
    "never the named one": (YES_OR_NO, {"primary_metric": "f1:yes"}, [0] * 6 + [1] * 3, 1 / 2),
    "one of two classes": (
        YES_OR_NO, {"primary_metric": "macro_f1"}, [0] * 9 + [1], 2 * 0.9 / 1.9 / 2,
    ),
    "matthews": (SPEC, {"primary_metric": "matthews"}, [0] * 6 + [1] * 3, 0.0),
    "auc": (YES_OR_NO, {"primary_metric": "auc"}, [0] * 6 + [1] * 3, 0.5),
    "numbers": (tasks.TaskSpec("r", "text", "score", kind="regression"), {}, [0.0, 1.0], 0.0),
    "entities": (NER, {}, WORDS, 0.0),
    "tags": (NER, {"primary_metric": "accuracy"}, WORDS, 3 / 4),
    "answers or none": (tasks.task("squad_v2"), {}, UNANSWERED, 0.5),
    "answers": (tasks.task("squad"), {}, UNANSWERED, 0.0),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "changes", "labels", "chance"), CHANCES.values(), ids=CHANCES)
def test_chance_is_what_an_answer_without_looking_scores(spec, changes, labels, chance):
    if "primary_metric" in changes:
        changes = {"metrics": (changes["primary_metric"],), **changes}
    spec = dataclasses.replace(spec, **changes)
    assert analysis.chance_level(spec, np.array(labels)) == pytest.approx(chance)


def test_chance_of_vectors_is_that_of_one_answer_for_all_pairs():
    pairs = tasks.TaskSpec("p", "a", "match", "b", kind="embedding", metrics=("accuracy", "auc"))
    labels = np.array([1.0, 0.0, 0.0, 0.0])
    assert analysis.chance_level(pairs, labels) == analysis.chance_level(pairs, 1 - labels) == 0.75
    auc = dataclasses.replace(pairs, primary_metric="auc")
    assert analysis.chance_level(auc, labels) == 0.5
    ranked = dataclasses.replace(pairs, label_column="", metrics=(), primary_metric="")
    assert analysis.chance_level(ranked, np.ones(4)) == 0.0


TOPICS = tasks.TaskSpec("topics", "text", "labels", kind="multi_label", labels=tuple("abcd"))
TAGS = (np.random.default_rng(3).random((30, 4)) < [0.9, 0.4, 0.3, 0.1]).astype(np.float32)
SETS = np.array([*itertools.product((0, 1), repeat=4)]) - 0.5
CLASSES = np.array([0, 0, 1, 1, 1, 1, 2, 1])


@pytest.mark.parametrize(
    ("spec", "metric", "changes", "labels", "answers"),
    [
        *((TOPICS, metric, {}, TAGS, SETS) for metric in ("micro_f1", "macro_f1", "exact_match")),
        *(
            (SPEC, metric, {"metrics": (metric,), "positive_label": positive}, CLASSES, np.eye(3))
            for metric in ("accuracy", "f1")
            for positive in (None, "sad")
        ),
    ],
)
def test_chance_is_reached_by_a_constant_answer(spec, metric, changes, labels, answers):
    """The best of them, by the metric itself."""
    spec = dataclasses.replace(spec, primary_metric=metric, **changes)
    constant = [
        spec.compute_metrics(np.tile(answer, (len(labels), 1)), labels)[metric]
        for answer in answers
    ]
    assert analysis.chance_level(spec, labels) == pytest.approx(max(constant))


LABELS = np.array([0] * 60 + [1] * 40)


@pytest.mark.parametrize(
    ("accuracy", "source", "message"),
    [
        (0.63, "checkpoint", r"at least 0.640 \(chance is 0.600\), .* 0.630. Fine-tune it first"),
        (0.63, "training", "Check that the texts tell.*allow_weak"),
        (0.63, "answers", "Check the order of its labels.*allow_weak"),
        (0.1, "checkpoint", "teacher.finetune"),  # worse than chance: the labels are swapped
        (math.nan, "checkpoint", "teacher.finetune"),
    ],
)
def test_a_teacher_near_chance_is_refused_unless_told(accuracy, source, message):
    metrics = {"accuracy": accuracy}
    with pytest.raises(errors.TeacherError, match=message):
        analysis.check_model("teacher", metrics, SPEC, LABELS, source=source)
    analysis.check_model("teacher", metrics, SPEC, LABELS, source=source, allow_weak=True)


def test_a_teacher_above_chance_is_asked_for_no_causes():
    analysis.check_model(
        "teacher", {"accuracy": 0.65}, SPEC, LABELS, causes=lambda: pytest.fail("nothing to ask")
    )


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
