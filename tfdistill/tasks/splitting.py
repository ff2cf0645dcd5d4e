"""One labelled set -> training, development and test sets without a text in two of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

FEWEST_ROWS = 40  # fewer cannot be split into sets that say anything
SHARE = 0.15  # of the rows, for the development set and for the test set each
FEWEST, MOST_SHARE = 60, 0.2  # more of a small set, so that a metric is more than noise
MOST = 2500  # of a large one: a standard error below 0.01
PROMISE_SHARE, FEWEST_PROMISING = 0.1, 200  # rows for promises, and no fewer
FEWEST_TESTED = 100  # of a test set that gives promises: fewer rarely show any
_LARGEST_GROUP, _FEWEST_GROUPS = 0.1, 5  # of similar texts: its share of rows; of a stratum
FOLDS = 5  # of a cross-validation
_BANDS = 5  # quantiles that numbers are stratified by


def held_out_size(num_rows: int) -> int:
    """The rows of the development set, and of the test set, of so many rows.

    15%; of a small set up to 60, but no more than 20%; at most 2,500.
    """
    return min(max(round(SHARE * num_rows), min(FEWEST, int(MOST_SHARE * num_rows))), MOST)


def promise_size(num_rows: int) -> int:
    """The rows that choose nothing, of so many: 10%, at most 2,500; none where these are below 200.

    With 200 an error of at most 5% can be promised where 5 of all answers are wrong, with 100 where
    1 is: that would promise too little for what it takes from the training.
    """
    size = min(round(PROMISE_SHARE * num_rows), MOST)
    return size if size >= FEWEST_PROMISING else 0


def strata_of(labels: np.ndarray) -> np.ndarray:
    """The stratum of each example, int (n,), of equal numbers in one.

    Labels are int (n,) classes; float (n,) numbers, which fall into five quantiles; or (n, classes)
    of 0 and 1, where the rarest label of an example counts.
    """
    if labels.ndim == 2:
        counts = np.where(labels > 0, labels.sum(axis=0), np.inf)
        return np.where(labels.any(axis=1), counts.argmin(axis=1), labels.shape[1])
    if np.issubdtype(labels.dtype, np.floating):
        bounds = np.quantile(labels, np.linspace(0, 1, _BANDS + 1)[1:-1])
        return np.digitize(labels, np.unique(bounds))
    return labels


def split_keys(texts: np.ndarray, groups: np.ndarray, strata: np.ndarray) -> np.ndarray:
    """The keys that rows are split by, int (n,): the group of similar texts, where it can be split.

    Not where a stratum has fewer than five groups, or a group more than a tenth of the rows: these
    rows are split by their text, so that each set has some. `texts`, `groups` and `strata` number
    the rows, int (n,).
    """
    _, first, members, counts = np.unique(groups, True, True, True)
    small = counts <= max(_LARGEST_GROUP * len(groups), 2)
    _, stratum_of = np.unique(np.asarray(strata)[first], return_inverse=True)
    enough = np.bincount(stratum_of, weights=small)[stratum_of] >= _FEWEST_GROUPS
    return np.where((small & enough)[members], groups, groups.max(initial=0) + 1 + texts)


def split(
    keys: Iterable[Hashable], strata: np.ndarray, held_out: int, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draws a development and a test set of about `held_out` each; the rest trains.

    Examples with equal keys stay together. Each stratum gives its share to both sets, rounded at
    random with the right mean; one of fewer than three keys trains. Returns the indices of
    training, development and test set, each rising.
    """
    groups = numbered(keys)  # (n,)
    _, first = np.unique(groups, return_index=True)
    stratum_of = np.asarray(strata)[first]  # (groups,)
    generator = np.random.default_rng(seed)
    share = held_out / max(len(groups), 1)
    part_of = np.zeros(len(first), np.int8)  # 0 trains
    for stratum in np.unique(stratum_of):
        members = np.flatnonzero(stratum_of == stratum)
        order = generator.permutation(len(members))
        wanted = share * len(members)
        count = int(wanted) + int(generator.random() < wanted % 1)
        count = 0 if len(members) < 3 else min(max(count, len(members) >= 5), len(members) // 3)
        part_of[members[order[:count]]] = 1
        part_of[members[order[count : 2 * count]]] = 2
    train, dev, test = (np.flatnonzero(part_of[groups] == part) for part in range(3))
    return train, dev, test


def folds_of(labels: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Deals rows into folds, class by class, so that each has its share of each class, (n,).

    Five folds, or n where these are fewer. Of a class with fewer rows than folds each row is in
    another one.
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    folds = np.empty(len(labels), np.int64)
    folds[order] = np.arange(len(labels)) % FOLDS
    return folds


def numbered(keys: Iterable[Hashable], numbers: dict[Hashable, int] | None = None) -> np.ndarray:
    """Numbers keys in the order in which they first occur, int64 (n,): equal ones have one number.

    `numbers` are those that keys have already; new ones are added.
    """
    numbers = {} if numbers is None else numbers
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), np.int64)
