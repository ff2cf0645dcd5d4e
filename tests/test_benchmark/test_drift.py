"""Drift and throttling: found when they are there, and not in noise."""

import numpy as np
import pytest
from benchmark_results import latencies
from scipy import stats

from tfdistill.benchmark.statistics import drift


def repetition(rng, **world):
    return latencies(rng, repetitions=1, **world).ravel()


def is_slower(samples):
    return drift.level_shift(drift.levels(samples)) is not None


def share_found(change, *, trials=200, seed=0, **world):
    rng = np.random.default_rng(seed)
    return sum(is_slower(change(repetition(rng, **world))) for _ in range(trials)) / trials


def shifted(size, at):
    def change(samples):
        return np.where(np.arange(len(samples)) < at * len(samples), samples, samples * size)

    return change


@pytest.mark.parametrize(
    "world, at_most",
    [
        ({}, 0.03),
        ({"runs": 100}, 0.03),
        ({"noise": 0.2}, 0.03),  # single inferences vary by 20%
        ({"bursts": 0.1}, 0.03),
        ({"moment": 0.005, "noise": 0.02}, 0.0),  # quiet
        ({"moment": 0.05, "memory": 0.9}, 0.15),  # levels that wander are half of a shift
    ],
)
def test_noise_is_seldom_called_throttling(world, at_most):
    assert share_found(lambda samples: samples, **world) <= at_most


@pytest.mark.parametrize(
    ("change", "least"),
    [
        (shifted(1.1, 0.5), 0.7),
        (shifted(1.2, 0.25), 0.95),
        (shifted(1.5, 0.75), 0.95),
        (lambda samples: samples * np.linspace(1, 1.3, len(samples)), 0.95),
    ],
    ids=["a tenth", "a fifth, early", "half, late", "slowly"],
)
def test_a_level_that_rises_and_stays_is_found(change, least):
    assert share_found(change, trials=100) >= least


def test_the_size_of_a_shift_is_told_and_a_clear_one_or_several_mark_a_place():
    samples = shifted(1.4, 0.5)(repetition(np.random.default_rng(1), moment=0.005, noise=0.02))
    assert drift.level_shift(drift.levels(samples)) == pytest.approx(1.4, rel=0.02)
    steady = np.ones(20) * np.linspace(0.999, 1.001, 20)
    some, clear = (np.where(np.arange(20) < 10, steady, size * steady) for size in (1.07, 1.2))
    assert not drift.slowed_down([steady, steady, steady])
    assert not drift.slowed_down([some, steady, steady])
    assert not drift.slowed_down([some, steady])
    assert drift.slowed_down([some])
    assert drift.slowed_down([some, some, steady])
    assert drift.slowed_down([clear, steady, steady])


@pytest.mark.parametrize(
    "change",
    [
        shifted(0.7, 0.5),  # faster
        shifted(1.02, 0.5),  # less than 5%
        lambda samples: np.where(np.arange(len(samples)) % 40 == 7, 30 * samples, samples),
        lambda samples: np.where(abs(np.arange(len(samples)) - 50) < 15, 2 * samples, samples),
    ],
    ids=["faster", "small", "single outliers", "a burst that passes"],
)
def test_what_does_not_stay_slow_is_no_throttling(change):
    assert share_found(change, trials=50, moment=0.005, noise=0.02) <= 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    "world",
    [
        *({}, {"bursts": 0.1}),
        *(pytest.param(w, marks=pytest.mark.thorough) for w in ({"runs": 50}, {"noise": 0.2})),
    ],
)
def test_noise_hardly_ever_marks_a_case_of_three_repetitions(world):
    rng = np.random.default_rng(3)
    places = 150
    marked = sum(
        drift.slowed_down([drift.levels(repetition(rng, **world)) for _ in range(3)])
        for _ in range(places)
    )
    assert marked / places <= 0.01  # each repetition alone: 0.02


def test_levels_are_medians_of_stretches_and_few_of_them_or_their_ups_and_downs_no_shift():
    values = np.arange(1.0, 241.0)
    assert (drift.levels(values) == np.median(values.reshape(20, 12), axis=1)).all()
    assert (drift.levels(values[:11]) == [3.5, 9.0]).all()
    assert drift.level_shift([1, 1, 1, 1, 9, 9, 9]) is None
    assert drift.level_shift([1, 1, 1, 1, 9, 9, 9, 9]) == pytest.approx(9)
    assert drift.level_shift(drift.levels([1.0] * 4)) is None
    before = [1.0, 1.09, 1.045, 1.0, 1.09] * 2
    assert drift.level_shift([*before, *(level + 0.1 for level in before)]) is None  # all above all
    assert drift.level_shift([*before, *(level + 0.2 for level in before)]) is not None


def test_drift_is_the_last_third_over_the_first_with_students_interval():
    blocks = [[1.0, 1.2], [1.0], [5.0], [7.0], [2.2], [2.0]]
    middle, _ = drift.drift([blocks])
    assert middle == pytest.approx(2.1 / 1.0)
    middle, _ = drift.drift([[[1.0, 1.0, 9.0, 9.0, 9.0, 3.0, 3.0]]])  # one block: its samples
    assert middle == pytest.approx(3.0)
    middle, _ = drift.drift([blocks, [[1.0]] * 6, [[1.0]] * 5 + [[1.4]] * 1])
    assert middle == pytest.approx(1.2)  # the median of 2.1, 1.0 and (1 + 1.4) / 2
    assert drift.drift([[[1.0, 2.0]], [[1.0], [2.0]]]) is None
    first, last = [1.0, 1.3, 1.1], [2.0, 2.5, 2.4]
    blocks = [[value] * 5 for value in (*first, 1.5, 1.5, 1.5, *last)]
    reference = stats.ttest_ind(np.log(last), np.log(first)).confidence_interval(0.95)
    _, interval = drift.drift([blocks])
    assert interval == pytest.approx((np.exp(reference.low), np.exp(reference.high)))


@pytest.mark.parametrize("slope", [1.0, 1.1])
@pytest.mark.parametrize("repetitions, least", [(1, 0.8), (3, 0.92)])
def test_the_interval_of_the_drift_covers_the_truth(slope, repetitions, least):
    rng = np.random.default_rng(2)
    ramp = np.linspace(1, slope, 100).reshape(10, 10)
    truth = np.median(ramp[-3:]) / np.median(ramp[:3])
    covered, trials = 0, 100
    for seed in range(trials):
        samples = latencies(rng, repetitions=repetitions) * ramp
        _, (low, high) = drift.drift(samples, seed=seed, resamples=150)
        covered += low <= truth <= high
    # Blocks of one repetition that hang together say less than they seem to; three repetitions
    # know: nominal 0.95 with a deviation of 0.02.
    assert covered / trials >= least
