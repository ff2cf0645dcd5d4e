"""The chosen lengths are those of the least expected time, and the time is that of the texts."""

import itertools

import numpy as np
import pytest

from tfdistill.manifest import lengths


def cost_of(chosen, texts, time, signature):
    """A loop over the formula of `choose`."""
    total = 0.0
    for tokens, count in texts.items():
        fitting = [n for n in chosen if n >= tokens] or [max(chosen)]
        total += count * time(min(fitting))
    return total / sum(texts.values()) + len(chosen) * signature


@pytest.mark.parametrize("seed", range(8))
def test_no_other_set_of_lengths_is_cheaper(seed):
    """Against every subset of the candidates, with texts beyond the longest length among them."""
    rng = np.random.default_rng(seed)
    longest = int(rng.integers(18, 45))
    texts = {int(n): int(rng.integers(1, 9)) for n in rng.integers(2, longest + 6, 12)}
    linear, quadratic, signature = rng.uniform(0, 2, 3) * (1.0, 0.05, 1.0)
    most = int(rng.integers(1, 6))

    def time(n):
        return 1.0 + linear * n + quadratic * n * n

    candidates = range(4, longest, 4)
    chosen = lengths.choose(texts, longest, time, most=most, step=4, signature=signature)
    subsets = (
        (*shorter, longest)
        for number in range(min(most, len(candidates) + 1))
        for shorter in itertools.combinations(candidates, number)
    )
    least = min(cost_of(subset, texts, time, signature) for subset in subsets)
    assert chosen == tuple(sorted(set(chosen))) and chosen[-1] == longest
    assert len(chosen) <= most and {*chosen} <= {*candidates, longest}
    assert cost_of(chosen, texts, time, signature) == pytest.approx(least, rel=1e-12)


def test_the_expected_time_is_the_mean_over_the_texts_unless_a_length_was_not_measured():
    times = {16: 1.0, 32: 3.0}
    assert lengths.expected_time(times, {10: 2, 16: 1, 17: 1}) == 1.5
    assert lengths.expected_time(times, {90: 1}) == 3.0  # cut to the longest length
    assert lengths.expected_time({}, {10: 1}) is None
    assert lengths.expected_time(times, {}) is None
    times, of_file = {32: 3.0}, (16, 32)
    assert lengths.expected_time(times, {10: 1, 20: 1}, of_file) is None
    assert lengths.expected_time(times, {20: 1}, of_file) == 3.0
