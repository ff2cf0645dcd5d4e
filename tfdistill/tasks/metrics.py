"""Task metrics over a whole evaluation set; all of them are "higher is better"."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfdistill import errors
from tfdistill.tasks import conll, pair_metrics, spans
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.spec import TaskSpec


def score(spec: TaskSpec, logits: np.ndarray, encoded: EncodedExamples) -> dict[str, float]:
    """Computes the metrics of any task from a model's answers to encoded examples.

    Words with tags: the rows of a sentence are put together again, and each word's answer is that
    of its first piece; see `tag_metrics`. Questions: see `spans.score`. Vectors of pairs: see
    `pair_metrics`. Everything else: see `compute_metrics`.

    Args:
      spec: The task.
      logits: float (n, num_labels); of words and spans (tokens, num_labels); of an embedding
        (n, width), also a sparse matrix.
      encoded: The examples, with labels; of an embedding pairs, one text after the other.

    Returns:
      Metric name -> value, in the order of ``spec.metrics``.

    Raises:
      ShapeError: If the shapes do not fit the task or each other.
      DataError: If there are no labels, or a logit is not finite.
    """
    if spec.kind == "span":
        found = spans.score(logits, encoded, spec.spans)
        return {name: found[name] for name in spec.metrics}
    if encoded.labels is None:
        raise errors.DataError("evaluation", "labelled examples", "examples without labels")
    if spec.kind == "embedding":
        return _score_pairs(spec, logits, encoded, encoded.labels)
    if spec.kind != "token":
        return compute_metrics(spec, logits, encoded.labels)
    expected = (encoded.num_tokens, spec.num_labels)
    if logits.shape != expected or encoded.labels.shape != expected[:1]:
        raise errors.ShapeError(
            f"logits and labels of task {spec.name!r}",
            f"shapes {expected} and {expected[:1]}",
            f"{logits.shape} and {encoded.labels.shape}",
        )
    labelled = encoded.labels != conll.UNLABELLED
    _check_finite(logits[labelled])
    sources = np.arange(len(encoded)) if encoded.sources is None else encoded.sources
    of_tokens = np.repeat(sources, encoded.lengths)[labelled]
    names = np.array(spec.labels)
    gold = names[encoded.labels[labelled]]
    answers = names[logits[labelled].argmax(axis=1)]
    order = np.argsort(of_tokens, kind="stable")
    cuts = np.flatnonzero(np.diff(of_tokens[order])) + 1
    found = tag_metrics(
        [part.tolist() for part in np.split(gold[order], cuts)],
        [part.tolist() for part in np.split(answers[order], cuts)],
    )
    return {name: found[name] for name in spec.metrics}


def _score_pairs(
    spec: TaskSpec, vectors: np.ndarray, encoded: EncodedExamples, labels: np.ndarray
) -> dict[str, float]:
    count = len(encoded)
    if vectors.ndim != 2 or vectors.shape[0] != count or count % 2 or not count:
        raise errors.ShapeError(
            f"vectors of task {spec.name!r}",
            f"shape ({count}, width), two rows for each pair, at least one pair",
            vectors.shape,
        )
    if isinstance(vectors, np.ndarray):
        _check_finite(vectors)
    keys = [encoded.row(index).tobytes() for index in range(count)]
    return pair_metrics.score_pairs(spec.metrics, vectors, labels[0::2].astype(np.float64), keys)


def tag_metrics(
    gold: Sequence[Sequence[str]], answers: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Scores the tags of sentences as the CoNLL evaluation does.

    An entity counts as found only if its type, its first and its last word are right; see
    `conll.entities` for what an entity is. Over all sentences: precision is the share of found
    entities that are right, recall the share of gold entities that are found, F1
    ``2 P R / (P + R)``; each is 0 where it is not defined.

    Args:
      gold: The tags of n sentences.
      answers: The predicted tags of the same words.

    Returns:
      "entity_f1", "entity_precision", "entity_recall", and "accuracy", the share of words with
      the right tag.

    Raises:
      ShapeError: If there is not one answer for each of at least one word.
    """
    if [len(tags) for tags in gold] != [len(tags) for tags in answers] or not any(gold):
        raise errors.ShapeError(
            "predicted tags",
            f"one for each of {sum(map(len, gold))} words, at least one",
            f"{sum(map(len, answers))} in {len(answers)} sentences",
        )
    right = known = predicted = same = words = 0
    for tags, guesses in zip(gold, answers, strict=True):
        theirs, ours = conll.entities(tags), conll.entities(guesses)
        right += len(theirs & ours)
        known += len(theirs)
        predicted += len(ours)
        same += sum(a == b for a, b in zip(tags, guesses, strict=True))
        words += len(tags)
    return {
        "entity_f1": 2 * right / (known + predicted) if right else 0.0,
        "entity_precision": right / predicted if right else 0.0,
        "entity_recall": right / known if right else 0.0,
        "accuracy": same / words,
    }


def compute_metrics(spec: TaskSpec, logits: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Computes the metrics of a task with one row of logits for each example.

    accuracy: the share of examples whose largest logit is the label's. f1: ``2PR / (P + R)`` of
    the positive class (see `TaskSpec.positive_label`), or its unweighted mean over more than two
    classes; 0 for a class that is neither there nor predicted. macro_f1: its unweighted mean over
    all classes, also over two. auc: the area under the ROC curve
    of the positive class's probability, which is the share of pairs of a positive and a negative
    example in which the positive one scores higher, ties counting half; 0.5 where one of both is
    missing. matthews, pearson, spearman: Matthews correlation, and correlation of predicted and
    gold numbers; 0 where it is not defined because all predictions (or all labels) are the same.

    Several labels, a class being predicted where its logit is above 0: micro_f1 counts all
    decisions together, macro_f1 is the unweighted mean over classes (0 for a class that is neither
    there nor predicted), exact_match the share of examples with every class right.

    Args:
      spec: A task of classification, regression or several labels.
      logits: float (n, num_labels); for a regression (n, 1) or (n,).
      labels: int (n,) class indices, float (n,), or (n, num_labels) of 0 and 1.

    Returns:
      Metric name -> value, in the order of ``spec.metrics``.

    Raises:
      ShapeError: If the shapes do not fit the task or each other.
      DataError: If a logit is not finite.
    """
    scores = np.asarray(logits, np.float64)
    gold = np.asarray(labels)
    if spec.regression and scores.ndim == 1:
        scores = scores[:, None]
    several = spec.kind == "multi_label"
    expected = (len(gold), spec.num_labels)
    if not len(gold) or scores.shape != expected or gold.shape != expected[: 1 + several]:
        shape = f"(n, {spec.num_labels})"
        raise errors.ShapeError(
            f"logits and labels of task {spec.name!r}",
            f"shapes {shape} and {shape if several else '(n,)'}, n > 0",
            f"{scores.shape} and {gold.shape}",
        )
    _check_finite(scores)
    if several:
        found = _several(scores > 0, gold > 0)
        return {name: found[name] for name in spec.metrics}
    if "auc" in spec.metrics and spec.num_labels != 2:
        raise errors.ShapeError(f"labels of task {spec.name!r}", "two for auc", spec.num_labels)
    return {name: _metric(name, spec, scores, gold) for name in spec.metrics}


def _check_finite(scores: np.ndarray) -> None:
    if not np.isfinite(scores).all():
        row = int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise errors.DataError(f"logits of example {row}", "finite numbers", scores[row].tolist())


def _several(answers: np.ndarray, gold: np.ndarray) -> dict[str, float]:
    right = (answers & gold).sum(axis=0)  # (classes,)
    total = answers.sum(axis=0) + gold.sum(axis=0)
    return {
        "micro_f1": float(2 * right.sum() / max(total.sum(), 1)),
        "macro_f1": float(np.mean(2 * right / np.maximum(total, 1))),
        "exact_match": float((answers == gold).all(axis=1).mean()),
    }


def _metric(name: str, spec: TaskSpec, scores: np.ndarray, gold: np.ndarray) -> float:
    import scipy.stats
    import sklearn.metrics

    predictions = scores[:, 0] if spec.regression else scores.argmax(axis=1)
    if name == "accuracy":
        return float(np.mean(predictions == gold))
    if name == "auc":
        positive = _positive(spec)
        return _auc(scores[:, positive] - scores[:, 1 - positive], gold == positive)
    if name in ("f1", "macro_f1"):
        if name == "macro_f1" or (spec.num_labels > 2 and spec.positive_label is None):
            classes, average = list(range(spec.num_labels)), "macro"
        else:
            classes, average = [_positive(spec)], "micro"
        # The micro average over one class is that class's own F1.
        results = sklearn.metrics.precision_recall_fscore_support(
            gold,
            predictions,
            labels=classes,
            average=average,
            zero_division=0.0,  # pyright: ignore
        )
        return float(results[2])
    if np.ptp(predictions) == 0 or np.ptp(gold) == 0:
        return 0.0
    if name == "matthews":
        return float(sklearn.metrics.matthews_corrcoef(gold, predictions))
    correlation = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[name]
    return float(correlation(predictions, gold).statistic)


def _positive(spec: TaskSpec) -> int:
    return 1 if spec.positive_label is None else spec.labels.index(spec.positive_label)


def _auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve by the ranks of the positive examples (Mann and Whitney)."""
    import scipy.stats

    count = int(positive.sum())
    others = len(positive) - count
    if not count or not others:
        return 0.5
    ranks = scipy.stats.rankdata(scores)  # ties share their mean rank
    return float((ranks[positive].sum() - count * (count + 1) / 2) / (count * others))
