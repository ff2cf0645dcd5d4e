import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models

BERT = toys.STUDENT.replace(num_layers=1, layer_norm_eps=1e-3, dropout=0.1)
CONFIGS = {
    "bert": BERT,
    "distilbert": BERT.replace(
        family="distilbert", type_vocab_size=0, pooler=False, hidden_act="relu"
    ),
    "mobilebert": models.MobileBertConfig(
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        intermediate_size=6,
        vocab_size=30,
        max_positions=12,
        layer_norm_eps=1e-3,
        pooler=False,
        embedding_size=3,
        bottleneck_size=4,
        num_feed_forward=1,
        normalization="no_norm",
    ),
}
ASKED = np.array([[0, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 1, 0, 0, 0]], np.int32)
LENGTHS = (5, 4, 2)


@pytest.fixture(params=CONFIGS, scope="module")
def config(request):
    return CONFIGS[request.param]


@pytest.fixture(scope="module")  # no test changes it
def model(config):
    return toys.randomise(
        models.build_masked_lm(config, next_sentence=config.family != "distilbert"), 1
    )


@pytest.fixture(scope="module")
def features(model):
    every = {**toys.features(LENGTHS, seed=2), "prediction_mask": tf.constant(ASKED)}
    return {name: every[name] for name in model.input}


def weights(model, name):
    return [np.float64(array) for array in model.get_layer(name).get_weights()]


def transformed(model, states):
    """x (N, d) for states (N, d): LayerNorm(act(W h + c))."""
    kernel, bias = weights(model, "mlm_transform")
    values = states @ kernel + bias
    act = models.config_of(model).hidden_act
    values = np.maximum(values, 0) if act == "relu" else np.float64(tf.nn.gelu(values))
    gamma, beta = weights(model, "mlm_layer_norm")
    centred = values - values.mean(axis=1, keepdims=True)
    return centred / np.sqrt(values.var(axis=1, keepdims=True) + 1e-3) * gamma + beta


def asked_states(model, features):
    """h (N, d) of the asked tokens, example after example."""
    states = models.taps(model)(features)["sequence_output"].numpy()
    return np.float64([states[b, t] for b in range(3) for t in range(5) if ASKED[b, t]])


def test_the_answers_are_those_of_the_formula_at_the_asked_tokens_in_their_order(
    config, model, features
):
    (decoder,) = weights(model, "word_embeddings")
    if config.family == "mobilebert":
        decoder = np.concatenate([decoder, weights(model, "mlm_extra_decoder")[0].T], axis=1)
    logits = transformed(model, asked_states(model, features)) @ decoder.T
    answers = model(features)
    # Float32 sums of 8 products of O(1) values, after a LayerNorm.
    np.testing.assert_allclose(
        answers["mlm_logits"], logits + weights(model, "mlm_bias")[0], atol=2e-5
    )
    assert answers["mlm_logits"].dtype == tf.float32


def test_next_sentences_are_told_from_the_pooled_output(config, model, features):
    answers = model(features)
    assert ("nsp_logits" in answers) == (config.family != "distilbert")
    if "nsp_logits" in answers:
        states = models.taps(model)(features)
        first = states["sequence_output"][:, 0].numpy()
        if config.pooler:
            kernel, bias = weights(model, "pooler")
            first = np.tanh(first @ kernel + bias)
        np.testing.assert_allclose(states["pooled_output"], first, atol=1e-5)
        kernel, bias = weights(model, "nsp_classifier")
        assert kernel.shape == (config.hidden_size, 2)
        np.testing.assert_allclose(answers["nsp_logits"], first @ kernel + bias, atol=1e-5)


def test_without_a_question_there_is_no_answer(model, features):
    nothing = {**features, "prediction_mask": tf.zeros_like(features["prediction_mask"])}
    assert model(nothing)["mlm_logits"].shape == (0, 30)


def test_the_head_works_on_the_asked_tokens_alone(config, model):
    specs = {name: tf.TensorSpec((2, 8), tf.int32, name=name) for name in model.input}
    graph = tf.function(lambda x: model(x)).get_concrete_function(specs).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    transform = [op for op in products if "/mlm_transform/" in op.name]
    decoders = [op for op in products if op.outputs[0].shape[-1] == 30]
    assert len(transform) == 1
    assert len(decoders) == (2 if config.family == "mobilebert" else 1)
    # 16 rows where all tokens would go through; the number of asked ones is not known.
    assert {op.outputs[0].shape[0] for op in [*transform, *decoders]} == {None}


def test_the_decoder_is_the_table_of_the_words(model, features):
    table = model.get_layer("word_embeddings").embeddings
    unseen = next(i for i in range(30) if i not in features["input_ids"].numpy())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(features)["mlm_logits"][:, unseen])
    gradient = tf.convert_to_tensor(tape.gradient(loss, table))[unseen]
    # Of a word that no text holds, all that reaches the table comes from the decoder: sum of x.
    expected = transformed(model, asked_states(model, features)).sum(axis=0)
    np.testing.assert_allclose(gradient, expected[: table.shape[1]], atol=1e-4)


def test_every_variable_is_trained_and_none_counts_twice(config, model, features):
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(answer**2) for answer in model(features).values())
    for variable, gradient in zip(
        model.trainable_variables,
        tape.gradient(loss, model.trainable_variables),
        strict=True,
    ):
        assert gradient is not None, variable.name
    assert len({id(v) for v in model.weights}) == len(model.weights)
    width, vocab = config.hidden_size, config.vocab_size
    head = width * (width + 1) + 2 * width + vocab
    if config.family == "mobilebert":
        head += (width - 3) * vocab
    if config.family != "distilbert":
        head += 2 * (width + 1)
    assert model.count_params() == models.count_parameters(config) + head


@pytest.mark.parametrize("config", [CONFIGS["distilbert"], BERT.replace(pooler=False)])
def test_next_sentences_need_a_pooled_output(config):
    with pytest.raises(errors.ConfigError, match="with next-sentence prediction: expected an enc"):
        models.build_masked_lm(config, next_sentence=True)
