"""Heads over vectors of few rows: folds, what is left out, and how sure the answers are."""

import numpy as np
import pytest
import scipy.special

from tfdistill import analysis
from tfdistill.tasks import splitting


def drawn(rows_a_class, seed=0, classes=4, width=32, spread=1.5):
    """Vectors around a centre for each class, some of them nearer to another one."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(classes, width))
    labels = np.repeat(np.arange(classes), rows_a_class)
    noise = spread * random.normal(size=(len(labels), width)) * np.sqrt(width) / 4
    return centres[labels] + noise, labels


def test_a_fold_has_its_share_of_each_class():
    labels = np.array([2] * 10 + [0] * 5 + [1] * 5)
    folds = splitting.folds_of(labels, seed=3)
    for label, count in ((0, 1), (1, 1), (2, 2)):
        assert np.bincount(folds[labels == label]).tolist() == [count] * 5
    assert sorted(splitting.folds_of(np.array([0, 0, 0, 1]))) == [0, 1, 2, 3]


def test_each_row_is_answered_by_a_model_that_has_not_seen_it():
    features, labels = np.arange(9.0)[:, None], np.arange(9)
    folds = np.array([0, 1, 2] * 3)

    def fit(rows, gold):
        assert np.array_equal(rows[:, 0], gold)
        seen = set(gold.tolist())
        return lambda others: np.array([[float(x in seen), x] for x in others[:, 0]])

    answers = analysis.answer_unseen(features, labels, folds, fit)
    np.testing.assert_array_equal(answers, np.stack([np.zeros(9), np.arange(9)], axis=1))


def test_the_head_answers_new_rows_as_well_and_as_surely_as_rows_left_out():
    vectors, labels = drawn(12)
    head = analysis.fit_head(vectors, labels, 4)
    others, gold = drawn(500, seed=1)
    logits = others @ head.kernel + head.bias
    accuracy = np.mean(logits.argmax(axis=1) == gold)
    unseen = np.mean(head.unseen.argmax(axis=1) == labels)
    assert 0.5 < accuracy < 0.95 and abs(accuracy - unseen) < 0.12  # 48 rows: two deviations
    surest = scipy.special.softmax(logits, axis=1).max(axis=1)
    assert surest.mean() == pytest.approx(accuracy, abs=0.12)
    # Of its own rows it is too sure: they cannot show how sure it may be.
    own_rows = vectors @ head.kernel + head.bias
    assert np.mean(own_rows.argmax(axis=1) == labels) > unseen + 0.1


def test_two_classes_and_one_that_no_row_has_get_logits_that_fit():
    vectors, labels = drawn(10, classes=2, spread=0.5)
    head = analysis.fit_head(vectors, labels, 3)
    logits = vectors @ head.kernel + head.bias
    assert head.kernel.shape == (32, 3) and head.kernel.dtype == np.float32
    assert np.array_equal(logits.argmax(axis=1), labels)
    assert scipy.special.softmax(logits, axis=1)[:, 2].max() < 1e-4


def test_the_only_row_of_a_class_makes_the_other_answers_no_less_sure():
    vectors, labels = drawn(12)
    alone = np.random.default_rng(5).normal(size=(1, 32))
    head = analysis.fit_head(vectors, labels, 5)
    more = analysis.fit_head(np.concatenate([vectors, alone]), np.append(labels, 4), 5)
    sure, surer = (
        scipy.special.softmax(h.unseen[:48], axis=1).max(axis=1).mean() for h in (more, head)
    )
    assert sure == pytest.approx(surer, abs=0.03)  # 0.11 less where the row counts


def test_vectors_of_another_scale_and_centre_give_the_same_answers():
    vectors, labels = drawn(8)
    head, moved = (analysis.fit_head(v, labels, 4) for v in (vectors, 100 * vectors + 7))
    assert head.penalty == moved.penalty
    np.testing.assert_allclose(head.unseen, moved.unseen, atol=2e-3)  # float32, other roundings
