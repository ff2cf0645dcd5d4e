"""Importance against finite differences, and what must not change it."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors, models, pruning
from tfdistill.pruning import sample as samples
from tfdistill.tasks.encoded import FEATURES

LENGTHS = (5, 9, 3, 7)
BUILD = {
    "sequence": lambda config: models.build_classifier(config, 3),
    "regression": lambda config: models.build_classifier(config, 1),
    "token": lambda config: models.build_token_classifier(config, 3),
    "span": models.build_span_classifier,
    "none": models.build_encoder,
}

KINDS = [
    pytest.param(kind, marks=[] if kind in ("sequence", "token") else pytest.mark.thorough)
    for kind in BUILD
]


def teacher_of(kind, seed=3):
    config = toys.SHALLOW_TEACHER.replace(num_heads=3, pooler=kind in ("sequence", "regression"))
    return toys.randomise(BUILD[kind](config), seed)


def example(features, index, length):
    return {name: tensor[index : index + 1, :length] for name, tensor in features.items()}


def loss_of(model, features):
    answer = model(features, training=False)
    head = models.head_of(model)
    if head == "none":
        answer = answer["sequence_output"]
    return samples.answer_loss(answer, features["attention_mask"], head).numpy()


def slope(model, layer, rows, features):
    """d loss / d scale of some rows of an output matrix: each example's <a, dl/da>."""
    before = model.get_layer(layer).get_weights()
    losses = []
    step = 1e-2
    for sign in (1, -1):
        kernel = before[0].copy()
        kernel[rows] *= 1 + sign * step
        model.get_layer(layer).set_weights([kernel, before[1]])
        losses.append(loss_of(model, features))
    model.get_layer(layer).set_weights(before)
    return (losses[0] - losses[1]) / (2 * step)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_importance_is_the_slope_of_the_loss_along_each_activation(kind):
    teacher = teacher_of(kind)
    features = toys.features(LENGTHS)
    measured = pruning.measure(teacher, [features])
    ids, is_real = (np.asarray(features[name]) for name in ("input_ids", "attention_mask"))
    assert (
        measured.words.tolist()
        == np.bincount(ids[is_real > 0], minlength=len(measured.words)).tolist()
    )
    assert measured.words[0] == 0  # padding is no word
    size = 4  # 12 wide, 3 heads
    for layer in (0, 1):
        for unit in (0, 5):
            expected = np.mean(np.abs(slope(teacher, f"layer_{layer}_output", [unit], features)))
            # Central differences of float32 losses.
            assert measured.neurons[layer, unit] == pytest.approx(expected, rel=0.02, abs=1e-4)
        rows = range(size, 2 * size)
        slopes = slope(teacher, f"layer_{layer}_attention_output", rows, features)
        expected = np.mean(np.abs(slopes))
        assert measured.heads[layer, 1] == pytest.approx(expected, rel=0.02, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=[] if kind == "sequence" else pytest.mark.thorough)
        for kind in BUILD
    ],
)
def test_padding_and_batching_change_nothing(kind):
    teacher = teacher_of(kind)
    features = toys.features(LENGTHS)
    whole = pruning.measure(teacher, [features])
    padded = {name: tf.pad(tensor, [[0, 0], [0, 3]]) for name, tensor in features.items()}
    padded["input_ids"] += 7 * (1 - padded["attention_mask"])  # padding that is not [PAD]
    split = [example(features, i, length) for i, length in enumerate(LENGTHS)]
    for other in ([padded], split):
        again = pruning.measure(teacher, other)
        assert (again.examples, again.tokens) == (4, sum(LENGTHS))
        for name in ("neurons", "heads", "pooled", "states", "queries", "keys", "contexts"):
            # float32 sums in another order; exp(-100) of padding is 0 in float32.
            np.testing.assert_allclose(
                getattr(again, name), getattr(whole, name), rtol=2e-3, atol=2e-5, err_msg=name
            )


def test_states_are_the_second_moments_over_real_tokens_also_of_a_frozen_teacher():
    teacher = teacher_of("sequence")
    features = toys.features(LENGTHS)
    neurons = pruning.measure(teacher, [features]).neurons
    teacher.trainable = False
    measured = pruning.measure(teacher, [features])
    np.testing.assert_allclose(measured.neurons, neurons)
    outputs = models.taps(teacher)(features, training=False)
    real = features["attention_mask"].numpy() > 0
    for place, states in enumerate([outputs["embeddings"], *outputs["hidden_states"]]):
        rows = states.numpy()[real]
        np.testing.assert_allclose(measured.states[place], rows.T @ rows / len(rows), rtol=1e-3)


def test_several_labels_count_each_for_itself():
    logits = tf.constant([[2.0, -1.0], [0.5, 3.0]])
    losses = samples.answer_loss(logits, tf.ones((2, 1)), "sequence", multi_label=True)
    expected = np.log1p(np.exp(-np.abs(logits))).sum(axis=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_a_sample_ends_with_the_batch_that_is_enough_and_an_empty_one_is_refused():
    batch = toys.features(LENGTHS)
    assert len(pruning.take_sample([(batch, None)] * 5, examples=8)) == 2
    assert len(pruning.take_sample([batch] * 5, tokens=25)) == 2
    nothing = {name: tensor * 0 for name, tensor in batch.items()}
    for take in (
        lambda: pruning.measure(teacher_of("sequence"), []),
        lambda: pruning.take_sample([]),
        lambda: pruning.take_sample([nothing]),
    ):
        with pytest.raises(errors.DataError, match="at least one text"):
            take()


def test_fewer_passes_hold_the_same_texts_within_the_limit(monkeypatch):
    monkeypatch.setattr(samples, "_AT_ONCE", 24)
    batches = [toys.features(lengths) for lengths in ((3, 2), (7,), (5, 5, 4), (3, 3), (9, 8, 9))]
    batches[0] = {name: tensor.numpy() for name, tensor in batches[0].items()}
    batches[1]["teacher_logits"] = tf.zeros((1, 2))  # no model reads it
    passes = samples.in_few_passes(batches)
    shapes = [tuple(part["attention_mask"].shape) for part in passes]
    assert shapes == [(4, 3), (3, 5), (1, 7), (3, 9)]  # the last is as large as it was
    assert all(set(part) == {*FEATURES} for part in passes)

    def texts(parts):
        rows = []
        for part in parts:
            for name in FEATURES:
                assert not np.any(part[name][part["attention_mask"] == 0])
            for row, mask in zip(part["input_ids"], part["attention_mask"], strict=True):
                rows.append(tuple(np.asarray(row)[np.asarray(mask) == 1]))
        return sorted(rows)

    assert texts(passes) == texts(batches)
