"""A BiLSTM as a TFLite file: built-in operators, the same answers, no memory of earlier calls."""

import numpy as np
import pytest

import export
from export.checking.outputs import file_outputs
from tfdistill import models
from tfdistill.tflite import TfliteModel

pytestmark = pytest.mark.slow

LENGTHS = (5, 8)
CONFIG = models.BiLstmConfig(
    embedding_size=48, hidden_size=40, dense_size=32, vocab_size=200, pair_encoding="siamese"
)
# What this toy reaches, seeded: 130 and 36 dB; a factor of two is left for other kernels.
SQNR_DB = {"float32": 120.0, "dynamic_wi8_afp32": 30.0}
BYTES = {"float32": 4, "dynamic_wi8_afp32": 1}


def file_of(config, quantize, toy, lively, folder):
    """A model of three classes, its file, the card and the examples that it was checked on."""
    model = lively(models.build_classifier(config, 3))
    examples = toy.encoded.select(np.flatnonzero(toy.encoded.lengths <= max(LENGTHS))[:40])
    path = folder / "model.tflite"
    options = {"quantize": quantize, "lengths": LENGTHS, "check_on": examples}
    return model, path, export.to_tflite(model, path, **options), examples


@pytest.fixture(scope="module")
def done(toy, lively, tmp_path_factory):
    return file_of(CONFIG, "dynamic_wi8_afp32", toy, lively, tmp_path_factory.mktemp("bilstm"))


def test_the_file_answers_like_the_model_by_built_in_operators_that_share_the_weights(done):
    model, path, card, _ = done
    assert card.parity.sqnr_db > SQNR_DB["dynamic_wi8_afp32"]
    assert card.parity.argmax_agreement >= 0.97
    assert card.parity.output_rms > 0.5
    assert set(card.signatures) == {"len5", "len8"}
    assert card.architecture.family == "bilstm"
    assert card.architecture.num_parameters == models.count_parameters(CONFIG, 3)
    report = export.inspect(path)
    for graph in report.graphs:
        assert not [name for name in graph.operators if name.startswith(("CUSTOM", "FLEX"))]
        assert not {"UNIDIRECTIONAL_SEQUENCE_LSTM", "WHILE", "VAR_HANDLE"} & set(graph.operators)
    matrices = sum(weight.size for weight in model.get_weights() if weight.size >= 1024)
    # Biases and the small classifier in float32, shapes of operators.
    assert matrices <= sum(report.weight_bytes.values()) <= matrices + 6_000


def test_an_answer_does_not_depend_on_what_was_asked_before(done):
    _, path, _, examples = done
    file = TfliteModel(path)
    order = np.random.default_rng(0).permutation(len(examples))
    forwards = file_outputs(file, examples)
    np.testing.assert_array_equal(file_outputs(file, examples.select(order)), forwards[order])
    assert np.ptp(forwards, axis=0).min() > 0.1


@pytest.mark.parametrize("quantize", ["dynamic_wi8_afp32", "float32"])
def test_a_static_student_is_a_table_and_a_classifier(quantize, toy, lively, tmp_path):
    config = models.StaticConfig(embedding_size=48, vocab_size=200)
    _, path, card, _ = file_of(config, quantize, toy, lively, tmp_path)
    assert card.architecture.family == "static"
    assert card.parity.sqnr_db > SQNR_DB[quantize]
    report = export.inspect(path)
    stored = sum(report.weight_bytes.values())
    assert stored == pytest.approx(200 * 48 * BYTES[quantize], rel=0.2, abs=2_000)
    for graph in report.graphs:
        assert not [name for name in graph.operators if name.startswith(("CUSTOM", "FLEX"))]
