import functools

import numpy as np
import pytest
import tensorflow as tf
import toys
from test_weights.edits import edit, edit_config

from tfdistill import errors, models, weights
from tfdistill.weights import keys

randomise = functools.partial(toys.randomise, scale=0.4)

CONFIG = models.EncoderConfig(
    num_layers=1,
    hidden_size=8,
    num_heads=2,
    intermediate_size=12,
    vocab_size=10,
    max_positions=6,
)
DISTIL = CONFIG.replace(family="distilbert", type_vocab_size=0, pooler=False)
FEATURES = {
    "input_ids": tf.constant([[2, 5, 3], [2, 6, 3]]),
    "attention_mask": tf.ones((2, 3), tf.int32),
    "token_type_ids": tf.zeros((2, 3), tf.int32),
    "prediction_mask": tf.constant([[0, 1, 0], [0, 1, 1]]),
}
MLM_KEYS = (
    "cls.predictions.bias",
    "cls.predictions.transform.LayerNorm.bias",
    "cls.predictions.transform.LayerNorm.weight",
    "cls.predictions.transform.dense.bias",
    "cls.predictions.transform.dense.weight",
)
NSP_KEYS = ("cls.seq_relationship.bias", "cls.seq_relationship.weight")
POOLER_KEYS = ("pooler.dense.bias", "pooler.dense.weight")


def answers(model):
    return model({name: FEATURES[name] for name in model.input})


BUILD = {
    "none": lambda: models.build_encoder(CONFIG),
    "sequence": lambda: models.build_classifier(CONFIG, 3),
    "token": lambda: models.build_token_classifier(CONFIG, 3),
    "span": lambda: models.build_span_classifier(CONFIG),
    "masked_lm": lambda: models.build_masked_lm(CONFIG, next_sentence=True),
    "distilbert": lambda: models.build_masked_lm(DISTIL),
}


@functools.cache
def model_of(head):
    """One BERT of each kind, with the same random numbers."""
    return randomise(BUILD[head]())


@pytest.fixture
def saved(tmp_path):
    """Writes a model of that head and returns its folder."""
    return lambda head: weights.save_hf(model_of(head), tmp_path / head)


@pytest.mark.slow
@pytest.mark.parametrize("head", ["token", "span", "masked_lm", "distilbert"])
def test_a_saved_model_comes_back_whole(head, saved):
    kind = head if head in ("token", "span") else "masked_lm"
    loaded = weights.load_model(saved(head), kind, next_sentence=head == "masked_lm")
    before, after = answers(model_of(head)), answers(loaded.model)
    tf.nest.map_structure(np.testing.assert_array_equal, after, before)
    assert len(loaded.report.loaded) == len(model_of(head).weights)
    assert not loaded.report.fresh
    assert not loaded.report.ignored


@pytest.mark.slow
def test_every_head_is_ignored_by_name_where_the_encoder_is_wanted(saved):
    expected = {
        "sequence": ("classifier.bias", "classifier.weight"),
        "token": ("classifier.bias", "classifier.weight"),
        "span": ("qa_outputs.bias", "qa_outputs.weight"),
        "masked_lm": (*MLM_KEYS, *NSP_KEYS),
        "distilbert": tuple(
            f"vocab_{name}"
            for name in (
                "layer_norm.bias",
                "layer_norm.weight",
                "projector.bias",
                "transform.bias",
                "transform.weight",
            )
        ),
    }
    for head, ignored in expected.items():
        loaded = weights.load_model(saved(head), "none")
        assert loaded.report.ignored == ignored
        there = answers(models.taps(model_of(head)))
        here = answers(models.taps(loaded.model))
        np.testing.assert_array_equal(here["sequence_output"], there["sequence_output"])


@pytest.mark.slow
def test_a_new_head_makes_a_masked_lm_of_any_encoder_and_leaves_an_old_one_out(saved):
    folder = saved("none")
    with pytest.raises(errors.WeightsError):
        weights.load_masked_lm(folder)
    loaded = weights.load_masked_lm(folder, new_head=True)
    assert loaded.report.fresh == MLM_KEYS
    assert loaded.report.ignored == POOLER_KEYS
    states = answers(models.taps(loaded.model))["sequence_output"]
    expected = answers(model_of("none"))["sequence_output"]
    np.testing.assert_array_equal(states, expected)
    # Tied from the start: the table that reads is the table that was loaded.
    masked_logits = answers(loaded.model)["mlm_logits"]
    table = model_of("none").get_layer("word_embeddings").embeddings
    loaded.model.get_layer("word_embeddings").embeddings.assign(2 * table)
    changed = answers(loaded.model)["mlm_logits"]
    assert np.abs(changed - masked_logits).max() > 1e-3
    report = weights.load_masked_lm(saved("masked_lm"), new_head=True, next_sentence=True).report
    assert report.fresh == (*MLM_KEYS, *NSP_KEYS)
    assert report.ignored == (*MLM_KEYS, *NSP_KEYS)
    report = weights.load_model(saved("span"), "span", new_head=True).report
    assert report.fresh == report.ignored == ("qa_outputs.bias", "qa_outputs.weight")


def test_next_sentences_that_the_checkpoint_lacks_are_refused(saved):
    folder = saved("masked_lm")
    edit(folder, lambda t: [t.pop(key) for key in NSP_KEYS])
    with pytest.raises(errors.WeightsError, match="expected a next-sentence head, received none"):
        weights.load_masked_lm(folder, next_sentence=True)
    with pytest.raises(errors.ConfigError):
        weights.load_masked_lm(saved("distilbert"), new_head=True, next_sentence=True)


@pytest.mark.slow
def test_heads_over_texts_and_over_tokens_are_not_taken_for_each_other(saved, tmp_path):
    with pytest.raises(errors.WeightsError, match="a classifier of tokens, received BertForSeq"):
        weights.load_model(saved("sequence"), "token")
    with pytest.raises(errors.WeightsError):
        weights.load_classifier(saved("token"))
    folder = weights.save_hf(models.build_classifier(DISTIL, 3), tmp_path / "untold")
    edit_config(folder, architectures=None)
    with pytest.raises(errors.WeightsError, match="a classifier of tokens, received DistilBertFor"):
        weights.load_model(folder, "token")
    loaded = weights.load_model(saved("span"), "token", num_labels=4)
    assert loaded.report.fresh == ("classifier.bias", "classifier.weight")
    assert (loaded.labels, models.num_labels_of(loaded.model)) == ((), 4)


def test_half_a_head_a_missing_one_and_names_of_another_are_refused(saved, tmp_path):
    folder = saved("token")
    edit(folder, lambda t: t.pop("classifier.weight"))
    with pytest.raises(errors.WeightsError):
        weights.load_model(folder, "token")
    with pytest.raises(errors.WeightsError, match=r"head over spans \(qa_outputs\).*new_head=True"):
        weights.load_model(saved("masked_lm"), "span")
    with pytest.raises(errors.WeightsError):
        weights.save_hf(model_of("span"), tmp_path / "span", labels=["start", "end"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "key", "twin"),
    [
        ("masked_lm", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("masked_lm", "cls.predictions.decoder.bias", "cls.predictions.bias"),
        ("distilbert", "vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
    ],
)
def test_a_decoder_in_the_file_must_be_the_tied_one(head, key, twin, saved):
    folder = saved(head)
    edit(folder, lambda t: t.update({key: t[twin].copy()}))
    assert key in weights.load_masked_lm(folder).report.ignored
    edit(folder, lambda t: t.update({key: t[twin] + 0.5}))
    with pytest.raises(errors.WeightsError, match=rf"{key}.* tied to, received others.*new_head"):
        weights.load_masked_lm(folder)
    assert weights.load_masked_lm(folder, new_head=True).report.fresh


@pytest.mark.thorough
# The counts that transformers prints for the published checkpoints.
@pytest.mark.parametrize(
    ("name", "head", "count"),
    [
        ("bert_base", models.Head("masked_lm"), 109_514_298),
        ("bert_base", models.Head("masked_lm", next_sentence=True), 110_106_428),
        ("distilbert_6l_768d", models.Head("masked_lm"), 66_985_530),
    ],
)
def test_masked_lms_have_the_published_number_of_parameters(name, head, count):
    config = models.preset(name)
    if not head.next_sentence:
        config = config.replace(pooler=False)
    model = models.build_model(config, head)
    assert sum(np.prod(variable.shape) for variable in keys.variables(model)) == count
