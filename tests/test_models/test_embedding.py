import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models

CONFIG = toys.STUDENT.replace(num_layers=1)
DISTIL = CONFIG.replace(family="distilbert", type_vocab_size=0, pooler=False)
LENGTHS = (5, 3, 2)
HEADS = {
    "mean": models.Head("embedding"),
    "cls": models.Head("embedding", pooling="cls", normalize=False),
    "max": models.Head("embedding", 3, pooling="max"),
    "tanh": models.Head("embedding", 5, projection="tanh"),
}


def embedder(head, config=CONFIG, seed=1):
    return toys.randomise(models.build_model(config, head), seed)


@pytest.fixture(scope="module", params=HEADS)
def head(request):
    return HEADS[request.param]


@pytest.fixture(scope="module")  # no test changes it
def model(head):
    return embedder(head)


@pytest.fixture(scope="module")
def features(model):
    return {name: toys.features(LENGTHS, seed=2)[name] for name in model.input}


def pooled(states, count, pooling):
    """One text's vector before any projection, in loops."""
    vector = []
    for feature in range(states.shape[1]):
        values = [float(states[token, feature]) for token in range(count)]
        vector.append({"mean": sum(values) / count, "max": max(values), "cls": values[0]}[pooling])
    return np.array(vector)


def test_vectors_are_pooled_states_projected_and_normalised(head, model, features):
    taps = models.taps(model)(features)
    states = taps["sequence_output"].numpy()
    expected = []
    for example, count in enumerate(LENGTHS):
        vector = pooled(states[example], count, head.pooling)
        if head.num_labels:
            kernel, bias = model.get_layer("vector_dense").get_weights()
            vector = vector @ kernel + bias
            vector = np.tanh(vector) if head.projection == "tanh" else vector
        expected.append(vector / np.sqrt((vector**2).sum()) if head.normalize else vector)
    # Float32 sums of at most 8 values of O(1).
    np.testing.assert_allclose(taps["logits"], expected, atol=1e-5)
    np.testing.assert_array_equal(model(features), taps["logits"])
    assert taps["logits"].dtype == tf.float32


def test_padding_does_not_change_a_vector(model, features):
    longer = {name: tf.pad(value, [[0, 0], [0, 3]]) for name, value in features.items()}
    # The attention to padding is exp(-100); sums have another order.
    np.testing.assert_allclose(model(longer), model(features), atol=1e-6)


def test_the_head_is_read_off_the_layers(head, model):
    wide = head.num_labels or CONFIG.hidden_size
    projection = head.projection or ("linear" if head.num_labels else None)
    expected = models.Head("embedding", wide, False, head.pooling, projection, head.normalize)
    assert models.read_head(model) == expected
    assert models.num_labels_of(model) == wide


def test_an_encoder_without_token_types_embeds_too():
    model = embedder(HEADS["mean"], DISTIL)
    features = toys.features(LENGTHS, seed=2)
    vectors = model({name: features[name] for name in model.input})
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pooling": "avg"}, "pooling: expected one of"),
        ({"projection": "relu"}, "projection: expected one of"),
        ({"width": 0}, "width of the vectors: expected at least 1"),
    ],
)
def test_unknown_options_are_refused(options, expected):
    with pytest.raises(errors.ConfigError, match=expected):
        models.build_embedder(CONFIG, **options)


def test_word_vectors_alone_are_no_encoder():
    with pytest.raises(errors.ConfigError, match="expected a transformer, received a static"):
        models.build_embedder("static")
