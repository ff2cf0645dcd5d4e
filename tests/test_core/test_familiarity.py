"""Texts of another kind: by the pieces of the training texts, two by two."""

import collections
import itertools
import math

import numpy as np
import pydantic
import pytest

from tfdistill.manifest import familiarity
from tfdistill.manifest.familiarity import fit_familiarity
from tfdistill.tasks.encoded import EncodedExamples

TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "b", "the", *(f"w{i}x" for i in range(93)))
FIRST_WORD = 6


def encoded(rows):
    """Texts of these pieces."""
    ids = np.concatenate(rows).astype(np.int32)
    offsets = np.cumsum([0, *map(len, rows)])
    return EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8))


def draw(random, count, step):
    """Texts in which a piece follows another in steps, or anyhow."""
    for _ in range(count):
        start, length = random.integers(7, 99), random.integers(3, 9)
        order = start + step * np.arange(length) if step else random.integers(7, 99, length)
        yield [2, *(7 + (order - 7) % 92), 3]


@pytest.fixture(scope="module")
def texts():
    random = np.random.default_rng(0)
    sizes = {"train": (1500, 1), "held": (400, 1), "new": (400, 1), "other": (400, 0)}
    return {name: list(draw(random, *size)) for name, size in sizes.items()}


@pytest.fixture(scope="module")
def fitted(texts):
    return fit_familiarity(encoded(texts["train"]), encoded(texts["held"]), TOKENS)


def test_the_score_is_that_of_the_formula_and_leaves_one_text_in_twenty_out(texts, fitted):
    pieces = collections.Counter(itertools.chain(*texts["train"]))
    pairs = collections.Counter(p for row in texts["train"] for p in itertools.pairwise(row))
    num_pieces = sum(len(row) - 1 for row in texts["train"])

    def score(row):
        logs = []
        for a, b in itertools.pairwise(row):
            share = (pieces[b] + 0.5) / (num_pieces + 15_000)
            rank = max(b - FIRST_WORD, 0) + 10
            logs.append(math.log((pairs[a, b] + 2 * share) / (pieces[a] + 2)) + math.log(rank))
        return sum(logs) / len(logs)

    rows = [*texts["new"][:20], *texts["other"][:20], [2, 3], [2, 4, 5, 1, 3]]
    assert (fitted.num_pieces, fitted.first_word) == (num_pieces, FIRST_WORD)
    np.testing.assert_allclose(fitted.scores(encoded(rows)), list(map(score, rows)), rtol=1e-12)
    shares = {name: fitted.covers(encoded(rows)).mean() for name, rows in texts.items()}
    assert shares["held"] == pytest.approx(0.95, abs=0.003)
    assert 0.91 < shares["new"] < 0.98 and shares["other"] < 0.02


def test_only_the_most_frequent_pieces_and_pairs_are_listed(texts, fitted, monkeypatch):
    train, held = encoded(texts["train"]), encoded(texts["held"])
    monkeypatch.setattr(familiarity, "_MOST", 10)
    few = fit_familiarity(train, held, TOKENS)
    assert len(few.pieces.split()) == 20 and len(few.pairs.split()) == 30
    assert few.pieces.split()[:4] == ["2", "1500", "3", "1500"]
    counts = fitted.pieces.split()[1::2]
    assert few.pieces.split()[1::2] == counts[:10] == sorted(counts[:10], key=lambda n: -int(n))


@pytest.mark.parametrize(("train", "held"), [(999, 400), (1500, 99)])
def test_too_few_texts_tell_nothing_and_it_is_said(train, held, texts, caplog):
    rows = encoded(texts["train"][:train]), encoded(texts["held"][:held])
    assert fit_familiarity(*rows, TOKENS) is None
    (record,) = caplog.records
    assert f"not {train:,} and {held}." in record.getMessage()


@pytest.mark.parametrize(
    ("name", "text"),
    [("pieces", "5 1 6"), ("pairs", "5 6"), ("pieces", ""), ("pairs", f"1 2 {10**9}")],
)
def test_lists_that_are_no_rows_of_numbers_are_refused(name, text, fitted):
    with pytest.raises(pydantic.ValidationError):
        familiarity.Familiarity(**{**fitted.model_dump(), name: text})
