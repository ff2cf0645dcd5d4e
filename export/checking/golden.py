"""Golden vectors: a few examples with the answers that any runtime has to reproduce.

Golden answers are texts with the tags or the answers that a program has to read off the outputs.
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
from tfdistill.tasks import Examples, SpanRules, decoding, spans
from tfdistill.tasks.encoded import EncodedExamples, SpanSources
from tfdistill.tflite.golden import FORMAT_VERSION, GoldenExample
from tfdistill.tokenization.tokenizer import Tokenizer

from ..conversion.prepare import ExportPlan
from ..model import signature
from ..model.heads import HEADS, OutputHead


def sentences(
    encoded: EncodedExamples,
    examples: Examples | None,
    tokenizer: Tokenizer | None,
    longest: int,
    outputs: np.ndarray,
    labels: tuple[str, ...],
) -> list[dict[str, Any]]:
    """Lists the sentences that are whole in one example, with the tag of each word.

    `outputs` are the file's, (tokens, num_labels), `labels` the tags in their order. Each has
    "example" (its index in the examples of golden.json), "text", "offsets" (the first character of
    each word and one past its last, as Python counts them), "words", "first_pieces" (the token that
    answers for each word) and "tags", those of the best path; none where words, tokenizer or tags
    are not known. Raises DataError if no sentence gives the ids that it should.
    """
    offsets = None if examples is None else examples.word_offsets
    if examples is None or offsets is None or tokenizer is None or encoded.sources is None:
        return []
    listed, whole = [], 0
    for i, source in enumerate(encoded.sources.tolist()):
        text, places = examples.texts[source], offsets[source]
        again = tagged_words.encode_words([text], [places], None, tokenizer, longest)
        if len(again) > 1:
            continue
        whole += 1
        if not labels or not np.array_equal(again.ids, encoded.row(i)):
            continue
        rows = outputs[encoded.offsets[i] : encoded.offsets[i + 1]]
        answers = decoding.decode_words(rows, again, labels)
        listed.append(
            {
                "example": i,
                "text": text,
                "offsets": places.tolist(),
                "words": [text[start:end] for start, end in places.tolist()],
                "first_pieces": np.repeat(answers.tokens, answers.counts).tolist(),
                "tags": [labels[index] for index in answers.words],
            }
        )
    if whole and labels and not listed:
        raise _of_another_vocabulary("words")
    return listed


def questions(
    encoded: EncodedExamples,
    tokenizer: Tokenizer | None,
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
    part: EncodedExamples, windows: SpanSources, source: int, tokenizer: Tokenizer, longest: int
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


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a few examples; None for one that is not known."""

    texts: tuple[str | None, ...]  # first texts
    pairs: tuple[str | None, ...]  # second texts


def texts_of(
    encoded: EncodedExamples, examples: Examples | None, tokenizer: Tokenizer | None, longest: int
) -> Texts:
    """Finds the texts that encode to exactly these ids, as one text or pair cut to `longest`.

    A text is None where it encodes to other ids: one that was truncated to less, or one part of a
    text that has several. Raises DataError if no text encodes to its ids, though each has one
    example.
    """
    unknown = (None,) * len(encoded)
    if examples is None or tokenizer is None:
        return Texts(unknown, unknown)
    again = tokenizer.encode_batch(examples.texts, examples.pairs, longest)
    same = [np.array_equal(again.row(i), encoded.row(i)) for i in range(len(encoded))]
    if not any(same) and encoded.sources is None:
        raise errors.DataError(
            "texts",
            "the texts of check_on, in its order",
            "none that gives its ids",
            "Check that tokenizer is the one that check_on was encoded with.",
        )
    pairs = examples.pairs or unknown
    return Texts(
        tuple(text if ok else None for text, ok in zip(examples.texts, same, strict=True)),
        tuple(pair if ok else None for pair, ok in zip(pairs, same, strict=True)),
    )


def content(
    plan: ExportPlan, chosen: np.ndarray, logits: np.ndarray, outputs: np.ndarray
) -> dict[str, Any]:
    """Makes golden.json of some of a plan's examples: `chosen`, int (m,).

    `logits` and `outputs` are those of all examples, (rows, num_labels).
    """
    probes, longest, texts = plan.examples.select(chosen), max(plan.lengths), plan.request.texts
    rows = plan.head.rows_of(plan.examples, chosen)
    logits, outputs = logits[rows], outputs[rows]
    sources = chosen if probes.sources is None else probes.sources
    chosen_texts = None if texts is None else texts.select(sources)
    exact = texts_of(probes, chosen_texts, plan.tokenizer, longest)
    vectors = golden(probes, exact, plan.lengths, logits, outputs, head=plan.head)
    if plan.head.per_token and plan.head.classifies:
        vectors["sentences"] = sentences(
            probes, texts, plan.tokenizer, longest, outputs, plan.labels
        )
    elif plan.head.decodes_spans:
        rules = SpanRules() if plan.task is None else plan.task.spans
        vectors["questions"] = questions(probes, plan.tokenizer, longest, outputs, rules)
    return vectors


def golden(
    encoded: EncodedExamples,
    texts: Texts,
    lengths: tuple[int, ...],
    logits: np.ndarray,
    outputs: np.ndarray,
    *,
    head: OutputHead = HEADS["sequence"],
) -> dict[str, Any]:
    """Makes the content of golden.json from logits and outputs (rows, num_labels), see `heads`.

    Returns plain values: format_version and, for each example, text, pair, the shortest signature
    that holds it, its ids and types without padding, the logits and the file's outputs on this
    host. Those of tokens are lists of a list for each token, seven digits of each number; of spans
    [start, end].
    """
    examples = []
    for i in range(len(encoded)):
        ids = encoded.row(i).tolist()
        length = lengths[int(np.searchsorted(lengths, len(ids)))]
        rows = head.rows_of(encoded, np.array([i]))
        model_values, file_values = (
            tuple(_plain(array[rows]) if head.per_token else array[i].tolist())
            for array in (logits, outputs)
        )
        example = GoldenExample(
            tuple(ids),
            tuple(encoded.row_types(i).tolist()),
            texts.texts[i],
            texts.pairs[i],
            signature=signature.signature_name(length),
            logits=model_values,
            outputs=file_values,
        )
        examples.append(example.as_dict())
    return {"format_version": FORMAT_VERSION, "examples": examples}


def _plain(values: np.ndarray) -> list[list[float]]:
    """Numbers that JSON writes with seven digits, all that float32 has."""
    return [[float(f"{value:.7g}") for value in row] for row in values]
