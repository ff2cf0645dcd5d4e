"""Promised against real errors over resplits, and texts of another kind."""

import numpy as np
import promises
import pytest
from scipy import special

from tfdistill import analysis
from tfdistill.tasks.encoded import EncodedExamples


def encoded(*rows):
    """Texts of these pieces."""
    ids = np.concatenate(rows).astype(np.int32)
    offsets = np.cumsum([0, *map(len, rows)])
    return EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8), None)


def test_promises_of_one_half_are_counted_on_the_other():
    random = np.random.default_rng(0)
    confidence = 0.5 + 0.5 * random.random(2000)
    right = random.random(2000) < confidence  # calibrated
    figures = promises.resplit(analysis.JudgedTexts(confidence, right), 10)
    assert list(figures) == ["0.01", "0.02", "0.05", "0.1"]
    wide = figures["0.1"]
    # Above c the mean error is (1 - c) / 2: 10% of the answers above 0.8 are wrong, 40% of all.
    assert wide["promised"] > 0.9 and 0.25 < wide["coverage"] < 0.42
    assert wide["error"] < 0.1 and wide["missed_of_all"] <= wide["missed"] < 0.25
    assert figures["0.01"]["promised"] < 1.0


def test_pieces_are_scored_by_the_pieces_before_them():
    score = promises.likelihood([encoded([1, 5, 6, 2], [1, 5, 7, 2])])
    total = 6 + 15_000
    five = (2 + 2 * 2.5 / total) / (2 + 2)
    six = (1 + 2 * 1.5 / total) / (2 + 2)
    strange = (0 + 2 * 0.5 / total) / (0 + 2)
    means = score(encoded([1, 5, 6], [1, 5], [9, 9]))
    expected = [np.log([five, six]).mean(), np.log(five), np.log(strange)]
    np.testing.assert_allclose(means, expected)


def test_texts_of_another_kind_are_counted_with_a_second_threshold_and_without():
    random = np.random.default_rng(1)
    classes = np.arange(400) % 2
    held = 6 * np.eye(2)[classes] + random.normal(size=(400, 2))
    foreign = held[:100] - 5  # as sure, of less energy
    confidence = special.softmax(held - 5, axis=1).max(axis=1)
    judged = analysis.JudgedTexts(confidence, np.ones(400, bool))
    texts = [encoded(*([1, 2],) * count) for count in (400, 100)]
    figures = promises.strangers(
        judged,
        (held, [texts[0]]),
        (foreign, [texts[1]]),
        {"none": lambda part: np.zeros(len(part))},
    )
    assert figures["texts"] == 100
    assert figures["confidence alone at 0.05"] == {"held": 1.0, "foreign": 1.0}
    assert figures["none at 0.05"] == {"held": 1.0, "foreign": 1.0}
    energy = figures["energy at 0.05"]
    assert energy["held"] == pytest.approx(0.95, abs=0.003) and energy["foreign"] == 0.0
