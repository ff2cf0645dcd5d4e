"""What is saved here fills the encoders of tf-models-official, variable by variable."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import toys
from official.nlp.modeling import layers, networks
from test_weights.references import (
    GARDEN_BERT,
    GARDEN_MOBILEBERT,
    OFFICIAL_BERT,
    batch,
    garden_features,
)

from tfdistill import errors, models, weights

pytestmark = pytest.mark.slow

randomise = functools.partial(toys.randomise, scale=0.2)

MOBILEBERT = GARDEN_MOBILEBERT.replace(pooler=True)
THEIR_MOBILEBERT = {
    "word_vocab_size": 40,
    "word_embed_size": 6,
    "max_sequence_length": 12,
    "num_blocks": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "intra_bottleneck_size": 8,
    "num_feedforward_networks": 2,
    "classifier_activation": True,
}


@pytest.mark.parametrize(
    ("config", "build"),
    [
        (MOBILEBERT, lambda: networks.MobileBERTEncoder(**THEIR_MOBILEBERT)),
        (GARDEN_BERT, lambda: networks.BertEncoder(**OFFICIAL_BERT, dict_outputs=True)),
        (GARDEN_BERT, lambda: networks.BertEncoderV2(**OFFICIAL_BERT)),
    ],
    ids=["mobilebert", "bert", "bert-v2"],
)
def test_the_encoder_restored_there_gives_the_same_states(config, build, tmp_path):
    model = randomise(models.build_encoder(config))
    prefix = weights.save_garden(model, tmp_path / "new" / "bert_model.ckpt")
    garden = build()
    ours = batch()
    garden_batch = garden_features(ours)
    garden(garden_batch)
    status = tf.train.Checkpoint(encoder=garden).restore(str(prefix))
    status.assert_consumed()  # every tensor found its variable, and every variable its tensor
    expected, states = garden(garden_batch), model(ours)
    # Float32 sums over at most 48 products of O(1) values.
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(states[name], expected[name], atol=1e-5, err_msg=name)


def test_what_is_saved_comes_back(tmp_path):
    for config in (MOBILEBERT, GARDEN_BERT):
        model = randomise(models.build_encoder(config))
        prefix = weights.save_garden(model, tmp_path / config.family)
        loaded = weights.load_garden(prefix, config)
        toys.check_equal(loaded.model.weights, model.weights)


def test_the_masked_language_model_restored_there_gives_the_same_logits(tmp_path):
    model = randomise(models.build_masked_lm(MOBILEBERT.replace(pooler=False)))
    prefix = weights.save_garden(model, tmp_path / "mlm.ckpt")
    encoder = networks.MobileBERTEncoder(**{**THEIR_MOBILEBERT, "classifier_activation": False})
    table = encoder.get_embedding_table()
    head = layers.MobileBertMaskedLM(table, activation="relu", name="cls/predictions")
    ours = batch()
    garden_batch = garden_features(ours)
    positions = tf.constant([[2], [1], [0]])
    head(encoder(garden_batch)["sequence_output"], positions)
    tf.train.Checkpoint(encoder=encoder, masked_lm=head).restore(str(prefix)).assert_consumed()
    prediction_mask = np.zeros((3, 9), np.int32)
    np.put_along_axis(prediction_mask, positions.numpy(), 1, axis=1)
    logits = model({**ours, "prediction_mask": prediction_mask})["mlm_logits"]
    expected = head(encoder(garden_batch)["sequence_output"], positions)[:, 0]
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_a_checkpoint_is_not_overwritten_unasked(tmp_path):
    model = models.build_encoder(GARDEN_BERT)
    prefix = weights.save_garden(model, tmp_path / "ckpt")
    with pytest.raises(errors.OutputExistsError, match="one that does not exist yet"):
        weights.save_garden(model, prefix)
    weights.save_garden(randomise(model), prefix, overwrite=True)
    loaded = weights.load_garden(prefix, GARDEN_BERT).model
    np.testing.assert_array_equal(loaded.weights[0], model.weights[0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: models.build_classifier(GARDEN_BERT, 2),
            "an encoder, or a masked language model alone",
        ),
        (
            lambda: models.build_masked_lm(GARDEN_BERT, next_sentence=True),
            "a masked language model alone",
        ),
        (
            lambda: models.build_encoder(MOBILEBERT.replace(trigram=False)),
            "trigram of a Model Garden encoder: expected True",
        ),
    ],
)
def test_what_the_garden_cannot_hold_is_refused(build, message, tmp_path):
    with pytest.raises(errors.WeightsError, match=message):
        weights.save_garden(build(), tmp_path / "ckpt")
