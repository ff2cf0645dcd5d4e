"""Counts against the models themselves."""

import numpy as np
import pytest

from tfdistill import models
from tfdistill.budget import costs

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


def test_what_a_file_holds_beside_its_words_is_the_same_with_two_factors():
    shape = models.preset("minilm_6l_384d")
    narrower = shape.replace(embedding_size=96)
    without_words = [
        costs.file_bytes(each, (16, 32), "dynamic_wi8_afp32")
        - costs.table_bytes(each, "dynamic_wi8_afp32")
        for each in (shape, narrower)
    ]
    assert without_words[0] == pytest.approx(without_words[1])
    assert costs.table_bytes(narrower, "float32") == 4 * 96 * (shape.vocab_size + 384)
    most = costs.table_of_most_words(shape, "float32") / costs.table_bytes(shape, "float32")
    assert most == pytest.approx(0.85, abs=1e-4)
