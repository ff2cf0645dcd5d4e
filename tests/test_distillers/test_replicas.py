import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).resolve().parent


@pytest.mark.slow
def test_two_replicas_take_the_step_of_one(subtests):
    """Plain gradients, moments under either way of clipping, rates, groups of batches.

    MobileBERT's losses too: the published TF2 code sums them over replicas.
    """
    done = subprocess.run(
        [sys.executable, HERE / "two_replicas.py"],
        env={**os.environ, "PYTHONPATH": f"{HERE.parent}:{HERE.parents[1]}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    printed = json.loads(done.stdout.splitlines()[-1])
    results = printed["steps"]
    assert len(results) == 7
    for case, result in results.items():
        with subtests.test(case):
            one, two = result["one"], result["two"]
            for name, values in one["logs"].items():
                np.testing.assert_allclose(two["logs"][name], values, rtol=1e-5)
            assert len(one["values"]) == len(two["values"]) > 40
            for ours, expected in zip(two["values"], one["values"], strict=True):
                # Three steps of float32 in another order of addition.
                np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=5e-5)
    # Replicas that dropped the same elements of the same example would be one of them.
    one, two = printed["noisy"]
    assert np.abs(np.array(one) - two).max() > 1e-3
