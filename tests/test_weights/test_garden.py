"""Model Garden encoders, built and saved by tf-models-official itself, at random toy weights."""

import functools
import re

import numpy as np
import pytest
import tensorflow as tf
import tf_keras as keras
import toys
from official.modeling import tf_utils
from official.modeling.hyperparams import params_dict
from official.nlp.configs import bert as bert_config
from official.nlp.configs import encoders
from official.nlp.modeling import layers, networks
from official.nlp.modeling import models as garden_models
from test_weights.references import (
    GARDEN_BERT,
    GARDEN_MOBILEBERT,
    OFFICIAL_BERT,
    TOLERANCE,
    batch,
    garden_features,
)

from tfdistill import errors, models, weights
from tfdistill.tokenization.library import SPECIAL_TOKENS
from tfdistill.weights import garden

pytestmark = pytest.mark.slow

# Small enough that a network without normalizations stays at O(1).
randomise = functools.partial(toys.randomise, scale=0.2)

MOBILEBERT = {
    "word_vocab_size": 40,
    "word_embed_size": 6,
    "max_sequence_length": 12,
    "num_blocks": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "hidden_activation": "relu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.2,
    "intra_bottleneck_size": 8,
    "key_query_shared_bottleneck": True,
    "num_feedforward_networks": 2,
    "normalization_type": "no_norm",
    "classifier_activation": False,
}
IB_BERT = {
    **MOBILEBERT,
    "num_blocks": 1,
    "intra_bottleneck_size": 24,
    "key_query_shared_bottleneck": False,
    "num_feedforward_networks": 1,
    "normalization_type": "layer_norm",
    "hidden_activation": "gelu",
}
ONE_BLOCK = {**MOBILEBERT, "num_blocks": 1}
CASES = {
    "shared": MOBILEBERT,
    "not-shared": {**ONE_BLOCK, "key_query_shared_bottleneck": False},
    # The Garden then ignores that keys and queries are to be shared, as it says.
    "tiny": {**ONE_BLOCK, "use_bottleneck_attention": True, "num_feedforward_networks": 1},
    "without-opt": {**ONE_BLOCK, "normalization_type": "layer_norm"},
    "pooler": {**ONE_BLOCK, "classifier_activation": True},
    "ib-bert": IB_BERT,
}
OURS = GARDEN_MOBILEBERT.replace(dropout=0.0, attention_dropout=0.2)
BERT = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_layers": 1,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
}


def encoder_config(kind, shape):
    return encoders.EncoderConfig(type=kind, **{kind: shape})


def write_params(folder, kind, shape, **model):
    """params.yaml as the Garden's trainer writes it."""
    config = bert_config.PretrainerConfig(encoder=encoder_config(kind, shape), **model)
    params = params_dict.ParamsDict({"task": {"model": config.as_dict()}})
    params_dict.save_params_dict_to_yaml(params, str(folder / "params.yaml"))


@pytest.mark.parametrize("case", CASES)
def test_a_mobilebert_encoder_gives_the_same_states_here(case, tmp_path):
    shape = CASES[case]
    encoder = randomise(encoders.build_encoder(encoder_config("mobilebert", shape)))
    tf.train.Checkpoint(encoder=encoder).save(str(tmp_path / "ckpt"))
    write_params(tmp_path, "mobilebert", shape)

    loaded = weights.load_garden(tmp_path)
    assert models.config_of(loaded.model) == loaded.config
    assert len(loaded.report.loaded) == len(encoder.weights)
    assert not loaded.report.ignored
    features = batch()
    expected = encoder(garden_features(features), training=False)
    taps = models.taps(loaded.model)(features)
    states = [taps["embeddings"], *taps["hidden_states"]]
    toys.check_equal(states, expected["encoder_outputs"], atol=TOLERANCE)
    mask = (1.0 - features["attention_mask"][:, None, None, :]) * -1e4
    for scores, right in zip(taps["attention_scores"], expected["attention_scores"], strict=True):
        np.testing.assert_allclose(tf.nn.softmax(scores + mask), right, atol=TOLERANCE)
    np.testing.assert_allclose(taps["pooled_output"], expected["pooled_output"], atol=TOLERANCE)


def test_the_word_gelu_means_two_functions_in_the_garden(tmp_path):
    # That these are what it builds, the tests of equal states show: "ib-bert", and those of BERT.
    for kind, shape, expected in [("mobilebert", IB_BERT, "gelu"), ("bert", BERT, "gelu_tanh")]:
        write_params(tmp_path, kind, shape)
        read = garden.read_params(tmp_path)
        assert read is not None and read[0].hidden_act == expected


def assert_same_bert(loaded, encoder):
    features = batch()
    expected = encoder(garden_features(features), training=False)
    taps = models.taps(loaded.model)(features)
    toys.check_equal(taps["hidden_states"], expected["encoder_outputs"], atol=TOLERANCE)
    np.testing.assert_allclose(taps["pooled_output"], expected["pooled_output"], atol=TOLERANCE)


def test_a_bert_encoder_gives_the_same_states_here(tmp_path):
    shape = {**BERT, "num_layers": 2}
    encoder = randomise(encoders.build_encoder(encoder_config("bert", shape)))
    prefix = tf.train.Checkpoint(model=encoder).write(str(tmp_path / "bert_model.ckpt"))
    (tmp_path / "vocab.txt").write_text("\n".join(SPECIAL_TOKENS))
    write_params(tmp_path, "bert", shape)
    for source in (tmp_path, prefix):
        loaded = weights.load_garden(source, lower_case=False)
        assert_same_bert(loaded, encoder)
        assert loaded.tokenizer.vocab == list(SPECIAL_TOKENS)
        assert loaded.tokenizer.lower_case is False


@pytest.fixture(scope="module")
def pretrainer():
    """A BertEncoderV2 in a pre-trainer with two heads."""
    encoder = networks.BertEncoderV2(**OFFICIAL_BERT)
    encoder(encoder.inputs)
    heads = [layers.ClassificationHead(16, 2, name="next_sentence")]
    gelu = tf_utils.get_activation("gelu")
    model = garden_models.BertPretrainerV2(encoder, mlm_activation=gelu, classification_heads=heads)
    model({**garden_features(batch()), "masked_lm_positions": tf.zeros((3, 1), tf.int32)})
    return randomise(model)


def test_an_encoder_inside_a_training_run_is_found_and_its_optimizer_left(pretrainer, tmp_path):
    optimizer = keras.optimizers.Adam()
    gradients = [tf.ones_like(variable) for variable in pretrainer.trainable_variables]
    before = [variable.numpy() for variable in pretrainer.trainable_variables]
    optimizer.apply_gradients(zip(gradients, pretrainer.trainable_variables, strict=True))
    for variable, value in zip(pretrainer.trainable_variables, before, strict=True):
        variable.assign(value)
    tf.train.Checkpoint(model=pretrainer, optimizer=optimizer).save(str(tmp_path / "ckpt"))

    loaded = weights.load_garden(tmp_path, GARDEN_BERT)
    assert_same_bert(loaded, pretrainer.encoder_network)
    assert not any("Adam" in name or "optimizer" in name for name in loaded.report.ignored)
    assert {"bert/next_sentence/logits/kernel", "cls/predictions/transform/dense/kernel"} < set(
        loaded.report.ignored
    )


def test_a_name_based_checkpoint_is_read_too(pretrainer, tmp_path):
    named = {variable.name.split(":")[0]: variable for variable in pretrainer.variables}
    tf.compat.v1.train.Saver(named).save(None, str(tmp_path / "bert.ckpt"))
    assert_same_bert(weights.load_garden(tmp_path, GARDEN_BERT), pretrainer.encoder_network)


def masked_answers(loaded, features):
    """Logits (3, V) at the third, second and first position of the examples."""
    positions = np.array([[2], [1], [0]], np.int32)
    prediction_mask = np.zeros_like(features["input_ids"])
    np.put_along_axis(prediction_mask, positions, 1, axis=1)
    ours = loaded.model({**features, "prediction_mask": prediction_mask})["mlm_logits"]
    return positions, ours


def test_a_masked_language_model_gives_the_same_logits_here(pretrainer, tmp_path):
    prefix = tf.train.Checkpoint(**pretrainer.checkpoint_items).save(str(tmp_path / "ckpt"))
    features = batch()
    positions, ours = masked_answers(weights.load_garden_masked_lm(prefix, GARDEN_BERT), features)
    expected = pretrainer(
        {**garden_features(features), "masked_lm_positions": tf.constant(positions)}
    )
    np.testing.assert_allclose(ours, expected["mlm_logits"][:, 0], atol=TOLERANCE)


def test_a_mobilebert_masked_language_model_gives_the_same_logits_here(tmp_path):
    encoder = encoders.build_encoder(encoder_config("mobilebert", MOBILEBERT))
    head = layers.MobileBertMaskedLM(
        encoder.get_embedding_table(), activation="relu", name="cls/predictions"
    )
    positions = tf.constant([[2], [1], [0]])
    features = batch()
    head(encoder(garden_features(features))["sequence_output"], positions)
    randomise(encoder)
    randomise(head)
    states = encoder(garden_features(features))["sequence_output"]
    expected = head(states, positions)
    tf.train.Checkpoint(encoder=encoder, masked_lm=head).save(str(tmp_path / "ckpt"))
    write_params(tmp_path, "mobilebert", MOBILEBERT, mlm_activation="relu")
    loaded = weights.load_garden_masked_lm(tmp_path)
    _, ours = masked_answers(loaded, features)
    np.testing.assert_allclose(ours, expected[:, 0], atol=TOLERANCE)
    assert loaded.config == OURS
    # The Garden's default: GELU in the head of an encoder with ReLU.
    write_params(tmp_path, "mobilebert", MOBILEBERT)
    with pytest.raises(errors.WeightsError, match=r"mlm_activation .* the encoder's, 'relu'"):
        weights.load_garden_masked_lm(tmp_path)
    assert len(weights.load_garden(tmp_path).report.ignored) == 6


@pytest.fixture(scope="module")
def mobilebert_checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mobilebert")
    encoder = randomise(encoders.build_encoder(encoder_config("mobilebert", MOBILEBERT)))
    tf.train.Checkpoint(encoder=encoder).save(str(folder / "ckpt"))
    return folder


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (
            OURS.replace(num_feed_forward=3),
            "missing: transformer_layer_0/ffn_layer_2/intermediate_dense/bias, .* and 7 more",
        ),
        (
            OURS.replace(num_layers=1),
            r"unexpected: transformer_layer_1/\S+, .* and 29 more\. It is of another architecture",
        ),
        (
            OURS.replace(num_heads=4),
            r"wrong shape: transformer_layer_0/attention/query/kernel \(8, 2, 4\) instead of "
            r"\(8, 4, 2\)",
        ),
        (
            GARDEN_BERT,
            "missing: embeddings/layer_norm/beta, .*; unexpected: mobile_bert_embedding/",
        ),
        (None, 'params.yaml next to it, .* received none of them.*load_garden\\(path, "mobilebert'),
        (OURS.replace(trigram=False), "trigram of a Model Garden encoder: expected True"),
        (OURS.replace(type_vocab_size=0), "type_vocab_size of a Model Garden encoder"),
        (OURS.replace(layer_norm_eps=1e-7), "layer_norm_eps of a Model Garden encoder: .*1e-12"),
    ],
)
def test_another_architecture_is_refused_with_the_first_names_that_differ(
    mobilebert_checkpoint, chosen, message
):
    with pytest.raises(errors.WeightsError, match=message):
        weights.load_garden(mobilebert_checkpoint, chosen)


def test_a_tensorflow_1_checkpoint_is_refused_with_what_it_holds(tmp_path):
    variable = tf.Variable(np.zeros((40, 16), np.float32))
    named = {"bert/embeddings/word_embedding_table": variable}
    tf.compat.v1.train.Saver(named).save(None, str(tmp_path / "bert.ckpt"))
    with pytest.raises(errors.WeightsError, match="it holds: bert/embeddings/word_embedding_table"):
        weights.load_garden(tmp_path, GARDEN_BERT)


def test_a_checkpoint_of_teacher_and_student_is_refused(tmp_path):
    both = {
        name: encoders.build_encoder(encoder_config("mobilebert", MOBILEBERT))
        for name in ("teacher", "student")
    }
    tf.train.Checkpoint(**both).save(str(tmp_path / "ckpt"))
    with pytest.raises(errors.WeightsError, match=r"one variable called .* received two"):
        weights.load_garden(tmp_path, OURS)


def test_a_missing_or_broken_checkpoint_is_an_error(mobilebert_checkpoint, tmp_path):
    with pytest.raises(errors.WeightsError, match="whole TensorFlow checkpoint"):
        weights.load_garden(tmp_path / "no.ckpt", OURS)
    with pytest.raises(errors.WeightsError, match=r"one checkpoint .* received none"):
        weights.load_garden(tmp_path, OURS)
    for file in mobilebert_checkpoint.glob("ckpt-1.*"):
        content = file.read_bytes()
        (tmp_path / file.name).write_bytes(content if file.suffix == ".index" else content[:999])
    with pytest.raises(errors.WeightsError):
        weights.load_garden(tmp_path, OURS)


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    encoder = encoders.build_encoder(encoder_config("mobilebert", MOBILEBERT))
    encoder.weights[3].assign(np.full(encoder.weights[3].shape, np.nan))
    tf.train.Checkpoint(encoder=encoder).save(str(tmp_path / "ckpt"))
    name = re.escape("mobile_bert_embedding/embedding_projection/kernel")
    with pytest.raises(errors.WeightsError, match=f"NaN or infinity in {name}"):
        weights.load_garden(tmp_path, OURS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task: {model: {encoder: {type: albert, albert: {}}}}", "encoder type .*'albert'"),
        ("task: {model: {encoder: {}}}", "task.model.encoder as the Model Garden writes it"),
        ("task: [", "expected YAML in UTF-8, received a fault"),
        (
            "task: {model: {encoder: {type: bert, bert: {norm_first: true}}}}",
            "params.yaml norm_first: expected one of .* received True",
        ),
        (
            "task: {model: {encoder: {type: bert, bert: {hidden_activation: swish}}}}",
            "activation in params.yaml: .*'swish'",
        ),
    ],
)
def test_an_encoder_that_we_do_not_have_is_refused_by_its_params(
    mobilebert_checkpoint, text, message
):
    path = mobilebert_checkpoint / "params.yaml"
    path.write_text(text)
    try:
        with pytest.raises(errors.WeightsError, match=message):
            weights.load_garden(mobilebert_checkpoint)
    finally:
        path.unlink()


def test_a_bert_preset_has_the_gardens_gelu(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "preset", lambda name: GARDEN_BERT.replace(hidden_act="gelu"))
    encoder = randomise(encoders.build_encoder(encoder_config("bert", BERT)))
    tf.train.Checkpoint(encoder=encoder).save(str(tmp_path / "ckpt"))
    loaded = weights.load_garden(tmp_path, "bert_base")
    assert loaded.config == GARDEN_BERT
    assert_same_bert(loaded, encoder)
