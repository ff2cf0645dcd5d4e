"""DistilBERT's start: a student made of some of its teacher's layers."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models, training

TEACHER = toys.STUDENT.replace(num_layers=4)
STUDENT = TEACHER.replace(num_layers=2)
DISTILBERT = STUDENT.replace(family="distilbert", type_vocab_size=0, pooler=False)
FEATURES = toys.features((5, 3, 6))
# One text: every token is of type 0.
SINGLE = {**FEATURES, "token_type_ids": tf.zeros_like(FEATURES["token_type_ids"])}


@pytest.fixture(scope="module")
def teacher():
    return toys.randomise(models.build_masked_lm(TEACHER, next_sentence=True), seed=1)


@pytest.fixture(scope="module")
def built_student():
    return models.build_masked_lm(DISTILBERT)


@pytest.fixture
def student(built_student):
    return toys.randomise(built_student, seed=2)


def weights(model, name):
    return model.get_layer(name).get_weights()


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def answers(model, features=SINGLE):
    every = {**features, "prediction_mask": features["attention_mask"]}
    return model({name: every[name] for name in model.input_names}, training=False)


def test_each_layer_is_a_copy_of_the_one_that_was_chosen(teacher, student):
    layers = (3, 1)
    training.initialise_from_layers(student, teacher, layers=layers)
    copied = 0
    for layer in student.layers:
        for student_layer, teacher_layer in enumerate(layers):
            prefix = f"layer_{student_layer}_"
            if layer.weights and layer.name.startswith(prefix):
                name = f"layer_{teacher_layer}_{layer.name.removeprefix(prefix)}"
                assert same(layer.get_weights(), weights(teacher, name)), layer.name
                copied += 1
    assert copied == 2 * 8  # q, k, v, out, two feed-forward, two LayerNorms


def test_what_stands_before_and_behind_the_layers_is_copied_as_asked_for(teacher, student):
    before = weights(student, "mlm_bias")
    training.initialise_from_layers(student, teacher, layers=[0, 3], mlm_head=False)
    assert same(weights(student, "mlm_bias"), before)
    fresh = {name: weights(student, name) for name in ("mlm_transform", "mlm_layer_norm")}
    training.initialise_from_layers(student, teacher, layers=[0, 3])
    for name in ("word_embeddings", "embeddings_layer_norm", "mlm_bias"):
        assert same(weights(student, name), weights(teacher, name)), name
    for name, before in fresh.items():  # only on request
        assert same(weights(student, name), before), name
    training.initialise_from_layers(student, teacher, layers=[0, 3], mlm_transform=True)
    for name in fresh:
        assert same(weights(student, name), weights(teacher, name)), name


def test_all_layers_with_folded_types_are_the_teacher_on_a_single_text(teacher):
    """And the sum of the types could not have gone into the words, which the decoder reads too."""
    whole = models.build_masked_lm(DISTILBERT.replace(num_layers=4))
    training.initialise_from_layers(whole, teacher, layers=range(4), mlm_transform=True)
    of_student, of_teacher = (answers(model)["mlm_logits"].numpy() for model in (whole, teacher))
    # The type is added to the position before the word is, not after: rounding.
    np.testing.assert_allclose(of_student, of_teacher, rtol=1e-4, atol=1e-5)
    assert np.abs(of_teacher).max() > 0.5
    training.initialise_from_layers(
        whole, teacher, layers=range(4), mlm_transform=True, token_types="drop"
    )
    dropped = answers(whole)["mlm_logits"].numpy()
    assert np.abs(dropped - of_teacher).max() > 0.1
    np.testing.assert_array_equal(
        weights(whole, "position_embeddings")[0], weights(teacher, "position_embeddings")[0]
    )


def test_types_and_pooler_are_copied_where_both_have_them(teacher):
    """A student with a classifier, as in BERT-PKD: its first layers, and its own classifier."""
    student = toys.classifier(STUDENT, seed=2)
    before = weights(student, "classifier")
    training.initialise_from_layers(student, teacher, layers=[0, 1])
    for name in ("token_type_embeddings", "position_embeddings", "pooler"):
        assert same(weights(student, name), weights(teacher, name)), name
    assert same(weights(student, "classifier"), before)


def test_a_missing_type_starts_at_zero_and_fewer_positions_are_the_first_rows(student, teacher):
    bert = toys.classifier(STUDENT, seed=3)
    training.initialise_from_layers(bert, student, layers=[0, 1])
    assert not weights(bert, "token_type_embeddings")[0].any()
    np.testing.assert_array_equal(
        weights(bert, "position_embeddings")[0], weights(student, "position_embeddings")[0]
    )
    short = models.build_masked_lm(DISTILBERT.replace(max_positions=7))
    training.initialise_from_layers(short, teacher, layers=[0, 3])
    expected = (
        weights(teacher, "position_embeddings")[0] + weights(teacher, "token_type_embeddings")[0][0]
    )
    np.testing.assert_array_equal(weights(short, "position_embeddings")[0], expected[:7])


@pytest.mark.slow
def test_blocks_of_a_mobilebert():
    config = models.MobileBertConfig(
        num_layers=2,
        hidden_size=8,
        num_heads=2,
        intermediate_size=6,
        vocab_size=30,
        max_positions=12,
        embedding_size=3,
        bottleneck_size=4,
        num_feed_forward=2,
    )
    teacher = toys.randomise(models.build_masked_lm(config), seed=1)
    same_depth = toys.randomise(models.build_masked_lm(config), seed=2)
    training.initialise_from_layers(same_depth, teacher, layers=[0, 1], mlm_transform=True)
    np.testing.assert_array_equal(answers(same_depth)["mlm_logits"], answers(teacher)["mlm_logits"])


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"layers": [0, 4]}, errors.ConfigError, "a teacher layer from 0 to 3, received 4"),
        ({"layers": [0, -1]}, errors.ConfigError, "received -1"),
        ({"layers": [0]}, errors.ConfigError, "a teacher layer for each of the 2 student layers"),
        ({"layers": [0, 1], "token_types": "add"}, errors.ConfigError, "one of fold, drop"),
    ],
)
def test_options_out_of_range_are_refused(teacher, student, options, error, says):
    before = student.get_weights()
    with pytest.raises(error) as caught:
        training.initialise_from_layers(student, teacher, **options)
    assert says in str(caught.value)
    assert same(student.get_weights(), before)


def test_other_shapes_and_a_transform_without_two_heads_are_refused(teacher):
    other = models.build_encoder(DISTILBERT.replace(hidden_size=6, intermediate_size=10))
    with pytest.raises(errors.ShapeError) as caught:
        training.initialise_from_layers(other, teacher, layers=[0, 1])
    assert "hidden_size 6 instead of 8, intermediate_size 10 instead of 12" in str(caught.value)
    assert "initialise_from_teacher" in str(caught.value)
    student = models.build_encoder(DISTILBERT)
    with pytest.raises(errors.ShapeError, match="a student with a masked-LM head"):
        training.initialise_from_layers(student, teacher, layers=[0, 1], mlm_transform=True)
    training.initialise_from_layers(student, teacher, layers=[0, 1])  # the head is optional
