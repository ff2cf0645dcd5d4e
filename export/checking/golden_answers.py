"""Golden answers: texts with the tags or the answers that a program has to read off the outputs.

The rows of golden.json test tokenizer and file. These test the steps around them: which windows a
text becomes, which piece answers for a word, which span is the answer.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.data import tagged_words
from tfdistill.data.windows import encode_questions
from tfdistill.tasks import Examples, SpanRules, conll, spans
from tfdistill.tasks.encoded import EncodedExamples, SpanSources
from tfdistill.tokenization.wordpiece import WordPiece


def sentences(
    encoded: EncodedExamples,
    examples: Examples | None,
    tokenizer: WordPiece | None,
    longest: int,
    outputs: np.ndarray,
    labels: tuple[str, ...],
) -> list[dict[str, Any]]:
    """Lists the sentences that are whole in one example, with the tag of each word.

    `outputs` are the file's, (tokens, num_labels), `labels` the tags in their order. Each has
    "example" (its index in the examples of golden.json), "words", "first_pieces" (the token that
    answers for each word) and "tags"; none where words, tokenizer or tags are not known. Raises
    DataError if no sentence gives the ids that it should.
    """
    if examples is None or examples.words is None or tokenizer is None or encoded.sources is None:
        return []
    listed, whole = [], 0
    for i, source in enumerate(encoded.sources.tolist()):
        words = examples.words[source]
        again = tagged_words.encode_words([words], [np.zeros(len(words), int)], tokenizer, longest)
        if len(again) > 1:
            continue
        whole += 1
        if not labels or again.labels is None or not np.array_equal(again.ids, encoded.row(i)):
            continue
        first = np.flatnonzero(again.labels != conll.UNLABELLED)
        rows = outputs[encoded.offsets[i] : encoded.offsets[i + 1]]
        listed.append(
            {
                "example": i,
                "words": list(words),
                "first_pieces": first.tolist(),
                "tags": [labels[index] for index in rows[first].argmax(axis=1)],
            }
        )
    if whole and labels and not listed:
        raise _of_another_vocabulary("words")
    return listed


def questions(
    encoded: EncodedExamples,
    tokenizer: WordPiece | None,
    longest: int,
    outputs: np.ndarray,
    rules: SpanRules,
) -> list[dict[str, Any]]:
    """Lists the questions that have all their windows here, with the answers of the file.

    `outputs` are the file's, (tokens, 2). Each has "question", "context", "examples" (the indices
    of its windows in the examples of golden.json), "answer" ("" for none), "score" and
    "null_score"; the score is null where no window holds a candidate. None where texts or tokenizer
    are not known. Raises DataError if no question gives the windows that it should.
    """
    windows = encoded.span_sources
    if windows is None or encoded.sources is None or tokenizer is None:
        return []
    answers = spans.decode(outputs, encoded, rules)
    listed = []
    for source, answer in answers.items():
        indices = np.flatnonzero(encoded.sources == source)
        if not _cut_alike(encoded.select(indices), windows, source, tokenizer, longest):
            continue
        question = windows.questions[source]
        listed.append(
            {
                "question": question.question,
                "context": question.context,
                "examples": indices.tolist(),
                "answer": answer.text,
                "score": answer.score if np.isfinite(answer.score) else None,
                "null_score": answer.null_score,
            }
        )
    if not listed:
        raise _of_another_vocabulary("questions")
    return listed


def _cut_alike(
    part: EncodedExamples, windows: SpanSources, source: int, tokenizer: WordPiece, longest: int
) -> bool:
    """Whether a program that only has the manifest makes the same windows of a question."""
    again = encode_questions(
        [dataclasses.replace(windows.questions[source], answers=(), start=None)],
        tokenizer,
        longest,
        doc_stride=windows.doc_stride,
        max_question_length=windows.max_question_length,
        labelled=False,
    )
    return np.array_equal(again.ids, part.ids) and np.array_equal(again.offsets, part.offsets)


def _of_another_vocabulary(what: str) -> errors.DataError:
    return errors.DataError(
        f"{what} of check_on",
        "some that give its ids",
        "none",
        "Check that tokenizer is the one that check_on was encoded with, and "
        "that it was encoded with the longest of lengths.",
    )
