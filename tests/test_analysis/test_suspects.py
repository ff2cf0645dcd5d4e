import numpy as np
import pytest
import scipy.sparse

from tfdistill import analysis, tasks

TASK = tasks.TaskSpec("t", "text", "label", labels=("a", "b", "c", "rare"))


def drawn(count=400, width=600, spread=0.25, seed=0):
    """Vectors and words of three classes, and of a fourth with a row that looks like the first.

    Each row has features of its own, by which a model knows one that it has learnt.
    """
    random = np.random.default_rng(seed)
    labels = np.concatenate([random.integers(0, 3, count), [3]])
    centres = random.normal(size=(4, width)) / 8
    states = centres[labels % 3] + spread * random.normal(size=(len(labels), width))
    of_labels = np.eye(3)[labels % 3] * 0.3
    words = scipy.sparse.hstack([scipy.sparse.identity(len(labels)), of_labels])
    return states, scipy.sparse.csr_matrix(words), labels


def planted(labels, share=0.05, seed=1):
    random = np.random.default_rng(seed)
    rows = random.choice(np.flatnonzero(labels < 3), int(share * len(labels)), replace=False)
    wrong = labels.copy()
    wrong[rows] = (labels[rows] + random.integers(1, 3, len(rows))) % 3
    return wrong, rows


@pytest.mark.parametrize("useless", ["states", "words", ""])
def test_planted_labels_are_found_by_models_that_have_not_seen_them(useless):
    """Each of the two models alone is enough, so that none may know the labels that it judges."""
    states, words, labels = drawn()
    if useless == "states":
        states = np.zeros_like(states)
    if useless == "words":
        words = scipy.sparse.csr_matrix(words.shape)
    wrong, rows = planted(labels)
    suspects = analysis.find_suspects(TASK, states, words, wrong, np.ones(len(labels), bool))
    assert len(suspects.rows) == 401 // 40
    assert np.isin(suspects.rows, rows).mean() >= 0.9
    right = suspects.others == labels[suspects.rows]
    assert right[np.isin(suspects.rows, rows)].mean() >= 0.9
    assert np.all(np.diff(suspects.probabilities) >= 0) and suspects.probabilities.max() < 0.5
    assert not np.isin(suspects.rows, np.flatnonzero(labels == 3)).any()  # others do not know it


def test_only_labels_that_may_be_wrong_are_listed():
    states, words, labels = drawn(spread=0.05)
    wrong, rows = planted(labels)
    judged = np.zeros(len(labels), bool)
    judged[rows[:6]] = judged[labels == 0] = True
    suspects = analysis.find_suspects(TASK, states, words, wrong, judged)
    assert judged[suspects.rows].all() and np.isin(suspects.rows, rows).all()
    assert len(suspects.rows) == judged.sum() // 40
    # Of clean labels none is less likely than another one.
    clean = analysis.find_suspects(TASK, states, words, labels, labels < 3)
    assert len(clean.rows) == len(clean.others) == 0
