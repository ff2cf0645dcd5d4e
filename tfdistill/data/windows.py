"""From questions to rows of tokens; `tfdistill.tasks.spans` reads the answers off the logits.

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
from tfdistill.tasks import squad
from tfdistill.tasks.encoded import EncodedExamples, SpanSources, spans

if TYPE_CHECKING:
    from tfdistill.data.fast_tokenizer import LocatedPieces
    from tfdistill.data.tokenize import Tokenizer


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
    asked_ids, asked_counts = tokenizer.pieces([question.question for question in questions])
    contexts = list(dict.fromkeys(question.context for question in questions))
    located = tokenizer.locate(contexts)
    context_of = {context: index for index, context in enumerate(contexts)}
    asked_lengths = np.minimum(asked_counts, max_question_length)
    begins = np.cumsum(asked_counts) - asked_counts
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
        words = asked_ids[begins[index] : begins[index] + asked_lengths[index]]
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
