import dataclasses
import math

import numpy as np
import pytest
import sklearn.metrics

from tfdistill import errors, tasks
from tfdistill.tasks import encoded

BINARY = tasks.TaskSpec("b", "t", "l", labels=("no", "yes"), metrics=("accuracy", "f1", "matthews"))
# Answers 1 1 1 0 0 0 against gold 1 1 0 0 0 1: tp 2, fp 1, fn 1, tn 2.
LOGITS = np.array([[0, 1], [-2, 3], [0, 0.5], [1, 0], [4, 3], [0, -1]], np.float32)
GOLD = np.array([1, 1, 0, 0, 0, 1])


def test_binary_metrics_equal_their_formulas():
    values = BINARY.compute_metrics(LOGITS, GOLD)
    assert list(values) == ["accuracy", "f1", "matthews"]
    assert values["accuracy"] == pytest.approx(4 / 6)
    assert values["f1"] == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert values["matthews"] == pytest.approx((2 * 2 - 1 * 1) / math.sqrt(3 * 3 * 3 * 3))
    assert all(type(value) is float for value in values.values())


def test_f1_counts_the_positive_class_by_its_name():
    gold = np.array([1, 1, 1, 0, 0, 1])  # tp 2, fp 1 (as above with one more "yes" right), fn 1
    usual = BINARY.compute_metrics(LOGITS, gold)["f1"]
    assert usual == pytest.approx(2 * 3 / (2 * 3 + 0 + 1))
    negative = dataclasses.replace(BINARY, positive_label="no")
    assert negative.compute_metrics(LOGITS, gold)["f1"] == pytest.approx(4 / (4 + 1 + 0))
    turned = dataclasses.replace(
        tasks.task("mrpc"), labels=("equivalent", "not_equivalent"), label_values=("1", "0")
    )
    assert turned.compute_metrics(LOGITS[:, ::-1], 1 - gold)["f1"] == pytest.approx(usual)


def test_f1_and_matthews_are_zero_where_they_are_not_defined():
    nobody = np.zeros(3, int)
    assert BINARY.compute_metrics(np.eye(2)[nobody], nobody)["f1"] == 0.0
    spec = dataclasses.replace(BINARY, labels=("a", "b", "c"), metrics=("f1",), primary_metric="f1")
    assert spec.compute_metrics(np.eye(3)[nobody], nobody)["f1"] == pytest.approx(1 / 3)
    constant = np.tile([0.0, 1.0], (6, 1))
    for gold in (GOLD, np.zeros(6, int), np.ones(6, int)):
        assert BINARY.compute_metrics(constant, gold)["matthews"] == 0.0


def test_correlations_equal_their_formulas():
    predicted = np.array([0.5, 2.0, 1.0, 8.0])
    gold = np.array([1.0, 2.0, 1.5, 3.0], np.float32)
    values = tasks.task("stsb").compute_metrics(predicted[:, None], gold)
    x, y = predicted - predicted.mean(), gold - gold.mean()
    assert values["pearson"] == pytest.approx((x @ y) / math.sqrt((x @ x) * (y @ y)))
    assert values["spearman"] == pytest.approx(1.0)  # the same order
    assert tasks.task("stsb").compute_metrics(predicted, gold) == values


NOT_FINITE = np.where(np.arange(12).reshape(6, 2) == 5, np.nan, LOGITS)


@pytest.mark.parametrize(
    ("logits", "gold", "error", "message"),
    [
        *((np.zeros(shape), GOLD, errors.ShapeError, r"shapes \(n, 2\) and \(n,\)")
          for shape in ((6, 3), (6,), (5, 2), (6, 2, 1))),
        (np.zeros((0, 2)), np.zeros(0, int), errors.ShapeError, "received"),
        (NOT_FINITE, GOLD, errors.DataError, "logits of example 2: expected finite"),
    ],
)  # fmt: skip
def test_logits_that_have_no_metric_are_refused(logits, gold, error, message):
    with pytest.raises(error, match=message):
        BINARY.compute_metrics(logits, gold)


# The area under the ROC curve.

MATCHING = dataclasses.replace(BINARY, metrics=("auc",), primary_metric="auc")


def pairwise(scores, positive):
    """The definition: every pair of a positive and a negative example, ties counting half."""
    wins = [
        (a > b) + 0.5 * (a == b)
        for a, yes in zip(scores, positive, strict=True)
        for b, other in zip(scores, positive, strict=True)
        if yes and not other
    ]
    return sum(wins) / len(wins)


def test_auc_is_the_share_of_pairs_in_order(rng):
    logits = np.round(rng.normal(size=(40, 2)) * 2) / 2  # exact differences, many of them tied
    gold = rng.integers(0, 2, 40)
    expected = pairwise(logits[:, 1] - logits[:, 0], gold == 1)
    assert MATCHING.compute_metrics(logits, gold)["auc"] == pytest.approx(expected)


def test_auc_looks_at_the_order_not_at_the_decision():
    logits = np.array([[9.0, 0.0], [9.0, 1.0], [9.0, 2.0]])  # always "no"
    assert MATCHING.compute_metrics(logits, np.array([0, 1, 1]))["auc"] == 1.0
    assert MATCHING.compute_metrics(logits, np.array([1, 0, 0]))["auc"] == 0.0
    assert MATCHING.compute_metrics(logits * 0, np.array([1, 0, 0]))["auc"] == 0.5
    turned = dataclasses.replace(MATCHING, positive_label="no")
    assert turned.compute_metrics(logits, np.array([0, 1, 1]))["auc"] == 1.0
    assert turned.compute_metrics(logits, np.array([0, 0, 1]))["auc"] == 1.0
    assert MATCHING.compute_metrics(LOGITS, np.ones(6, int))["auc"] == 0.5  # no pair to order


def test_auc_needs_two_labels():
    late = dataclasses.replace(MATCHING, labels=())
    with pytest.raises(errors.ConfigError, match="two for the metric auc"):
        late.with_labels(("a", "b", "c"))


# Several labels.

TOPICS = tasks.TaskSpec("topics", "t", "l", kind="multi_label", labels=("a", "b", "c"))


def test_metrics_of_several_labels_equal_their_formulas():
    answers = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [0, 1, 0]])
    gold = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 1]], np.float32)
    values = TOPICS.compute_metrics(np.where(answers, 0.3, -2.0), gold)
    # a: one right, one wrong, one missed; b: both right; c: one missed.
    assert values == {
        "micro_f1": pytest.approx(2 * 3 / (2 * 3 + 1 + 2)),
        "macro_f1": pytest.approx((2 * 1 / (2 * 1 + 1 + 1) + 1.0 + 0.0) / 3),
        "exact_match": 1 / 4,
    }


def test_a_label_is_predicted_above_even_odds():
    gold = np.array([[1, 0, 0]], np.float32)
    for logit, expected in ((1e-3, 1.0), (0.0, 0.0), (-1e-3, 0.0)):
        logits = np.array([[logit, -1.0, -1.0]])
        assert TOPICS.compute_metrics(logits, gold)["exact_match"] == expected
    # Nothing said where nothing is there is right, but has no F1.
    values = TOPICS.compute_metrics(-np.ones((2, 3)), np.zeros((2, 3)))
    assert values == {"micro_f1": 0.0, "macro_f1": 0.0, "exact_match": 1.0}


# Any kind of task.


def examples_of(labels, **fields):
    rows = len(labels)
    return encoded.EncodedExamples(
        ids=np.ones(2 * rows, np.int32),
        offsets=np.arange(rows + 1, dtype=np.int64) * 2,
        types=np.zeros(2 * rows, np.uint8),
        labels=labels,
        **fields,
    )


def test_a_score_is_that_of_the_labels_of_the_examples():
    scored = BINARY.score(LOGITS, examples_of(GOLD.astype(np.int32)))
    assert scored == BINARY.compute_metrics(LOGITS, GOLD)
    gold = np.eye(3, dtype=np.float32)
    assert TOPICS.score(2 * gold - 1, examples_of(gold))["exact_match"] == 1.0
    for shape in ((4,), (4, 2), (3, 3)):
        with pytest.raises(errors.ShapeError):
            TOPICS.compute_metrics(np.zeros((4, 3)), np.zeros(shape))
    with pytest.raises(errors.DataError, match="labelled examples"):
        bare = dataclasses.replace(examples_of(gold), labels=None)
        TOPICS.score(2 * gold - 1, bare)


def test_f1_is_that_of_scikit_learn_to_the_last_bit(rng):
    for _ in range(50):
        count, rows = int(rng.integers(2, 8)), int(rng.integers(1, 40))
        names = tuple("abcdefgh"[:count])
        gold, said = rng.integers(0, count, (2, rows))
        spec = tasks.TaskSpec("m", "t", "l", labels=names, metrics=("macro_f1",))
        value = spec.score(np.eye(count)[said], examples_of(gold.astype(np.int32)))["macro_f1"]
        assert value == sklearn.metrics.f1_score(
            gold, said, labels=list(range(count)), average="macro", zero_division=0.0
        )


def test_f1_of_a_named_class_is_that_of_scikit_learn(rng):
    gold, answers = rng.integers(0, 3, (2, 60))
    for labels in (("fraud", "ok"), ("a", "b:c", "d")):
        metrics = tuple(f"f1:{name}" for name in labels)
        spec = tasks.TaskSpec("t", "t", "l", labels=labels, metrics=metrics)
        of_labels = gold % len(labels), answers % len(labels)
        values = spec.compute_metrics(np.eye(len(labels))[of_labels[1]], of_labels[0])
        expected = sklearn.metrics.f1_score(*of_labels, average=None)
        # Ratios of the same whole numbers, rounded once or twice.
        assert list(values.values()) == pytest.approx(expected, rel=1e-15)
        assert list(values) == list(metrics)


@pytest.mark.parametrize(
    ("cells", "metrics"),
    [
        (["ok"] * 57 + ["fraud"] * 13, ("accuracy", "f1:fraud")),
        (["ham"] * 13 + ["spam"] * 57, ("accuracy", "f1:ham")),
        (["no", "yes"] * 20, ("accuracy", "f1:yes")),
        (["10", "9"] * 20, ("accuracy", "f1:10")),
        (["a", "b", "c"] * 20, ("accuracy", "f1")),
        (["a"] * 100 + ["b"] * 3, ("macro_f1", "accuracy")),
    ],
)
def test_f1_of_two_classes_is_that_of_the_rarer_one(cells, metrics):
    assert tasks.KINDS["classification"].metrics_for(cells) == metrics
    for name in ("mrpc", "qqp"):  # GLUE's is that of label 1
        assert tasks.task(name).metrics == ("accuracy", "f1")
        assert tasks.task(name).positive_label in ("equivalent", "duplicate")


def test_r2_equals_its_formula_and_sees_the_scale(rng):
    spec = tasks.TaskSpec("r", "t", "l", kind="regression")
    gold = rng.normal(300_000, 5, 50)
    answers = gold + rng.normal(0, 1, 50)
    values = spec.compute_metrics(answers, gold)
    expected = sklearn.metrics.r2_score(gold, answers)
    # Squares of numbers that lost eps * 300,000 of about 1 to the rounding.
    assert values["r2"] == pytest.approx(expected, rel=1e-9)
    scaled = spec.compute_metrics((answers - 300_000) / 10, gold)
    assert scaled["pearson"] == pytest.approx(values["pearson"], rel=1e-9)
    assert scaled["r2"] < -1e6 < 0.9 < values["r2"]
    constant = spec.compute_metrics(np.full(50, gold.mean()), gold)
    assert constant["pearson"] == 0.0 and constant["r2"] == pytest.approx(0.0, abs=1e-9)
    assert spec.compute_metrics(answers, np.full(50, 3.0))["r2"] == 0.0
