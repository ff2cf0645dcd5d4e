import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models

BERT = toys.STUDENT.replace(num_layers=1, dropout=0.2, classifier_dropout=0.4)
CONFIGS = {
    "bert": BERT,
    "tinybert": BERT.replace(family="tinybert"),
    "distilbert": BERT.replace(family="distilbert", type_vocab_size=0, pooler=False),
    "mobilebert": models.MobileBertConfig(
        num_layers=1,
        hidden_size=8,
        num_heads=2,
        intermediate_size=6,
        vocab_size=30,
        max_positions=12,
        dropout=0.1,
        classifier_dropout=0.4,
        pooler=False,
        embedding_size=3,
        bottleneck_size=4,
        num_feed_forward=1,
    ),
}
LENGTHS = (5, 4, 2)


CASES = [
    ("token", "bert"),
    ("token", "distilbert"),
    ("token", "mobilebert"),
    ("span", "tinybert"),
    ("span", "distilbert"),
]


@pytest.fixture(params=CASES, scope="module", ids="-".join)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def kind(case):
    return case[0]


@pytest.fixture(scope="module")
def config(case):
    return CONFIGS[case[1]]


@pytest.fixture(scope="module")  # no test changes it
def model(config, kind):
    build = models.build_token_classifier if kind == "token" else models.build_span_classifier
    arguments = (3,) if kind == "token" else ()
    return toys.randomise(build(config, *arguments), 1)


@pytest.fixture(scope="module")
def features(model):
    return {name: toys.features(LENGTHS, seed=2)[name] for name in model.input}


def test_the_logits_are_a_dense_layer_over_every_token(kind, model, features):
    taps = models.taps(model)(features)
    states = taps["sequence_output"].numpy()
    kernel, bias = model.get_layer(f"{kind}_classifier").get_weights()
    expected = np.zeros((3, 5, len(bias)))
    for example in range(3):
        for token in range(5):
            expected[example, token] = states[example, token] @ kernel + bias
    # Float32 sums of 8 products of O(1) values.
    np.testing.assert_allclose(taps["logits"], expected, atol=1e-5)
    np.testing.assert_array_equal(model(features), taps["logits"])
    assert taps["logits"].dtype == tf.float32
    assert "pooled_output" not in taps


def test_the_configuration_is_read_back_as_far_as_the_head_shows_it(config, kind, model):
    shown = kind == "token" and config.family != "distilbert"
    rate = config.classifier_dropout if shown else None
    assert models.config_of(model) == config.replace(pooler=False, classifier_dropout=rate)


def test_dropout_before_the_classifier_is_that_of_transformers(config, kind, model):
    # There: the classifier's rate before a token classifier, none before a span classifier; for
    # DistilBERT the encoder's rate (0.2 here) before both.
    rates = {("token", False): 0.4, ("span", False): 0.0}
    rate = rates.get((kind, config.family == "distilbert"), 0.2)
    assert model.get_layer(f"{kind}_dropout").rate == rate


def test_a_token_classifier_has_at_least_one_label():
    with pytest.raises(errors.ConfigError, match="num_labels: expected at least 1, received 0"):
        models.build_token_classifier(BERT, 0)


@pytest.mark.slow
def test_no_random_weight_is_left_out_by_a_converter():
    config = models.preset("mobilebert_6l_128d").replace(num_layers=1, vocab_size=50)
    head = models.Head("sequence", 2)
    model, again = (models.build_random(config, head, seed=3) for _ in range(2))
    for variable, same in zip(model.trainable_variables, again.trainable_variables, strict=True):
        array = variable.numpy()
        assert (array == same.numpy()).all()
        assert not (array == 0).all() and not (array == 1).all(), variable.name
