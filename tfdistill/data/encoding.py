"""Examples of any kind of task into token ids with labels."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from tfdistill.data import conll, spans
from tfdistill.data.encoded import EncodedExamples

if TYPE_CHECKING:
    from tfdistill.data.tasks import Examples
    from tfdistill.data.tokenize import Tokenizer


def encode_examples(
    examples: Examples,
    tokenizer: Tokenizer,
    max_length: int = 128,
    *,
    weights: np.ndarray | None = None,
    doc_stride: int = 128,
    max_question_length: int = 64,
) -> EncodedExamples:
    """Tokenizes examples.

    One text or pair gives one row. Words with tags give one or more (`conll.encode_words`), a
    question with its context as many as it has windows (`spans.encode_questions`).

    Args:
      examples: Examples, with labels where they are known.
      tokenizer: The tokenizer of the model.
      max_length: The most tokens of a row; texts and pairs that are longer are cut.
      weights: float (n,), sample weights, or None; every row of an example gets its weight.
      doc_stride: Tokens from one window to the next, for questions.
      max_question_length: The most tokens of a question.

    Returns:
      The rows, in the order of the examples.

    Raises:
      DataError: If `max_length` has no room, or windows would leave tokens out.
    """
    if examples.questions is not None:
        encoded = spans.encode_questions(
            examples.questions,
            tokenizer,
            max_length,
            doc_stride=doc_stride,
            max_question_length=max_question_length,
            labelled=examples.labels is not None,
        )
    elif examples.words is not None:
        tags = None if examples.labels is None else list(examples.labels)
        encoded = conll.encode_words(examples.words, tags, tokenizer, max_length)
    else:
        rows = tokenizer.encode_batch(examples.texts, examples.pairs, max_length)
        encoded = EncodedExamples(
            ids=rows.ids,
            offsets=rows.offsets,
            types=rows.types,
            labels=examples.labels,
            pad_id=tokenizer.pad_id,
        )
    if weights is None:
        return encoded
    of_rows = np.asarray(weights, np.float32)
    if encoded.sources is not None:
        of_rows = of_rows[encoded.sources]
    return dataclasses.replace(encoded, weights=of_rows)
