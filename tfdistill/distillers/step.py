"""The values of one batch that the losses see, and the epochs of a stream that were trained on."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import errors
from tfdistill.data.batches import Batches
from tfdistill.data.shards import ShardedBatches
from tfdistill.data.streaming import MappedBatches, TrainingBatches
from tfdistill.distillers.teacher import inputs_of
from tfdistill.losses.batch import StepInputs

# They have an epoch of every number; a range of steps ends.
_ENDLESS = (Batches, MappedBatches, ShardedBatches)


class EpochCount:
    """The epochs of each stream that were begun, 0 at first."""

    def __init__(self):
        """Keeps no stream alive."""
        self._begun: weakref.WeakKeyDictionary[TrainingBatches, int] = weakref.WeakKeyDictionary()

    def of(self, batches: TrainingBatches) -> int:
        """The epochs begun; of a range of steps, which is read from its start again, 0."""
        return self._begun.get(batches, 0)

    @contextlib.contextmanager
    def counting(
        self, batches: TrainingBatches, first: int, batches_trained: Callable[[], int]
    ) -> Iterator[None]:
        """Counts a fit from the epoch `first` on, also one that is cut off."""
        before = batches_trained()
        try:
            yield
        finally:
            trained = batches_trained() - before
            if trained and isinstance(batches, _ENDLESS):
                self._begun[batches] = first - (-trained // batches.steps_per_epoch)  # rounded up


def step_inputs(
    taps: keras.Model, data: tuple[Any, Any, Any], teacher: Mapping[str, Any], *, training: bool
) -> StepInputs:
    """Runs the student; `taps` are its outputs by name, `models.taps`.

    `data` are features, labels and sample weights; a batch may have none of the last two. `teacher`
    is what the teacher says.
    """
    features, labels, sample_weight = data
    student = taps(inputs_of(taps, features), training=training)
    mask = tf.cast(features["attention_mask"], tf.float32)  # (batch, tokens)
    if sample_weight is None:
        weight = tf.ones_like(mask[:, 0])
    else:
        weight = _example_weights(tf.cast(sample_weight, tf.float32), tf.shape(mask)[:1])
    return StepInputs(teacher, student, labels, mask * weight[:, None], weight, features)


def _example_weights(weights: tf.Tensor, batch: tf.Tensor) -> tf.Tensor:
    """Sample weights, (batch,) or (batch, 1), as (batch,): nothing may be broadcast over them."""
    rank = weights.shape.rank
    if rank == 0 or (rank and any(size not in (1, None) for size in weights.shape[1:])):
        raise errors.ShapeError(
            "sample weights",
            "one number an example, shape (batch,)",
            f"shape {weights.shape}",
            "A token that is not to count has the label -100, padding the attention mask 0.",
        )
    return tf.reshape(weights, batch)
