import json
import pathlib

import numpy as np
import pytest

import harness


def trained(*cases):
    """Runs cases of two_replicas.py; returns what it prints."""
    done = harness.run_program(pathlib.Path(__file__).with_name("two_replicas.py"), *cases)
    results = json.loads(done.stdout.splitlines()[-1])
    assert tuple(results) == cases
    return results


def check_steps(subtests, results):
    for case, (one, two) in results.items():
        with subtests.test(case):
            for name, values in one["logs"].items():
                # Of a small term the sum of float32 terms near 1 leaves an error of its own.
                np.testing.assert_allclose(two["logs"][name], values, rtol=1e-5, atol=1e-7)
            assert len(one["values"]) == len(two["values"]) > 40
            for ours, expected in zip(two["values"], one["values"], strict=True):
                # Three steps of float32 in another order of addition.
                np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=5e-5)


@pytest.mark.slow
def test_two_replicas_take_the_step_of_one(subtests):
    """Plain gradients, also of pairs of texts; clipped moments, rates, groups of batches."""
    results = trained("layers", "similarities", "groups", "dropout")
    # Replicas that dropped the same elements of the same example would be one of them.
    one, two = results.pop("dropout")
    assert np.abs(np.array(one) - two).max() > 1e-3
    check_steps(subtests, results)


@pytest.mark.slow
@pytest.mark.thorough
def test_whatever_is_learnt_and_clipped_two_replicas_take_the_step_of_one(subtests):
    """MobileBERT's losses too: the published TF2 code sums them over replicas."""
    check_steps(subtests, trained("labels", "clipped", "clipped by tensor", "own", "mobilebert"))
