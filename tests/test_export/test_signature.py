import numpy as np
import pytest
import tensorflow as tf

from export import signature
from tfdistill import errors, models


def features(model, lengths, width, vocab_size, seed=0):
    random = np.random.default_rng(seed)
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    given = {
        "input_ids": random.integers(5, vocab_size, mask.shape).astype(np.int32),
        "attention_mask": mask,
        "token_type_ids": random.integers(0, 2, mask.shape).astype(np.int32),
    }
    return {name: given[name] for name in model.input_names}


HEADS = {
    "bert": {},
    "tinybert": {"family": "tinybert", "hidden_act": "gelu_tanh"},
    "distilbert": {"family": "distilbert", "pooler": False, "type_vocab_size": 0},
    "one_layer": {"num_layers": 1, "hidden_act": "relu", "layer_norm_eps": 1e-3},
    "three_layers": {"num_layers": 3, "num_heads": 1},
}


@pytest.mark.parametrize("changes", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("num_labels", [1, 3])
def test_computing_the_last_layer_for_cls_alone_changes_nothing(changes, num_labels, toy, lively):
    config = toy.config.replace(family="bert").replace(**changes)
    model = lively(models.build_classifier(config, num_labels))
    run = signature.forward(model)
    given = features(model, [12, 7, 2], 12, config.vocab_size)
    expected = model(given, training=False).numpy()
    assert np.abs(expected).mean() > 0.1
    for i in range(3):
        row = {name: tf.constant(value[i : i + 1]) for name, value in given.items()}
        # Two orders of the same float32 sums of up to 64 terms.
        np.testing.assert_allclose(run(row).numpy(), expected[i : i + 1], rtol=0, atol=1e-5)


def test_the_last_layer_sees_every_token_but_answers_for_one(toy):
    """Keys and values of all tokens, the queries and the feed-forward of [CLS] only."""
    run = signature.forward(toy.model)
    specs = {name: tf.TensorSpec((1, 16), tf.int32) for name in toy.model.input_names}
    graph = tf.function(run).get_concrete_function(specs).graph
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    rows = [op.inputs[0].shape[0] for op in products]
    # Layer 0: query, key, value, output and two feed-forward. Layer 1: key and value see all 16
    # tokens; query, output, two feed-forward, pooler and classifier see one.
    assert sorted(rows, reverse=True) == [16] * 6 + [16] * 2 + [1] * 4 + [1] * 2


def test_softmax_sums_to_one(toy):
    given = features(toy.model, [9], 9, 200)
    row = {name: tf.constant(value) for name, value in given.items()}
    scores = signature.forward(toy.model, softmax=True)(row).numpy()
    logits = toy.model(given, training=False).numpy()
    np.testing.assert_allclose(scores, tf.nn.softmax(logits).numpy(), rtol=0, atol=1e-6)


def test_lengths_come_out_ascending():
    assert signature.check_lengths((64, 16, 32), 64) == (16, 32, 64)
    assert [signature.signature_name(length) for length in (32, 128)] == ["len32", "len128"]


@pytest.mark.parametrize(
    "lengths", [(), (8, 8), (1,), (0, 8), (-8,), (8, 65), (8.0,), (True, 8), ("8",)]
)
def test_unusable_lengths_are_refused(lengths):
    with pytest.raises(errors.ConfigError, match="lengths"):
        signature.check_lengths(lengths, 64)


def test_every_other_head_is_refused_by_what_it_is(toy):
    others = {
        "an encoder without a head": models.build_encoder(toy.config),
        "a classifier of tokens": models.build_token_classifier(toy.config, 3),
        "a model that answers with a span": models.build_span_classifier(toy.config),
        "a masked language model": models.build_masked_lm(toy.config),
    }
    for what, model in others.items():
        with pytest.raises(errors.ConfigError, match=rf"classifier or regress.* received {what}"):
            signature.forward(model)
