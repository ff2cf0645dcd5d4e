"""The best allowed path, against a search over all paths."""

import itertools

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.data.batches import EncodedExamples
from tfdistill.tasks import decoding

BIO = ("O", "B-X", "I-X", "B-Y", "I-Y")
BIOES = ("S-X", "O", "E-X", "I-X", "B-X")
BILOU = ("O", "B-X", "I-X", "L-X", "U-X")
WITHOUT_BEGIN = ("E-Y", "O", "E-X", "I-X", "B-X")  # nothing stands before E-Y


def is_allowed(names, strict):
    """Whether a path is one, word by word as people write the rules down."""
    for before, name in zip(["O", *names], [*names, "O"], strict=True):
        inside = before[0] in "BI" and before != "O"
        goes_on = name[0] in "IEL"
        if goes_on and not (inside and before[2:] == name[2:]):
            return False
        if strict and inside and not goes_on:
            return False
    return True


@pytest.mark.parametrize("names", [BIO, BIOES, BILOU, WITHOUT_BEGIN, ("NOUN", "VERB", "O")])
def test_the_path_is_the_best_of_all_and_of_equal_ones_has_the_lowest_last_tags(names):
    random = np.random.default_rng(0)
    rules, strict = decoding.allowed(names), names[-1] in ("B-X", "U-X")
    plain = "NOUN" in names
    bounds = np.array([0, 4, 4, 5, 5, 10, 12])
    for ties in [True] * 30 + [False] * 10:
        scores = random.normal(size=(12, len(names)))
        scores = np.round(scores) if ties else scores
        path = decoding.best_path(scores, rules, bounds)
        for begin, end in itertools.pairwise(bounds):
            best, winner = -np.inf, ()
            for tags in itertools.product(range(len(names)), repeat=end - begin):
                if plain or is_allowed([names[tag] for tag in tags], strict):
                    total = sum(scores[begin + w, tag] for w, tag in enumerate(tags))
                    if total > best or (total == best and tags[::-1] < winner[::-1]):
                        best, winner = total, tags
            assert path[begin:end].tolist() == list(winner)


@pytest.mark.parametrize("names", [BIO, BIOES])
def test_the_probabilities_of_all_paths_make_one(names):
    scores, rules = np.random.default_rng(1).normal(size=(4, len(names))), decoding.allowed(names)
    total, whole = 0.0, np.array([0, 4])
    for tags in itertools.product(range(len(names)), repeat=4):
        if is_allowed([names[tag] for tag in tags], names is BIOES):
            logs = decoding.path_log_probabilities(scores, np.array(tags), rules, whole)
            total += np.exp(logs.sum())
    assert total == pytest.approx(1, abs=1e-12)


def test_an_entity_has_the_probability_of_its_tags_and_of_its_end():
    shares = np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.6, 0.3, 0.1], [0.2, 0.8, 0.0]])
    scores, names = np.log(np.maximum(shares, 1e-12)), ("O", "B-X", "I-X")
    rules = decoding.allowed(names)
    tags = np.array([1, 2, 0, 1])

    def entities(tags, bounds):
        path = tags, rules, np.array(bounds)
        return decoding.entities(scores, *path, decoding.path_log_probabilities(scores, *path))

    part = entities(tags, [0, 4])
    assert (part.firsts.tolist(), part.ends.tolist()) == ([0, 3], [2, 4])
    # No I-X at the beginning and after O; the entity stops where O or B-X follows.
    expected = [0.3 / 0.8 * 0.7 * 0.9, 0.8]
    np.testing.assert_allclose(part.probabilities, expected, rtol=1e-9)
    apart = entities(tags, [0, 2, 4])
    np.testing.assert_allclose(apart.probabilities, [0.3 / 0.8 * 0.7, 0.8], rtol=1e-9)
    none = entities(np.zeros(4, int), [0, 4])
    assert [len(values) for values in none] == [0, 0, 0]


def test_a_text_goes_on_with_no_entity_of_the_text_before():
    tags, bounds = np.array([2, 1, 2]), np.array([0, 2, 2, 3])  # I-X; B-X; none; I-X
    places = decoding.entity_places(tags, decoding.allowed(("O", "B-X", "I-X")), bounds)
    assert [part.tolist() for part in places] == [[0, 1, 2], [1, 2, 3]]


def test_words_of_one_piece_share_its_entity():
    counts = np.array([1, 2, 3, 2])
    bio = decoding.words_of(np.array([0, 1, 2, 3]), counts, decoding.allowed(BIO))
    assert [BIO[tag] for tag in bio] == ["O", "B-X", "I-X", "I-X", "I-X", "I-X", "B-Y", "I-Y"]
    bioes = decoding.words_of(np.array([1, 0, 2, 4]), counts, decoding.allowed(BIOES))
    expected = ["O", "B-X", "E-X", "I-X", "I-X", "E-X", "B-X", "I-X"]
    assert [BIOES[tag] for tag in bioes] == expected
    plain = decoding.words_of(np.array([0, 1]), np.array([2, 2]), decoding.allowed(("N", "V")))
    assert plain.tolist() == [0, 0, 1, 1]


def test_logits_that_are_no_numbers_are_refused():
    encoded = EncodedExamples(
        np.arange(3, dtype=np.int32), np.array([0, 3]), np.zeros(3, np.uint8),
        labels=np.array([-100, 0, -100], np.int32), token_labels=True,
    )  # fmt: skip
    with pytest.raises(errors.DataError, match="logits of example 0: expected finite numbers"):
        decoding.decode_words(np.array([[0, 0], [np.nan, 0], [0, 0]]), encoded, ("N", "V"))
