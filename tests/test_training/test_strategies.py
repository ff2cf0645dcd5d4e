"""Training on two devices is training on one: weights, histories, resumed runs, refusals."""

import json
import pathlib

import numpy as np
import pytest

import harness
from tfdistill.commands import options
from tfdistill.training import strategies

HERE = pathlib.Path(__file__).resolve().parent


def trained(folder, *parts):
    """Runs two_devices.py, which has two logical CPUs, and reads what it found."""
    harness.run_program(HERE / "two_devices.py", folder, *parts)
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("two"), "labels")


def check_alike(two, one, *, atol=1e-5):
    """Weights after some steps of float32 in another order of addition, and the logged means."""
    assert two["values"].keys() == one["values"].keys()
    for name, values in one["values"].items():
        np.testing.assert_allclose(two["values"][name], values, rtol=1e-4, atol=atol, err_msg=name)
    for ours, expected in zip(two.get("history", ()), one.get("history", ()), strict=True):
        assert ours.keys() == expected.keys()
        for column, value in expected.items():
            assert float(ours[column]) == pytest.approx(float(value), rel=1e-4, abs=1e-6), column


@pytest.mark.slow
def test_two_devices_share_batches_fine_tune_as_one_and_go_on_to_the_same_bits(measured):
    assert measured["chosen"]
    assert measured["shares"] == [[[0, 1], [2, 3, 4]], [[10, 11], [12, 13]], [[], [20]]]
    # Buckets, sample weights, groups of batches, and a last batch with one example.
    one, two = measured["labels"]["1"], measured["labels"]["2"]
    assert (one["steps"], two["steps"]) == (15, 15)
    check_alike(two, one)
    assert measured["labels"]["22"] == measured["labels"]["2"]


@pytest.mark.thorough
def test_pre_training_on_two_devices_equals_that_on_one(tmp_path):
    """From the same initial weights, on shards, with masks drawn before a batch is shared out."""
    words = trained(tmp_path, "words")["words"]
    one, two = words["1"], words["2"]
    assert (one["devices"], two["devices"]) == (["CPU:0"], ["CPU:0", "CPU:1"])
    check_alike(two, one)
    assert one["held_out"].keys() == two["held_out"].keys()
    for name, value in one["held_out"].items():
        assert two["held_out"][name] == pytest.approx(value, rel=1e-4), name


@pytest.mark.slow
@pytest.mark.parametrize("devices", ["21", "12"])
def test_a_run_goes_on_with_another_number_of_devices(measured, devices):
    assert measured["labels"][devices]["steps"] == 15
    check_alike(measured["labels"][devices], measured["labels"]["1"])


@pytest.mark.slow
def test_what_cannot_be_spread_is_refused_first(measured):
    messages = measured["refusals"]
    assert "expected 1 to 2, the devices here (CPU:0, CPU:1), received 3" in messages["devices"]
    assert "received 0" in messages["none"]
    assert messages["batch"].splitlines() == [
        "stages.prediction.batch_size: expected a multiple of 2, the devices that share a batch, "
        "received 15. Use 14 or 16, or --gpus 1.",
        "teacher.finetune.batch_size: expected a multiple of 2, the devices that share a batch, "
        "received 1. Use 2, or --gpus 1.",
    ]
    assert "stages.prediction.compress: expected one device" in messages["quantize"]
    assert messages["quantize"].endswith("received 2 devices. Use --gpus 1.")


@pytest.mark.slow
@pytest.mark.thorough
def test_recipes_on_two_devices_equal_those_on_one(tmp_path, subtests):
    recipes = trained(tmp_path, "recipe")["recipe"]
    assert [recipes[n]["devices"] for n in ("1", "2")] == [["CPU:0"], ["CPU:0", "CPU:1"]]
    for devices in ("2", "21"):
        with subtests.test(f"recipe {devices}"):
            # Steps of Adam on gradients near 0 carry their rounding.
            check_alike(recipes[devices], recipes["1"], atol=5e-5)


def test_a_single_worker_is_no_cluster(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"]}}))
    assert strategies.choose(1) is None


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], None), (["--gpus", "auto"], None), (["--gpus", "2"], 2)],
)
def test_devices_are_all_or_a_number(arguments, expected):
    import argparse

    parser = argparse.ArgumentParser()
    options.add_gpus(parser)
    assert parser.parse_args(arguments).gpus == expected
