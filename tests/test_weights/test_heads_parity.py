"""Every head against the TensorFlow class of transformers, at random toy weights, both ways."""

import numpy as np
import pytest
import transformers
from test_weights.references import (
    SIZES,
    TOLERANCE,
    batch_of,
    bert_config,
    distilbert_config,
    electra_config,
    in_transformers,
    reference,
)

from tfdistill import models, weights

pytestmark = pytest.mark.slow


def mobilebert_config(**changes):
    return transformers.MobileBertConfig(
        hidden_size=16,
        intra_bottleneck_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
        num_feedforward_networks=2,
        **{**SIZES, "embedding_size": 6, **changes},
    )


MASKED = {
    "bert": (bert_config(), "BertForMaskedLM"),
    "bert-tanh-eps": (bert_config(hidden_act="gelu_new", layer_norm_eps=0.1), "BertForMaskedLM"),
    "bert-pretraining": (bert_config(hidden_act="relu"), "BertForPreTraining"),
    "distilbert": (distilbert_config(), "DistilBertForMaskedLM"),
    "mobilebert": (mobilebert_config(), "MobileBertForMaskedLM"),
    "mobilebert-pretraining": (
        mobilebert_config(classifier_activation=False),
        "MobileBertForPreTraining",
    ),
    "mobilebert-unsplit": (mobilebert_config(embedding_size=16), "MobileBertForMaskedLM"),
}
TOKENS = {
    "bert": (bert_config(), "BertForTokenClassification"),
    "distilbert": (distilbert_config(), "DistilBertForTokenClassification"),
    "electra": (electra_config(), "ElectraForTokenClassification"),
    "mobilebert": (mobilebert_config(), "MobileBertForTokenClassification"),
}
SPANS = {
    "bert": (bert_config(num_labels=2), "BertForQuestionAnswering"),
    "distilbert": (distilbert_config(num_labels=2), "DistilBertForQuestionAnswering"),
    "electra": (electra_config(num_labels=2), "ElectraForQuestionAnswering"),
    "mobilebert": (mobilebert_config(num_labels=2), "MobileBertForQuestionAnswering"),
}


@pytest.mark.parametrize("case", MASKED)
def test_a_masked_lm_answers_the_same_here_and_in_transformers(case, tmp_path):
    config, name = MASKED[case]
    both = name.endswith("ForPreTraining")
    published = reference(config, name)
    published.save_pretrained(tmp_path / "theirs", safe_serialization=True)
    loaded = weights.load_masked_lm(tmp_path / "theirs", next_sentence=both)
    features = batch_of(config)
    prediction_mask = (np.random.default_rng(3).random(features["input_ids"].shape) < 0.4).astype(
        np.int32
    )
    answers = loaded.model({**features, "prediction_mask": prediction_mask})

    def check_answers(expected):
        every = expected.prediction_logits if both else expected.logits  # (B, L, V)
        chosen = every.numpy()[prediction_mask == 1]
        np.testing.assert_allclose(answers["mlm_logits"], chosen, atol=TOLERANCE)
        if both:
            nsp = expected.seq_relationship_logits
            np.testing.assert_allclose(answers["nsp_logits"], nsp, atol=TOLERANCE)

    check_answers(published(features))
    # A masked LM has no dropout before a classifier that could be read.
    assert loaded.config.replace(classifier_dropout=None) == models.config_of(loaded.model)
    assert len(loaded.report.loaded) == len(loaded.model.weights)
    assert not loaded.report.fresh

    weights.save_hf(loaded.model, tmp_path / "ours")
    check_answers(in_transformers(tmp_path / "ours")(features))


@pytest.mark.parametrize("case", TOKENS)
def test_a_token_classifier_answers_the_same_here_and_in_transformers(case, tmp_path):
    loaded, again = both_ways(*TOKENS[case], "token", tmp_path, labels=["O", "B", "I"])
    assert loaded.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert again.config.id2label == {0: "O", 1: "B", 2: "I"}
    assert weights.load_model(tmp_path / "ours", "token").labels == ("O", "B", "I")


@pytest.mark.parametrize(
    "case",
    ["bert", "distilbert", "electra", pytest.param("mobilebert", marks=pytest.mark.thorough)],
)
def test_a_span_classifier_answers_the_same_here_and_in_transformers(case, tmp_path):
    both_ways(*SPANS[case], "span", tmp_path)


def both_ways(config, name, kind, folder, labels=None):
    """The model loaded from transformers, and what transformers opens of it; all answer alike."""
    published = reference(config, name)
    published.save_pretrained(folder / "theirs", safe_serialization=True)
    loaded = weights.load_model(folder / "theirs", kind)
    weights.save_hf(loaded.model, folder / "ours", labels=labels)
    again, features = in_transformers(folder / "ours"), batch_of(config)
    logits = loaded.model(features)
    for answers in (published(features), again(features)):
        expected = (
            answers.logits
            if kind == "token"
            else np.stack([answers.start_logits, answers.end_logits], axis=-1)
        )
        np.testing.assert_allclose(logits, expected, atol=TOLERANCE)
    return loaded, again
