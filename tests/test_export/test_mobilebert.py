"""A MobileBERT goes through the same export as a BERT."""

import dataclasses

import numpy as np
import pytest
import toys

import export
from export.model import graph
from tfdistill import models

pytestmark = pytest.mark.slow

LENGTHS = (8, 16)
SHARED = models.MobileBertConfig(
    num_layers=2,
    hidden_size=64,
    num_heads=4,
    intermediate_size=64,
    vocab_size=200,
    max_positions=40,
    hidden_act="relu",
    dropout=0.0,
    attention_dropout=0.0,
    embedding_size=32,
    bottleneck_size=32,
    num_feed_forward=2,
)
CONFIGS = {
    "shared": SHARED,
    "not-shared": SHARED.replace(shared_key_query=False, num_layers=1),
    "tiny": SHARED.replace(shared_key_query=False, bottleneck_attention=True, pooler=True),
    "ib-bert": SHARED.replace(
        shared_key_query=False,
        bottleneck_size=96,
        num_feed_forward=1,
        normalization="layer_norm",
        hidden_act="gelu_tanh",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_computing_the_last_layer_for_cls_alone_changes_nothing(name, lively):
    model = lively(models.build_classifier(CONFIGS[name], 3))
    run = graph.forward(model)
    for length in (12, 7, 2):
        row = {name: tensor[1:] for name, tensor in toys.features((12, length)).items()}
        expected = model(row, training=False).numpy()
        # Two orders of the same float32 sums, of logits in the tens.
        np.testing.assert_allclose(run(row)["logits"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "quantize"),
    [
        ("shared", "dynamic_wi8_afp32"),
        pytest.param("shared", "float32", marks=pytest.mark.thorough),
        pytest.param("ib-bert", "dynamic_wi8_afp32", marks=pytest.mark.thorough),
        ("ib-bert", "float32"),
    ],
)
def test_the_file_answers_like_the_model(name, quantize, toy, lively, tmp_path):
    model = lively(models.build_classifier(CONFIGS[name], 3))
    # Some examples fill a signature to the last place, where no padding follows.
    assert np.isin(toy.encoded.lengths, LENGTHS).any()
    unlabelled = dataclasses.replace(toy.encoded, labels=None)
    options = {"quantize": quantize, "lengths": LENGTHS, "check_on": unlabelled}
    card = export.to_tflite(model, tmp_path / "model.tflite", **options)
    # Measured: 119 and 121 dB in float32, 25 and 30 dB with int8 weights.
    assert card.parity.sqnr_db > (100 if quantize == "float32" else 22)
    assert card.architecture.num_parameters == models.count_parameters(CONFIGS[name], 3)
    report = export.inspect(tmp_path / "model.tflite")
    operators = {operator for graph in report.graphs for operator in graph.operators}
    assert not operators & {"EINSUM", "BROADCAST_TO", "SHAPE"}
    assert {"BATCH_MATMUL", "FULLY_CONNECTED", "SOFTMAX"} <= operators
