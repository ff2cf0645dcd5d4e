"""What is true of every model: it is saved whole, and copied into another precision."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import models

BERT = toys.STUDENT.replace(
    num_layers=1,
    hidden_act="gelu_tanh",
    layer_norm_eps=1e-7,
    dropout=0.2,
    attention_dropout=0.15,
    classifier_dropout=0.3,
)
DISTIL = BERT.replace(
    family="distilbert", pooler=False, type_vocab_size=0, hidden_act="relu", layer_norm_eps=1e-12
)
MOBILEBERT = models.MobileBertConfig(
    num_layers=1,
    hidden_size=8,
    num_heads=2,
    intermediate_size=6,
    vocab_size=30,
    max_positions=12,
    dropout=0.1,
    attention_dropout=0.15,
    classifier_dropout=0.4,
    embedding_size=3,
    bottleneck_size=4,
    num_feed_forward=2,
)
IB_BERT = MOBILEBERT.replace(
    shared_key_query=False, bottleneck_size=12, num_feed_forward=1, normalization="layer_norm",
    layer_norm_eps=1e-3, embeddings_layer_norm_eps=1e-2, hidden_act="gelu_tanh",
)  # fmt: skip
BILSTM = models.BiLstmConfig(
    embedding_size=7, hidden_size=5, dense_size=6, vocab_size=30, dropout=0.2, pad_token_id=1
)
CLASSES, TAGS, SPANS = models.Head("sequence", 3), models.Head("token", 3), models.Head("span", 2)
VECTORS = models.Head("embedding", 5, False, "mean", "tanh")
WORDS = models.Head("masked_lm", next_sentence=True)
SLOW = pytest.mark.slow
MODELS = {
    "bert": (BERT, CLASSES),
    "bert without types": pytest.param(BERT.replace(type_vocab_size=0), CLASSES, marks=SLOW),
    "pruned heads": pytest.param(BERT.replace(num_heads=1, head_size=4), CLASSES, marks=SLOW),
    "tinybert": pytest.param(
        BERT.replace(family="tinybert", classifier_dropout=None), CLASSES, marks=SLOW
    ),
    "electra": pytest.param(
        BERT.replace(family="electra", pooler=False, embedding_size=3), CLASSES, marks=SLOW
    ),
    "distilbert": pytest.param(DISTIL, CLASSES, marks=SLOW),
    "mobilebert": (MOBILEBERT, CLASSES),
    "bare mobilebert": pytest.param(
        MOBILEBERT.replace(trigram=False, embedding_size=8, pooler=True), CLASSES, marks=SLOW
    ),
    "ib-bert": pytest.param(IB_BERT, CLASSES, marks=SLOW),
    "tags": pytest.param(BERT.replace(pooler=False), TAGS, marks=SLOW),
    "tags of distilbert": pytest.param(DISTIL.replace(classifier_dropout=None), TAGS, marks=SLOW),
    "spans": pytest.param(BERT.replace(pooler=False, classifier_dropout=None), SPANS, marks=SLOW),
    "words": (BERT.replace(classifier_dropout=None), WORDS),
    "words of mobilebert": pytest.param(
        MOBILEBERT.replace(classifier_dropout=None), WORDS, marks=SLOW
    ),
    "vectors": (BERT.replace(pooler=False, classifier_dropout=None), VECTORS),
    "bilstm": pytest.param(BILSTM, CLASSES, marks=SLOW),
    "siamese bilstm": pytest.param(BILSTM.replace(pair_encoding="siamese"), CLASSES, marks=SLOW),
    "bilstm of one direction": (BILSTM.replace(bidirectional=False), CLASSES),
}
every_model = pytest.mark.parametrize(("config", "head"), MODELS.values(), ids=MODELS)


@functools.cache  # no test changes it
def built(config, head):
    """The model, and a batch for it: a fourth of the tokens is asked for."""
    model = toys.randomise(models.build_model(config, head, name="named"), 1, scale=0.2)
    features = toys.features((5, 4, 2), seed=2)
    features["prediction_mask"] = tf.constant([[0, 1, 0, 0, 1], [0] * 5, [1, 0, 0, 0, 0]])
    return model, {name: features[name] for name in model.input_names}


@every_model
def test_a_saved_model_answers_and_describes_itself_as_before(config, head, tmp_path):
    model, features = built(config, head)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    before, after = models.taps(model)(features), models.taps(loaded)(features)
    tf.nest.map_structure(np.testing.assert_array_equal, after, before)
    assert models.config_of(loaded) == models.config_of(model) == config
    assert models.read_head(loaded) == models.read_head(model) == head
    assert len(loaded.weights) == len(model.weights)


@every_model
def test_the_counted_parameters_are_those_of_the_built_model(config, head):
    model, _ = built(config, head)
    if head == CLASSES:
        assert model.count_params() == models.count_parameters(config, 3)
    assert not model.non_trainable_weights
    ranks = {True: set(), False: set()}
    for variable in model.trainable_variables:  # as optimizers tell them apart by name
        excluded = "layer_norm" in variable.name or "bias" in variable.name
        ranks[excluded].add(variable.shape.rank)
    assert ranks == {True: {1}, False: {2}}


@every_model
@pytest.mark.parametrize("policy", ["bfloat16", pytest.param("mixed_float16", marks=SLOW)])
def test_a_copy_in_another_precision_has_float32_answers_to_its_rounding(config, head, policy):
    model, features = built(config, head)
    copy = models.with_policy(model, policy)
    assert models.config_of(copy) == config and models.read_head(copy) == head
    assert copy.name == "named"
    half = policy.removeprefix("mixed_")
    answering = ("classifier", "mlm_bias", "vector")
    stored = {v.dtype for v in copy.variables if not any(part in v.name for part in answering)}
    assert stored == {tf.bfloat16 if policy == half else tf.float32}
    answers, expected = (tf.nest.flatten(one(features)) for one in (copy, model))
    assert {answer.dtype for answer in answers} == {tf.float32}
    if states := models.taps(copy)(features)["hidden_states"]:
        assert states[0].dtype == half
    for answer, value in zip(answers, expected, strict=True):
        error = np.abs(answer - value)
        # 8 (or 11) bits of mantissa: 0.4 % of values of magnitude 1, through some products.
        assert 0 < error.mean() < 0.03 * np.abs(value).mean() + 0.02
