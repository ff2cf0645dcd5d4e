import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models

CONFIG = toys.STUDENT.replace(dropout=0.3, classifier_dropout=0.1)
MOBILE = models.MobileBertConfig(
    num_layers=2,
    hidden_size=12,
    num_heads=2,
    intermediate_size=6,
    vocab_size=30,
    max_positions=12,
    pooler=False,
    embedding_size=3,
    bottleneck_size=8,
    num_feed_forward=1,
)
LENGTHS = (5, 2)


@pytest.fixture(scope="module")
def features():
    return toys.features(LENGTHS)


@pytest.fixture(scope="module")  # no test changes it
def masked():
    return toys.randomise(models.build_masked_lm(CONFIG, next_sentence=True), 1)


@pytest.mark.parametrize("config", [CONFIG, MOBILE], ids=["bert", "mobilebert"])
def test_queries_keys_and_values_are_those_that_the_layers_compute_with(config, features):
    model = toys.randomise(models.build_encoder(config), 3)
    taps = models.taps(model)(features)
    assert len(taps["queries"]) == len(taps["keys"]) == len(taps["values"]) == 2
    for layer in range(2):
        query, key = taps["queries"][layer].numpy(), taps["keys"][layer].numpy()
        assert query.shape == key.shape == (2, 5, 8)
        for head, part in enumerate((slice(0, 4), slice(4, 8))):
            scores = query[..., part] @ key[..., part].transpose(0, 2, 1) / np.sqrt(4)
            # Float32 sums of 4 products of O(1) values.
            np.testing.assert_allclose(taps["attention_scores"][layer][:, head], scores, atol=1e-5)
        inputs = taps["hidden_states"][layer - 1] if layer else taps["embeddings"]
        kernel, bias = model.get_layer(f"layer_{layer}_value").get_weights()
        value = inputs.numpy() @ kernel + bias
        np.testing.assert_allclose(taps["values"][layer], value, atol=1e-5)


def test_an_encoder_moves_between_stages(masked, features):
    student = toys.randomise(models.build_classifier(CONFIG, 3), 5)
    head = student.get_layer("classifier").get_weights()
    models.copy_encoder(masked, student)
    with_mask = {**features, "prediction_mask": tf.ones_like(features["input_ids"])}
    there, here = models.taps(masked)(with_mask), models.taps(student)(features)
    np.testing.assert_array_equal(here["sequence_output"], there["sequence_output"])
    np.testing.assert_array_equal(here["pooled_output"], there["pooled_output"])
    for before, after in zip(head, student.get_layer("classifier").get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_what_only_one_of_the_two_has_stays_as_it_is(masked, features):
    source = toys.randomise(models.build_masked_lm(CONFIG.replace(dropout=0.0)), 6)
    target = toys.randomise(models.build_masked_lm(CONFIG, next_sentence=True), 7)
    head_layers = ("pooler", "nsp_classifier", "mlm_transform", "mlm_bias", "mlm_layer_norm")
    before = {name: target.get_layer(name).get_weights() for name in head_layers}
    models.copy_encoder(source, target)
    for name, arrays in before.items():
        for array, after in zip(arrays, target.get_layer(name).get_weights(), strict=True):
            np.testing.assert_array_equal(array, after)
    for name in ("word_embeddings", "layer_1_output", "embeddings_layer_norm"):
        for array, after in zip(
            source.get_layer(name).get_weights(),
            target.get_layer(name).get_weights(),
            strict=True,
        ):
            np.testing.assert_array_equal(array, after)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            CONFIG.replace(num_layers=1, hidden_act="relu", vocab_size=31, max_positions=9),
            "num_layers 1 instead of 2, .*vocab_size 31 instead of 30, max_positions 9 instead",
        ),
        (MOBILE, "MobileBertConfig instead of EncoderConfig"),
    ],
)
def test_an_encoder_of_another_shape_is_refused_by_field(masked, config, message):
    target = models.build_encoder(config)
    before = target.get_weights()
    with pytest.raises(errors.ShapeError, match=message):
        models.copy_encoder(masked, target)
    for array, after in zip(before, target.get_weights(), strict=True):
        np.testing.assert_array_equal(array, after)
