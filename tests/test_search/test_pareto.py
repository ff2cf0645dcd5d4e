"""Dominance against a brute-force loop, and a choice that differs."""

import itertools

import pytest
import simulated_device

from tfdistill import models
from tfdistill.search import pareto, space


def estimate(latency_ms, size_bytes, capacity, depth=4, kind="gelu"):
    config = models.preset("tinybert_4l_312d").replace(num_layers=depth)
    interval = (0.9 * latency_ms, 1.1 * latency_ms)
    candidate = space.Candidate(kind, config)
    return pareto.Estimate(candidate, latency_ms, interval, size_bytes, capacity, capacity, 1)


A = estimate(1.0, 100, 50)


@pytest.mark.parametrize(
    "other, dominated",
    [
        (estimate(1.1, 100, 50), True),
        (estimate(1.0, 110, 50), True),
        (estimate(1.0, 100, 40), True),
        (estimate(1.0, 100, 50, depth=3), True),
        (estimate(1.0, 100, 50), False),  # equal: neither is worse
        (estimate(0.9, 110, 50), False),
        (estimate(1.1, 100, 60), False),
        (estimate(1.1, 110, 40, depth=6), False),
        (estimate(1.1, 110, 40, kind="relu"), False),
    ],
)
def test_one_dominates_where_it_is_worse_in_nothing_and_better_in_something(other, dominated):
    assert pareto.dominates(A, other) == dominated


def test_the_front_is_that_of_comparing_all_with_all(rng):
    values = rng.integers(1, 6, (80, 4))
    drawn = [
        estimate(float(a), int(b), int(c), int(d) + 1, kind)
        for (a, b, c, d), kind in zip(values, itertools.cycle(["gelu", "relu"]), strict=False)
    ]
    expected = [e for e in drawn if not any(pareto.dominates(other, e) for other in drawn)]
    assert pareto.front(drawn) == expected
    assert 5 < len(expected) < 80


def test_the_choice_begins_with_the_largest_capacity_and_differs():
    near = [estimate(1.0 + i / 1000, 1000 + i, 500 + i) for i in range(20)]
    apart = [estimate(0.5, 500, 250, depth=2), estimate(1.0, 1000, 500, kind="relu")]
    chosen = pareto.diverse([*near, *apart], 3)
    assert chosen[0] is near[-1]
    assert {id(e) for e in chosen[1:]} == {id(e) for e in apart}


def test_what_uses_little_of_the_budget_is_chosen_last():
    large, tiny, near = estimate(1.0, 1000, 1000), estimate(0.01, 10, 10), estimate(0.9, 900, 900)
    assert pareto.diverse([tiny, near, large], 3) == [large, near, tiny]


def test_no_more_are_chosen_than_there_are():
    assert pareto.diverse([A], 5) == [A]
    assert pareto.diverse([], 5) == []


@pytest.mark.parametrize(
    "latency_ms, size_mb, allowed",
    [(1.2, None, True), (1.05, None, False), (1.2, 0.0001, True), (1.2, 0.00009, False)],
)
def test_a_budget_wants_the_upper_end_of_the_interval_and_the_size(latency_ms, size_mb, allowed):
    assert pareto.Budget(latency_ms, size_mb).allows(A) == allowed


def test_a_prediction_that_nobody_trusts_is_kept_a_tenth_below_the_budget():
    config = A.candidate
    unsure = pareto.Estimate(config, 1.0, (0.1, 10.0), 100, 50, 50, 1)
    assert pareto.Budget(1.11).allows(unsure)
    assert not pareto.Budget(1.09).allows(unsure)


def test_the_front_of_a_space_holds_every_depth():
    found = space.candidates("tinybert", simulated_device.TEACHER, kinds=("gelu",))
    front = pareto.front(
        [
            estimate(i + 1.0, i, c.config.hidden_size, c.config.num_layers)
            for i, c in enumerate(found)
        ]
    )
    assert {e.depth for e in front} == {2, 3, 4, 6, 12}
