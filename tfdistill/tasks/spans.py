"""An answer inside a text to each question: from span logits to answers, and what they score.

The windows of a context overlap; a token that is in several is answered for by the one that shows
most around it. `tfdistill.data.windows` makes them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import squad
from tfdistill.tasks.encoded import EncodedExamples, SpanSources
from tfdistill.tasks.kind import TaskKind, register

if TYPE_CHECKING:
    from tfdistill.tasks.spec import SpanRules, TaskSpec


@dataclasses.dataclass(frozen=True)
class Answer:
    """A model's answer to a question."""

    text: str  # a part of the context, or "" for no answer
    score: float  # its start logit plus its end logit; -inf if no window holds a candidate
    null_score: float  # those of [CLS], the least over the windows
    candidates: tuple[tuple[str, float], ...]  # the best texts with their scores, best first


def decode(logits: np.ndarray, encoded: EncodedExamples, rules: SpanRules) -> dict[int, Answer]:
    """Reads the answers off the logits of all windows, by the numbers of their questions.

    Of each window the `n_best` starts and ends are combined. A candidate starts and ends in the
    context, starts where this window shows the token best, and is no longer than
    `max_answer_length` tokens; its score is the sum of both logits. The best candidate over all
    windows of a question is the answer. With `unanswerable` the answer is "" if the score of [CLS],
    the least over the windows, exceeds that of the candidate by more than `null_threshold`.

    The logits are float (tokens of all windows, 2); the windows are those of `encode_questions`.
    """
    sources, windows = _check(logits, encoded)
    candidates: dict[int, list[tuple[float, int, int]]] = {int(s): [] for s in sources}
    nulls = dict.fromkeys(candidates, np.inf)
    for row, source in enumerate(sources.tolist()):
        tokens = slice(int(encoded.offsets[row]), int(encoded.offsets[row + 1]))
        start, end = logits[tokens, 0].astype(np.float64), logits[tokens, 1].astype(np.float64)
        nulls[source] = min(nulls[source], start[0] + end[0])
        characters, best = windows.characters[tokens], windows.shown_best[tokens]
        starts = _largest(start, best, rules.n_best)
        ends = _largest(end, characters[:, 0] >= 0, rules.n_best)
        lengths = ends[None, :] - starts[:, None] + 1
        for i, j in np.argwhere((lengths >= 1) & (lengths <= rules.max_answer_length)):
            first, last = int(starts[i]), int(ends[j])
            candidates[source].append(
                (start[first] + end[last], int(characters[first, 0]), int(characters[last, 1]))
            )
    return {
        source: _answer(windows.questions[source].context, options, float(nulls[source]), rules)
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
    """Scores the answers to all questions with a window; see `decode`, `squad.score_answers`."""
    answers = decode(logits, encoded, rules)
    windows = _check(logits, encoded)[1]
    return squad.score_answers(
        [windows.questions[source] for source in answers],
        [answer.text for answer in answers.values()],
        unanswerable=rules.unanswerable,
    )


class AnswerSpans(TaskKind):
    """The start and the end of a question's answer in its text."""

    name = "span"
    head = "span"
    metrics = ("f1", "exact_match")
    layouts = ("squad",)
    nameless = "answers, no names"
    over_tokens = decodes_spans = True
    usual_columns = ("question", "answers")
    pair_column = "context"
    pipeline = "question-answering"
    pipeline_input = 'question="...", context="..."'

    def num_labels(self, labels: Sequence[str]) -> int:
        """Two: of being the start, and of being the end."""
        return 2

    def parse(self, spec: TaskSpec, values: Sequence[str], where: Sequence[str]) -> np.ndarray:
        """Refuses: answers are no cells of a table."""
        raise errors.ConfigError(f"labels of task {spec.name!r}", "a file of questions", "cells")

    def score(
        self, spec: TaskSpec, outputs: np.ndarray, encoded: EncodedExamples
    ) -> dict[str, float]:
        """See `score`."""
        values = score(outputs, encoded, spec.spans)
        return {name: values[name] for name in spec.metrics}

    def chance(self, spec: TaskSpec, labels: np.ndarray) -> float:
        """The share of questions without an answer, where there are such."""
        return float(np.mean(labels)) if spec.spans.unanswerable else 0.0


register(AnswerSpans())
