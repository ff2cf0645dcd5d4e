"""Thresholds with a guarantee: the answers above them are sure enough that few are wrong."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.analysis import entities
from tfdistill.analysis.agreements import LEVEL, allowed, find_agreement
from tfdistill.analysis.calibration import fit_temperature, is_at_end
from tfdistill.manifest.confidence import FEWEST_OTHERS, Confidence, Promise
from tfdistill.manifest.familiarity import Familiarity
from tfdistill.tasks import decoding, probabilities
from tfdistill.tasks.answer_cells import UNANSWERED
from tfdistill.tasks.encoded import UNLABELLED, EncodedExamples
from tfdistill.tasks.kind import TaskKind

if TYPE_CHECKING:
    from tfdistill.data.model_answers import ModelAnswers

MAX_ERRORS = (0.01, 0.02, 0.05, 0.1)  # that are promised
_FIRST_SHARE = 0.25  # of the rows are above the first threshold that is tested
_OTHERS_SURE = 0.05  # of the texts of no label that raise a threshold
_STEPS = 50  # thresholds that are tested
_MOST_ROWS = 10**6  # that a promise may be said to take


_log = logging.getLogger(__name__)


class JudgedTexts(NamedTuple):
    """The answers to n labelled texts.

    Attributes:
      confidence: float64 (n,), the probability of the whole answer.
      right: bool (n,), whether all of it is right.
    """

    confidence: np.ndarray
    right: np.ndarray


def labelled_rows(logits: np.ndarray, examples: EncodedExamples) -> np.ndarray:
    """The rows of logits that have a label: bool (rows,); of words the first piece has it."""
    assert examples.labels is not None
    return examples.labels != UNLABELLED if examples.token_labels else np.ones(len(logits), bool)


def judge(
    kind: TaskKind, logits: np.ndarray, examples: EncodedExamples, temperature: float = 1.0
) -> JudgedTexts:
    """Compares answers with labels, text by text.

    Args:
      kind: One that gives probabilities.
      logits: float (rows, num_labels): a row for each text, or for each token.
      examples: The labelled texts.
      temperature: What divides the logits.

    Returns:
      A row for each text; of words, for each text that has some. It is answered by the best path
      over them (`decoding.decode_words`): right where all of its tags are, and its confidence is
      the product of the probabilities of the tags among those that may follow the one before.
    """
    if not examples.token_labels:
        return judge_rows(kind, logits, np.asarray(examples.labels), temperature)
    answers = decoding.decode_words(logits, examples, temperature=temperature)
    assert answers.gold is not None
    log_confidence = np.add.reduceat(answers.log_probabilities, answers.bounds[:-1])
    right = np.logical_and.reduceat(answers.words == answers.gold, answers.word_bounds[:-1])
    return JudgedTexts(np.exp(log_confidence), right)


def judge_rows(
    kind: TaskKind, logits: np.ndarray, labels: np.ndarray, temperature: float = 1.0
) -> JudgedTexts:
    """Compares answers with labels, row by row: of texts whole, of words each word.

    Args:
      kind: One that gives probabilities.
      logits: float (rows, num_labels).
      labels: int (rows,), or (rows, num_labels) above 0 where a label applies.
      temperature: What divides the logits.

    Returns:
      A row for each row.
    """
    shares = probabilities.of_logits(kind, logits, temperature)
    right = probabilities.decided(kind, shares) == (labels > 0 if kind.many_classes else labels)
    if kind.many_classes:
        right = right.all(axis=-1)
    return JudgedTexts(probabilities.confidence(kind, shares), right)


def error_by_coverage(judged: JudgedTexts, *, fewest: int = 20) -> np.ndarray:
    """The share of the answers that is wrong if only the surest are given.

    Args:
      judged: The answers, n in number.
      fewest: Answers that an error is told of; of fewer it is noise.

    Returns:
      float64 (points, 2), coverage rising: the share of answers above a threshold, and the share
      of these that is wrong. A point for each threshold between two different confidences, and
      one for all answers.
    """
    order = np.argsort(-judged.confidence, kind="stable")
    ordered = judged.confidence[order]
    ends = np.flatnonzero(np.append(ordered[1:] < ordered[:-1], True))
    ends = ends[ends + 1 >= min(fewest, len(ordered))]
    above = ends + 1
    wrong = np.cumsum(~judged.right[order])[ends]
    return np.stack([above / len(ordered), wrong / above], axis=1)


def temperature_of(logits: np.ndarray, examples: EncodedExamples) -> float:
    """The temperature that fits labelled texts, or 1 where it would be at an end of its range.

    Args:
      logits: float (rows, num_labels).
      examples: The texts.

    Returns:
      T, see `fit_temperature`; logs why it is 1.
    """
    rows = labelled_rows(logits, examples)
    labelled, labels = logits[rows], np.asarray(examples.labels)[rows]
    temperature = fit_temperature(labelled, labels)
    if not is_at_end(temperature, labelled, labels):
        return temperature
    _log.warning(
        f"temperature of the probabilities: {temperature:.2f} is an end of its range, since "
        f"{len(examples)} labelled texts do not tell it; 1 is taken."
    )
    return 1.0


def fit_confidence(
    kind: TaskKind,
    chosen_on: tuple[np.ndarray, EncodedExamples] | None,
    promise_on: tuple[np.ndarray, EncodedExamples] | None,
    *,
    model_sha256: str,
    familiarity: Familiarity | None = None,
    max_errors: Sequence[float] = MAX_ERRORS,
    temperature_inside: float = 1.0,
    answers: ModelAnswers | None = None,
    min_recall: float | None = None,
) -> Confidence:
    """Fits what a manifest says of a file's confidence.

    Args:
      kind: One that gives probabilities.
      chosen_on: The file's logits (rows, num_labels) for the labelled texts that it was chosen on,
        and these: they give the temperature, 1 where it would be at an end of its range. None
        where they have no labels: the temperature is 1.
      promise_on: The same of held-out labelled texts: they give the promises. None for
        no promise. Texts with the label `UNLABELLED` have none, and should not be sure.
      model_sha256: Of the file.
      familiarity: What tells texts of another kind: they give no promise. None where nothing does.
      max_errors: What is promised, rising.
      temperature_inside: What the file itself divides its logits by. Other than 1, no other
        temperature is fitted.
      answers: A large model's answers to the texts of `promise_on`, which give the agreements; of
        one class a text.
      min_recall: Where tags name entities, the share of these that a mask shall find, see
        `find_recall`. Default None: no threshold for masks.

    Where tags name entities these are what is promised, in place of whole texts.
    """
    temperature = 1.0
    if chosen_on is not None and temperature_inside == 1:
        temperature = temperature_of(*chosen_on)
    promises: list[Promise] = []
    further: dict[str, Any] = {}
    if promise_on is not None and entities.names_entities(promise_on[1]):
        judged = entities.judge_entities(*promise_on, temperature)
        rows = entities.drawn(judged.texts)
        drawn = judged.confidence[rows], judged.right[rows]
        each = [find_promise(*drawn, error) for error in max_errors if len(rows)]
        further["entity_promises"] = entities.of_all(judged, rows, each)
        if min_recall is not None:
            further["recall"] = entities.find_recall(judged, min_recall)
    elif promise_on is not None:
        judged = judge(kind, *promise_on, temperature)
        familiar = np.ones(len(judged.right), bool)
        if familiarity is not None:
            familiar = familiarity.covers(promise_on[1])
        others = ~has_label(promise_on[1])
        promises = [_promise_of(judged, familiar, others, error) for error in max_errors]
        if answers is not None and kind.one_class:
            # An answer that none is known is no class: nothing is the same as that.
            same = judge_rows(kind, promise_on[0], answers.classes).right
            further |= _agreements(familiar * judged.confidence, same, others, answers)
    return Confidence.of_file(
        model_sha256,
        temperature=temperature,
        temperature_inside=temperature_inside,
        num_examples=0 if chosen_on is None else len(chosen_on[1]),
        promises=tuple(promises),
        familiarity=familiarity,
        **further,
    )


def has_label(examples: EncodedExamples) -> np.ndarray:
    """Whether texts have a label, bool (n,); all texts that have words do."""
    if examples.token_labels:
        sources = np.arange(len(examples)) if examples.sources is None else examples.sources
        of_words = np.repeat(sources, examples.lengths)[examples.word_tokens]
        return np.ones(len(np.unique(of_words)), bool)
    labels = np.asarray(examples.labels).reshape(len(examples), -1)
    return (labels != UNLABELLED).any(axis=1)


def _promise_of(
    judged: JudgedTexts, familiar: np.ndarray, other: np.ndarray, max_error: float
) -> Promise:
    """The promise of the texts that may be sure, with shares of all of them.

    Of the texts of no label, bool `other` (n,), one half excludes all labelled texts that are not
    more confident than 95% of it, which says nothing of their labels.
    """
    confidence = np.where(familiar, judged.confidence, 0.0)
    others, half, least = _raised_by(confidence[other])
    rows, right = confidence[~other], judged.right[~other]
    share = float((rows > least).mean())
    if not share:
        return Promise(max_error=max_error, rows=len(rows))
    promise = find_promise(rows[rows > least], right[rows > least], max_error)
    needed, measured = promise.rows_needed, others[half:] if promise.coverage else others[:0]
    return promise.model_copy(
        update={
            "rows": len(rows),
            "coverage": promise.coverage and promise.coverage * share,
            "rows_needed": needed and math.ceil(needed / share),
            "others": len(others) if len(measured) else None,
            "others_sure": float(np.mean(measured > promise.threshold)) if len(measured) else None,
        }
    )


def _raised_by(confidence: np.ndarray) -> tuple[np.ndarray, int, float]:
    """Texts of no label in an order at random, how many of them raise, and the threshold above."""
    others = np.random.default_rng(0).permutation(confidence)
    half = len(others) // 2 if len(others) >= FEWEST_OTHERS else 0
    least = np.sort(others[:half])[-1 - int(half * _OTHERS_SURE)] if half else 0.0
    return others, half, float(least)


def find_promise(confidence: np.ndarray, right: np.ndarray, max_error: float) -> Promise:
    """Finds the lowest threshold above which at most a share of the answers is wrong.

    An answer is sure if its confidence is above the threshold. With a probability of at least
    90% over the drawing of the rows, at most `max_error` of the sure answers to new texts of the
    same kind are wrong.

    Thresholds are tested from the highest down (fixed-sequence testing) until one fails; the
    p-value of one is that of Clopper and Pearson, the binomial probability of so few wrong answers
    at an error of `max_error`: ``P(Bin(sure, max_error) <= wrong) <= 0.1``. They are the
    confidences at up to 50 of the ranks at which one wrong answer more is allowed, from a quarter
    of the rows on, and then all answers: a wrong one among the very surest, of which few rows tell
    little, ends nothing. The rows may not have chosen anything else: neither weights nor epoch,
    number format or temperature.

    Args:
      confidence: float (n,), n > 0.
      right: bool (n,).
      max_error: A share of the sure answers, between 0 and 1.

    Returns:
      The promise; without a threshold where none keeps it. Then `rows_needed` says how many rows
      of this kind would show it, None if more rows would not help.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Angelopoulos et al. 2021, Learn then Test, arXiv 2110.01052, section 3; the sequence
    runs over ranks in place of values.
    """
    confidence, right = np.asarray(confidence, np.float64), np.asarray(right, bool)
    if confidence.ndim != 1 or not len(confidence) or right.shape != confidence.shape:
        raise errors.ShapeError(
            "confidence and right", "shape (n,) each, n > 0", f"{confidence.shape}, {right.shape}"
        )
    order, num_rows = np.argsort(-confidence, kind="stable"), len(confidence)
    # Those strictly above the confidence of a rank are a sample of all answers above it.
    ordered = np.append(confidence[order], 0.0)  # above 0 are all
    wrong_above = np.concatenate([[0], np.cumsum(~right[order])])
    sure = np.searchsorted(-ordered[:-1], -ordered[_tested_ranks(num_rows, max_error)])
    sure = np.unique(np.append(sure[sure > 0], num_rows))  # rows above each threshold
    passed = scipy.special.bdtr(wrong_above[sure], sure, max_error) <= 1 - LEVEL
    count = len(sure) if passed.all() else int(passed.argmin())
    if not count:
        needed = _rows_needed(ordered, wrong_above, max_error)
        return Promise(max_error=max_error, rows=num_rows, rows_needed=needed)
    above = sure[count - 1]
    # Where all pass, the least that was seen: of a lower confidence nothing is known.
    threshold = ordered[above] if above < num_rows else np.nextafter(ordered[above - 1], 0.0)
    return Promise(
        max_error=max_error,
        rows=num_rows,
        threshold=float(threshold),
        coverage=float(above / num_rows),
        error=float(wrong_above[above] / above),
    )


def _agreements(
    confidence: np.ndarray, same: np.ndarray, other: np.ndarray, answers: ModelAnswers
) -> dict[str, Any]:
    """What a record has of the large model that answered promise texts; nothing without answers."""
    rows, (_, _, least) = answers.classes != UNANSWERED, _raised_by(confidence[other])
    if not rows.any():
        return {}
    counts = None if answers.counts is None else answers.counts[rows]
    named = {"least": least, "counts": counts}
    return {
        "agreements": [
            find_agreement(confidence[rows], same[rows], a, **named) for a in MAX_ERRORS
        ],
        "answered_by": answers.answered_by,
        "answered_labels": int(np.sum(~other & (answers.gold == UNANSWERED))),
    }


def _tested_ranks(num_rows: int, max_error: float) -> np.ndarray:
    """Ranks at which a threshold is tested, rising: at each, one wrong answer more is allowed."""
    first = allowed(math.ceil(_FIRST_SHARE * num_rows) - 1, max_error) + 1
    last = allowed(num_rows, max_error)
    steps = min(_STEPS, last - first + 1)
    if steps < 1:
        return np.empty(0, int)
    counts = np.linspace(first, last, steps).astype(int)
    return np.ceil(scipy.special.bdtrin(counts, 1 - LEVEL, max_error)).astype(int)


def fewest_rows(max_error: float) -> int:
    """The fewest sure answers that can show a promise: so many, and none wrong."""
    return math.ceil(math.log(1 - LEVEL) / math.log1p(-max_error))


def _rows_needed(ordered: np.ndarray, wrong_above: np.ndarray, max_error: float) -> int | None:
    """The rows with which the first threshold would pass, if more rows were as these are.

    With more rows the first threshold lies nearer to the surest quarter of them. `ordered`, float
    (n + 1,), are the confidences from the highest down, and 0; `wrong_above`, int (n + 1,), the
    wrong answers among so many of the surest; `max_error` is a share of the sure answers.
    """
    num_rows = len(ordered) - 1

    def passes(rows: int) -> bool:
        ranks = (_tested_ranks(rows, max_error) * (num_rows / rows)).astype(int)
        above = np.searchsorted(-ordered[:-1], -ordered[ranks])
        first = int(above[above > 0][0]) if above.any() else num_rows
        sure, wrong = first * rows // num_rows, math.ceil(wrong_above[first] * rows / num_rows)
        return scipy.special.bdtr(wrong, sure, max_error) <= 1 - LEVEL

    if not passes(_MOST_ROWS):
        few = num_rows < fewest_rows(MAX_ERRORS[-1])  # which do not show that more are no help
        return fewest_rows(max_error) if few else None
    rows = max(num_rows, fewest_rows(max_error))
    while not passes(rows):
        rows = math.ceil(1.2 * rows)
    return rows
