import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import errors, models

# Small enough for a network without normalizations.
randomise = functools.partial(toys.randomise, scale=0.2)

MOBILEBERT = models.MobileBertConfig(
    num_layers=2,
    hidden_size=16,
    num_heads=2,
    intermediate_size=12,
    vocab_size=50,
    max_positions=20,
    hidden_act="relu",
    dropout=0.2,
    attention_dropout=0.15,
    classifier_dropout=0.3,
    pad_token_id=3,
    embedding_size=6,
    bottleneck_size=8,
    num_feed_forward=2,
)
ONE_BLOCK = MOBILEBERT.replace(num_layers=1)
CONFIGS = {
    "shared": MOBILEBERT,
    "tiny": ONE_BLOCK.replace(
        shared_key_query=False,
        bottleneck_attention=True,
        num_feed_forward=1,
        bottleneck_size=16,
        type_vocab_size=0,
    ),
    "ib-bert": ONE_BLOCK.replace(
        shared_key_query=False,
        bottleneck_size=24,
        num_feed_forward=1,
        normalization="layer_norm",
        layer_norm_eps=1e-3,
        embeddings_layer_norm_eps=1e-2,  # as PyTorch has it
        hidden_act="gelu_tanh",
        classifier_dropout=None,
    ),
    "bare": ONE_BLOCK.replace(trigram=False, embedding_size=16, pooler=True, hidden_act="gelu"),
}
LENGTHS = (7, 4, 2)  # real tokens of each example


def batch(config, width=7, seed=0):
    rng = np.random.default_rng(seed)
    mask = (np.arange(width) < np.array(LENGTHS)[:, None]).astype(np.int32)
    features = {
        "input_ids": rng.integers(4, config.vocab_size, mask.shape, np.int32) * mask,
        "attention_mask": mask,
    }
    if config.type_vocab_size:
        features["token_type_ids"] = rng.integers(0, 2, mask.shape, np.int32) * mask
    return features


@pytest.fixture(params=CONFIGS, ids=lambda name: name.replace(" ", "-"), scope="module")
def config(request):
    return CONFIGS[request.param]


@pytest.fixture(scope="module")  # no test changes it
def classifier(config):
    return randomise(models.build_classifier(config, 3))


@pytest.fixture(scope="module")
def view(classifier):
    return models.taps(classifier)


def test_the_taps_are_those_of_the_written_formula(config, classifier, view):
    features = batch(config)
    taps = view(features)
    expected = forward(classifier, config, features)
    # Float32 sums of up to 24 products of magnitude 1.
    for name in ("embeddings", "pooled_output", "logits"):
        np.testing.assert_allclose(taps[name], expected[name], atol=2e-5, err_msg=name)
    for name in ("hidden_states", "attention_scores", "queries", "keys", "values"):
        assert len(taps[name]) == config.num_layers
        for ours, right in zip(taps[name], expected[name], strict=True):
            np.testing.assert_allclose(ours, right, atol=2e-5, err_msg=name)


def forward(model, config, features):
    """The network of section 3 of the paper, in NumPy float64."""
    weights = {v.name.split(":")[0]: v.numpy().astype(np.float64) for v in model.variables}

    def dense(x, name):
        return x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"]

    def norm(x, name):
        if config.normalization == "layer_norm":
            x = x - x.mean(-1, keepdims=True)
            fixed = f"_ffn_{config.num_feed_forward - 1}_" in name or name.startswith("embeddings_")
            fixed_eps = config.embeddings_layer_norm_eps or config.layer_norm_eps
            epsilon = fixed_eps if fixed else config.layer_norm_eps
            x = x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon)
        return x * weights[f"{name}/gamma"] + weights[f"{name}/beta"]

    def act(x):
        if config.hidden_act == "relu":
            return np.maximum(x, 0)
        if config.hidden_act == "gelu":
            return keras.activations.gelu(tf.constant(x), approximate=False).numpy()
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    ids, mask = features["input_ids"], features["attention_mask"]
    rows, length = ids.shape
    words = weights["word_embeddings/embeddings"][ids]
    if config.trigram:
        zero = np.zeros(config.embedding_size)
        words = np.array(
            [
                [
                    np.concatenate(
                        [
                            words[b, t + 1] if t + 1 < length else zero,
                            words[b, t],
                            words[b, t - 1] if t else zero,
                        ]
                    )
                    for t in range(length)
                ]
                for b in range(rows)
            ]
        )
    if config.trigram or config.embedding_size != config.hidden_size:
        words = dense(words, "embedding_projection")
    words = words + weights["position_embeddings/embeddings"][:length]
    if config.type_vocab_size:
        words = words + weights["token_type_embeddings/embeddings"][features["token_type_ids"]]
    states = norm(words, "embeddings_layer_norm")
    states_by_name = {"embeddings": states}
    states_by_name |= {
        name: [] for name in ("hidden_states", "attention_scores", "queries", "keys", "values")
    }
    size = config.bottleneck_size // config.num_heads
    for index in range(config.num_layers):
        at = f"layer_{index}"
        narrow = norm(dense(states, f"{at}_bottleneck"), f"{at}_bottleneck_layer_norm")
        asking = narrow if config.bottleneck_attention else states
        if config.shared_key_query:
            asking = dense(states, f"{at}_shared_bottleneck")
            asking = norm(asking, f"{at}_shared_bottleneck_layer_norm")
        query, key = dense(asking, f"{at}_query"), dense(asking, f"{at}_key")
        value = dense(narrow if config.bottleneck_attention else states, f"{at}_value")
        context = np.zeros_like(value)
        scores = np.zeros((rows, config.num_heads, length, length))
        for head in range(config.num_heads):
            part = slice(head * size, (head + 1) * size)
            scores[:, head] = query[..., part] @ key[..., part].swapaxes(1, 2) / np.sqrt(size)
            seen = np.where(mask[:, None, :] == 1, scores[:, head], -np.inf)
            weight = np.exp(seen - seen.max(-1, keepdims=True))
            weight /= weight.sum(-1, keepdims=True)
            context[..., part] = weight @ value[..., part]
        inside = dense(context, f"{at}_attention_output") + narrow
        inside = norm(inside, f"{at}_attention_layer_norm")
        for ffn in range(config.num_feed_forward):
            inner = act(dense(inside, f"{at}_ffn_{ffn}_intermediate"))
            inside = norm(
                dense(inner, f"{at}_ffn_{ffn}_output") + inside, f"{at}_ffn_{ffn}_layer_norm"
            )
        states = norm(dense(inside, f"{at}_output") + states, f"{at}_layer_norm")
        for name, state in zip(
            ("hidden_states", "attention_scores", "queries", "keys", "values"),
            (states, scores, query, key, value),
            strict=True,
        ):
            states_by_name[name].append(state)
    pooled = states[:, 0]
    if config.pooler:
        pooled = np.tanh(dense(pooled, "pooler"))
    return {**states_by_name, "pooled_output": pooled, "logits": dense(pooled, "classifier")}


def test_the_first_token_of_padding_is_seen_through_the_trigrams_alone(config, classifier):
    features = {name: value[:1] for name, value in batch(config).items()}  # fills all its places
    padded = {name: np.pad(value, ((0, 0), (0, 1))) for name, value in features.items()}
    padded["input_ids"][:, 7] = config.pad_token_id
    difference = np.abs(classifier(padded).numpy() - classifier(features).numpy()).max()
    if config.trigram:
        assert difference > 1e-3
    else:
        assert difference < 1e-5


def test_padding_stays_out_where_the_scores_are_in_the_hundreds():
    model = randomise(models.build_classifier(ONE_BLOCK, 3))
    for name in ("query", "key"):
        layer = model.get_layer(f"layer_0_{name}")
        layer.set_weights([weight * 300 for weight in layer.get_weights()])
    features = batch(ONE_BLOCK)
    expected = forward(model, ONE_BLOCK, features)
    real = features["attention_mask"] == 1
    scores = expected["attention_scores"][0]
    by_tokens = np.where(real[:, None, None], scores, -np.inf).max(-1)
    by_padding = np.where(real[:, None, None], -np.inf, scores).max(-1)
    wanted = real[:, None] & np.ones_like(by_tokens, bool)
    assert (by_padding - by_tokens)[wanted].max() > 100  # a mask of -100 would not do
    states = models.taps(model)(features)["hidden_states"][0].numpy()
    # So sharp a softmax turns rounding of the scores, 1e-7 of ten thousand, into 1e-3.
    np.testing.assert_allclose(states[real], expected["hidden_states"][0][real], atol=5e-3)


@pytest.mark.parametrize("config", ["shared"], indirect=True)
def test_a_static_trace_has_only_matrix_products_that_can_be_fused_and_no_shape_ops(
    config, classifier
):
    specs = {name: tf.TensorSpec((1, 8), tf.int32, name=name) for name in classifier.input}
    run = tf.function(lambda x: classifier(x, training=False))
    graph = run.get_concrete_function(specs).graph
    kinds = {operation.type for operation in graph.get_operations()}
    assert not kinds & {"Shape", "Pack", "Assert", "Einsum", "Where", "BatchMatMul"}
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    a_layer = 6 + config.shared_key_query + 2 * config.num_feed_forward
    outside = 1 + config.pooler + (config.trigram or config.embedding_size != config.hidden_size)
    assert len(products) == a_layer * config.num_layers + outside
    assert {consumer.type for op in products for consumer in op.outputs[0].consumers()} == {
        "BiasAdd"
    }


@pytest.mark.slow  # 24 blocks
@pytest.mark.thorough
def test_the_released_mobilebert_is_built_with_its_published_size():
    model = models.build_encoder("mobilebert")
    assert model.count_params() == 24_581_888
    assert models.config_of(model) == models.preset("mobilebert")


def test_the_family_without_its_sizes_is_refused():
    with pytest.raises(errors.ConfigError, match="family: expected a MobileBertConfig"):
        models.preset("bert_tiny").replace(family="mobilebert")
