"""Windows over texts that are too long for a model, and questions in front of them.

Windows overlap; a token that is in several is answered for by the one that shows most around it.
Before the window of a context stands its question: ``[CLS] question [SEP] window [SEP]``;
`tfdistill.tasks.spans` reads the answers off the logits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tfdistill import errors
from tfdistill.tasks import squad
from tfdistill.tasks.encoded import EncodedExamples, Runs, SpanSources, join, spans

if TYPE_CHECKING:
    from tfdistill.tokenization.library import LocatedPieces
    from tfdistill.tokenization.tokenizer import Tokenizer


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

    The label of a window is the first and the last token that share a character with the answer, or
    [CLS] twice where the answer is not wholly inside. `max_length` counts question and special
    tokens, too; a question of more than `max_question_length` is cut; `doc_stride` are the tokens
    from the start of one window to the next start. Unless `labelled` no answers are looked for.

    Labels are int32 (windows, 2), `sources` says which question a window is of, and `span_sources`
    the positions of its tokens.
    """
    asked_ids, asked_counts = tokenizer.pieces([question.question for question in questions])
    contexts = list(dict.fromkeys(question.context for question in questions))
    located = tokenizer.locate(contexts)
    context_of = {context: index for index, context in enumerate(contexts)}
    asked_lengths = np.minimum(asked_counts, max_question_length)
    asked_starts = np.cumsum(asked_counts) - asked_counts
    room = max_length - 2 - tokenizer.template.separators - int(asked_lengths.max(initial=0))
    if doc_stride < 1 or room < 1:
        least = max_length - room + 1
        what, expected = ("doc_stride", 1) if doc_stride < 1 else ("max_length", least)
        raise errors.DataError(
            what, f"at least {expected}", doc_stride if doc_stride < 1 else max_length
        )
    position = np.array([context_of[question.context] for question in questions], np.int64)
    first, last = located.offsets[position], located.offsets[position + 1]
    size = max_length - 2 - tokenizer.template.separators - asked_lengths
    if (apart := (doc_stride > size) & (last - first > size)).any():
        index = int(apart.argmax())
        raise errors.DataError(
            "doc_stride",
            f"at most {size[index]}, the tokens of a window of question {questions[index].key!r}",
            doc_stride,
            "A larger step would leave tokens out.",
        )
    answers = [_answer_pieces(*each, located) for each in zip(questions, first, last, strict=True)]
    begin, end, source = cut(first, last, size, doc_stride)  # (windows,) each
    encoded = join(
        Runs(asked_ids, asked_starts[source], asked_lengths[source]),
        Runs(located.ids, begin, end - begin),
        tokenizer.template,
    )
    text_starts = asked_lengths[source] + 1 + tokenizer.template.separators
    tokens = spans(encoded.offsets[:-1] + text_starts, end - begin)
    pieces = spans(begin, end - begin)
    characters = np.full((encoded.num_tokens, 2), -1, np.int32)
    characters[tokens] = np.stack([located.starts[pieces], located.ends[pieces]], axis=1)
    best = np.zeros(encoded.num_tokens, bool)
    best[tokens] = shown_best(begin, end, source)
    answer = np.array(answers, np.int64)[source]  # (windows, 2)
    whole = (answer[:, 0] >= begin) & (answer[:, 1] < end)
    labels = np.where(whole[:, None], answer + (text_starts - begin)[:, None], 0).astype(np.int32)
    return dataclasses.replace(
        encoded,
        labels=labels if labelled else None,
        sources=source,
        span_sources=SpanSources(
            questions=tuple(questions),
            characters=characters,
            shown_best=best,
            doc_stride=doc_stride,
            max_question_length=max_question_length,
        ),
    )


def _answer_pieces(
    question: squad.Question, first: int, last: int, located: LocatedPieces
) -> tuple[int, int]:
    """The first and the last piece that share a character with the answer; (-1, -1) if none."""
    if question.start is None or question.end is None:
        return -1, -1
    inside = located.ends[first:last] > question.start
    inside &= located.starts[first:last] < question.end
    pieces = first + np.flatnonzero(inside)
    return (int(pieces[0]), int(pieces[-1])) if len(pieces) else (-1, -1)


def cut(
    firsts: np.ndarray, lasts: np.ndarray, sizes: np.ndarray, step: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cuts n texts into overlapping windows.

    The windows of a text begin at every `step`-th of its tokens; the first that reaches its end is
    the last, and may be shorter. A text that fits into one, if only without tokens, has one.

    Args:
      firsts: int (n,), the first token of each text.
      lasts: int (n,), one past its last.
      sizes: int (n,), the most tokens of its windows.
      step: Tokens from one window to the next.

    Returns:
      int64 (windows,) each: where windows begin, one past their ends, and their texts.
    """
    numbers = 1 - -np.maximum(lasts - firsts - sizes, 0) // step
    sources = np.repeat(np.arange(len(firsts)), numbers)
    begins = firsts[sources] + step * spans(np.zeros(len(firsts), np.int64), numbers)
    return begins, np.minimum(begins + sizes[sources], lasts[sources]), sources


def shown_best(begins: np.ndarray, ends: np.ndarray, sources: np.ndarray) -> np.ndarray:
    """Whether no window of a text shows more around each token, bool (tokens of all windows,).

    A window shows as much around a token as stands on the poorer side of it; of equal windows the
    first counts.

    Args:
      begins: int (windows,), as of `cut`.
      ends: int (windows,).
      sources: int (windows,).
    """
    lengths = ends - begins
    if len(begins) == 1:
        return np.ones(lengths[0], bool)
    inside = spans(np.zeros(len(begins), np.int64), lengths)
    # (The published rule for questions adds a hundredth of the window's length, which decides for
    # the first one, too: only the last window may be shorter.)
    around = np.minimum(inside, np.repeat(lengths, lengths) - 1 - inside)
    token, source = np.repeat(begins, lengths) + inside, np.repeat(sources, lengths)
    order = np.lexsort((-around, token, source))  # stable: windows stay in their order
    first = np.ones(len(order), bool)
    first[1:] = (np.diff(token[order]) != 0) | (np.diff(source[order]) != 0)
    best = np.zeros(len(order), bool)
    best[order[first]] = True
    return best
