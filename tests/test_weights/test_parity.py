"""Our models against the TensorFlow classes of transformers, at random toy weights."""

import numpy as np
import pytest
import tensorflow as tf
import transformers
from test_weights.references import (
    TOLERANCE,
    batch,
    batch_of,
    bert_config,
    distilbert_config,
    electra_config,
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
    expected = published(features, output_hidden_states=True, output_attentions=True)
    taps = models.taps(model)(features)
    ours = [taps["embeddings"], *taps["hidden_states"]]
    assert len(ours) == len(expected.hidden_states)
    for state, right in zip(ours, expected.hidden_states, strict=True):
        np.testing.assert_allclose(state, right, atol=TOLERANCE)
    mask = (1.0 - features["attention_mask"][:, None, None, :]) * models.ATTENTION_MASK_VALUE
    for scores, right in zip(taps["attention_scores"], expected.attentions, strict=True):
        np.testing.assert_allclose(tf.nn.softmax(scores + mask), right, atol=TOLERANCE)
    if "pooler_output" in expected:
        np.testing.assert_allclose(taps["pooled_output"], expected.pooler_output, atol=TOLERANCE)
    assert ("logits" in taps) == ("logits" in expected)
    if "logits" in taps:
        np.testing.assert_allclose(taps["logits"], expected.logits, atol=TOLERANCE)
        np.testing.assert_allclose(model(features), expected.logits, atol=TOLERANCE)


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_of_transformers_gives_the_same_states_here(case, tmp_path):
    config, name = CASES[case]
    published = reference(config, name)
    published.save_pretrained(tmp_path, safe_serialization=True)
    features = batch_of(config)
    if name.endswith("ForSequenceClassification"):
        model = weights.load_classifier(tmp_path).model
    else:
        model = weights.load_encoder(tmp_path)
        if "PreTraining" in name:
            published = getattr(published, config.model_type)
    assert_equal_states(model, published, features)


@pytest.mark.parametrize(
    ("ours", "act"),
    [
        *(("bert", "gelu"), ("bert", "gelu_tanh"), ("distilbert", "gelu_tanh")),
        *(("tinybert", "gelu"), ("electra", "gelu"), ("electra", "gelu_tanh")),
    ],
)
@pytest.mark.parametrize("num_labels", [pytest.param(None, marks=pytest.mark.thorough), 3])
def test_a_folder_saved_here_gives_the_same_states_in_transformers(ours, act, num_labels, tmp_path):
    distil = ours == "distilbert"
    config = models.EncoderConfig(
        family=ours,
        num_layers=2,
        hidden_size=16,
        num_heads=4,
        intermediate_size=24,
        vocab_size=40,
        max_positions=12,
        hidden_act=act,
        layer_norm_eps=1e-12 if distil else 1e-3,
        type_vocab_size=0 if distil else 2,
        pooler=not distil and ours != "electra",
        embedding_size=8 if (ours, act) == ("electra", "gelu") else None,
    )
    model = (
        models.build_classifier(config, num_labels) if num_labels else models.build_encoder(config)
    )
    rng = np.random.default_rng(3)
    for variable in model.variables:
        variable.assign(rng.normal(0, 0.4, variable.shape) + ("gamma" in variable.name))
    weights.save_hf(model, tmp_path / "hf", labels=["no", "yes", "maybe"] if num_labels else None)
    published = load_in_transformers(tmp_path / "hf", num_labels)
    if num_labels:
        assert published.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    features = batch(token_types=not distil)
    if num_labels and ours == "tinybert":  # transformers has no such head; the encoder is the same
        published, model = published.bert, encoder_of(model)
    assert_equal_states(model, published, features)


def encoder_of(model):
    encoder = models.build_encoder(models.config_of(model))
    for layer in encoder.layers:
        layer.set_weights(model.get_layer(layer.name).get_weights())
    return encoder


def load_in_transformers(folder, num_labels):
    """What from_pretrained does, but for its bug with PyTorch's layout in TensorFlow (4.57)."""
    from safetensors import safe_open
    from transformers.modeling_tf_pytorch_utils import load_pytorch_state_dict_in_tf2_model

    kind = "ForSequenceClassification" if num_labels else ""
    auto = getattr(transformers, f"TFAutoModel{kind}")
    model = auto.from_config(transformers.AutoConfig.from_pretrained(folder))
    with safe_open(folder / "model.safetensors", framework="numpy") as file:
        assert file.metadata()["format"] == "pt"
        state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    model, info = load_pytorch_state_dict_in_tf2_model(model, state, output_loading_info=True)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert not info["mismatched_keys"]
    return model
