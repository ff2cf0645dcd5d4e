import numpy as np
import pytest
from scipy import stats as scipy_stats

from tfdistill import errors
from tfdistill.benchmark import stats


def measured(rng, *, level=1.0, process=0.0, noise=0.1, repetitions=3, blocks=10, runs=10):
    """Log-normal samples: every process has its own factor, every sample its own noise."""
    factors = level * np.exp(rng.normal(0, process, repetitions))
    return [
        [list(factor * np.exp(rng.normal(0, noise, runs))) for _ in range(blocks)]
        for factor in factors
    ]


def test_the_summary_equals_numpy_and_a_hand_made_case():
    samples = np.random.default_rng(0).lognormal(size=257)
    summary = stats.summarize(samples)
    for q in (50, 90, 95, 99):
        assert summary[f"p{q}_ms"] == np.percentile(samples, q)
    assert summary["std_ms"] == pytest.approx(scipy_stats.tstd(samples))
    hand = stats.summarize([4.0, 1.0, 2.0, 3.0])
    assert (hand["p50_ms"], hand["p90_ms"], hand["mean_ms"], hand["n"]) == (2.5, 3.7, 2.5, 4)
    assert (hand["min_ms"], hand["max_ms"]) == (1.0, 4.0)
    assert stats.summarize([5.0])["std_ms"] == 0.0


@pytest.mark.parametrize("samples", [[], [1.0, float("nan")], [float("inf")]])
def test_samples_that_are_none_or_not_finite_are_refused(samples):
    with pytest.raises(errors.BenchmarkError, match="latency samples: expected at least one"):
        stats.summarize(samples)


def test_one_repetition_of_single_sample_blocks_is_the_ordinary_bootstrap():
    samples = np.random.default_rng(1).lognormal(size=80)
    ours = stats.median_ci([[[s] for s in samples]], resamples=4000)
    theirs = scipy_stats.bootstrap(
        (samples,), np.median, n_resamples=4000, method="percentile", rng=0
    ).confidence_interval
    # Both are random; the ends move by a few hundredths between seeds.
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05)


def test_student_over_repetitions_is_in_the_interval():
    # Repetitions without inner spread: what is left is Student's interval of the log medians.
    repetitions = [[[v] * 4] for v in (1.0, 1.1, 1.3)]
    logs = np.log([1.0, 1.1, 1.3])
    low, high = scipy_stats.t.interval(0.95, 2, logs.mean(), scipy_stats.sem(logs))
    assert stats.median_ci(repetitions) == pytest.approx((np.exp(low), np.exp(high)))


def test_whole_repetitions_are_drawn():
    # The pooled median is 1 or 2, by how many of the nine processes of each kind are drawn;
    # Student's interval of their logarithms, 1.03 to 1.80, is inside.
    repetitions = [[[v] * 4] for v in (1.0,) * 5 + (2.0,) * 4]
    assert stats.median_ci(repetitions) == (1.0, 2.0)


@pytest.mark.parametrize("process", [0.0, 0.05])
def test_the_interval_of_the_median_covers_the_truth_and_two_equal_models_are_called_equal(process):
    rng = np.random.default_rng(2)
    covered, claims, trials = 0, 0, 100
    for seed in range(trials):
        one, two = (measured(rng, process=process, blocks=6, runs=6) for _ in range(2))
        low, high = stats.median_ci(one, seed=seed, resamples=120)
        covered += low <= 1.0 <= high
        claims += stats.is_faster(stats.speedup_ci(one, two, seed=seed, resamples=120)) is not None
    # Nominal 95 and 5. A bootstrap without Student's interval claims a difference in some 25 of
    # 100 when processes differ; one over single samples in some 80.
    assert covered >= 90
    assert claims <= 9


def test_a_real_difference_is_found_in_either_direction():
    rng = np.random.default_rng(3)
    slow, fast = measured(rng, level=1.5, process=0.01), measured(rng, process=0.01)
    low, high = stats.speedup_ci(slow, fast)
    assert low < 1.5 < high
    assert high / low < 1.2
    assert stats.is_faster((low, high)) is True
    assert stats.is_faster(stats.speedup_ci(fast, slow)) is False


def test_an_interval_that_holds_one_says_nothing():
    assert stats.is_faster((0.9, 1.1)) is None
    assert stats.is_faster((1.0, 1.1)) is None
    assert stats.is_faster((0.9, 1.0)) is None


def test_drift_that_both_models_share_cancels_in_the_ratio():
    rng = np.random.default_rng(4)
    drift = np.exp(rng.normal(0, 0.5, (3, 20)))  # each round of each repetition has its own
    slow, fast = (
        [[list(level * d * np.exp(rng.normal(0, 0.01, 5))) for d in row] for row in drift]
        for level in (1.2, 1.0)
    )
    paired = stats.speedup_ci(slow, fast)
    shifted = stats.speedup_ci(slow, [row[::-1] for row in fast])  # the rounds no longer match
    assert stats.is_faster(paired) is True
    assert stats.is_faster(shifted) is None


def test_the_seed_decides_the_interval():
    repetitions = measured(np.random.default_rng(5))
    assert stats.median_ci(repetitions, seed=1) == stats.median_ci(repetitions, seed=1)
    one = [[[s] for s in np.random.default_rng(6).lognormal(size=200)]]
    few = [stats.median_ci(one, seed=seed, resamples=40) for seed in (1, 2)]
    assert few[0] != few[1]


def test_models_that_were_not_measured_in_the_same_rounds_are_not_compared():
    with pytest.raises(errors.BenchmarkError, match="rounds of the two models"):
        stats.speedup_ci([[[1.0], [1.0]]], [[[1.0]]])
    with pytest.raises(errors.BenchmarkError, match="at least one block"):
        stats.median_ci([])


def test_blocks_keep_every_sample_in_order():
    assert stats.blocks_of([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
