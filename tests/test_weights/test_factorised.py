"""Factorised word tables: one table in a file of transformers, two factors here, same outputs."""

import json

import numpy as np
import pytest
import tensorflow as tf
import toys
from test_weights.references import in_transformers

from tfdistill import errors, models, weights
from tfdistill.weights import factorised

CONFIG = toys.STUDENT.replace(embedding_size=3)
FEATURES = toys.features((7, 3, 9), seed=3)


def logits(model):
    return model({name: FEATURES[name] for name in model.input_names}).numpy()


def test_fewer_directions_leave_the_least_error():
    table = np.random.default_rng(0).normal(size=(40, 8))
    words, projection = factorised.split(table, 3)
    singular = np.linalg.svd(table, compute_uv=False)
    error = np.square(words @ projection - table).sum()
    assert error == pytest.approx(np.square(singular[3:]).sum(), rel=1e-4)


def test_words_that_texts_use_keep_their_vectors_best():
    table, counts = np.random.default_rng(0).normal(size=(40, 8)), np.zeros(40)
    counts[:10] = 7
    roots = np.sqrt(counts + 0.05)[:, None]
    words, projection = factorised.split(table, 3, counts)
    left, values, right = np.linalg.svd(roots * table, full_matrices=False)
    nearest = left[:, :3] * values[:3] @ right[:3] / roots
    np.testing.assert_allclose(words @ projection, nearest, rtol=0, atol=1e-5)


@pytest.fixture(
    scope="module", params=["bert", pytest.param("distilbert", marks=pytest.mark.thorough)]
)
def saved(request, tmp_path_factory):
    config = CONFIG
    if request.param == "distilbert":
        config = CONFIG.replace(family="distilbert", type_vocab_size=0, pooler=False)
    model = toys.classifier(config, seed=4)
    folder = tmp_path_factory.mktemp(request.param) / "hf"
    return model, weights.save_hf(model, folder)


@pytest.mark.slow
def test_what_was_saved_is_factorised_again_and_answers_alike(saved):
    model, folder = saved
    loaded = weights.load_classifier(folder)
    assert loaded.config == models.config_of(model)
    assert loaded.model.get_layer("word_embeddings").output_dim == 3
    assert loaded.model.count_params() == model.count_params()
    # Two roundings to float32 and another basis of the same three directions.
    np.testing.assert_allclose(logits(loaded.model), logits(model), rtol=0, atol=1e-5)


def test_transformers_reads_the_product(saved):
    model, folder = saved
    reference = in_transformers(folder)
    inputs = {name: FEATURES[name] for name in model.input_names}
    np.testing.assert_allclose(reference(inputs).logits, logits(model), rtol=0, atol=1e-5)


def test_a_wrong_width_in_the_file_is_refused(saved, tmp_path):
    _, folder = saved
    raw = json.loads((folder / "config.json").read_text())
    raw["tfdistill"]["embedding_size"] = 8
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(errors.ConfigError):
        weights.load_classifier(tmp_path)


def test_the_configuration_counts_both_factors_and_a_masked_language_model_takes_none():
    model = models.build_classifier(CONFIG, 3)
    assert model.count_params() == models.count_parameters(CONFIG, 3)
    assert models.config_of(model) == CONFIG
    whole = CONFIG.replace(embedding_size=None)
    assert models.flops(CONFIG, 10) - models.flops(whole, 10) == 2 * 10 * 3 * 8
    assert model(tf.nest.map_structure(tf.identity, FEATURES)).shape == (3, 3)
    with pytest.raises(errors.ConfigError, match="embedding_size=3"):
        models.build_masked_lm(CONFIG)
