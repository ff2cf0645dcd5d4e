"""Golden vectors: a few examples with the answers that any runtime has to reproduce."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from tfdistill import errors
from tfdistill.tasks import Examples, SpanRules
from tfdistill.tasks.encoded import EncodedExamples
from tfdistill.tflite.golden import FORMAT_VERSION, GoldenExample
from tfdistill.tokenization.wordpiece import WordPiece

from ..conversion.prepare import ExportPlan
from ..model import signature
from ..model.heads import HEADS, OutputHead
from . import golden_answers


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a few examples; None for one that is not known."""

    texts: tuple[str | None, ...]  # first texts
    pairs: tuple[str | None, ...]  # second texts


def texts_of(
    encoded: EncodedExamples, examples: Examples | None, tokenizer: WordPiece | None, longest: int
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
        vectors["sentences"] = golden_answers.sentences(
            probes, texts, plan.tokenizer, longest, outputs, plan.labels
        )
    elif plan.head.decodes_spans:
        rules = SpanRules() if plan.task is None else plan.task.spans
        vectors["questions"] = golden_answers.questions(
            probes, plan.tokenizer, longest, outputs, rules
        )
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
