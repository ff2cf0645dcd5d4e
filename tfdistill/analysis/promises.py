"""Which answers are sure enough that few of them are wrong: thresholds with a guarantee."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.special

from tfdistill import errors
from tfdistill.analysis.calibration import fit_temperature, is_at_end
from tfdistill.confidence import Confidence, Promise
from tfdistill.familiarity import Familiarity
from tfdistill.tasks import probabilities
from tfdistill.tasks.conll import UNLABELLED
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tasks.kind import TaskKind

MAX_ERRORS = (0.01, 0.02, 0.05, 0.1)  # that are promised
LEVEL = 0.9  # of the guarantee
_FIRST_SHARE = 0.2  # of what may fail: of the sequence of tests that starts at the surest answers
_STEPS = 50  # thresholds that are tested
_MOST_ROWS = 10**7  # that a promise may be said to take


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
      A row for each text. The answer to a text of words is right where all of its tags are, and
      its confidence is the product of theirs.
    """
    rows = labelled_rows(logits, examples)
    judged = judge_rows(kind, logits[rows], np.asarray(examples.labels)[rows], temperature)
    if not examples.token_labels:
        return judged
    texts = np.arange(len(examples)) if examples.sources is None else examples.sources
    _, text_of = np.unique(np.repeat(texts, examples.lengths)[rows], return_inverse=True)
    log_confidence = np.bincount(text_of, weights=np.log(judged.confidence))
    return JudgedTexts(np.exp(log_confidence), np.bincount(text_of, weights=~judged.right) == 0)


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
    """Which share of the answers is wrong if only the surest are given.

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
) -> Confidence:
    """Fits what a manifest says of a file's confidence.

    Args:
      kind: One that gives probabilities.
      chosen_on: The file's logits (rows, num_labels) for the labelled texts that it was chosen on,
        and these: they give the temperature, 1 where it would be at an end of its range. None
        where they have no labels: the temperature is 1.
      promise_on: The same of held-out labelled texts: they give the promises. None for
        no promise.
      model_sha256: Of the file.
      familiarity: What tells texts of another kind: they give no promise. None where nothing does.
      max_errors: What is promised, rising.
      temperature_inside: What the file itself divides its logits by. Other than 1, no other
        temperature is fitted.

    Returns:
      The record.
    """
    temperature = 1.0
    if chosen_on is not None and temperature_inside == 1:
        temperature = temperature_of(*chosen_on)
    promises: list[Promise] = []
    if promise_on is not None:
        judged = judge(kind, *promise_on, temperature)
        familiar = np.ones(len(judged.right), bool)
        if familiarity is not None:
            familiar = familiarity.covers(promise_on[1])
        promises = [_promise_of(judged, familiar, error) for error in max_errors]
    return Confidence.of_file(
        model_sha256,
        temperature=temperature,
        temperature_inside=temperature_inside,
        num_examples=0 if chosen_on is None else len(chosen_on[1]),
        promises=tuple(promises),
        familiarity=familiarity,
    )


def _promise_of(judged: JudgedTexts, familiar: np.ndarray, max_error: float) -> Promise:
    """The promise of the texts that may be sure, with shares of all of them."""
    promise = find_promise(judged.confidence[familiar], judged.right[familiar], max_error)
    num_rows, share = len(familiar), familiar.mean()
    coverage, needed = promise.coverage, promise.rows_needed
    return promise.model_copy(
        update={
            "rows": num_rows,
            "coverage": None if coverage is None else float(coverage * share),
            "rows_needed": None if needed is None else math.ceil(needed / share),
        }
    )


def find_promise(confidence: np.ndarray, right: np.ndarray, max_error: float) -> Promise:
    """Finds the lowest threshold above which at most a share of the answers is wrong.

    An answer is sure if its confidence is above the threshold. With a probability of at least
    90% over the drawing of the rows, at most `max_error` of the sure answers to new texts of the
    same kind are wrong.

    The thresholds are the confidences at up to 50 ranks, from the fewest rows that can show the
    promise to all of them. Each is tested in this order (fixed-sequence testing) until one fails;
    its p-value is that of Clopper and Pearson, the binomial probability of so few wrong answers at
    an error of `max_error`: ``P(Bin(sure, max_error) <= wrong) <= 0.1``. Where half of the rows can
    show the promise, a second sequence starts there, which a wrong answer among the surest does not
    end: the first has a level of 0.02 then, and the second one of 0.08. The rows may not have
    chosen anything else: neither weights nor epoch, number format or temperature.

    Args:
      confidence: float (n,), n > 0.
      right: bool (n,).
      max_error: A share of the sure answers, between 0 and 1.

    Returns:
      The promise; without a threshold where none keeps it. Then `rows_needed` says how many rows
      of this kind would show it, None if more rows would not help.

    Raises:
      ShapeError: If the shapes do not fit.

    Reference: Angelopoulos et al. 2021, Learn then Test, arXiv 2110.01052, section 3, with the
    levels of several starts as Bonferroni adds them up; the sequences run over ranks in place of
    values.
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
    tested, above = [], 0
    for start, level in _sequences(num_rows, max_error):
        ranks = np.linspace(min(start, num_rows), num_rows, _STEPS).astype(int)
        sure = np.searchsorted(-ordered[:-1], -ordered[ranks])
        sure = np.unique(np.append(sure[sure >= start], num_rows))  # rows above each threshold
        passed = scipy.special.bdtr(wrong_above[sure], sure, max_error) <= level
        count = len(sure) if passed.all() else int(passed.argmin())
        above = max(above, int(sure[count - 1]) if count else 0)
        tested.append(sure)
    if not above:
        sure = np.unique(np.concatenate(tested))
        failed = sure[scipy.special.bdtr(wrong_above[sure], sure, max_error) > 1 - LEVEL]
        needed = _rows_needed(failed, wrong_above[failed], num_rows, max_error)
        fewest = fewest_rows(max_error)
        if needed is None and num_rows < fewest:  # so few rows do not show that more are no help
            needed = fewest
        return Promise(max_error=max_error, rows=num_rows, rows_needed=needed)
    return Promise(
        max_error=max_error,
        rows=num_rows,
        threshold=float(ordered[above]),
        coverage=float(above / num_rows),
        error=float(wrong_above[above] / above),
    )


def _sequences(num_rows: int, max_error: float) -> list[tuple[int, float]]:
    """The rank that each sequence of tests starts at, and its share of the level."""
    level = 1 - LEVEL
    first, second = _FIRST_SHARE * level, (1 - _FIRST_SHARE) * level
    if num_rows < _fewest_of_two(max_error):
        return [(fewest_rows(max_error), level)]
    return [(fewest_rows(max_error, first), first), (num_rows // 2, second)]


def _fewest_of_two(max_error: float) -> int:
    """The fewest rows for a second sequence: half of them can pass its test."""
    return 2 * fewest_rows(max_error, (1 - _FIRST_SHARE) * (1 - LEVEL))


def fewest_rows(max_error: float, level: float = 1 - LEVEL) -> int:
    """The fewest sure answers that can show a promise: so many, and none wrong."""
    return math.ceil(math.log(level) / math.log1p(-max_error))


def _rows_needed(
    sure: np.ndarray, wrong: np.ndarray, num_rows: int, max_error: float
) -> int | None:
    """The rows that would pass at one of the ranks with the shares of wrong answers seen there.

    `sure` and `wrong` are those of ranks that fail: another one may pass behind a failure.
    """
    usable = (sure > 0) & (wrong < max_error * sure)
    best = None
    for above, errors_above in zip(sure[usable], wrong[usable], strict=True):
        share = errors_above / above
        count = fewest_rows(max_error)
        while count < _MOST_ROWS:
            _, level = _sequences(math.ceil(count * num_rows / above), max_error)[-1]
            if scipy.special.bdtr(np.ceil(share * count), count, max_error) <= level:
                break
            count = math.ceil(1.1 * count)
        rows = math.ceil(count * num_rows / above)
        best = rows if best is None else min(best, rows)
    return best if best is None or best < _MOST_ROWS else None
