"""Counts against the models themselves, and fits on laws that are known."""

import numpy as np
import pytest
import simulated_device

from tfdistill import errors, models
from tfdistill.search import costs, shapes

SPACE = shapes.candidates(models.preset("bert_base"))
PRUNED = models.preset("bert_mini").replace(num_heads=2, head_size=64)


@pytest.mark.parametrize("shape", [models.preset("tinybert_4l_312d"), PRUNED])
def test_a_file_for_every_token_does_all_the_multiply_adds_of_the_layers(shape):
    _, layers, dense, one_row, attention, _, _ = costs.work(shape, 32, "token")
    assert dense + attention == models.flops(shape, 32) // 2
    assert (layers, one_row) == (shape.num_layers, 0)


def test_a_classifier_computes_its_last_layer_for_one_row():
    shape = models.preset("tinybert_4l_312d").replace(num_layers=1)
    _, _, dense, one_row, attention, scores, _ = costs.work(shape, 64, "sequence")
    assert dense == 64 * 2 * 312 * 312  # keys and values see every token
    assert one_row == 2 * 312 * 312 + 2 * 312 * 1200
    assert (attention, scores) == (2 * 64 * 312, 12 * 64)


def test_full_layers_add_up():
    shape = models.preset("tinybert_4l_312d")
    counts = np.array([costs.work(shape.replace(num_layers=n), 64, "sequence") for n in (2, 3, 4)])
    np.testing.assert_array_equal(counts[1] - counts[0], counts[2] - counts[1])


@pytest.mark.parametrize("shape", [models.preset("bert_mini"), PRUNED])
def test_what_a_file_stores_are_all_parameters_but_unused_positions(shape):
    _, layers, weights, tables, vectors = costs.stored(shape, shape.max_positions)
    parameters = models.count_parameters(shape)
    # Vectors count a norm's scale and shift and a bias each; the pooler's bias and the norm of the
    # embeddings are the rest.
    assert weights + tables + vectors == pytest.approx(parameters, abs=4 * shape.hidden_size)
    assert layers == shape.num_layers


def test_capacity_is_the_parameters_of_the_layers():
    shape = models.preset("bert_mini")
    one = models.count_parameters(shape.replace(num_layers=1))
    assert costs.capacity(shape) == 4 * (models.count_parameters(shape) - one) // 3


@pytest.fixture
def drawn(rng):
    order = rng.permutation(len(SPACE))[:360]
    counts = np.array([costs.work(SPACE[i].config, 64, "sequence") for i in order])
    truth = counts @ simulated_device.MS_PER_UNIT
    return (counts[:60], truth[:60]), (counts[60:], truth[60:])


def test_without_noise_unseen_shapes_are_predicted_exactly(drawn):
    (counts, truth), (others, other_truth) = drawn
    coefficients = costs.fit_latency(counts, truth)
    np.testing.assert_allclose(others @ coefficients, other_truth, rtol=1e-6)


def test_with_noise_the_error_is_that_of_the_noise(drawn, rng):
    (counts, truth), (others, other_truth) = drawn
    noisy = truth * np.exp(0.03 * rng.standard_normal(60))
    coefficients = costs.fit_latency(counts, noisy)
    # 60 points, 7 unknowns: 0.03 sqrt(7 / 60) = 0.010
    assert np.median(np.abs(others @ coefficients / other_truth - 1)) < 0.02
    assert coefficients.min() >= 0


def test_a_small_model_counts_as_much_as_a_large_one(drawn):
    (counts, truth), _ = drawn
    measured = truth.copy()
    measured[np.argsort(truth)[-3:]] *= 1.1  # absolute errors would bend everything to these
    coefficients = costs.fit_latency(counts, measured)
    small = np.argsort(truth)[:20]
    assert np.abs(counts[small] @ coefficients / truth[small] - 1).max() < 0.05


def test_a_file_that_something_disturbed_does_not_bend_the_others(drawn, rng):
    (counts, truth), (others, other_truth) = drawn
    measured = truth * np.exp(0.005 * rng.standard_normal(60))
    measured[::12] *= 2
    coefficients = costs.fit_latency(counts, measured)
    assert np.median(np.abs(others @ coefficients / other_truth - 1)) < 0.02


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_a_latency_that_is_no_positive_number_is_refused(drawn, bad):
    (counts, truth), _ = drawn
    truth[3] = bad
    with pytest.raises(errors.BenchmarkError, match="positive numbers"):
        costs.fit_latency(counts, truth)


def test_too_few_files_are_refused(drawn):
    (counts, truth), _ = drawn
    with pytest.raises(errors.BenchmarkError, match="at least 4"):
        costs.fit_latency(counts[:3], truth[:3])


def test_sizes_that_are_linear_in_what_is_stored_are_predicted_exactly():
    contents = np.array([costs.stored(candidate.config, 64) for candidate in SPACE[::40]])
    truth = contents @ simulated_device.BYTES_PER_UNIT
    np.testing.assert_allclose(
        contents @ costs.fit_size(contents[::2], truth[::2].tolist()), truth, rtol=1e-6
    )


def test_files_that_are_measured_differ_in_every_count_and_are_unique():
    counts = np.array([costs.work(candidate.config, 64, "sequence") for candidate in SPACE])
    chosen = costs.far_apart(counts, 10, 0)
    assert chosen[0] == 0 and len(set(chosen)) == 10
    spread = counts[chosen, 1:].max(axis=0) / counts[chosen, 1:].min(axis=0)
    assert (spread > 5).all()
    assert sorted(costs.far_apart(counts[:4], 10, 2)) == [0, 1, 2, 3]
