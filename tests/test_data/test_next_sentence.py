"""Next-sentence pairs: what follows, what is random, and what is cut."""

import numpy as np
import pytest

from tfdistill import errors
from tfdistill.data import corpus, next_sentence


def sentences_of(lengths):
    """Documents whose tokens tell where they stand: token = 1000 * document + place."""
    ids, begins, sizes, starts, index = [], [], [], [], 0
    for number, document in enumerate(lengths):
        starts.append(index)
        place = 0
        for length in document:
            begins.append(len(ids) + 1)
            ids += [-1, *range(1000 * (number + 1) + place, 1000 * (number + 1) + place + length)]
            sizes.append(length)
            place += length
            index += 1
    return corpus.TokenizedSentences(
        np.array(ids, np.int32), np.array(begins), np.array(sizes), np.array(starts)
    )


def examples_of(lengths, room, tokenizer, *, short=0.0, seed=0):
    return next_sentence.sentence_pairs(
        sentences_of(lengths),
        tokenizer,
        room,
        short_probability=short,
        generator=np.random.default_rng(seed),
    )


def halves(encoded, index, tokenizer):
    row, types = encoded.row(index).tolist(), encoded.row_types(index)
    cut = int((types == 0).sum())
    assert (np.sort(types) == types).all()
    assert row[0] == tokenizer.cls_id
    assert row[cut - 1] == row[-1] == tokenizer.sep_id
    return row[1 : cut - 1], row[cut:-1]


@pytest.fixture(scope="module")
def many():
    random = np.random.default_rng(1)
    return [list(random.integers(3, 12, random.integers(5, 30))) for _ in range(40)]


def test_b_follows_a_or_comes_from_another_document_in_about_half_of_the_pairs(tokenizer, many):
    encoded = examples_of(many, 60, tokenizer)
    assert encoded.labels is not None and len(encoded) > 90
    # A document's last sentence alone is always paired at random, so slightly above one half.
    assert 0.42 < encoded.labels.mean() < 0.66
    assert sorted(set(encoded.lengths))[-1] == 60 + 3  # some are full, none is longer
    for index, label in enumerate(encoded.labels):
        a, b = halves(encoded, index, tokenizer)
        assert a and b
        for half in (a, b):
            assert half == list(range(half[0], half[-1] + 1))  # one run of one document
        same = a[0] // 1000 == b[0] // 1000
        assert same == (label == 0)
        if label == 0:
            assert b[0] == a[-1] + 1 or len(a) + len(b) == 60  # cut ones lost what lay between


def test_a_document_gives_all_its_text_unless_it_is_cut(tokenizer, many):
    """With room for every document whole, each word is in an a or in a b that follows."""
    encoded = examples_of(many, 2000, tokenizer)
    seen = set()
    for index, label in enumerate(encoded.labels):
        a, b = halves(encoded, index, tokenizer)
        assert not seen & set(a)
        seen |= set(a) | (set(b) if label == 0 else set())
    words = {1000 * (n + 1) + p for n, d in enumerate(many) for p in range(sum(d))}
    assert seen == words


def test_a_pair_that_is_too_long_loses_words_of_its_longer_half_at_both_ends(tokenizer):
    encoded = examples_of([[50, 30], [40, 80]] * 20, 60, tokenizer, seed=2)
    fronts = backs = 0
    assert len(encoded) > 40
    for index in range(len(encoded)):
        a, b = halves(encoded, index, tokenizer)
        assert (len(a), len(b)) == (30, 30)  # every sentence is longer than half of the room
        fronts += (a[0] % 1000 not in (0, 50, 40)) + (b[0] % 1000 not in (0, 50, 40))
        backs += (a[-1] % 1000 not in (49, 79, 39, 119)) + (b[-1] % 1000 not in (49, 79, 39, 119))
    assert min(fronts, backs) > 20


def test_one_document_alone_has_no_partner(tokenizer):
    with pytest.raises(errors.DataError, match=r"two documents or more.*received 1.*blank lines"):
        examples_of([[3, 4, 5]], 20, tokenizer)
    with pytest.raises(errors.DataError, match="received 1"):
        examples_of([[3, 4, 5], [0, 0]], 20, tokenizer)  # a document without words is none
