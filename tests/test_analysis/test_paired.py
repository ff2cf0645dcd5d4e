import numpy as np
import pytest

from tfdistill import analysis, errors
from tfdistill.tasks.spec import TaskSpec

TASK = TaskSpec("kinds", "text", "kind", labels=("a", "b"))


def logits_of(answers):
    return np.eye(2, dtype=np.float32)[np.asarray(answers)]


def difference_of(count, lost, gained):
    """Two models of examples all of class a, of which some are lost and some gained."""
    after, before = np.zeros(count, int), np.zeros(count, int)
    after[:lost] = 1
    before[lost : lost + gained] = 1
    gold = np.zeros(count, int)
    return analysis.paired_difference(TASK, gold, logits_of(before), logits_of(after))


def test_mcnemar_counts_the_examples_that_one_alone_has_right():
    # 3 lost, 9 gained: two-sided binomial p = 2 * sum_{k<=3} C(12, k) / 2^12 = 598 / 4096.
    difference = difference_of(100, 3, 9)
    assert (difference.lost, difference.gained) == (3, 9)
    assert difference.p_value == pytest.approx(598 / 4096)
    assert difference.difference == pytest.approx(0.06)
    assert not difference.is_clear
    # Standard error of the paired difference: sqrt((12 - 36 / 100) / 100^2) = 0.034.
    expected = (0.06 - 1.96 * 0.034, 0.06 + 1.96 * 0.034)
    assert difference.interval == pytest.approx(expected, abs=0.015)
    # 100 of 200 lost, none gained: the share that is lost is known to sqrt(1 / 4 / 200) = 0.035.
    expected = (-0.5 - 0.069, -0.5 + 0.069)
    assert difference_of(200, 100, 0).interval == pytest.approx(expected, abs=0.015)
    with pytest.raises(errors.ShapeError):
        analysis.paired_difference(TASK, np.zeros(3, int), np.zeros((3, 2)), np.zeros((2, 2)))


@pytest.mark.parametrize("gained", [0, 4])
def test_the_interval_of_accuracy_has_zero_in_it_where_the_test_sees_chance(gained):
    # 12 lost and 4 gained: the bootstrap alone gives (-0.053, -0.003) of 300, the test p = 0.077.
    for lost in range(45):
        difference = difference_of(300, lost, gained)
        assert difference.is_clear != (difference.interval[0] <= 0 <= difference.interval[1]), lost
        assert difference.interval[0] <= difference.difference <= difference.interval[1]


def test_other_metrics_are_judged_by_their_bootstrap_interval():
    rng = np.random.default_rng(3)
    gold = rng.normal(size=300).astype(np.float32)
    good = (gold + 0.1 * rng.normal(size=300))[:, None].astype(np.float32)
    bad = (gold + 2.0 * rng.normal(size=300))[:, None].astype(np.float32)
    task = TaskSpec("similarity", "a", "score", kind="regression")
    difference = analysis.paired_difference(task, gold, good, bad, num_resamples=100)
    assert difference.p_value is None and difference.lost is None
    assert difference.is_clear
    assert difference.interval[0] < difference.difference < difference.interval[1] < 0
    close = analysis.paired_difference(task, gold, good, good * 2 + 1, num_resamples=50)
    assert not close.is_clear


def test_resamples_of_two_models_are_paired_and_may_be_drawn_beforehand():
    task = TaskSpec("kinds", "text", "kind", labels=("a", "b"), metrics=("macro_f1",))
    rng = np.random.default_rng(1)
    gold, *answers = rng.integers(2, size=(3, 60))
    before, after = map(logits_of, answers)
    resampled = tuple(analysis.resampled_scores(task, gold, logits) for logits in (before, after))
    whole = analysis.paired_difference(task, gold, before, after)
    assert analysis.paired_difference(task, gold, before, after, resampled=resampled) == whole
    alone = analysis.paired_difference(task, gold, before, before)
    assert alone.interval == (0.0, 0.0)  # of the same draws, not of two
    low, high = np.percentile(resampled[1] - resampled[0], [2.5, 97.5])
    assert whole.interval == pytest.approx((low, high))


def test_the_least_change_is_that_of_the_probabilities_of_the_right_class():
    random = np.random.default_rng(0)
    gold = random.integers(2, size=400)
    before = random.normal(size=(400, 2))
    after = before + random.normal(scale=0.05, size=(400, 2))

    changes = []
    for row, right in enumerate(gold):
        one, other = (np.exp(logits[row]) for logits in (before, after))
        changes.append(other[right] / other.sum() - one[right] / one.sum())
    mean = sum(changes) / 400
    deviation = (sum((change - mean) ** 2 for change in changes) / 399) ** 0.5
    least = analysis.least_change(TASK, gold, before, after)
    assert least == pytest.approx(mean - 1.96 * deviation / 20)
    # So close to it that a loss of a point is ruled out; a twentieth that is lost is not.
    assert -0.01 < least < 0
    lost = np.where(np.arange(400)[:, None] < 20, 8 * logits_of(1 - gold), before)
    assert analysis.least_change(TASK, gold, before, lost) < -0.01
    assert analysis.least_change(TASK, gold[:99], before[:99], after[:99]) == -np.inf


def test_the_least_change_of_a_number_is_that_of_its_metric():
    task = TaskSpec("stars", "text", "stars", kind="regression")
    gold = np.linspace(0, 1, 200, dtype=np.float32)
    before = gold[:, None] + 0.1 * np.random.default_rng(0).normal(size=(200, 1))
    after = gold[:, None] + 0.5 * np.random.default_rng(1).normal(size=(200, 1))
    least = analysis.least_change(task, gold, before, after)
    assert least == analysis.paired_difference(task, gold, before, after).interval[0] < -0.1
