"""Batches as one stream of all epochs, which can begin at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tfdistill import errors

if TYPE_CHECKING:
    import tensorflow as tf


def stream(
    batches: Callable[[int, int], Iterator[Any]],
    signature: Any,
    *,
    steps_per_epoch: int,
    epochs: int,
    start_step: int,
) -> tf.data.Dataset:
    """Makes a dataset of the batches of all epochs, one after the other.

    Args:
      batches: (epoch, k) -> the batches of an epoch from the one numbered k on.
      signature: Types and shapes of a batch.
      steps_per_epoch: Batches of an epoch.
      epochs: Number of epochs.
      start_step: The batch to begin with, counted over all epochs.

    Returns:
      A dataset of ``epochs * steps_per_epoch - start_step`` batches.

    Raises:
      ConfigError: If `epochs` or `start_step` is out of range.
    """
    import tensorflow as tf

    total = epochs * steps_per_epoch
    if epochs < 0 or not 0 <= start_step <= total:
        raise errors.ConfigError(
            "start_step",
            f"0 to {max(total, 0)} ({epochs} epochs x {steps_per_epoch} steps)",
            start_step,
        )

    def generate() -> Iterator[Any]:
        for epoch in range(start_step // steps_per_epoch, epochs):
            yield from batches(epoch, max(start_step - epoch * steps_per_epoch, 0))

    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(total - start_step))
    return dataset.prefetch(tf.data.AUTOTUNE)
