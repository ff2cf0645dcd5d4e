import itertools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras

from tfdistill import models

ONES = tf.ones((400, 251))  # 100,400 elements, an odd number in a row


def dropped(name, seed, rate=0.1, values=ONES):
    layer = models.Dropout(rate, name=name)
    with models.dropout_seed(seed):
        return layer(values, training=True).numpy()


def test_another_layer_or_seed_drops_others():
    masks = [dropped(name, seed) == 0 for name, seed in (("a", 7), ("b", 7), ("c", 7), ("a", 8))]
    for one, other in itertools.combinations(masks, 2):
        # Independent masks of rate 0.1 share 0.01 of the elements: 1,004, deviation 32.
        assert abs((one & other).sum() - 1004) < 160


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_elements_survive_at_the_rate_and_are_scaled_to_keep_the_mean(rate):
    values = dropped("a", 3, rate)
    # Five deviations of a binomial.
    assert abs((values == 0).mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / values.size)
    met = round(rate * 65536) / 65536
    np.testing.assert_allclose(values[values != 0], 1 / (1 - met), rtol=1e-6)  # float32


def test_the_gradient_passes_where_the_value_did():
    layer = models.Dropout(0.5, name="a")
    with models.dropout_seed(1), tf.GradientTape() as tape:
        tape.watch(ONES)
        values = layer(ONES, training=True)
    np.testing.assert_array_equal(tape.gradient(values, ONES), values)


def test_rows_and_columns_do_not_repeat():
    alive = dropped("a", 5) != 0
    assert len(np.unique(alive, axis=0)) == len(alive)
    assert alive.mean(axis=0).std() < 0.03  # sqrt(0.09 / 400) = 0.015


def test_nothing_is_dropped_where_the_caller_says_so():
    layer = models.Dropout(0.5)
    with models.dropout_seed(1, drops=False):
        assert layer(ONES, training=True) is ONES
        with models.dropout_seed(1):
            assert np.any(layer(ONES, training=True) == 0)
        assert layer(ONES, training=True) is ONES
    assert np.any(layer(ONES, training=True) == 0)


def test_nothing_is_dropped_in_inference_or_at_rate_zero():
    layer = models.Dropout(0.5)
    with models.dropout_seed(1):
        assert layer(ONES, training=False) is ONES
        assert layer(ONES) is ONES
        assert models.Dropout(0.0)(ONES, training=True) is ONES


def test_a_tensor_can_say_whether_it_is_training():
    layer = models.Dropout(0.5, name="a")

    @tf.function
    def run(training):
        with models.dropout_seed(2):
            return layer(ONES, training=training)

    np.testing.assert_array_equal(run(tf.constant(False)), ONES)
    np.testing.assert_array_equal(run(tf.constant(True)), dropped("a", 2, 0.5))


def test_without_a_seed_it_draws_from_the_global_generator():
    layer = models.Dropout(0.5)

    def twice():
        keras.utils.set_random_seed(4)
        return [layer(ONES, training=True).numpy() for _ in range(2)]

    first, second = twice(), twice()
    assert (first[0] != first[1]).any()
    np.testing.assert_array_equal(first, second)


def test_the_seed_ends_with_its_block_and_nests():
    layer = models.Dropout(0.5, name="a")
    with models.dropout_seed(1):
        with models.dropout_seed(2):
            pass
        np.testing.assert_array_equal(layer(ONES, training=True), dropped("a", 1, 0.5))
    keras.utils.set_random_seed(4)
    assert (layer(ONES, training=True).numpy() != layer(ONES, training=True).numpy()).any()


def test_a_traced_step_takes_its_masks_from_the_step_number():
    config = models.EncoderConfig(
        num_layers=1, hidden_size=8, num_heads=2, intermediate_size=8, vocab_size=9
    )
    model = models.build_classifier(config, 2)
    features = {name: tf.ones((2, 3), tf.int32) for name in model.input}

    @tf.function
    def step(number):
        with models.dropout_seed(number):
            return model(features, training=True)

    first = step(tf.constant(1))
    step(tf.constant(2))
    np.testing.assert_array_equal(step(tf.constant(1)), first)
    assert (step(tf.constant(2)).numpy() != first.numpy()).any()
