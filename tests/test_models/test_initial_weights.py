"""How weights start: as BERT's, a normal of deviation 0.02 cut off at two deviations."""

import numpy as np
import pytest
import tf_keras as keras

from tfdistill import distillers, losses, models

BERT = models.EncoderConfig(
    num_layers=1, hidden_size=64, num_heads=4, intermediate_size=96, vocab_size=150
)
MOBILE = models.MobileBertConfig(
    num_layers=1,
    hidden_size=64,
    num_heads=4,
    intermediate_size=48,
    vocab_size=150,
    embedding_size=32,
    bottleneck_size=32,
)
DISTILBERT = BERT.replace(family="distilbert", pooler=False, type_vocab_size=0)
MAKERS = {
    "masked_lm": lambda: models.build_masked_lm(BERT, next_sentence=True),
    "mobilebert": lambda: models.build_masked_lm(MOBILE, next_sentence=True),
    "classifier": lambda: models.build_classifier(DISTILBERT, 3),
}


@pytest.fixture(autouse=True)
def seeded():
    keras.utils.set_random_seed(1)


def check_normal(values, deviation, what):
    """A normal that is cut off at two deviations has 0.8796 of its deviation left."""
    assert np.abs(values).max() < 2 * deviation, what
    # Four standard errors of a deviation, which are at most 1 / sqrt(2 n) of it.
    assert values.std() == pytest.approx(0.8796 * deviation, rel=4 / np.sqrt(2 * values.size)), what
    assert abs(values.mean()) < 4 * deviation / np.sqrt(values.size), what


def check_start(variables):
    for variable in variables:
        values = variable.numpy()
        if values.ndim == 1:
            start = 1.0 if "gamma" in variable.name else 0.0
            np.testing.assert_array_equal(values, start, err_msg=variable.name)
        else:
            check_normal(values, 0.02, variable.name)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_matrices_and_tables_start_as_berts(make):
    check_start(make().trainable_variables)


def test_projections_start_as_berts():
    student, teacher = BERT.replace(hidden_size=32), BERT
    pair = [models.build_encoder(config) for config in (teacher, student)]
    for projections in (
        distillers.TinyBertDistiller(*pair, projection="per_layer").projections,
        distillers.Distiller(*pair, {"x": losses.HiddenStateMSE(projection="shared")}).projections,
    ):
        for projection in projections:
            assert projection.kernel.shape == (32, 64)
            check_start(projection.weights)


def test_a_bilstm_has_a_wider_table():
    config = models.BiLstmConfig(vocab_size=90, embedding_size=20, hidden_size=8, dense_size=8)
    model = models.build_classifier(config, 3)
    check_normal(model.get_layer("word_embeddings").get_weights()[0], 0.1, "table")
