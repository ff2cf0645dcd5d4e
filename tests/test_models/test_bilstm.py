"""The BiLSTM against NumPy loops and keras.layers.LSTM; what padding and pairs do."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import errors, models
from tfdistill.models.bilstm import LastLstmState

JOINED = models.BiLstmConfig(
    embedding_size=7, hidden_size=5, dense_size=6, vocab_size=30, dropout=0.2, pad_token_id=1
)
CONFIGS = {
    "joined": JOINED,
    "siamese": JOINED.replace(pair_encoding="siamese"),
    "one direction": JOINED.replace(bidirectional=False),
}
FIRST, SECOND = (4, 2, 1), (3, 5, 0)  # tokens of the two texts of each example


def batch(width=9, seed=0):
    random = np.random.default_rng(seed)
    places = np.arange(width)
    first, both = np.array(FIRST)[:, None], np.add(FIRST, SECOND)[:, None]
    mask = (places < both).astype(np.int32)
    types = ((places >= first) & (places < both)).astype(np.int32)
    ids = np.random.default_rng(3).integers(0, 30, (3, 30)).astype(np.int32)[:, :width]
    filler = random.integers(0, 30, mask.shape)
    ids = np.where(mask == 1, ids, filler).astype(np.int32)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def inputs_of(model, features):
    return {name: tf.constant(features[name]) for name in model.input_names}


@pytest.fixture(params=CONFIGS, ids=lambda name: name.replace(" ", "-"), scope="module")
def config(request):
    return CONFIGS[request.param]


@pytest.fixture(scope="module")
def model(config):
    model = toys.randomise(models.build_classifier(config, 3), 4)
    for variable in model.weights:  # large enough for gates that open and close
        variable.assign(2.5 * variable)
    return model


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_loop(layer, vectors):
    """The state after the last vector, one number at a time in float64."""
    kernel, recurrent, bias = (w.astype(np.float64) for w in layer.get_weights())
    units = layer.units
    hidden, cell = np.zeros(units), np.zeros(units)
    for x in vectors[::-1] if layer.backwards else vectors:
        gates = x @ kernel + hidden @ recurrent + bias
        for u in range(units):
            i, f, g = (gates[k * units + u] for k in range(3))
            cell[u] = sigmoid(f) * cell[u] + sigmoid(i) * np.tanh(g)
        shown = gates[3 * units :]
        hidden = sigmoid(shown) * np.tanh(cell)
    return hidden


def logits_loop(model, config, features):
    table = model.get_layer("word_embeddings").get_weights()[0].astype(np.float64)
    lstms = [layer for layer in model.layers if isinstance(layer, LastLstmState)]
    rows = []
    for ids, mask, types in zip(
        *(features[n] for n in ("input_ids", "attention_mask", "token_type_ids")), strict=True
    ):

        def read(keep, ids=ids):
            vectors = table[ids[keep]]
            return np.concatenate([lstm_loop(lstm, vectors) for lstm in lstms])

        if config.pair_encoding == "siamese":
            u, v = read((mask == 1) & (types == 0)), read((mask == 1) & (types == 1))
            state = np.concatenate([u, v, np.abs(u - v), u * v])
        else:
            state = read(mask == 1)
        for name in ("dense", "classifier"):
            kernel, bias = model.get_layer(name).get_weights()
            state = state @ kernel + bias
            if name == "dense":
                state = np.maximum(state, 0)
        rows.append(state)
    return np.array(rows)


def test_logits_equal_a_loop_over_tokens(config, model):
    features = batch()
    expected = logits_loop(model, config, features)
    assert np.ptp(expected, axis=0).min() > 0.05  # the examples differ
    # Float32 sums of at most 20 terms over at most 7 steps.
    np.testing.assert_allclose(
        model(inputs_of(model, features), training=False), expected, rtol=1e-5, atol=1e-5
    )


def test_padding_changes_nothing(model):
    before = model(inputs_of(model, batch()), training=False)
    for width, seed in ((7, 1), (9, 2), (30, 3)):
        features = batch(width, seed)
        after = model(inputs_of(model, features), training=False)
        np.testing.assert_array_equal(after, before)


@pytest.mark.slow
@pytest.mark.parametrize("config", ["siamese"], indirect=True)
def test_a_loop_in_the_graph_gives_what_written_out_steps_give(model):
    features = inputs_of(model, batch())
    fixed = {name: tf.TensorSpec((3, 9), tf.int32) for name in features}
    open_ = {name: tf.TensorSpec((None, None), tf.int32) for name in features}
    answers = {}
    for name, specs in (("known", fixed), ("open", open_)):
        function = tf.function(lambda x: model(x, training=False), input_signature=[specs])
        graph = function.get_concrete_function().graph
        loops = [op for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
        assert bool(loops) == (name == "open")
        answers[name] = function(features).numpy()
    # The same operations; only fused differently.
    np.testing.assert_allclose(answers["known"], answers["open"], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("backwards", "length"), [(False, None), (True, 6)])
def test_the_lstm_is_that_of_keras_with_its_gradients(backwards, length, rng):
    ours = LastLstmState(5, backwards=backwards)
    reference = keras.layers.LSTM(5, go_backwards=backwards)
    vectors = tf.constant(rng.standard_normal((4, 6, 3)), tf.float32)
    mask = tf.constant([[1] * 6, [1, 1, 1, 0, 0, 0], [1] + [0] * 5, [0, 0, 1, 1, 1, 0]])
    ours.build([vectors.shape, mask.shape])
    reference.build(vectors.shape)
    weights = [rng.normal(0, 0.6, weight.shape) for weight in reference.get_weights()]
    ours.set_weights(weights)
    reference.set_weights(weights)
    specs = (tf.TensorSpec((None, length, 3)), tf.TensorSpec((None, length), tf.int32))

    @tf.function(input_signature=specs)
    def ours_with_gradients(x, keep):
        with tf.GradientTape() as tape:
            tape.watch(x)
            state = ours((x, keep))
            loss = tf.reduce_sum(state * tf.range(1.0, 6.0))
        return state, tape.gradient(loss, [x, *ours.trainable_weights])

    with tf.GradientTape() as tape:
        tape.watch(vectors)
        expected = reference(vectors, mask=mask > 0)
        loss = tf.reduce_sum(expected * tf.range(1.0, 6.0))
    slopes = tape.gradient(loss, [vectors, *reference.trainable_weights])
    state, gradients = ours_with_gradients(vectors, mask)
    np.testing.assert_allclose(state, expected, rtol=1e-5, atol=1e-6)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-5)


def test_parameters_and_operations_are_counted(config, model):
    assert model.count_params() == models.count_parameters(config, 3)
    assert models.count_parameters(config) == models.count_parameters(config, 3) - 3 * 7
    directions = 2 if config.bidirectional else 1
    texts, times = (2, 4) if config.pair_encoding == "siamese" else (1, 1)
    dense = 2 * 6 * (times * directions * 5 + 3)
    expected = texts * directions * 11 * 2 * (4 * 5 * (7 + 5)) + dense
    assert models.flops(config, 11, 3) == expected


@pytest.mark.parametrize(
    ("name", "parameters"),
    # By hand: 30522 x 300 + 2 x 4 x 150 x 451 + 400 x (300 or 1200) + 400 + 2 x 401.
    [("bilstm_1l_150d", 9_819_002), ("bilstm_1l_150d_siamese", 10_179_002)],
)
def test_presets_have_the_published_sizes(name, parameters):
    config = models.preset(name)
    assert (config.embedding_size, config.hidden_size, config.dense_size) == (300, 150, 400)
    assert models.count_parameters(config, 2) == parameters


def test_it_is_a_classifier_without_layers_or_heads_to_compare(config, model):
    assert (config.family, config.num_layers, config.num_heads) == ("bilstm", 0, 0)
    assert models.head_of(model) == "sequence"
    types = {"token_type_ids"} if config.pair_encoding == "siamese" else set()
    assert set(model.input_names) == {"input_ids", "attention_mask", *types}
    features = inputs_of(model, batch())
    taps = models.taps(model)(features)
    np.testing.assert_array_equal(taps["logits"], model(features))
    table = model.get_layer("word_embeddings").get_weights()[0]
    np.testing.assert_array_equal(taps["embeddings"], table[features["input_ids"].numpy()])
    for name in ("hidden_states", "attention_scores", "queries", "keys", "values"):
        assert taps[name] == []


def test_only_a_classifier_can_be_built():
    for build in (models.build_encoder, models.build_masked_lm, models.build_span_classifier):
        with pytest.raises(errors.ConfigError):
            build("bilstm_1l_150d")
    with pytest.raises(errors.ConfigError, match="num_labels"):
        models.build_classifier(JOINED, 0)
