"""A float32 file may be as far from its model as the model's own rounding takes it, no further."""

import numpy as np
import pytest
import tf_keras as keras

from export.checking import outputs, reference
from export.model import inputs
from tfdistill import models
from tfdistill.models.heads import Head, build_model

LENGTH = 6


@pytest.fixture(scope="module")
def untrained():
    """A fresh MobileBERT, whose outputs hardly depend on its inputs, and its answers to probes."""
    config = models.MobileBertConfig(
        num_layers=1,
        hidden_size=16,
        num_heads=2,
        intermediate_size=16,
        vocab_size=50,
        max_positions=8,
        embedding_size=8,
        bottleneck_size=8,
        num_feed_forward=1,
        hidden_act="relu",
    )
    keras.utils.set_random_seed(0)
    model = build_model(config, Head("sequence", 3))
    probes = inputs.probes_of(config, LENGTH)
    return model, probes, outputs.model_logits(model, probes, [LENGTH])


def faults_of(untrained, file):
    model, probes, logits = untrained
    (moved,) = reference.moved_logits(model, [(probes, LENGTH)])
    return reference.noise_faults(logits, file, moved, "len6: ")


def test_an_error_of_a_hundred_thousandth_is_one(untrained):
    logits = untrained[2]
    rms = np.sqrt(np.mean(logits**2))
    (line,) = faults_of(untrained, logits + 1e-5 * rms)
    assert line.startswith("len6: error: expected at most ")
    assert "received 1e-05" in line


def test_one_output_of_one_row_is_seen(untrained):
    wrong = untrained[2].copy()
    wrong[-1, 0] += 7e-6 * np.sqrt(np.mean(wrong**2))
    (line,) = faults_of(untrained, wrong)
    assert line.startswith("len6: largest error")


def test_large_rounding_is_allowed_where_the_network_has_it(untrained):
    model, probes, _ = untrained
    kernel, bias = model.get_layer("classifier").get_weights()
    try:
        for times, refused in ((1, True), (1e4, False)):  # what is large comes and goes
            model.get_layer("classifier").set_weights([times * kernel, bias])
            logits = outputs.model_logits(model, probes, [LENGTH])
            wrong = logits + 1e-5 * np.sqrt(np.mean(untrained[2] ** 2))
            (moved,) = reference.moved_logits(model, [(probes, LENGTH)])
            assert bool(reference.noise_faults(logits, wrong, moved, "")) is refused
    finally:
        model.get_layer("classifier").set_weights([kernel, bias])


def test_each_weight_moves_by_one_step_and_each_draw_is_that_of_its_number(untrained):
    model, probes, logits = untrained
    groups = [(probes, LENGTH), (probes.select(range(3)), LENGTH)]
    of_all, of_three = reference.moved_logits(model, groups)
    assert len(of_all) == len(of_three) == 2
    for whole, part in zip(of_all, of_three, strict=True):
        assert not np.array_equal(whole, logits)
        np.testing.assert_allclose(part, whole[:3], rtol=1e-4, atol=1e-9)
    assert not np.array_equal(*of_all)
    for weight in model.get_weights():
        moved = reference._moved(weight, np.random.default_rng(0))
        nonzero = weight != 0
        steps = np.abs(moved[nonzero].astype(np.float64) / weight[nonzero] - 1)
        assert np.all((steps > 0) & (steps <= 2.0**-22)) and moved.dtype == weight.dtype


def test_the_weights_are_put_back(untrained):
    model, _, logits = untrained
    before = model.get_weights()
    faults_of(untrained, logits)
    for first, after in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(first, after)
