"""Streams of batches over all epochs, which can begin at any step, and parts of such streams."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from tfdistill import errors

if TYPE_CHECKING:
    import tensorflow as tf

MOST_PARTS = 20
_faults: list[errors.TfdistillError] = []  # that streams have raised inside TensorFlow


@runtime_checkable
class TrainingBatches(Protocol):
    """Batches that can be streamed again from any step, as `fit` needs them.

    Attributes:
      steps_per_epoch: Batches of an epoch; the same in each.
      num_examples: Examples of an epoch.
    """

    steps_per_epoch: int
    num_examples: int

    def dataset(self, *, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """Streams the batches of all epochs, from the one numbered `start_step` on."""
        ...


def stream(
    batches: Callable[[int, int], Iterator[Any]],
    signature: Any,
    *,
    steps_per_epoch: int,
    epochs: int,
    start_step: int,
) -> tf.data.Dataset:
    """Makes a dataset of the batches of all epochs, one after the other, from `start_step` on.

    `batches` gives those of an epoch from the one numbered k on: (epoch, k) -> batches; `signature`
    has types and shapes of one.
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
        try:
            for epoch in range(start_step // steps_per_epoch, epochs):
                yield from batches(epoch, max(start_step - epoch * steps_per_epoch, 0))
        except errors.TfdistillError as fault:
            _faults.append(fault)
            raise

    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(total - start_step))
    return dataset.prefetch(tf.data.AUTOTUNE)


class MappedBatches:
    """Batches whose features are changed by the seed and the step alone: masks, noise.

    `change` takes (features, seed, int64 (2,)) and runs in a graph; `seed` begins the seed of every
    batch, the number of its step ends it.
    """

    def __init__(
        self, batches: TrainingBatches, change: Callable[[Any, tf.Tensor], Any], seed: int = 0
    ):
        """Keeps the arguments."""
        self.steps_per_epoch = batches.steps_per_epoch
        self.num_examples = batches.num_examples
        self._batches, self._change, self._seed = batches, change, seed

    def dataset(self, *, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """Streams the changed batches of all epochs, from the one numbered `start_step` on."""
        import tensorflow as tf

        def change(step: tf.Tensor, batch: Any) -> Any:
            seed = tf.stack([tf.constant(self._seed, tf.int64), step])
            if isinstance(batch, dict):
                return self._change(batch, seed)
            return (self._change(batch[0], seed), *batch[1:])

        plain = self._batches.dataset(epochs=epochs, start_step=start_step)
        numbered = plain.enumerate(start=start_step)
        changed = numbered.map(change, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        return changed.prefetch(tf.data.AUTOTUNE)


@contextlib.contextmanager
def raising_faults() -> Iterator[None]:
    """Raises the error of a stream itself: TensorFlow reports it inside one of its own."""
    import tensorflow as tf

    _faults.clear()
    try:
        yield
    except tf.errors.OpError as error:
        if _faults:
            raise _faults[0] from error
        raise


class StepRange:
    """Some of the batches that a stream would give: for fits that are measured in steps.

    Stages that follow each other take ranges that follow each other, so that together they see
    the stream as one fit would. Its "epochs" are up to `most_parts` equal parts, which gives the
    history that many rows: ``steps`` a prime above that is one part.

    Args:
      batches: The stream.
      start: The batch to begin with, counted over all epochs of the stream.
      steps: How many, at least 1.
      most_parts: The most parts, at least 1.

    Attributes:
      parts: The epochs to fit for, so that all `steps` are taken.
      steps_per_epoch: Batches of a part.
      num_examples: Examples of a part, were all batches equally large.

    Raises:
      ConfigError: If `start`, `steps` or `most_parts` is out of range.
    """

    def __init__(
        self, batches: TrainingBatches, *, start: int, steps: int, most_parts: int = MOST_PARTS
    ):
        """Checks the range; nothing is read."""
        if start < 0 or min(steps, most_parts) < 1:
            raise errors.ConfigError(
                "step range",
                "a start >= 0, at least 1 step and 1 part",
                f"{start}, {steps} and {most_parts}",
            )
        self._batches = batches
        self._start = start
        self._steps = steps
        self.parts = max(parts for parts in range(1, most_parts + 1) if steps % parts == 0)
        self.steps_per_epoch = steps // self.parts
        share = self.steps_per_epoch / batches.steps_per_epoch
        self.num_examples = round(share * batches.num_examples)

    def dataset(self, *, epochs: int = 1, start_step: int = 0) -> tf.data.Dataset:
        """Streams the batches of the first `epochs` parts, from the one numbered `start_step` on.

        Raises:
          ConfigError: If that is not inside the range.
        """
        end = epochs * self.steps_per_epoch
        if not 0 <= start_step <= end <= self._steps:
            raise errors.ConfigError(
                "start_step", f"0 to {self._steps} steps", f"{start_step} to {end}"
            )
        whole = -(-(self._start + end) // self._batches.steps_per_epoch)  # epochs, rounded up
        rest = self._batches.dataset(epochs=whole, start_step=self._start + start_step)
        return rest.take(end - start_step)
