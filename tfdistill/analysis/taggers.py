"""Baselines for entities: a list of those of the training set, and a linear model over words."""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import sklearn.feature_extraction.text

from tfdistill.analysis.baselines import fit_linear
from tfdistill.tasks import Examples, TaskSpec, conll, schemes

MOST_TAGGED_TEXTS = 5_000
"""Training texts of a tagger: a row a word, more would take minutes."""


class Tagger(NamedTuple):
    """What answers words, and how much it has learnt.

    `predict` takes a list of words for each text and returns float32 (words of all, num_labels), in
    the order of the task's labels. `num_weights` are coefficients, or entities of a list.
    """

    predict: Callable[[Sequence[Sequence[str]]], np.ndarray]
    num_weights: int


def fit_gazetteer(task: TaskSpec, train: Examples) -> Tagger:
    """Learns the entities of a training set by heart; the longest one at a place is answered.

    An entity is answered with its most frequent type where at least half of its places in the
    training set are one.

    Args:
      task: Its labels are O, B-TYPE and I-TYPE.
      train: n texts whose words have tags.

    Returns:
      Its answers are 1 at the tag of a word.
    """
    texts = [tuple(words) for words in train.words or ()]
    counts: dict[tuple[str, ...], collections.Counter[str]] = {}
    for words, labels in zip(texts, train.labels if train.labels is not None else (), strict=True):
        for name, begin, end in conll.entities([task.labels[label] for label in labels]):
            counts.setdefault(words[begin:end], collections.Counter())[name] += 1
    longest = max(map(len, counts), default=0)

    def places(words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
        begin = 0
        while begin < len(words):
            lengths = range(min(longest, len(words) - begin), 0, -1)
            end = next((begin + n for n in lengths if words[begin : begin + n] in counts), begin)
            if end > begin:
                yield begin, end
            begin = max(end, begin + 1)

    matched = collections.Counter(words[b:e] for words in texts for b, e in places(words))
    for entity in [each for each in counts if 2 * counts[each].total() < matched[each]]:
        del counts[entity]
    index = {label: number for number, label in enumerate(task.labels)}

    def predict(sentences: Sequence[Sequence[str]]) -> np.ndarray:
        tags: list[str] = []
        for words in map(tuple, sentences):
            entities = [(counts[words[b:e]].most_common(1)[0][0], b, e) for b, e in places(words)]
            tags += schemes.tags_of(len(words), entities)
        return np.eye(len(index), dtype=np.float32)[[index[tag] for tag in tags]]

    return Tagger(predict, len(counts))


def fit_tagger(task: TaskSpec, train: Examples) -> Tagger:
    """Fits a logistic regression (`fit_linear`) on each word and its neighbours.

    A word is described by its letters in lower case, its last three and its shape ("Xx0" of
    "Abc12"); the two words on either side by letters and shape.

    Args:
      task: A task whose words have tags.
      train: n texts whose words have tags.

    Returns:
      Its answers are log probabilities.
    """
    features = sklearn.feature_extraction.text.CountVectorizer(analyzer=list)

    def described(sentences: Sequence[Sequence[str]]) -> Iterator[list[str]]:
        return itertools.chain.from_iterable(map(_described, sentences))

    labels = np.concatenate(list(train.labels if train.labels is not None else ()))
    rows = features.fit_transform(described(train.words or ()))
    model = fit_linear(task, rows, labels)
    return Tagger(lambda s: model.predict(features.transform(described(s))), model.num_weights)


def _described(words: Sequence[str]) -> Iterator[list[str]]:
    pairs = [(word.casefold(), _shape(word)) for word in words]
    for position, (lower, _) in enumerate(pairs):
        row = [f"suffix {lower[-3:]}"]
        for offset in range(-2, 3):
            if 0 <= position + offset < len(words):
                near, shape = pairs[position + offset]
                row += [f"{offset} {near}", f"{offset} shape {shape}"]
        yield row


def _shape(word: str) -> str:
    shape = "".join("X" if c.isupper() else c for c in word)
    shape = re.sub(r"[^\W\d_X]", "x", shape)
    return re.sub(r"(.)\1+", r"\1", re.sub(r"\d", "0", shape))
