"""The static student against a NumPy loop: means of word vectors, pairs, sizes."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models, training
from tfdistill.tasks import encoded

LINEAR = models.StaticConfig(embedding_size=5, vocab_size=30, dropout=0.2)
CONFIGS = {
    "linear": LINEAR,
    "hidden layer": LINEAR.replace(dense_size=6),
    "siamese": LINEAR.replace(pair_encoding="siamese"),
}
IDS = np.array([[2, 7, 3, 9, 3], [2, 4, 3, 8, 0], [2, 3, 0, 0, 0]], np.int32)
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], np.int32)
TYPES = np.array([[0, 0, 0, 1, 1], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0]], np.int32)


def answers(model, ids=IDS, mask=MASK, types=TYPES):
    features = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
    return model({name: tf.constant(features[name]) for name in model.input_names}).numpy()


@pytest.fixture(params=CONFIGS, scope="module")
def model(request):
    return toys.randomise(models.build_classifier(CONFIGS[request.param], 3), 4)


def test_logits_are_those_of_a_loop_over_tokens(model):
    config = models.config_of(model)
    (table,) = model.get_layer("word_embeddings").get_weights()
    expected = []
    for ids, mask, types in zip(IDS, MASK, TYPES, strict=True):
        means = []
        for text in (0, 1) if config.pair_encoding == "siamese" else (None,):
            rows = [
                table[word]
                for word, real, kind in zip(ids, mask, types, strict=True)
                if real and (text is None or kind == text)
            ]
            means.append(np.mean(rows, axis=0) if rows else np.zeros(5))
        features = means[0]
        if len(means) == 2:
            first, second = means
            features = np.concatenate([first, second, abs(first - second), first * second])
        if config.dense_size:
            kernel, bias = model.get_layer("dense").get_weights()
            features = np.maximum(features @ kernel + bias, 0)
        kernel, bias = model.get_layer("classifier").get_weights()
        expected.append(features @ kernel + bias)
    np.testing.assert_allclose(answers(model), expected, rtol=0, atol=1e-5)


def test_what_stands_in_the_padding_does_not_count(model):
    other = np.where(MASK == 1, IDS, 29)
    np.testing.assert_array_equal(answers(model, ids=other), answers(model))


def test_sizes_follow_from_the_configuration(model):
    config = models.config_of(model)
    assert config in CONFIGS.values()
    assert model.count_params() == models.count_parameters(config, 3)
    width = 20 if config.pair_encoding == "siamese" else 5
    hidden = width * config.dense_size
    assert models.flops(config, 64, 3) == 2 * (hidden + 3 * (config.dense_size or width))
    assert (config.num_layers, config.num_heads, config.family) == (0, 0, "static")


def test_word_vectors_are_scaled_until_means_are_of_size_one():
    model = models.build_classifier(LINEAR, 2)
    (before,) = model.get_layer("word_embeddings").get_weights()
    ids = np.array([2, 7, 7, 7, 3, 2, 7, 9, 3], np.int32)
    examples = encoded.EncodedExamples(
        ids=ids, offsets=np.array([0, 5, 9]), types=np.zeros(9, np.uint8), labels=None, pad_id=0
    )
    training.scale_words(model, examples)
    (after,) = model.get_layer("word_embeddings").get_weights()
    ratios = after / before
    np.testing.assert_allclose(ratios, ratios[0, 0], rtol=1e-5)
    means = [after[ids[:5]].mean(axis=0), after[ids[5:]].mean(axis=0)]
    assert np.sqrt(np.mean(np.square(means))) == pytest.approx(1, rel=1e-5)


def test_it_is_no_encoder():
    with pytest.raises(errors.ConfigError, match=r"a static student.*use build_classifier"):
        models.build_encoder("static")
