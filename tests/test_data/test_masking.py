"""Masks: how many, which, replaced by what, and the same again from any step."""

import numpy as np
import pytest
import tensorflow as tf
import toys

from tfdistill import errors
from tfdistill.data import batches, masking, streaming


def seed(step, number=3):
    return tf.constant([number, step], tf.int64)


def arrays(masked):
    return {name: value.numpy() for name, value in masked.items()}


LENGTHS = (2, 3, 9, 40, 64, 64, 31, 17)


def test_each_example_has_its_share_chosen_and_at_least_one(tokenizer):
    batch = toys.token_rows(tokenizer, LENGTHS)
    for rate in (0.15, 0.4):
        masked = arrays(masking.Masker(tokenizer, rate=rate)(batch, seed(0)))
        chosen = (masked["mlm_labels"] >= 0).sum(axis=1)
        expected = [max(1, int(rate * n + 0.5)) for n in LENGTHS]
        expected[0] = 0  # [CLS] [SEP]: nothing that may be chosen
        assert chosen.tolist() == expected


def test_labels_are_the_original_ids_and_all_else_stays(tokenizer):
    batch = toys.token_rows(tokenizer, LENGTHS)
    ids = batch["input_ids"].numpy()
    masked = arrays(masking.Masker(tokenizer, rate=0.4)(batch, seed(1)))
    chosen = masked["mlm_labels"] >= 0
    np.testing.assert_array_equal(masked["prediction_mask"], chosen)
    np.testing.assert_array_equal(masked["mlm_labels"], np.where(chosen, ids, -100))
    np.testing.assert_array_equal(masked["input_ids"][~chosen], ids[~chosen])
    assert (masked["input_ids"] != ids).sum() > 50
    assert not np.isin(ids[chosen], tokenizer.special_ids).any()
    np.testing.assert_array_equal(masked["token_type_ids"], batch["token_type_ids"])
    np.testing.assert_array_equal(masked["attention_mask"], batch["attention_mask"])


def test_special_tokens_inside_a_text_are_never_chosen(tokenizer):
    batch = toys.token_rows(tokenizer, (60,) * 8)
    ids = batch["input_ids"].numpy()
    ids[:, 5:55] = np.resize(tokenizer.special_ids[1:], 50)
    batch["input_ids"] = tf.constant(ids)
    for options in ({}, {"token_counts": np.ones(tokenizer.vocab_size, int)}):
        masked = arrays(masking.Masker(tokenizer, rate=0.5, **options)(batch, seed(0)))
        labels = masked["mlm_labels"]
        assert not np.isin(labels[labels >= 0], tokenizer.special_ids).any()
        assert (labels >= 0).sum() == 8 * 8  # 60 - 50 - [CLS] - [SEP]: all that may be chosen


def test_of_the_chosen_tokens_eight_tenths_are_hidden_and_one_tenth_is_random(tokenizer):
    batch = toys.token_rows(tokenizer, (64,) * 128)
    ids = batch["input_ids"].numpy()
    masked = arrays(masking.Masker(tokenizer, rate=0.5)(batch, seed(0)))
    chosen = masked["mlm_labels"] >= 0
    assert chosen.sum() == 128 * 32
    shown = masked["input_ids"][chosen]
    hidden = shown == tokenizer.mask_id
    random = ~hidden & (shown != ids[chosen])
    # 4096 draws: the standard deviations are 0.006 and 0.005; a random token in 90 is the same.
    assert abs(hidden.mean() - 0.8) < 0.02
    assert abs(random.mean() - 0.1) < 0.02
    assert not np.isin(shown[random], tokenizer.special_ids).any()
    kinds = tokenizer.vocab_size - 5
    assert len(set(shown[random].tolist())) > 0.9 * kinds
    masker = masking.Masker(tokenizer, rate=0.5, mask_token_rate=0.0, random_token_rate=1.0)
    only = arrays(masker(batch, seed(0)))
    assert (only["input_ids"] != tokenizer.mask_id).all()
    assert (only["input_ids"] != ids)[chosen].mean() > 0.95


def test_every_position_of_a_row_has_the_same_chance(tokenizer):
    batch = toys.token_rows(tokenizer, (12, 7) * 100)
    masker = masking.Masker(tokenizer, rate=0.2)
    times = np.zeros((2, 14))
    for step in range(6):
        chosen = masker(batch, seed(step))["prediction_mask"].numpy()
        times += chosen.reshape(100, 2, 14).sum(axis=0)
    expected = np.zeros((2, 14))
    expected[0, 1:11] = 2 / 10  # round(0.2 * 12) of ten
    expected[1, 1:6] = 1 / 5
    # 600 draws: the standard deviation is 0.016.
    np.testing.assert_allclose(times / 600, expected, atol=0.065)


def test_smoothed_masking_counts_over_the_whole_batch(tokenizer, rng):
    counts = rng.integers(0, 10_000, tokenizer.vocab_size)
    masker = masking.Masker(tokenizer, token_counts=counts)
    per_row = set()
    for lengths in (LENGTHS, (3, 4), (64,) * 4):
        batch = toys.token_rows(tokenizer, lengths)
        for step in range(3):
            chosen = masker(batch, seed(step))["prediction_mask"].numpy()
            assert chosen.sum() == int(0.15 * sum(lengths) + 0.5)
            per_row.add(tuple(chosen.sum(axis=1)))
    assert len(per_row) > 6  # rows share the number freely


@pytest.mark.slow
def test_smoothed_masking_draws_by_the_power_of_the_count(tokenizer):
    counts = np.full(tokenizer.vocab_size, 7)
    first, second, third = 10, 11, 12
    counts[[first, second, third]] = 0, 30, 2000
    ids = [tokenizer.cls_id, first, second, third, third, tokenizer.sep_id]
    batch = {"input_ids": tf.constant([ids]), "attention_mask": tf.ones((1, 6), tf.int32)}
    masker = tf.function(masking.Masker(tokenizer, rate=1 / 6, token_counts=counts))
    times = np.zeros(6)
    for step in range(800):
        times += masker(batch, seed(step))["prediction_mask"].numpy()[0]
    weights = np.array([0, 1**-0.7, 30**-0.7, 2000**-0.7, 2000**-0.7, 0])
    # One draw of 800 each: the standard deviation is at most 0.018.
    np.testing.assert_allclose(times / 800, weights / weights.sum(), atol=0.05)


def test_the_head_answers_at_every_real_token_on_request(tokenizer):
    batch = toys.token_rows(tokenizer, LENGTHS)
    masked = arrays(masking.Masker(tokenizer, predict="all")(batch, seed(0)))
    alone = arrays(masking.Masker(tokenizer)(batch, seed(0)))
    np.testing.assert_array_equal(masked["prediction_mask"], batch["attention_mask"])
    np.testing.assert_array_equal(masked["mlm_labels"], alone["mlm_labels"])


def test_the_pieces_of_a_word_are_chosen_together(tokenizer):
    piece = next(i for i, token in enumerate(tokenizer.vocab) if token.startswith("##"))
    begins = np.array([not token.startswith("##") for token in tokenizer.vocab])
    batch = toys.token_rows(tokenizer, (40, 2, 3, 64, 64), seed=4)
    ids = batch["input_ids"].numpy()
    ids[2, 1] = piece  # a row may begin with a piece
    batch["input_ids"] = tf.constant(ids)
    masked = arrays(masking.Masker(tokenizer, rate=0.3, whole_words=True)(batch, seed(0)))
    sizes = set()
    for row, labels in enumerate(masked["mlm_labels"]):
        length = int(batch["attention_mask"].numpy()[row].sum())
        starts = [p for p in range(length) if begins[ids[row, p]]]
        words = list(zip(starts, [*starts[1:], length], strict=True))
        whole = [word for word in words if (labels[word[0] : word[1]] >= 0).all()]
        sizes |= {end - begin for begin, end in whole}
        assert sum(end - begin for begin, end in whole) == (labels >= 0).sum()
        ordinary = len([w for w in words if ids[row, w[0]] not in tokenizer.special_ids])
        assert len(whole) == min(max(1, int(0.3 * len(words) + 0.5)), ordinary)
    assert {1, 2} <= sizes


@pytest.mark.slow
def test_a_seed_gives_its_masks_again_and_another_step_gives_others(tokenizer):
    batch = toys.token_rows(tokenizer, LENGTHS)
    for options in ({}, {"token_counts": np.ones(tokenizer.vocab_size, int)}):
        masker = masking.Masker(tokenizer, **options)
        first = arrays(masker(batch, seed(5)))
        again = arrays(tf.function(masker)(batch, seed(5)))
        for name, value in first.items():
            np.testing.assert_array_equal(value, again[name])
        for other in (masker(batch, seed(6)), masker(batch, seed(5, number=4))):
            assert (other["mlm_labels"].numpy() != first["mlm_labels"]).any()
            assert (other["input_ids"].numpy() != first["input_ids"]).any()


@pytest.fixture(scope="module")
def examples(tokenizer):
    texts = ["the film is good.", "it is not bad, it is a good story!", "seven", "alarm"] * 3
    encoded = tokenizer.encode_batch(texts)
    return batches.EncodedExamples(
        encoded.ids, encoded.offsets, encoded.types, np.arange(12, dtype=np.int32)
    )


def stream(masked, **options):
    return [tf.nest.map_structure(lambda x: x.numpy(), b) for b in masked.dataset(**options)]


@pytest.mark.slow
def test_a_resumed_stream_has_the_batches_and_masks_of_an_uninterrupted_one(tokenizer, examples):
    def masked():
        plain = batches.Batches(examples, batch_size=5, seed=2)
        return streaming.MappedBatches(plain, masking.Masker(tokenizer, rate=0.4), seed=7)

    whole = stream(masked(), epochs=3)
    assert (masked().steps_per_epoch, masked().num_examples, len(whole)) == (3, 12, 9)
    for start in (2, 7):
        rest = stream(masked(), epochs=3, start_step=start)
        assert len(rest) == 9 - start
        tf.nest.map_structure(np.testing.assert_array_equal, whole[start:], rest)
    assert int(masked().dataset(epochs=3, start_step=2).cardinality()) == 7
    plain = list(batches.Batches(examples, batch_size=5, seed=2).dataset(epochs=3))
    for (inputs, labels), (masked_inputs, masked_labels) in zip(plain, whole, strict=True):
        np.testing.assert_array_equal(labels, masked_labels)
        masks, shown = masked_inputs["mlm_labels"], masked_inputs["input_ids"]
        restored = np.where(masks >= 0, masks, shown)
        np.testing.assert_array_equal(restored, inputs["input_ids"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate": 0.0}, "rate: expected a share"),
        ({"rate": 1.5}, "rate: expected a share"),
        ({"mask_token_rate": 0.95}, "together at most 1"),
        ({"random_token_rate": -0.1}, "together at most 1"),
        ({"predict": "some"}, "predict: expected masked or all, received 'some'"),
        ({"token_counts": [1, 2]}, "one a token, received"),
        ({"whole_words": True, "token_counts": [1, 2]}, "received both"),
    ],
)
def test_unusable_options_are_refused(tokenizer, options, message):
    with pytest.raises(errors.TfdistillError, match=message):
        masking.Masker(tokenizer, **options)
