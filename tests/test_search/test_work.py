"""Counts: of work and of contents, against the models themselves."""

import numpy as np
import pytest

from tfdistill import models
from tfdistill.search import space, work

SHAPES = [
    models.preset("tinybert_4l_312d"),
    models.preset("bert_tiny").replace(hidden_act="relu"),
    models.preset("mobilebert").replace(num_layers=3),
    models.preset("mobilebert_tiny").replace(num_layers=2),
]


PRUNED = models.preset("bert_mini").replace(num_heads=2, head_size=64)


@pytest.mark.parametrize("shape", [*SHAPES, PRUNED])
def test_a_file_for_every_token_does_all_the_multiply_adds_of_the_model(shape):
    counted = work.work(shape, 32, head="token")
    expected = models.flops(shape, 32, 2, over_tokens=True) // 2
    assert counted.dense_macs + counted.attention_macs == expected
    assert counted.row_weights == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_a_classifier_computes_its_last_layer_for_one_row(shape):
    whole, short = (work.work(shape, 32, head=head) for head in ("token", "sequence"))
    for name in ("dense_macs", "attention_macs", "softmax_elements", "gelu_elements"):
        assert getattr(short, name) <= getattr(whole, name)
    assert short.dense_macs < whole.dense_macs
    assert short.row_weights > shape.attention_width**2


def test_the_last_layers_keys_and_values_see_every_token():
    shape = models.preset("tinybert_4l_312d").replace(num_layers=1)
    counted = work.work(shape, 64)
    assert counted.dense_macs == 64 * 2 * 312 * 312
    one_row = 2 * 312 * 312 + 2 * 312 * 1200
    assert counted.row_weights == one_row + 312 * 312 + 312 * 2  # pooler, classifier


def test_normalizations_and_activations_are_counted_apart():
    gelu, relu, no_norm, _ = (work.work(shape, 16) for shape in SHAPES)
    assert gelu.gelu_elements > 0 == relu.gelu_elements == no_norm.gelu_elements
    assert gelu.layer_norm_elements > 0 == gelu.no_norm_elements
    assert no_norm.no_norm_elements > 0 == no_norm.layer_norm_elements


def test_layers_add_up():
    shape = models.preset("tinybert_4l_312d")
    counts = work.matrix([shape.replace(num_layers=n) for n in (2, 3, 4)], 64, head="sequence")
    steps = np.diff(counts, axis=0)
    far = work.FEATURES.index("far_weights")
    np.testing.assert_array_equal(np.delete(steps[0], far), np.delete(steps[1], far))


def test_only_products_too_large_for_a_near_cache_are_read_again():
    narrow, wide = (
        models.preset("bert_base").replace(num_layers=2, hidden_size=h, intermediate_size=4 * h)
        for h in (480, 768)
    )
    assert work.work(narrow, 16).large_macs == 0  # 480 x 1920: fewer than a million
    assert work.work(wide, 16).large_macs == 16 * 2 * 768 * 3072  # the last layer sees one row


def test_weights_that_the_caches_do_not_hold_are_the_share_of_small_products():
    def far(num_layers, width):
        shape = models.preset("bert_base").replace(
            num_layers=num_layers, hidden_size=width, num_heads=12, intermediate_size=4 * width
        )
        counted = work.work(shape, 16)
        return counted.far_weights, counted.farther_weights

    one_layer = 12 * 240 * 240
    rest = 240 * 240 + 240 * 2  # pooler, classifier
    assert far(5, 240) == (0, 0)
    assert far(8, 240) == (8 * one_layer + rest - 4e6, 0)
    assert far(12, 240) == (12 * one_layer + rest - 4e6, 12 * one_layer + rest - 8e6)
    weights = 12 * 768 * 768 * 2 + 768 * 768 + 768 * 2
    small = weights - 2 * 2 * 768 * 3072
    assert far(2, 768)[0] == (weights - 4e6) * small / weights


@pytest.mark.parametrize("shape", SHAPES)
def test_contents_are_the_parameters_of_the_model(shape):
    held = work.contents(shape, (32,))
    stored = held.weights + held.tables + held.positions + held.channels + held.norms
    unused = (shape.max_positions - 32) * shape.hidden_size
    assert stored == models.count_parameters(shape, 2) - unused


@pytest.mark.parametrize("shape", SHAPES)
def test_capacity_is_the_parameters_of_the_layers(shape):
    doubled = shape.replace(num_layers=2 * shape.num_layers)
    grown = models.count_parameters(doubled) - models.count_parameters(shape)
    assert work.encoder_parameters(shape) == grown


def test_candidates_know_their_blocks():
    candidate = space.Candidate("gelu", SHAPES[0])
    assert candidate.name == "4l_312d_12h_1200f_gelu"
    assert candidate.with_layers(1).config == SHAPES[0].replace(num_layers=1)
