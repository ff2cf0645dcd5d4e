import numpy as np
import pytest

from tfdistill import analysis
from tfdistill.tasks import splitting


@pytest.mark.parametrize(
    ("rows", "held_out"),
    [(40, 8), (300, 60), (400, 60), (2000, 300), (20_000, 2500), (100_000, 2500)],
)
def test_the_sizes_suit_small_and_large_sets(rows, held_out):
    assert splitting.held_out_size(rows) == held_out


def test_every_class_has_its_share_and_rare_ones_train():
    strata = np.array([0] * 800 + [1] * 180 + [2] * 18 + [3] * 2)
    train, dev, test = splitting.split(range(1000), strata, 150, seed=3)
    counts = [np.bincount(strata[part], minlength=4).tolist() for part in (train, dev, test)]
    assert counts[0][3] == 2 and counts[1][3] == counts[2][3] == 0
    for part in counts[1:]:
        assert part[:2] == [120, 27] and part[2] in (2, 3)


def test_numbers_and_several_labels_have_strata():
    numbers = np.linspace(0, 5, 100).astype(np.float32)
    assert np.bincount(splitting.strata_of(numbers)).tolist() == [20] * 5
    several = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0], [1, 0, 1], [1, 1, 0]], np.float32)
    assert splitting.strata_of(several).tolist() == [0, 1, 3, 2, 1]


@pytest.mark.parametrize(
    ("rows", "promised"), [(40, 0), (1989, 0), (2000, 200), (9000, 900), (10**6, 2500)]
)
def test_texts_for_promises_are_a_tenth_or_none(rows, promised):
    assert splitting.promise_size(rows) == promised
    # What the docstring says: 200 rows show 5% with 5 wrong answers, 100 with one.
    for count, most in ((200, 5), (100, 1)):
        for wrong, shown in ((most, True), (most + 1, False)):
            right = np.arange(count) >= wrong
            promise = analysis.find_promise(np.full(count, 0.9), right, 0.05)
            assert (promise.threshold is not None) is shown


def test_groups_stay_together_where_a_stratum_has_five_that_are_small():
    texts = np.arange(100)
    strata = np.repeat([0, 1], [60, 40])
    groups = np.concatenate([np.arange(60) // 4, 15 + np.arange(40) // 10])  # 15 and 4 of them
    keys = splitting.split_keys(texts, groups, strata)
    assert len(np.unique(keys[:60])) == 15 and len(np.unique(keys[60:])) == 40
    groups[:11] = 0  # more than a tenth of the rows
    keys = splitting.split_keys(texts, groups, strata)
    assert len(np.unique(keys[:11])) == 11 and len(np.unique(keys[12:60])) == 12
