"""Percentiles, intervals and ratios: against NumPy and SciPy, and by simulation."""

import numpy as np
import pytest
from benchmark_results import latencies
from scipy import stats as scipy_stats

from tfdistill import errors
from tfdistill.benchmark.statistics import stats


def median_ci(repetitions, **options):
    (interval,) = stats.percentile_cis(repetitions, (50,), **options)
    return interval


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


def test_one_repetition_is_the_ordinary_bootstrap_and_several_give_students_interval():
    samples = np.random.default_rng(1).lognormal(size=80)
    ours = median_ci([[[s] for s in samples]], resamples=4000)
    reference = scipy_stats.bootstrap(
        (samples,), np.median, n_resamples=4000, method="percentile", rng=0
    ).confidence_interval
    # Both are random; the ends move by a few hundredths between seeds.
    assert ours == pytest.approx((reference.low, reference.high), abs=0.05)
    # Repetitions without inner spread: what is left is Student's interval of the log medians.
    repetitions = [[[v] * 4] for v in (1.0, 1.1, 1.3)]
    logs = np.log([1.0, 1.1, 1.3])
    low, high = scipy_stats.t.interval(0.95, 2, logs.mean(), scipy_stats.sem(logs))
    assert median_ci(repetitions) == pytest.approx((np.exp(low), np.exp(high)))


@pytest.mark.parametrize("process", [0.0, 0.05])
def test_the_interval_of_the_median_covers_the_truth_and_two_equal_models_are_called_equal(process):
    rng = np.random.default_rng(2)
    covered, claims, trials = 0, 0, 100
    for seed in range(trials):
        one, two = (measured(rng, process=process, blocks=6, runs=6) for _ in range(2))
        low, high = median_ci(one, seed=seed, resamples=120)
        covered += low <= 1.0 <= high
        claims += stats.is_faster(stats.speedup_ci(one, two, seed=seed, resamples=120)) is not None
    # Nominal 95 and 5. A bootstrap without Student's interval claims a difference in some 25 of
    # 100 when processes differ; one over single samples in some 80.
    assert covered >= 90
    assert claims <= 9


def test_a_real_difference_is_found_in_either_direction_and_a_drift_of_both_cancels():
    rng = np.random.default_rng(3)
    slow, fast = measured(rng, level=1.5, process=0.01), measured(rng, process=0.01)
    low, high = stats.speedup_ci(slow, fast)
    assert low < 1.5 < high
    assert high / low < 1.2
    assert stats.is_faster((low, high)) is True
    assert stats.is_faster(stats.speedup_ci(fast, slow)) is False
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


@pytest.mark.parametrize(
    ("interval", "faster"),
    [
        *(((0.9, 1.1), None), ((1.0, 1.1), None), ((0.9, 1.0), None)),  # they hold one
        *(((0.99997, 0.99999), None), ((1.001, 1.009), None)),  # certain, and less than 1%
        *(((1.001, 1.011), True), ((0.989, 0.999), False)),
    ],
)
def test_faster_is_certain_and_by_more_than_one_percent(interval, faster):
    assert stats.is_faster(interval) is faster


def test_the_seed_decides_the_interval():
    repetitions = measured(np.random.default_rng(5))
    assert median_ci(repetitions, seed=1) == median_ci(repetitions, seed=1)
    one = [[[s] for s in np.random.default_rng(6).lognormal(size=200)]]
    few = [median_ci(one, seed=seed, resamples=40) for seed in (1, 2)]
    assert few[0] != few[1]


def test_models_that_were_not_measured_in_the_same_rounds_are_not_compared():
    with pytest.raises(errors.BenchmarkError, match="rounds of the two models"):
        stats.speedup_ci([[[1.0], [1.0]]], [[[1.0]]])
    with pytest.raises(errors.BenchmarkError, match="at least one block"):
        median_ci([])


def test_blocks_keep_every_sample_and_outliers_are_counted_against_their_own_repetition():
    assert stats.blocks_of([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]
    quiet = [1.0, 1.1, 1.2, 1.3, 1.4]  # quartiles about 1.1 and 1.3: beyond some 1.9
    slow = [10 * value for value in quiet]
    assert stats.count_outliers([[quiet, slow[:0]], [slow]]) == 0
    assert stats.count_outliers([[[*quiet, *quiet, 1.8]]]) == 0
    assert stats.count_outliers([[[*quiet, *quiet], [2.3]], [slow]]) == 1


def test_percentiles_equal_numpy_on_the_samples_written_out_also_in_pieces(monkeypatch):
    rng = np.random.default_rng(7)
    blocks = [rng.lognormal(size=size).round(1) for size in (3, 7, 1, 5)]  # with ties
    counts = rng.integers(0, 4, size=(50, 4))
    counts[:, 0] += 1  # none is empty
    estimates = stats.percentiles(blocks, counts, (0, 37, 50, 99, 100))
    for row, count in zip(estimates, counts, strict=True):
        written = np.concatenate([np.tile(b, n) for b, n in zip(blocks, count, strict=True)])
        assert row == pytest.approx(np.percentile(written, (0, 37, 50, 99, 100)), rel=1e-12)
    blocks = list(np.random.default_rng(9).lognormal(size=(6, 10)))
    counts = stats.draw([3, 3], 100, np.random.default_rng(0))
    whole = stats.percentiles(blocks, counts, (50, 99))
    monkeypatch.setattr(stats, "_CELLS", 200)  # three resamples at a time
    assert (stats.percentiles(blocks, counts, (50, 99)) == whole).all()


def test_a_draw_takes_whole_repetitions_and_as_many_blocks_as_each_has():
    shape = (2, 5, 1)
    counts = stats.draw(shape, 4000, np.random.default_rng(8))
    parts = np.split(counts, np.cumsum(shape)[:-1], axis=1)
    for part, blocks in zip(parts, shape, strict=True):
        taken = part.sum(axis=1)
        assert set(taken % blocks) == {0}  # whole repetitions
        assert set(taken // blocks) == {0, 1, 2, 3}
        # Every block is drawn once on average; the mean of 4000 has a deviation below 0.03.
        assert part.mean(axis=0) == pytest.approx(np.ones(blocks), abs=0.1)
    repetitions = sum(part.sum(axis=1) // blocks for part, blocks in zip(parts, shape, strict=True))
    assert set(repetitions) == {3}


# What a run of the default length looks like on a machine: processes and moments differ, moments
# that follow one another less so, single inferences vary, and bursts take twice as long.
WORLDS = {
    "usual": {},
    "equal processes": {"process": 0.0},
    "unequal processes": {"process": 0.05},
    "slow wandering": {"moment": 0.05, "memory": 0.9},
    "many bursts": {"bursts": 0.05},
}


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_intervals_cover_the_truth_as_often_as_they_say_under_realistic_noise(world):
    rng = np.random.default_rng(10)
    truth = np.percentile(latencies(rng, repetitions=6000, **WORLDS[world]), (50, 90, 95, 99))
    covered, equal, separate, trials = np.zeros(4), 0, 0, 120
    for seed in range(trials):
        one, two = (latencies(rng, **WORLDS[world]) for _ in range(2))
        intervals = stats.percentile_cis(one, (50, 90, 95, 99), seed=seed, resamples=150)
        covered += [
            low <= value <= high for (low, high), value in zip(intervals, truth, strict=True)
        ]
        equal += stats.is_faster(stats.speedup_ci(one, two, seed=seed, resamples=150)) is None
        unpaired = stats.compare_unpaired(one, two, seed=seed, resamples=150)
        separate += stats.is_faster(unpaired.interval()) is None
    # Nominal 0.95; the deviation of 120 trials is 0.02. A bootstrap alone covers some 0.75.
    assert (covered / trials).min() >= 0.88
    assert covered[0] / trials >= 0.91
    assert equal / trials >= 0.91
    assert separate / trials >= 0.91


def test_the_same_file_against_itself_is_called_equal_in_19_of_20_runs():
    """On average over twenty benchmarks of twenty runs, blocks in turns."""
    rng = np.random.default_rng(11)
    runs = 400
    contained = 0
    for seed in range(runs):
        rounds = np.exp(rng.normal(0, 0.05, (3, 10, 1)))  # what slows the machine slows both
        one, two = (rounds * latencies(rng, process=0.02) for _ in range(2))
        low, high = stats.speedup_ci(one, two, seed=seed, resamples=100)
        contained += low <= 1 <= high
    assert contained / runs >= 0.95


def test_separate_runs_have_students_interval_unless_there_is_one_repetition_of_each():
    # Repetitions without inner spread leave Student's part; SciPy's test has the same interval.
    old, new = [0.9, 1.0, 1.1, 1.3], [1.0, 1.25, 1.2]
    unpaired = stats.compare_unpaired(*([[[v] * 4] for v in side] for side in (old, new)))
    test = scipy_stats.ttest_ind(np.log(old), np.log(new))
    reference = test.confidence_interval(0.95)
    assert unpaired.interval() == pytest.approx((np.exp(reference.low), np.exp(reference.high)))
    one = [[[1.0, 1.1], [1.0, 1.2]]]
    assert stats.compare_unpaired(one, one) is None
    assert stats.compare_unpaired(one, [*one, *one]) is not None
    rng = np.random.default_rng(13)
    old = latencies(rng, level=2.0, repetitions=5, blocks=4, runs=20)
    low, high = stats.compare_unpaired(old, latencies(rng)).interval()
    assert low < 2.0 < high
