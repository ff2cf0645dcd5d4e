"""The inputs of a model: recorded examples where there are any, otherwise generated ones."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite.golden import Example
from tfdistill.tflite.signature import Signature
from tfdistill.tokenization.tokenizer import Tokenizer

NUM_GENERATED = 16  # examples per length where none are recorded


@dataclasses.dataclass(frozen=True)
class LabelledExample(Example):
    """An example of a task, as the file is fed with it."""

    # what is right: the class, a number of a regression, 0 or 1 for each of several labels, for
    # words the class of each token (-100: none), for a question the first and last token of the
    # answer; None where it is not known
    label: int | float | tuple[float, ...] | tuple[int, ...] | None = None


def examples_of_words(
    tokenizer: Tokenizer,
    length: int,
    rng: np.random.Generator,
    count: int = NUM_GENERATED,
    *,
    pairs: bool = False,
) -> list[Example]:
    """Makes sentences of whole words of a vocabulary that fill between half and all of `length`.

    Every word is one entry of the vocabulary. Special tokens count. With `pairs` the first third of
    the words is the first text, the others are the second.
    """
    entries = [tokenizer.word_of(entry) for entry in tokenizer.vocab]
    words = [i for i, entry in enumerate(entries) if entry.isalpha() and entry == entry.lower()]
    if not words:
        raise errors.VocabularyError("vocabulary", "whole words", f"none of {len(entries)}")
    examples = []
    special = 2 + tokenizer.template.separators * pairs
    for _ in range(count):
        low, high = max(1, length // 2 - 1), max(2, length - special + 1)
        drawn = [
            int(i) for i in rng.choice(words, size=int(rng.integers(min(low, high - 1), high)))
        ]
        cut = max(1, len(drawn) // 3) if pairs and len(drawn) > 1 else len(drawn)
        first, second = drawn[:cut], drawn[cut:]
        text, pair = (" ".join(entries[i] for i in part) for part in (first, second))
        ids, types = tokenizer.encode_typed(text, pair or None, length)
        examples.append(Example(tuple(ids), tuple(types), text, pair or None))
    return examples


def random_examples(
    signature: Signature, rng: np.random.Generator, file: files.Path
) -> list[Example]:
    """Draws ids from below the size of the table that they are looked up in, which must exist."""
    if signature.vocabulary_rows is None:
        raise errors.BenchmarkError(
            f"{file}",
            "a model.json beside it, or ids that are looked up in a table",
            "neither",
            "Without them no valid token ids are known.",
        )
    length = signature.sequence_length
    examples = []
    for _ in range(NUM_GENERATED):
        number = int(rng.integers(max(1, length // 2), length + 1))
        ids = tuple(int(i) for i in rng.integers(0, signature.vocabulary_rows, size=number))
        examples.append(Example(ids, (0,) * number))
    return examples
