"""The inputs of a model: recorded examples where there are any, otherwise generated ones."""

from __future__ import annotations

import dataclasses

import numpy as np

from tfdistill import errors
from tfdistill.io import files
from tfdistill.tflite.golden import Example
from tfdistill.tflite.signature import Signature

NUM_GENERATED = 16  # examples per length where none are recorded


@dataclasses.dataclass(frozen=True)
class LabelledExample(Example):
    """An example of a task, as the file is fed with it."""

    # what is right: the class, a number of a regression, 0 or 1 for each of several labels, for
    # words the class of each token (-100: none), for a question the first and last token of the
    # answer; None where it is not known
    label: int | float | tuple[float, ...] | tuple[int, ...] | None = None


def examples_of_words(
    vocab: list[str],
    length: int,
    rng: np.random.Generator,
    count: int = NUM_GENERATED,
    *,
    pairs: bool = False,
) -> list[Example]:
    """Makes sentences of whole words of a vocabulary that fill between half and all of `length`.

    Every word is one entry of the vocabulary, so the ids are known without a tokenizer. [CLS] and
    [SEP] count. With `pairs` the first third of the words is the first text, the others are the
    second.
    """
    words = [i for i, entry in enumerate(vocab) if entry.isalpha() and entry == entry.lower()]
    if not words or "[CLS]" not in vocab or "[SEP]" not in vocab:
        raise errors.VocabularyError(
            "vocabulary", "[CLS], [SEP] and whole words", f"{len(words)} words of {len(vocab)}"
        )
    cls, sep = vocab.index("[CLS]"), vocab.index("[SEP]")
    examples = []
    special = 3 if pairs else 2
    for _ in range(count):
        low, high = max(1, length // 2 - 1), max(2, length - special + 1)
        drawn = [
            int(i) for i in rng.choice(words, size=int(rng.integers(min(low, high - 1), high)))
        ]
        cut = max(1, len(drawn) // 3) if pairs and len(drawn) > 1 else len(drawn)
        first, second = drawn[:cut], drawn[cut:]
        ids = (cls, *first, sep, *second, *([sep] if second else []))
        types = (0,) * (cut + 2) + (1,) * (len(ids) - cut - 2)
        text, pair = (" ".join(vocab[i] for i in part) for part in (first, second))
        examples.append(Example(ids, types, text, pair or None))
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
