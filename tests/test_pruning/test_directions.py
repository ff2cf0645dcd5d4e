"""Fewer directions, against what they are the best of."""

import numpy as np
import pytest

from tfdistill.pruning import weights


def moments_of(rows):
    return rows.T @ rows / len(rows)


@pytest.fixture(scope="module")
def states():
    random = np.random.default_rng(0)
    return random.normal(size=(500, 12)) * np.geomspace(3, 0.1, 12) @ random.normal(size=(12, 12))


def test_projected_states_sum_to_zero_and_keep_what_the_principal_directions_keep(states):
    basis = weights.hidden_basis(moments_of(states), 5)
    np.testing.assert_allclose((states @ basis).sum(axis=1), 0, atol=1e-9)
    _, _, right = np.linalg.svd(states, full_matrices=False)
    projected = states @ right[:4].T @ right[:4]
    np.testing.assert_allclose(states @ basis @ basis.T, projected, atol=1e-8)


def score_error(queries, keys, reading, writing):
    """The mean over all pairs of the squared change of q.k."""
    return np.mean((queries @ keys.T - (queries @ reading) @ (keys @ writing).T) ** 2)


def test_narrower_scores_are_the_best_of_their_rank():
    random = np.random.default_rng(1)
    queries, keys = (random.normal(size=(200, 8)) @ random.normal(size=(8, 8)) for _ in range(2))
    reading, writing = weights.narrower_scores(moments_of(queries), moments_of(keys), 3)
    reading = reading * np.sqrt(8 / 3)  # without the scale of the attention
    # Eckart and Young: no product of rank 3 is nearer to the matrix of all scores.
    values = np.linalg.svd(queries @ keys.T, compute_uv=False)
    best = np.sum(values[3:] ** 2) / 200**2
    assert score_error(queries, keys, reading, writing) == pytest.approx(best, rel=1e-6)


def test_narrower_scores_of_low_rank_are_exact_under_the_attentions_own_scale():
    random = np.random.default_rng(2)
    queries = random.normal(size=(100, 3)) @ random.normal(size=(3, 8))
    keys = random.normal(size=(100, 8))
    reading, writing = weights.narrower_scores(moments_of(queries), moments_of(keys), 3)
    narrow = (queries @ reading) @ (keys @ writing).T / np.sqrt(3)
    np.testing.assert_allclose(narrow, queries @ keys.T / np.sqrt(8), atol=1e-8)


@pytest.mark.parametrize(("width", "size"), [(12, 3), (4, 6)], ids=["narrower", "wider heads"])
def test_narrower_values_are_the_best_of_their_rank(width, size):
    random = np.random.default_rng(3)
    contexts, output = random.normal(size=(200, 8)), random.normal(size=(8, width))
    narrow, new = weights.narrower_values(moments_of(contexts), output, size)
    assert (narrow.shape, new.shape) == ((8, size), (size, width))
    error = np.sum((contexts @ output - contexts @ narrow @ new) ** 2)
    values = np.linalg.svd(contexts @ output, compute_uv=False)
    assert error == pytest.approx(np.sum(values[size:] ** 2), rel=1e-6)
