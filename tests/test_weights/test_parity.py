"""Our models against the TensorFlow classes of transformers, at random toy weights."""

import numpy as np
import pytest
import toys
from test_weights.references import (
    TOLERANCE,
    batch,
    batch_of,
    bert_config,
    check_states,
    distilbert_config,
    electra_config,
    in_transformers,
    reference,
)

from tfdistill import models, weights

pytestmark = pytest.mark.slow

CASES = {
    "electra-tanh-eps": (
        electra_config(hidden_act="gelu_new", layer_norm_eps=1e-2),
        "ElectraForSequenceClassification",
    ),
    "electra-encoder": (electra_config(), "ElectraModel"),
    "electra-pretraining": (electra_config(), "ElectraForPreTraining"),
    "bert-erf": (bert_config(), "BertForSequenceClassification"),
    "bert-tanh-eps": (
        bert_config(hidden_act="gelu_new", layer_norm_eps=1e-2),
        "BertForSequenceClassification",
    ),
    "bert-relu": (bert_config(hidden_act="relu"), "BertForSequenceClassification"),
    "bert-encoder": (bert_config(), "BertModel"),
    "bert-pretraining": (bert_config(), "BertForPreTraining"),
    "distilbert-erf": (distilbert_config(), "DistilBertForSequenceClassification"),
    "distilbert-tanh": (
        distilbert_config(activation="gelu_new"),
        "DistilBertForSequenceClassification",
    ),
    "distilbert-encoder": (distilbert_config(), "DistilBertModel"),
}


def assert_equal_states(model, published, features):
    """Compares hidden states, attention probabilities and, where there are any, logits."""
    taps = models.taps(model)(features)
    expected = check_states(taps, published, features)
    if "pooler_output" in expected:
        np.testing.assert_allclose(taps["pooled_output"], expected.pooler_output, atol=TOLERANCE)
    assert ("logits" in taps) == ("logits" in expected)
    if "logits" in taps:
        np.testing.assert_allclose(taps["logits"], expected.logits, atol=TOLERANCE)
        np.testing.assert_allclose(model(features), expected.logits, atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_gives_the_same_states_here_and_in_transformers(case, tmp_path):
    config, name = CASES[case]
    published = reference(config, name)
    published.save_pretrained(tmp_path / "theirs", safe_serialization=True)
    features, labels = batch_of(config), None
    if name.endswith("ForSequenceClassification"):
        model, labels = weights.load_classifier(tmp_path / "theirs").model, ["no", "yes", "maybe"]
    else:
        model = weights.load_encoder(tmp_path / "theirs")
        if "PreTraining" in name:
            published = getattr(published, config.model_type)
    assert_equal_states(model, published, features)
    weights.save_hf(model, tmp_path / "ours", labels=labels)
    again = in_transformers(tmp_path / "ours")
    assert_equal_states(model, again, features)
    if labels:
        assert again.config.id2label == dict(enumerate(labels))


def test_the_encoder_of_a_tinybert_is_that_of_a_bert_in_transformers(tmp_path):
    """Which has no such head."""
    config = toys.STUDENT.replace(family="tinybert", vocab_size=40)
    model = toys.randomise(models.build_classifier(config, 3), scale=0.4)
    weights.save_hf(model, tmp_path / "hf")
    encoder = models.build_encoder(config)
    models.copy_encoder(model, encoder)
    assert_equal_states(encoder, in_transformers(tmp_path / "hf").bert, batch())
