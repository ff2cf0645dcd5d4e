"""From questions to rows of tokens, and from span logits back to answers.

A context that is too long becomes several windows, each with the question before it:
``[CLS] question [SEP] window [SEP]``. Windows overlap; a token that is in several is answered
for by the one that shows most around it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.data import squad
from tfdistill.data.encoded import EncodedExamples, SpanSources, spans

if TYPE_CHECKING:
    from tfdistill.data.spec import SpanRules
    from tfdistill.data.tokenize import LocatedPieces, Tokenizer


@dataclasses.dataclass(frozen=True)
class Answer:
    """A model's answer to a question.

    Attributes:
      text: A part of the context, or "" for no answer.
      score: Its start logit plus its end logit; minus infinity if no window holds a candidate.
      null_score: Those of [CLS], the least over the windows.
      candidates: The best texts with their scores, best first.
    """

    text: str
    score: float
    null_score: float
    candidates: tuple[tuple[str, float], ...]


def encode_questions(
    questions: Sequence[squad.Question],
    tokenizer: Tokenizer,
    max_length: int = 384,
    *,
    doc_stride: int = 128,
    max_question_length: int = 64,
    labelled: bool = True,
) -> EncodedExamples:
    """Tokenizes questions with their contexts.

    The label of a window is the first and the last token that share a character with the answer,
    or [CLS] twice where the answer is not wholly inside.

    Args:
      questions: n questions.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of a window, question and special tokens included.
      doc_stride: Tokens from the start of one window to that of the next.
      max_question_length: The most tokens of a question; the rest is cut.
      labelled: Whether to look for the answers.

    Returns:
      The windows: labels are int32 (windows, 2), `sources` says which question a window is of, and
      `span_sources` the positions of its tokens.

    Raises:
      DataError: If there is no room for a context, or the windows would leave tokens out.
    """
    asked = tokenizer.locate([question.question for question in questions])
    contexts = list(dict.fromkeys(question.context for question in questions))
    located = tokenizer.locate(contexts)
    context_of = {context: index for index, context in enumerate(contexts)}
    asked_lengths = np.minimum(np.diff(asked.offsets), max_question_length)
    room = max_length - 3 - int(asked_lengths.max(initial=0))
    if doc_stride < 1 or room < 1:
        least = max_length - room + 1
        what, expected = ("doc_stride", 1) if doc_stride < 1 else ("max_length", least)
        raise errors.DataError(
            what, f"at least {expected}", doc_stride if doc_stride < 1 else max_length
        )
    parts: list[_Window] = []
    for index, question in enumerate(questions):
        position = context_of[question.context]
        first, last = int(located.offsets[position]), int(located.offsets[position + 1])
        begin = int(asked.offsets[index])
        words = asked.ids[begin : begin + int(asked_lengths[index])]
        size = max_length - 3 - len(words)
        if doc_stride > size and last - first > size:
            raise errors.DataError(
                "doc_stride",
                f"at most {size}, the tokens of a window of question {question.key!r}",
                doc_stride,
                "A larger step would leave tokens out.",
            )
        answer = _answer_tokens(question, located, first, last) if labelled else None
        parts += _windows(index, words, located, first, last, size, doc_stride, answer, tokenizer)
    return _join(parts, questions, tokenizer, labelled, doc_stride, max_question_length)


@dataclasses.dataclass(frozen=True)
class _Window:
    source: int
    ids: np.ndarray
    text_start: int  # the token at which the context begins
    characters: np.ndarray  # int32 (tokens, 2), -1 outside the context
    shown_best: np.ndarray  # bool (tokens,)
    label: tuple[int, int]


def _answer_tokens(
    question: squad.Question, located: LocatedPieces, first: int, last: int
) -> tuple[int, int] | None:
    """Returns the first and last piece that share a character with the answer, from `first` on."""
    if question.start is None or question.end is None:
        return None
    inside = (located.ends[first:last] > question.start) & (
        located.starts[first:last] < question.end
    )
    pieces = np.flatnonzero(inside)
    return (int(pieces[0]), int(pieces[-1])) if len(pieces) else None


def _windows(
    source: int,
    words: np.ndarray,
    located: LocatedPieces,
    first: int,
    last: int,
    size: int,
    doc_stride: int,
    answer: tuple[int, int] | None,
    tokenizer: Tokenizer,
) -> list[_Window]:
    count = last - first
    begins = [0]
    while begins[-1] + size < count:
        begins.append(begins[-1] + doc_stride)
    ends = [min(begin + size, count) for begin in begins]
    best = _best_windows(count, begins, ends)
    head = [tokenizer.cls_id, *words.tolist(), tokenizer.sep_id]
    windows = []
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        ids = [*head, *located.ids[first + begin : first + end].tolist(), tokenizer.sep_id]
        characters = np.full((len(ids), 2), -1, np.int32)
        characters[len(head) : -1, 0] = located.starts[first + begin : first + end]
        characters[len(head) : -1, 1] = located.ends[first + begin : first + end]
        shown = np.zeros(len(ids), bool)
        shown[len(head) : -1] = best[begin:end] == number
        label = (0, 0)
        if answer is not None and begin <= answer[0] and answer[1] < end:
            label = (len(head) + answer[0] - begin, len(head) + answer[1] - begin)
        windows.append(
            _Window(source, np.array(ids, np.int32), len(head), characters, shown, label)
        )
    return windows


def _best_windows(count: int, begins: Sequence[int], ends: Sequence[int]) -> np.ndarray:
    """Returns for each token the window that shows most around it; of equal ones the first."""
    tokens = np.arange(count)
    shown = np.full((len(begins), count), -1)
    for number, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        inside = tokens[begin:end]
        # The poorer side counts. (The published rule adds a hundredth of the window's length, which
        # decides for the first one, too: only the last window may be shorter.)
        shown[number, begin:end] = np.minimum(inside - begin, end - 1 - inside)
    return shown.argmax(axis=0)


def _join(
    windows: Sequence[_Window],
    questions: Sequence[squad.Question],
    tokenizer: Tokenizer,
    labelled: bool,
    doc_stride: int,
    max_question_length: int,
) -> EncodedExamples:
    sizes = np.array([len(window.ids) for window in windows], np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    begins = offsets[:-1] + np.array([window.text_start for window in windows], np.int64)
    types = np.zeros(int(offsets[-1]), np.uint8)
    types[spans(begins, offsets[1:] - begins)] = 1
    return EncodedExamples(
        ids=np.concatenate([window.ids for window in windows]),
        offsets=offsets,
        types=types,
        labels=np.array([window.label for window in windows], np.int32) if labelled else None,
        pad_id=tokenizer.pad_id,
        sources=np.array([window.source for window in windows], np.int64),
        span_sources=SpanSources(
            questions=tuple(questions),
            characters=np.concatenate([window.characters for window in windows]),
            shown_best=np.concatenate([window.shown_best for window in windows]),
            doc_stride=doc_stride,
            max_question_length=max_question_length,
        ),
    )


def decode(logits: np.ndarray, encoded: EncodedExamples, rules: SpanRules) -> dict[int, Answer]:
    """Reads the answers off the logits of all windows.

    Of each window the `n_best` starts and ends are combined. A candidate starts and ends in the
    context, starts where this window shows the token best, and is no longer than
    `max_answer_length` tokens; its score is the sum of both logits. The best candidate over all
    windows of a question is the answer. With `unanswerable` the answer is "" if the score of
    [CLS], the least over the windows, exceeds that of the candidate by more than `null_threshold`.

    Args:
      logits: float (tokens of all windows, 2).
      encoded: The windows, from `encode_questions`.
      rules: The rules above.

    Returns:
      The answer to every question that has a window, by its number.

    Raises:
      DataError: If the examples are not windows, or a logit is not finite.
      ShapeError: If there is not a row of two logits for each token.
    """
    sources, found = _check(logits, encoded)
    candidates: dict[int, list[tuple[float, int, int]]] = {int(s): [] for s in sources}
    nulls = dict.fromkeys(candidates, np.inf)
    for row, source in enumerate(sources.tolist()):
        tokens = slice(int(encoded.offsets[row]), int(encoded.offsets[row + 1]))
        start, end = logits[tokens, 0].astype(np.float64), logits[tokens, 1].astype(np.float64)
        nulls[source] = min(nulls[source], start[0] + end[0])
        characters, best = found.characters[tokens], found.shown_best[tokens]
        starts = _largest(start, best, rules.n_best)
        ends = _largest(end, characters[:, 0] >= 0, rules.n_best)
        lengths = ends[None, :] - starts[:, None] + 1
        for i, j in np.argwhere((lengths >= 1) & (lengths <= rules.max_answer_length)):
            first, last = int(starts[i]), int(ends[j])
            candidates[source].append(
                (start[first] + end[last], int(characters[first, 0]), int(characters[last, 1]))
            )
    return {
        source: _answer(found.questions[source].context, options, float(nulls[source]), rules)
        for source, options in candidates.items()
    }


def _largest(values: np.ndarray, allowed: np.ndarray, count: int) -> np.ndarray:
    """Returns the positions of the largest allowed values, largest first, ties in order."""
    positions = np.flatnonzero(allowed)
    return positions[np.argsort(-values[positions], kind="stable")[:count]]


def _answer(
    context: str, options: list[tuple[float, int, int]], null_score: float, rules: SpanRules
) -> Answer:
    best: dict[str, float] = {}
    for score, begin, end in sorted(options, key=lambda option: -option[0]):
        best.setdefault(context[begin:end], score)
        if len(best) == rules.n_best:
            break
    text, score = next(iter(best.items()), ("", -np.inf))
    if rules.unanswerable and null_score - score > rules.null_threshold:
        text = ""
    return Answer(text, float(score), null_score, tuple(best.items()))


def _check(logits: np.ndarray, encoded: EncodedExamples) -> tuple[np.ndarray, SpanSources]:
    if encoded.sources is None or encoded.span_sources is None:
        raise errors.DataError("examples of spans", "windows of questions", "other examples")
    if logits.shape != (encoded.num_tokens, 2):
        raise errors.ShapeError("span logits", f"shape ({encoded.num_tokens}, 2)", logits.shape)
    if not np.isfinite(logits).all():
        token = int(np.argmin(np.isfinite(logits).all(axis=1)))
        raise errors.DataError(f"logits of token {token}", "finite numbers", logits[token].tolist())
    return encoded.sources, encoded.span_sources


def score(logits: np.ndarray, encoded: EncodedExamples, rules: SpanRules) -> dict[str, float]:
    """Scores the answers to all questions that have a window; see `squad.score_answers`.

    Args:
      logits: float (tokens of all windows, 2).
      encoded: The windows.
      rules: How answers are read off.

    Returns:
      "f1" and "exact_match", from 0 to 1.
    """
    answers = decode(logits, encoded, rules)
    found = _check(logits, encoded)[1]
    return squad.score_answers(
        [found.questions[source] for source in answers],
        [answer.text for answer in answers.values()],
        unanswerable=rules.unanswerable,
    )
