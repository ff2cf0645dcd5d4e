"""Questions about texts: SQuAD files, and the official exact match and F1."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tfdistill import errors
from tfdistill.io import reading
from tfdistill.tasks import tables

SUFFIXES = (".json",)
VERSIONS = ("", "-v1.1", "-v2.0")  # as the official files are called: train-v1.1.json

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclasses.dataclass(frozen=True)
class Question:
    """A question about a text."""

    key: str  # its id in the file
    question: str
    context: str  # the text that it is about
    answers: tuple[str, ...]  # the gold answers; empty if there is none in the context (SQuAD v2)
    start: int | None  # the first character of the first answer in the context, or None

    @property
    def end(self) -> int | None:
        """One past the last character of the first answer, or None without answers."""
        return None if self.start is None else self.start + len(self.answers[0])


class Questions(NamedTuple):
    """The questions of a file, in its order."""

    questions: list[Question]
    skipped: int  # left out because their first answer is not in their context


def read_questions(
    path: pathlib.Path, *, unanswerable: bool = False, training: bool = False
) -> Questions:
    """Reads a file in the form of SQuAD v1.1 or v2, where a question may be `unanswerable`.

    For `training`, which learns the positions of answers, questions are left out, and counted,
    whose first answer is not where the file says nor anywhere else in the context. If it is
    elsewhere, the nearest occurrence counts.
    """
    content = reading.parse_json(tables.read_text(path), f"{path}")
    questions: list[Question] = []
    skipped = 0
    locations: dict[str, str] = {}
    for where, context, entry in _entries(content, str(path)):
        question = _question(where, context, entry, unanswerable)
        if question.key in locations:
            raise errors.DataError(where, "an id of its own", f"that of {locations[question.key]}")
        locations[question.key] = where.removeprefix(f"{path}, ")
        if training and question.answers:
            first, marked = re.escape(question.answers[0]), question.start or 0
            starts = [m.start() for m in re.finditer(f"(?={first})", question.context)]
            start = min(starts, key=lambda at, marked=marked: abs(at - marked), default=None)
            if start is None:
                skipped += 1
                continue
            question = dataclasses.replace(question, start=start)
        questions.append(question)
    if not questions:
        raise errors.DataError(
            f"data file {path}",
            "questions with answers in their contexts" if skipped else "questions",
            f"{skipped} with answers that are not" if skipped else "none",
        )
    return Questions(questions, skipped)


def _entries(content: Any, path: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yields (location, context, entry) of every question."""
    for article, where in _items(content, "data", path):
        for paragraph, where_paragraph in _items(article, "paragraphs", where):
            context = _string(paragraph, "context", where_paragraph)
            for entry, where_entry in _items(paragraph, "qas", where_paragraph):
                yield where_entry, context, entry


def _items(value: Any, key: str, where: str) -> Iterator[tuple[Any, str]]:
    inner = value.get(key) if isinstance(value, dict) else None
    if not isinstance(inner, list):
        received = sorted(value) if isinstance(value, dict) else type(value).__name__
        raise errors.DataError(
            where, f"an object with the list {key!r}", received, "Is this a SQuAD file?"
        )
    separator = ", " if key == "data" else "."
    return ((item, f"{where}{separator}{key}[{index}]") for index, item in enumerate(inner))


def _string(value: Any, key: str, where: str) -> str:
    entry = value.get(key) if isinstance(value, dict) else None
    if not isinstance(entry, str):
        raise errors.DataError(f"{where}.{key}", "a string", repr(entry))
    return entry


def _question(where: str, context: str, entry: Any, unanswerable: bool) -> Question:
    answers, start = [], None
    impossible = entry.get("is_impossible") if isinstance(entry, dict) else None
    if isinstance(impossible, str):  # "false", as a table writes it, would count as true
        raise errors.DataError(f"{where}.is_impossible", "true or false", repr(impossible))
    if not impossible:
        for answer, location in _items(entry, "answers", where):
            answers.append(_string(answer, "text", location))
            if start is None:
                start = answer.get("answer_start")
                if not isinstance(start, int) or start < 0 or not answers[0]:
                    raise errors.DataError(location, "a text and its answer_start", repr(answer))
    if not answers and not unanswerable:
        raise errors.DataError(
            where, "an answer", "none", "Questions without answers belong to the task squad_v2."
        )
    return Question(
        _string(entry, "id", where), _string(entry, "question", where), context, (*answers,), start
    )


def normalise_answer(text: str) -> str:
    """Lower-cases, drops ASCII punctuation, then a, an and the, and joins what is left by spaces.

    In this form the official evaluation compares answers.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, gold: str) -> float:
    """Returns 1.0 if both answers have the same normal form, else 0.0."""
    return float(normalise_answer(answer) == normalise_answer(gold))


def answer_f1(answer: str, gold: str, *, unanswerable: bool = False) -> float:
    """F1 of the words that two answers share, counted as often as both have them.

    ``2 P R / (P + R)`` over the words of the normal forms. If one of them has no word it is 0.0; in
    SQuAD v2 (`unanswerable`) 1.0 if neither has.
    """
    answer_words, gold_words = normalise_answer(answer).split(), normalise_answer(gold).split()
    if unanswerable and not (answer_words and gold_words):
        return float(answer_words == gold_words)
    shared = sum((collections.Counter(answer_words) & collections.Counter(gold_words)).values())
    return 2 * shared / (len(answer_words) + len(gold_words)) if shared else 0.0


def score_answers(
    questions: Sequence[Question], answers: Sequence[str], *, unanswerable: bool = False
) -> dict[str, float]:
    """The official scores: of each question the best over its gold answers, then the mean.

    "f1" and "exact_match", from 0 to 1 (the official script gives percentages). An answer "" is
    none. As in SQuAD v2 (`unanswerable`) gold answers without a word are left out, and a question
    without answers is right if, and only if, it is answered with "".
    """
    if len(questions) != len(answers) or not questions:
        raise errors.DataError("answers", f"{len(questions)}, one a question", len(answers))
    scores = []
    for question, answer in zip(questions, answers, strict=True):
        gold: Sequence[str] = question.answers
        if unanswerable:
            gold = [text for text in gold if normalise_answer(text)] or [""]
        scores.append(
            (
                max(answer_f1(answer, text, unanswerable=unanswerable) for text in gold),
                max(exact_match(answer, text) for text in gold),
            )
        )
    f1, exact = np.mean(scores, axis=0)
    return {"f1": float(f1), "exact_match": float(exact)}
