"""The training steps that the benchmarks time: real distiller, real batches, generated ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import distillers, models, training
from tfdistill.data import batches as batching

_FIRST_ORDINARY_ID = 1000  # of bert-base-uncased; below lie special and unused tokens
_ENDLESS = 1_000_000  # epochs


def random_examples(
    lengths: Sequence[int] | np.ndarray, seed: int = 0, *, vocab_size: int | None = None
) -> batching.EncodedExamples:
    """Draws examples of given lengths, in tokens, from BERT's vocabulary or a smaller one."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    random = np.random.default_rng(seed)
    vocab_size = vocab_size or models.preset("bert_base").vocab_size
    ids = random.integers(_FIRST_ORDINARY_ID, vocab_size, offsets[-1]).astype(np.int32)
    return batching.EncodedExamples(ids, offsets, np.zeros(len(ids), np.uint8))


def intermediate_stage(
    teacher: keras.Model, student_name: str, batches: batching.Batches
) -> Callable[[], Any]:
    """Builds a student and what trains it for one epoch of `batches` in TinyBERT's second stage.

    It is what `fit` does without its callbacks: the same traced function with the same optimizer,
    fed by the same stream of batches.

    Args:
      teacher: A classifier.
      student_name: Preset of the student.
      batches: The data.

    Returns:
      A function that runs the steps of one epoch, the next one at each call.
    """
    student = models.build_classifier(student_name, 2)
    distiller = distillers.TinyBertDistiller(teacher, student, stage="intermediate")
    return epochs(distiller, batches, 5e-5)


def epochs(
    distiller: distillers.Distiller, batches: batching.Batches, learning_rate: float
) -> Callable[[], Any]:
    """Returns what trains for an epoch at each call."""
    distiller.compile(optimizer=training.adamw(learning_rate))
    function = distiller.make_train_function()
    iterator = iter(batches.dataset(epochs=_ENDLESS))

    def epoch() -> None:
        for _ in range(batches.steps_per_epoch):
            float(function(iterator)["loss"])  # waits until the step is done, as `fit` does

    return epoch
