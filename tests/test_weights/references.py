"""Toy models of transformers, whose answers ours are compared with."""

import numpy as np
import safetensors.numpy
import tensorflow as tf
import transformers
from transformers import modeling_tf_pytorch_utils

from tfdistill import models

# Float32 sums over at most 48 products of O(1) values; a wrong eps, activation, mask or row shows
# at 1e-3.
TOLERANCE = 1e-5
LENGTHS = (9, 5, 1)
SIZES = {"vocab_size": 40, "max_position_embeddings": 12, "num_labels": 3}
# Encoders of the Model Garden here, and its BERT there.
GARDEN_MOBILEBERT = models.MobileBertConfig(
    num_layers=2,
    hidden_size=16,
    num_heads=2,
    intermediate_size=12,
    vocab_size=40,
    max_positions=12,
    hidden_act="relu",
    embedding_size=6,
    bottleneck_size=8,
    num_feed_forward=2,
)
GARDEN_BERT = models.EncoderConfig(
    num_layers=1,
    hidden_size=16,
    num_heads=4,
    intermediate_size=24,
    vocab_size=40,
    max_positions=12,
    hidden_act="gelu_tanh",
)
OFFICIAL_BERT = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_layers": 1,
    "num_attention_heads": 4,
    "max_sequence_length": 12,
    "type_vocab_size": 2,
    "inner_dim": 24,
}


def bert_config(**changes):
    return transformers.BertConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        **{**SIZES, **changes},
    )


def distilbert_config(**changes):
    return transformers.DistilBertConfig(
        dim=16, n_layers=2, n_heads=4, hidden_dim=24, **{**SIZES, **changes}
    )


def electra_config(**changes):
    return transformers.ElectraConfig(
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        **{**SIZES, **changes},
    )


def batch(token_types=True):
    """Sentence pairs of different lengths, padded."""
    rng = np.random.default_rng(1)
    mask = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int32)
    features = {
        "input_ids": rng.integers(1, 40, mask.shape, np.int32) * mask,
        "attention_mask": mask,
    }
    if token_types:
        second = np.arange(max(LENGTHS)) >= np.array(LENGTHS)[:, None] // 2
        features["token_type_ids"] = second.astype(np.int32) * mask
    return features


def garden_features(features):
    """The same features by the names of the Model Garden."""
    names = {
        "input_word_ids": "input_ids",
        "input_mask": "attention_mask",
        "input_type_ids": "token_type_ids",
    }
    return {name: tf.constant(features[ours]) for name, ours in names.items()}


def batch_of(config):
    """The batch that a model takes."""
    return batch(token_types=config.model_type != "distilbert")


def reference(config, name):
    """A model of transformers whose weights all matter, its decoder tied."""
    model = getattr(transformers, f"TF{name}")(config)
    model(batch_of(config))
    rng = np.random.default_rng(2)
    for variable in model.weights:
        variable.assign(rng.normal(0, 0.4, variable.shape) + ("gamma" in variable.name))
    if "predictions" in vars(model) and hasattr(model.predictions.predictions, "decoder"):
        words = model.mobilebert.embeddings.weight
        model.predictions.predictions.decoder.assign(words)
    return model


def check_states(taps, published, features):
    """Compares hidden states and attention probabilities; returns all that is published."""
    expected = published(features, output_hidden_states=True, output_attentions=True)
    ours = [taps["embeddings"], *taps["hidden_states"]]
    for state, right in zip(ours, expected.hidden_states, strict=True):
        np.testing.assert_allclose(state, right, atol=TOLERANCE)
    mask = (1.0 - features["attention_mask"][:, None, None, :]) * models.ATTENTION_MASK_VALUE
    for scores, right in zip(taps["attention_scores"], expected.attentions, strict=True):
        np.testing.assert_allclose(tf.nn.softmax(scores + mask), right, atol=TOLERANCE)
    return expected


def save_random(model, tokenizer, folder):
    """Saves a model of transformers with random weights, and its tokenizer, as users have them."""
    model(dict(tokenizer(["a"], return_tensors="np")))
    random = np.random.default_rng(2)
    for variable in model.weights:
        variable.assign(random.normal(0, 0.4, variable.shape) + ("gamma" in variable.name))
    model.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)


def in_transformers(folder, **options):
    """What from_pretrained does, but for its bug with PyTorch's layout in TensorFlow (4.57)."""
    config = transformers.AutoConfig.from_pretrained(folder)
    with safetensors.safe_open(folder / "model.safetensors", framework="numpy") as file:
        assert file.metadata()["format"] == "pt"
    state = safetensors.numpy.load_file(folder / "model.safetensors")
    model, info = modeling_tf_pytorch_utils.load_pytorch_state_dict_in_tf2_model(
        getattr(transformers, f"TF{config.architectures[0]}")(config, **options),
        state,
        output_loading_info=True,
    )
    assert not any(info[f"{what}_keys"] for what in ("missing", "unexpected", "mismatched"))
    return model
