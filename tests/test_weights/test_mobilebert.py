"""MobileBERT against the TensorFlow classes of transformers, at random toy weights."""

import json

import numpy as np
import pytest
import transformers
from test_weights.edits import edit_config
from test_weights.references import (
    GARDEN_MOBILEBERT,
    TOLERANCE,
    batch,
    check_states,
    in_transformers,
)

from tfdistill import errors, models, weights

SHAPE = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 12,
    "embedding_size": 6,
    "intra_bottleneck_size": 8,
    "num_feedforward_networks": 3,
    "num_labels": 3,
}
TINY = {"use_bottleneck_attention": True, "num_feedforward_networks": 1}
CASES = {
    "released": {"classifier_activation": False, "num_hidden_layers": 2},
    "pooler": {"classifier_activation": True, "layer_norm_eps": 1e-2},
    "tiny": {**TINY, "key_query_shared_bottleneck": False},
    "tiny-with-unread-tensors": {**TINY, "key_query_shared_bottleneck": True},
    "without-opt": {
        "normalization_type": "layer_norm",
        "hidden_act": "gelu_new",
        "layer_norm_eps": 1e-2,
        "classifier_activation": False,
    },
    "erf-without-trigram": {
        "hidden_act": "gelu",
        "trigram_input": False,
        "classifier_activation": False,
    },
    # transformers builds queries and keys of the width inside, so both widths must be one.
    "not-shared": {"key_query_shared_bottleneck": False, "intra_bottleneck_size": 16},
    "bare-words": {"trigram_input": False, "embedding_size": 16, "classifier_activation": False},
}


def randomise(variables):
    rng = np.random.default_rng(2)
    for variable in variables:
        norm = "gamma" in variable.name or "LayerNorm/weight" in variable.name
        # Small enough that a network without normalizations stays at O(1).
        variable.assign(rng.normal(0, 0.2, variable.shape) + norm)


def reference(changes, head="ForSequenceClassification"):
    config = transformers.MobileBertConfig(**{**SHAPE, **changes})
    model = getattr(transformers, f"TFMobileBert{head}")(config)
    model(model.dummy_inputs)
    randomise(model.weights)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_of_transformers_gives_the_same_states_here(case, tmp_path):
    published = reference(CASES[case])
    published.save_pretrained(tmp_path, safe_serialization=True)
    loaded = weights.load_classifier(tmp_path)
    features = batch()
    taps = models.taps(loaded.model)(features)
    expected = check_states(taps, published, features)
    np.testing.assert_allclose(taps["logits"], expected.logits, atol=TOLERANCE)
    pooled = published.mobilebert(features).pooler_output
    np.testing.assert_allclose(taps["pooled_output"], pooled, atol=TOLERANCE)
    assert models.config_of(loaded.model) == loaded.config.replace(
        # Where there is no LayerNorm its epsilon leaves no trace.
        layer_norm_eps=1e-12 if loaded.config.normalization == "no_norm" else 1e-2
    )
    unread = {key for key in loaded.report.ignored if ".bottleneck.attention." in key}
    assert len(unread) == (4 if case == "tiny-with-unread-tensors" else 0)


def ours(**changes):
    """A classifier here whose weights all matter."""
    config = GARDEN_MOBILEBERT.replace(**{"num_layers": 1, **changes})
    model = models.build_classifier(config, 3)
    randomise(model.weights)
    return model


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"num_layers": 2},
        {"pooler": True, "normalization": "layer_norm", "hidden_act": "gelu_tanh"},
        {"shared_key_query": False, "bottleneck_attention": True, "type_vocab_size": 0},
    ],
    ids=["released", "pooler-and-norm", "tiny"],
)
def test_a_folder_saved_here_gives_the_same_states_in_transformers(changes, tmp_path):
    model = ours(**changes)
    weights.save_hf(model, tmp_path / "hf", labels=["no", "yes", "maybe"])
    published = in_transformers(tmp_path / "hf")
    assert published.config.id2label == {0: "no", 1: "yes", 2: "maybe"}
    features = batch()
    seen = {name: features[name] for name in model.input}
    taps = models.taps(model)(seen)
    expected = check_states(taps, published, features)
    np.testing.assert_allclose(taps["logits"], expected.logits, atol=TOLERANCE)
    loaded = weights.load_classifier(tmp_path / "hf")
    assert loaded.config == models.config_of(model)
    np.testing.assert_array_equal(loaded.model(seen), model(seen))


def test_the_norms_that_pytorch_gives_an_epsilon_of_its_own_have_it_here(tmp_path):
    # MobileBertEmbeddings and MobileBertOutput take nn.LayerNorm's default, in all versions.
    weights.save_hf(ours(normalization="layer_norm", layer_norm_eps=1e-2), tmp_path / "hf")
    path = tmp_path / "hf" / "config.json"
    written = json.loads(path.read_text())
    del written["tfdistill"]["embeddings_layer_norm_eps"]
    path.write_text(json.dumps(written))

    model = weights.load_classifier(tmp_path / "hf").model

    norms = [layer for layer in model.layers if layer.name.endswith("_layer_norm")]
    fixed = {layer.name for layer in norms if layer.epsilon == 1e-5}
    assert fixed == {"embeddings_layer_norm", "layer_0_ffn_1_layer_norm"}
    assert {layer.epsilon for layer in norms if layer.name not in fixed} == {1e-2}


def test_transformers_refuses_an_ib_bert_instead_of_building_another_network(tmp_path):
    weights.save_hf(ours(shared_key_query=False), tmp_path / "hf")
    with pytest.raises(ValueError, match=r"query|key|shape"):
        in_transformers(tmp_path / "hf")


def test_a_config_without_bottlenecks_is_refused(tmp_path):
    weights.save_hf(ours(), tmp_path / "hf")
    edit_config(tmp_path / "hf", use_bottleneck=False)
    with pytest.raises(errors.WeightsError, match="use_bottleneck: expected true"):
        weights.load_classifier(tmp_path / "hf")
