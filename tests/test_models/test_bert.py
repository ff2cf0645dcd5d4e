import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import errors, models

BERT = models.EncoderConfig(
    num_layers=2,
    hidden_size=16,
    num_heads=4,
    intermediate_size=24,
    vocab_size=50,
    max_positions=20,
    hidden_act="gelu_tanh",
    layer_norm_eps=1e-7,
    dropout=0.2,
    attention_dropout=0.15,
    classifier_dropout=0.3,
    pad_token_id=3,
)
CONFIGS = {
    "bert": BERT,
    "bert without token types": BERT.replace(type_vocab_size=0),
    "pruned heads": BERT.replace(num_heads=2, head_size=4),
    "wide attention": BERT.replace(num_heads=3, head_size=6),
    "tinybert": BERT.replace(family="tinybert", hidden_act="gelu", classifier_dropout=None),
    "distilbert": BERT.replace(
        family="distilbert", pooler=False, type_vocab_size=0, hidden_act="relu"
    ),
    "electra": BERT.replace(family="electra", pooler=False, embedding_size=6),
}
# These differ from the others in a number or a name alone.
VARIATIONS = ("bert without token types", "pruned heads", "tinybert")
LENGTHS = (7, 4, 2)  # real tokens of each example


def batch(config, width=7, seed=0):
    rng = np.random.default_rng(seed)
    mask = np.zeros((len(LENGTHS), width), np.int32)
    for row, length in enumerate(LENGTHS):
        mask[row, :length] = 1
    features = {
        "input_ids": rng.integers(4, config.vocab_size, mask.shape, np.int32) * mask,
        "attention_mask": mask,
    }
    if config.type_vocab_size:
        features["token_type_ids"] = rng.integers(0, 2, mask.shape, np.int32) * mask
    return features


@pytest.fixture(
    params=[
        pytest.param(
            name, id=name.replace(" ", "-"), marks=[pytest.mark.thorough] * (name in VARIATIONS)
        )
        for name in CONFIGS
    ],
    scope="module",
)
def config(request):
    return CONFIGS[request.param]


@pytest.fixture(scope="module")  # no test changes it
def classifier(config):
    return toys.randomise(models.build_classifier(config, 3))


def test_inputs_are_named_int32_of_any_shape(config, classifier):
    inputs = classifier.input
    specs = {name: (tensor.dtype, tensor.shape.as_list()) for name, tensor in inputs.items()}
    names = ["input_ids", "attention_mask"] + ["token_type_ids"] * bool(config.type_vocab_size)
    assert specs == {name: (tf.int32, [None, None]) for name in names}


def test_taps_agree_with_the_model(config, classifier):
    features = batch(config)
    taps = models.taps(classifier)(features)
    np.testing.assert_array_equal(taps["logits"], classifier(features))
    np.testing.assert_array_equal(taps["hidden_states"][-1], taps["sequence_output"])
    assert len(taps["hidden_states"]) == len(taps["attention_scores"]) == config.num_layers
    assert ("pooled_output" in taps) == config.pooler
    assert taps["embeddings"].shape == taps["hidden_states"][0].shape == (3, 7, 16)
    # The second layer, recomputed from the first one's output, gives the second output: scores
    # are those that the model itself uses, scaled and unmasked.
    states = taps["hidden_states"][0].numpy().reshape(-1, 16)
    size = config.head_size or 4
    heads = {
        name: (states @ layer.kernel.numpy() + layer.bias.numpy()).reshape(3, 7, -1, size)
        for name in ("query", "key")
        for layer in [classifier.get_layer(f"layer_1_{name}")]
    }
    scores = np.einsum("bihk,bjhk->bhij", heads["query"], heads["key"]) / size**0.5
    # float32 sums of 16 products of magnitude 1.
    np.testing.assert_allclose(taps["attention_scores"][1], scores, atol=1e-5)


def test_training_the_taps_trains_the_model_which_has_one_view(config, classifier):
    view = models.taps(classifier)
    assert models.taps(classifier) is view
    # By identity: the same variables, not copies.
    assert {id(v) for v in view.trainable_variables} == {
        id(v) for v in classifier.trainable_variables
    }


@pytest.mark.slow
def test_taps_of_an_encoder_have_no_logits(config):
    taps = models.taps(models.build_encoder(config))
    assert "logits" not in taps.output
    assert ("pooled_output" in taps.output) == config.pooler


def test_padding_changes_neither_states_nor_logits(config, classifier):
    view = models.taps(classifier)
    features = batch(config, 7)
    short = view(features)
    padded = {name: np.pad(value, ((0, 0), (0, 5))) for name, value in features.items()}
    padded["input_ids"][:, 7:] = 9  # whatever stands there is not looked at
    long = view(padded)
    # exp(-100) of a probability, and other orders of summation: float32 rounding of O(1) values.
    np.testing.assert_allclose(long["logits"], short["logits"], atol=1e-5)
    for row, length in enumerate(LENGTHS):
        np.testing.assert_allclose(
            long["hidden_states"][-1][row, :length],
            short["hidden_states"][-1][row, :length],
            atol=1e-5,
        )


@pytest.mark.slow
def test_a_sequence_beyond_the_positions_is_refused(config):
    model = models.build_encoder(config)
    features = {name: np.ones((1, 21), np.int32) for name in model.input}
    with pytest.raises(errors.ShapeError, match="at most 20 tokens, received 21"):
        model(features)
    spec = {name: tf.TensorSpec((None, None), tf.int32) for name in features}
    run = tf.function(lambda x: model(x)["sequence_output"], input_signature=[spec])
    with pytest.raises(tf.errors.InvalidArgumentError, match="at most 20 tokens"):
        run({name: tf.constant(value) for name, value in features.items()})


def test_a_classifier_over_the_pooler_needs_one():
    with pytest.raises(errors.ConfigError, match=r"tinybert classifier: .*replace\(pooler=True\)"):
        models.build_classifier(BERT.replace(family="tinybert", pooler=False), 2)
    with pytest.raises(errors.ConfigError, match="num_labels: expected at least 1"):
        models.build_classifier(BERT, 0)


def test_taps_of_a_foreign_model_are_refused():
    foreign = keras.Sequential([keras.layers.Dense(2, name="dense")])
    with pytest.raises(errors.ShapeError, match="expected an encoder or classifier of tfdistill"):
        models.taps(foreign)


@pytest.mark.slow
def test_a_static_trace_has_only_matrix_products_that_can_be_fused_and_no_shape_ops(config):
    model = models.build_classifier(config, 3)
    specs = {name: tf.TensorSpec((1, 8), tf.int32, name=name) for name in model.input}
    graph = tf.function(lambda x: model(x, training=False)).get_concrete_function(specs).graph
    kinds = {operation.type for operation in graph.get_operations()}
    assert not kinds & {"Shape", "Pack", "Assert", "Einsum", "Where", "BatchMatMul"}
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    # Six a layer, and pooler or pre_classifier, and classifier; the bias follows at once, which is
    # what lets TensorFlow fuse it and the activation (at rank 3 a Reshape stands between).
    projected = config.embedding_size is not None
    assert len(products) == 6 * config.num_layers + 2 + projected
    assert {consumer.type for op in products for consumer in op.outputs[0].consumers()} == {
        "BiasAdd"
    }
    assert sum(op.type == "BatchMatMulV2" for op in graph.get_operations()) == 2 * config.num_layers
