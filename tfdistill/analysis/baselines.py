"""Baselines that a student has to beat: linear models over words, embeddings or frozen states.

They take seconds. Without them nobody knows whether a task needs a transformer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import sklearn.feature_extraction.text
import sklearn.linear_model
import sklearn.multiclass
import sklearn.pipeline
import sklearn.preprocessing
import threadpoolctl

from tfdistill import errors
from tfdistill.tasks import Examples, TaskSpec
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.words import find_words

Matrix = np.ndarray | scipy.sparse.csr_matrix

_ABSENT = -30.0  # log probability of a class without a training example


def majority_logits(task: TaskSpec, labels: np.ndarray, num_examples: int) -> np.ndarray:
    """Answers that ignore their input: the most frequent class, the mean number.

    Classification: log of the class shares. Several labels: log odds of each label's share.
    Regression: the mean.

    Args:
      task: A task over texts or pairs.
      labels: Training labels, as in `Examples.labels`.
      num_examples: How many answers.

    Returns:
      Logits, float32 (num_examples, num_labels), all rows equal.

    Raises:
      ConfigError: If the task is about words or spans.
    """
    row = task.traits.majority(task, labels)
    return np.tile(row.astype(np.float32), (num_examples, 1))


def _words(text: str) -> list[str]:
    return [text[start:end] for start, end in find_words(text)]


class TextFeatures:
    """TF-IDF of words and pairs of words, fitted on training texts.

    The words are those of `tasks.words.find_words`: in scripts without blanks each character.

    Sublinear term frequencies ``1 + log tf``, smoothed inverse document frequencies, rows of
    length 1. A pair of texts u, v gives ``[u, v, |u - v|, u * v]``.

    Args:
      train: n training examples.

    Attributes:
      num_weights: Inverse document frequencies, one a word or pair of words.
    """

    def __init__(self, train: Examples) -> None:
        """Fits the frequencies."""
        vectorizer = sklearn.feature_extraction.text.TfidfVectorizer(
            ngram_range=(1, 2),
            sublinear_tf=True,
            tokenizer=_words,  # short words and punctuation count too
            token_pattern=None,
        )
        self._vectorizer: Any = None
        self.num_weights = 0
        try:
            self._vectorizer = vectorizer.fit([*train.texts, *(train.pairs or ())])
            self.num_weights = len(vectorizer.vocabulary_)
        except ValueError:  # no text holds a word
            pass

    def __call__(self, examples: Examples) -> Matrix:
        """Returns the features of m examples, a sparse float matrix (m, features)."""
        if self._vectorizer is None:
            return scipy.sparse.csr_matrix((len(examples), 1))
        first: Any = self._vectorizer.transform(examples.texts)
        if examples.pairs is None:
            return first
        return pair_features(first, self._vectorizer.transform(examples.pairs))


def pair_features(first: Matrix, second: Matrix) -> Matrix:
    """The features of pairs u, v for a linear model: ``[u, v, |u - v|, u * v]`` by columns."""
    if isinstance(first, np.ndarray):
        return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)
    parts = [first, second, abs(first - second), first.multiply(second)]
    return scipy.sparse.csr_matrix(scipy.sparse.hstack(parts))


def embedding_features(
    table: np.ndarray, encoded: EncodedExamples, *, special_ids: tuple[int, ...] = ()
) -> np.ndarray:
    """The mean word vector of each text: ``x_i = mean over its tokens t of table[t]``.

    Args:
      table: Word vectors, float (vocabulary, width).
      encoded: n texts or pairs.
      special_ids: Tokens that do not count, such as [CLS] and [SEP].

    Returns:
      float32 (n, width); of pairs u, v ``[u, v, |u - v|, u * v]``, (n, 4 width). A text without
      tokens has zeros.
    """
    counted = ~np.isin(encoded.ids, special_ids)
    rows = np.repeat(np.arange(len(encoded)), encoded.lengths)

    def mean(chosen: np.ndarray) -> np.ndarray:
        shape = (len(encoded), len(table))
        counts = scipy.sparse.csr_matrix(
            (np.ones(int(chosen.sum()), np.float32), (rows[chosen], encoded.ids[chosen])), shape
        )
        total = np.maximum(np.asarray(counts.sum(axis=1)), 1.0)  # (n, 1)
        return np.asarray((counts @ table) / total, np.float32)

    if not encoded.types.any():
        return mean(counted)
    first, second = mean(counted & (encoded.types == 0)), mean(counted & (encoded.types == 1))
    return np.asarray(pair_features(first, second))


# Products this small gain nothing from threads, which wait for each other by spinning: on two busy
# cores that took 20 times the processor time.
_ONE_THREAD = threadpoolctl.threadpool_limits.wrap(limits=1)


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """A fitted linear model.

    Attributes:
      predict: Features (m, features) -> logits, float32 (m, num_labels), in the order of the task's
        labels: log probabilities, log odds for several labels, numbers for a regression.
      num_weights: Its coefficients and intercepts, and the means and scales of dense features.
    """

    predict: Callable[[Matrix], np.ndarray]
    num_weights: int


@_ONE_THREAD
def fit_linear(task: TaskSpec, features: Matrix, labels: np.ndarray) -> LinearModel:
    """Fits a linear model on training features.

    Logistic regression with an L2 penalty (C = 10 for sparse features; C = 1 for dense ones, each
    scaled to variance 1); ridge regression (alpha = 1) for numbers; one logistic regression a
    label where several hold at once.

    Args:
      task: A task over texts or pairs.
      features: (n, features).
      labels: Training labels, as in `Examples.labels`.

    Raises:
      ConfigError: If the task is about spans.
    """
    if task.kind not in _FITS:
        raise errors.ConfigError(
            f"baseline for task {task.name!r}", "a task over texts or words", f"kind {task.kind}"
        )
    sparse = scipy.sparse.issparse(features)
    steps: list[Any] = [] if sparse else [sklearn.preprocessing.StandardScaler()]
    scaled = 0 if sparse else 2 * features.shape[1]
    fitted = _FITS[task.kind](task, features, labels, steps, 10.0 if sparse else 1.0)
    return dataclasses.replace(fitted, num_weights=scaled + fitted.num_weights)


def has_linear(task: TaskSpec) -> bool:
    """Whether `fit_linear` fits a model to whole texts of the kind of task."""
    return task.kind in _FITS and task.traits.row_a_text


def _fit_number(
    task: TaskSpec, features: Matrix, labels: np.ndarray, steps: list[Any], penalty: float
) -> LinearModel:
    del task, penalty
    ridge = sklearn.linear_model.Ridge(alpha=1.0)
    model = sklearn.pipeline.make_pipeline(*steps, ridge).fit(features, labels)
    return LinearModel(
        lambda rows: np.asarray(model.predict(rows), np.float32)[:, None], _weights_of(ridge)
    )


def _fit_several(
    task: TaskSpec, features: Matrix, labels: np.ndarray, steps: list[Any], penalty: float
) -> LinearModel:
    logistic = sklearn.linear_model.LogisticRegression(C=penalty, max_iter=1000)
    varied = np.flatnonzero(np.ptp(labels, axis=0) > 0)
    several = sklearn.multiclass.OneVsRestClassifier(logistic)
    model = sklearn.pipeline.make_pipeline(*steps, several)
    if len(varied):
        model.fit(features, labels[:, varied].astype(np.int32))
    parts = several.estimators_ if len(varied) else ()
    return LinearModel(
        lambda rows: _answer_labels(task, model, labels, varied, rows),
        sum(map(_weights_of, parts)),
    )


def _fit_classes(
    task: TaskSpec, features: Matrix, labels: np.ndarray, steps: list[Any], penalty: float
) -> LinearModel:
    logistic = sklearn.linear_model.LogisticRegression(C=penalty, max_iter=1000)
    present = np.unique(labels)
    model = sklearn.pipeline.make_pipeline(*steps, logistic)
    if len(present) > 1:
        model.fit(features, labels)

    def predict(rows: Matrix) -> np.ndarray:
        logits = np.full((rows.shape[0], task.num_labels), _ABSENT, np.float32)
        if len(present) == 1:
            logits[:, present] = 0.0
        else:
            shares = model.predict_proba(rows)
            logits[:, present] = np.log(np.maximum(shares, np.exp(_ABSENT)))
        return logits

    return LinearModel(predict, _weights_of(logistic) if len(present) > 1 else 1)


_FITS = {
    "classification": _fit_classes,
    "multi_label": _fit_several,
    "regression": _fit_number,
    "token": _fit_classes,  # a row for each word
}


def _weights_of(model: Any) -> int:
    return int(np.size(model.coef_) + np.size(model.intercept_))


def _answer_labels(
    task: TaskSpec, model: Any, labels: np.ndarray, varied: np.ndarray, rows: Matrix
) -> np.ndarray:
    """Log odds of each label; one that always or never holds keeps its share."""
    answers = majority_logits(task, labels, rows.shape[0])
    if len(varied):
        answers[:, varied] = np.reshape(model.decision_function(rows), (-1, len(varied)))
    return answers
