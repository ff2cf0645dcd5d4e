import dataclasses

import numpy as np
import pytest

from export.conversion import calibrate
from tfdistill import errors
from tfdistill.data.batches import Batches

LENGTHS = (8, 16)
NAMES = ("attention_mask", "input_ids", "token_type_ids")
SIGNATURES = {f"len{length}": {"inputs": list(NAMES)} for length in LENGTHS}


def draw(toy, calibrate_on, count=40, seed=0, lengths=LENGTHS, vocab_size=200):
    config = toy.config.replace(vocab_size=vocab_size)
    return calibrate.draw(calibrate_on, count, seed, config, lengths)


def test_the_draw_is_counted_seeded_and_without_replacement(toy):
    drawn = draw(toy, toy.encoded)
    rows = [tuple(drawn.row(i)) for i in range(len(drawn))]
    all_rows = [tuple(toy.encoded.row(i)) for i in range(len(toy.encoded))]
    assert len(rows) == 40
    places = [all_rows.index(row) for row in rows]
    assert places == sorted(set(places))
    np.testing.assert_array_equal(draw(toy, toy.encoded).ids, drawn.ids)
    assert not np.array_equal(draw(toy, toy.encoded, seed=1).ids, drawn.ids)


def test_a_function_that_returns_a_generator_of_feeds_is_called_for_them(toy):
    """As the converter of TensorFlow takes them, by name."""

    def feeds():
        for i in range(len(toy.encoded)):
            ids, types = toy.encoded.row(i)[None], toy.encoded.row_types(i)[None]
            yield dict(zip(NAMES, (np.ones_like(ids), ids, types), strict=True))

    expected = draw(toy, toy.encoded)
    for given_as in (feeds, feeds()):
        drawn = draw(toy, given_as)
        np.testing.assert_array_equal(drawn.ids, expected.ids)
        np.testing.assert_array_equal(drawn.types, expected.types)


def whole(toy):
    return toy.encoded


def batch(toy, kind):
    """A batch whose ids have another type."""
    batches = Batches(toy.encoded, batch_size=40, shuffle=False, seed=0)
    features, *_ = batches.batch(batches.plan(0)[0])
    return {**features, "input_ids": features["input_ids"].astype(kind)}


NO_BATCHES = (None, 3, [[1, 2]], ["a text"], [])
REFUSED = {
    "too few": (
        lambda toy: toy.encoded.select([0, 1, 2]),
        {},
        "calibrate_on.*at least 16.*received 3.*labels",
    ),
    "too long": (whole, {"lengths": (8,)}, "calibrate_on.*at most 8 tokens"),
    "other vocabulary": (whole, {"vocab_size": 50}, "calibrate_on: .*token ids from 0 to 49"),
    "numbers": (lambda toy: [batch(toy, np.float32)], {}, "calibrate_on.*input_ids.*whole numbers"),
    "texts": (lambda toy: [batch(toy, np.str_)], {}, "calibrate_on.*input_ids.*whole numbers"),
    **{repr(other): (lambda toy, other=other: other, {}, "calibrate_on") for other in NO_BATCHES},
    **{
        f"{count} of them": (whole, {"count": count}, r"num_calibration.*at least 16")
        for count in (0, 15, True, 200.0)
    },
}


@pytest.mark.parametrize(("examples", "options", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_calibrated_on_is_refused(examples, options, message, toy):
    with pytest.raises((errors.ConfigError, errors.DataError), match=message):
        draw(toy, examples(toy), **options)


def test_examples_survive_the_way_into_the_converters_process(toy, tmp_path):
    drawn = dataclasses.replace(draw(toy, toy.encoded), pad_id=7)
    calibrate.save(drawn, tmp_path / "examples.npz")
    loaded = calibrate.load(tmp_path / "examples.npz")
    for field in ("ids", "offsets", "types", "pad_id"):
        np.testing.assert_array_equal(getattr(loaded, field), getattr(drawn, field))


def test_each_example_feeds_the_shortest_signature_and_a_rare_one_sees_shorter_ones_too(toy):
    feeds = calibrate.feeds(SIGNATURES, toy.encoded)
    short = np.flatnonzero(toy.encoded.lengths <= 8)
    long = np.flatnonzero(toy.encoded.lengths > 8)
    assert (len(feeds["len8"]), len(feeds["len16"])) == (len(short), len(long))
    first = feeds["len16"][0]
    ids, types = toy.encoded.row(long[0]), toy.encoded.row_types(long[0])
    assert {name: value.shape for name, value in first.items()} == dict.fromkeys(NAMES, (1, 16))
    assert {value.dtype for value in first.values()} == {np.dtype(np.int32)}
    np.testing.assert_array_equal(first["input_ids"][0, : len(ids)], ids)
    np.testing.assert_array_equal(first["token_type_ids"][0, : len(ids)], types)
    np.testing.assert_array_equal(first["attention_mask"][0], np.arange(16) < len(ids))
    feeds = calibrate.feeds(SIGNATURES, toy.encoded.select(short[:20]))
    assert len(feeds["len16"]) == len(feeds["len8"]) == 20
