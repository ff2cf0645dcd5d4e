"""Quantization-aware models: the model itself, with int8 numbers inside."""

import compressed_layers
import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import compress, distillers, errors, models, training
from tfdistill.compress import quantization_aware, ranges

pytestmark = pytest.mark.slow

BATCH = toys.features((9, 6, 4), seed=5)


def test_it_is_the_model_to_all_who_look_at_it(quantized):
    mobilebert = toys.classifier(toys.MOBILEBERT, seed=2)
    for plain, aware in (
        (quantized.plain, quantized.trained),
        (mobilebert, compress.quantize_aware(mobilebert)),
    ):
        assert models.config_of(aware) == models.config_of(plain)
        assert models.head_of(aware) == "sequence" and models.num_labels_of(aware) == 3
        assert [layer.name for layer in aware.layers] == [layer.name for layer in plain.layers]
        assert aware.input_names == plain.input_names
        assert compress.is_quantize_aware(aware) and not compress.is_quantize_aware(plain)
        names = [weight.name for weight in aware.weights]
        assert len(set(names)) == len(names)
        assert {w.name for w in plain.weights} == {w.name for w in compress.float_weights(aware)}
        # Ranges are noted, never learnt by gradient.
        learnt = [weight.name for weight in aware.trainable_weights]
        assert sorted(learnt) == sorted(weight.name for weight in plain.trainable_weights)


def test_every_product_gets_int8_numbers(quantized):
    """Each Dense has a rounded kernel and a rounded input, and attention its three factors."""
    view = models.taps(quantized.trained)(BATCH)
    kernel = quantized.trained.get_layer("layer_0_intermediate").layer.kernel
    kinds = len(np.unique(kernel.numpy()))
    assert 100 < kinds <= 255  # of 512 weights: the range is that of the matrix, no wider
    for states in (view["queries"][0], view["values"][0], view["hidden_states"][0]):
        assert len(np.unique(states.numpy())) <= 256
    scores = quantized.trained.get_layer("layer_0_attention_scores")
    query, key, mask = (tf.random.normal((9, 16)), tf.eye(9, 16), tf.zeros((1, 1, 1, 9)))
    products = scores.layer.call((query, key, mask))  # its identity part shows the scaled query
    assert len(np.unique(products.numpy())) <= 256


def test_rounding_to_int8_is_that_of_numpy_and_late_batches_count_a_hundredth():
    layer = tf.Module()
    layer.add_weight = lambda name, **_: tf.Variable(0.0, name=name)
    rounder = ranges.ActivationRange()
    state = rounder.build(None, "output", layer)
    first, second = tf.constant([-1.0, 0.3, 3.0]), tf.constant([0.5, 1.0, 5.0])

    with ranges.observing():
        rounder(first, False, state)
        rounder(second, False, state)

    least, most = float(state["min"]), float(state["max"])
    assert (least, most) == (-0.5, 4.0)  # means of (-1, 0) and of (3, 5): 0 is always inside
    scale = (most - least) / 255
    zero = round(-least / scale)
    values = np.linspace(-1, 5, 50, dtype=np.float32)
    steps = np.clip(np.round(values / scale) + zero, 0, 255)
    expected = (steps - zero) * scale
    received = rounder(tf.constant(values), False, state).numpy()
    # An eighth of a step: TensorFlow nudges the range so that 0 is one of the 256 numbers.
    np.testing.assert_allclose(received, expected, atol=1.001 * scale)
    assert np.mean(np.abs(received - expected)) < scale / 8
    state["batches"].assign(500.0)
    rounder(tf.constant([-1.0, 6.0]), True, state)
    assert float(state["max"]) == pytest.approx(4.0 + 0.01 * 2.0)


def test_it_answers_almost_like_the_model_once_ranges_are_seen_and_is_not_trained(toy):
    aware = compress.quantize_aware(toy)
    before = [weight.numpy() for weight in compress.float_weights(aware)]
    assert compress.observe(aware, [BATCH, BATCH]) == 2

    for old, weight in zip(before, compress.float_weights(aware), strict=True):
        np.testing.assert_array_equal(old, weight.numpy())
    want, got = toy(BATCH).numpy(), aware(BATCH).numpy()
    error = np.sqrt(np.mean((want - got) ** 2) / np.mean(want**2))
    assert 1e-4 < error < 0.15  # a broken range leaves 1; int8 numbers leave something


def test_training_moves_weights_and_ranges_and_not_the_model_that_it_came_from(quantized):
    fresh = compress.quantize_aware(quantized.plain)
    moved = {
        old.name: not np.array_equal(old.numpy(), new.numpy())
        for old, new in zip(fresh.weights, quantized.trained.weights, strict=True)
    }
    # The wrapper's step counter is not used, a key's bias changes no softmax, which has no
    # negative numbers.
    still = {name for name, has in moved.items() if not has and "optimizer_step" not in name}
    assert still <= {"layer_0_key/bias:0", "layer_0_attention_probs/output_min:0"}
    untouched = toys.classifier(models.config_of(quantized.plain), seed=3)
    for old, new in zip(untouched.weights, quantized.plain.weights, strict=True):
        np.testing.assert_array_equal(old.numpy(), new.numpy())


def test_stripped_it_is_the_float_model_as_trained(quantized):
    trained = {weight.name: weight.numpy() for weight in compress.float_weights(quantized.trained)}
    assert [w.name for w in quantized.stripped.weights] == [w.name for w in quantized.plain.weights]
    for weight in quantized.stripped.weights:
        np.testing.assert_array_equal(weight.numpy(), trained[weight.name])
    assert models.config_of(quantized.stripped) == models.config_of(quantized.plain)
    assert compress.strip(quantized.plain) is quantized.plain


def test_layers_that_no_pattern_names_stay_in_float(toy):
    aware = compress.quantize_aware(toy, layers=["layer_0_*"])
    kind = quantization_aware.Quantized
    wrapped = {layer.name for layer in aware.layers if isinstance(layer, kind)}
    assert wrapped and all(name.startswith("layer_0_") for name in wrapped)


def test_zeros_and_clusters_stay(pruned, clustered):
    for earlier, unique in ((pruned, None), (clustered, 6)):
        aware = compress.quantize_aware(earlier.stripped)
        distiller = distillers.LogitDistiller(earlier.plain, aware, objective="logit_mse")
        distiller.compile(training.adamw(1e-2, total_steps=3))
        for _ in range(3):
            distiller.train_step((BATCH,))
        after = compress.strip(aware)
        moved = False
        for name, share in compressed_layers.sparsity_of(earlier.stripped).items():
            old = earlier.stripped.get_layer(name).kernel.numpy()
            new = after.get_layer(name).kernel.numpy()
            assert share == pytest.approx(0.75, abs=0.02)
            assert (new[old == 0] == 0).all(), name
            moved |= not np.array_equal(old, new)
        assert moved
        if unique:
            assert max(compressed_layers.clusters_of(after).values()) <= unique


def test_what_cannot_be_made_quantization_aware_and_ranges_never_learnt_say_why(quantized):
    for model in (quantized.trained, models.build_classifier(toys.BILSTM, 3)):
        with pytest.raises(errors.ConfigError):
            compress.quantize_aware(model)
    with pytest.raises(errors.ConfigError, match="patterns that match"):
        compress.quantize_aware(quantized.plain, layers=["block_*"])
    with pytest.raises(errors.ConfigError, match=r"compress\.observe"):
        compress.check_ranges(compress.quantize_aware(quantized.plain))


def test_4_bits_are_blocks_of_15_numbers_whose_scale_the_largest_gives():
    random = np.random.default_rng(0)
    matrix = random.normal(size=(64, 3)).astype(np.float32)
    matrix[32:, 1] = 0
    want = np.empty_like(matrix)
    for column in range(3):
        for start in (0, 32):
            block = matrix[start : start + 32, column]
            scale = float(tf.cast(tf.cast(np.abs(block).max() / 7, tf.bfloat16), tf.float32))
            for row, value in enumerate(block):
                steps = min(7, max(-7, round(value / scale))) if scale else 0
                want[start + row, column] = scale * steps

    grid = ranges.BlockGrid(axis=0)
    variable = tf.Variable(matrix)
    with tf.GradientTape() as tape:
        rounded = grid(variable, True, {})
        loss = tf.reduce_sum(rounded * rounded)

    np.testing.assert_array_equal(rounded, want)
    np.testing.assert_array_equal(grid(want, False, {}), want)  # rounded, it stays as it is
    np.testing.assert_array_equal(ranges.BlockGrid(axis=-1)(matrix.T, False, {}), want.T)
    np.testing.assert_array_equal(tape.gradient(loss, variable), 2 * want)  # straight through


def test_a_model_of_4_bits_trains_and_gives_a_plain_one_that_answers_alike():
    wide = models.EncoderConfig(
        vocab_size=200, hidden_size=32, num_layers=1, num_heads=2, intermediate_size=64
    )
    plain = toys.classifier(wide, seed=2)
    aware = compress.quantize_aware(plain, bits=4)
    before = aware(BATCH).numpy()
    assert not np.allclose(before, plain(BATCH), atol=1e-3)
    rounded = {layer.name for layer in aware.layers if isinstance(layer, quantization_aware.OnGrid)}
    assert {"word_embeddings", "layer_0_query", "layer_0_output"} <= rounded
    assert not {"position_embeddings", "classifier"} & rounded  # 96 numbers: the file leaves them
    assert {w.name for w in aware.trainable_weights} == {w.name for w in plain.trainable_weights}

    distiller = distillers.LogitDistiller(plain, aware, objective="logit_mse")
    distiller.compile(training.adamw(1e-3, total_steps=12, schedule="linear"))
    for _ in range(12):
        distiller.train_step((BATCH,))

    stripped = compress.strip(aware)
    assert not compress.is_quantize_aware(aware)
    assert [w.name for w in stripped.weights] == [w.name for w in plain.weights]
    np.testing.assert_array_equal(aware(BATCH), stripped(BATCH))
    assert np.abs(aware(BATCH) - plain(BATCH)).mean() < np.abs(before - plain(BATCH)).mean()
