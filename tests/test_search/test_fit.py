"""The latency model: recovers a law, and says rightly how far off it is."""

import numpy as np
import pytest
import simulated_device

from tfdistill import errors
from tfdistill.search import fit, space, work

SPACE = space.candidates("logits", simulated_device.TEACHER)


@pytest.fixture
def drawn(rng):
    """60 shapes to fit to, 300 others."""
    order = rng.permutation(len(SPACE))[:360]
    shapes = [SPACE[i].config for i in order]
    truth = np.array([simulated_device.true_latency(shape, 64) for shape in shapes])
    counts = work.matrix(shapes, 64, head="sequence")
    return (counts[:60], truth[:60]), (counts[60:], truth[60:])


def test_without_noise_unseen_shapes_are_predicted_exactly(drawn):
    (counts, truth), (others, other_truth) = drawn
    model = fit.fit_latency(counts, truth)
    np.testing.assert_allclose(model.predict(others), other_truth, rtol=1e-6)
    assert model.margin < 1e-6


def test_with_noise_the_error_is_that_of_the_noise(drawn, rng):
    (counts, truth), (others, other_truth) = drawn
    model = fit.fit_latency(counts, truth * np.exp(0.03 * rng.standard_normal(60)))
    found = fit.errors_of(model.predict(others), other_truth)
    assert found.median < 0.02  # 60 points, 7 unknowns: 0.03 sqrt(7 / 60) = 0.010


def test_nine_in_ten_unseen_measurements_lie_in_the_interval(drawn, rng):
    (counts, truth), (others, other_truth) = drawn
    inside = []
    for _ in range(10):
        model = fit.fit_latency(counts, truth * np.exp(0.05 * rng.standard_normal(60)))
        measured = other_truth * np.exp(0.05 * rng.standard_normal(300))
        bounds = np.array([model.interval(p) for p in model.predict(others)])
        inside.append(((bounds[:, 0] <= measured) & (measured <= bounds[:, 1])).mean())
    # The mean of 10 fits: the rank of 60 left-out residuals moves a coverage by 0.04 each.
    assert 0.86 < np.mean(inside) < 0.95


def test_no_coefficient_is_negative(drawn, rng):
    (counts, truth), _ = drawn
    model = fit.fit_latency(counts, truth * np.exp(0.3 * rng.standard_normal(60)))
    assert min(model.coefficients.values()) >= 0


def test_a_small_model_counts_as_much_as_a_large_one(drawn):
    (counts, truth), _ = drawn
    measured = truth.copy()
    slowest = np.argsort(truth)[-3:]
    measured[slowest] *= 1.1  # absolute least squares would bend everything to these
    model = fit.fit_latency(counts, measured)
    small = np.argsort(truth)[:20]
    assert np.abs(model.predict(counts[small]) / truth[small] - 1).max() < 0.05


def test_a_file_that_something_disturbed_does_not_bend_the_others(drawn, rng):
    (counts, truth), (others, other_truth) = drawn
    measured = truth * np.exp(0.005 * rng.standard_normal(60))
    measured[::12] *= 2
    model = fit.fit_latency(counts, measured)
    assert fit.errors_of(model.predict(others), other_truth).median < 0.02


def test_the_stated_errors_are_those_of_numpy():
    found = fit.errors_of([1.1, 0.9, 2.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    assert (found.n, found.worst) == (4, 1.0)
    assert found.median == pytest.approx(0.1)
    assert found.p90 == pytest.approx(np.percentile([0.1, 0.1, 1.0, 0.0], 90))


def test_the_margin_is_the_rank_of_the_conformal_interval():
    measured = np.ones(19)
    predicted = 1 + np.arange(1, 20) / 100  # 0.01 ... 0.19 apart; ceil(0.9 x 20) = 18
    assert fit.margin_of(predicted, measured) == pytest.approx(0.18)
    assert fit.margin_of(1 / predicted, measured) == pytest.approx(0.18)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_latency_that_is_no_positive_number_is_refused(drawn, bad):
    (counts, truth), _ = drawn
    truth[3] = bad
    with pytest.raises(errors.BenchmarkError, match="positive numbers"):
        fit.fit_latency(counts, truth)


def test_too_few_files_are_refused(drawn):
    (counts, truth), _ = drawn
    with pytest.raises(errors.BenchmarkError, match="at least 4"):
        fit.fit_latency(counts[:3], truth[:3])


def test_errors_of_nothing_are_refused():
    with pytest.raises(errors.BenchmarkError, match="held-out"):
        fit.errors_of([], [])


def test_sizes_that_are_linear_in_the_contents_are_predicted_exactly():
    shapes = [candidate.config for candidate in SPACE[::40]]
    contents = work.contents_matrix(shapes, (64,))
    truth = contents @ np.array([9000, 750, 1.0, 1.01, 4, 16, 8])
    model = fit.fit_size(contents[::2], truth[::2].tolist())
    np.testing.assert_allclose(model.predict(contents), truth, rtol=1e-6)
