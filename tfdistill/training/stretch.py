"""A stretch of a stream of batches, as batches of its own."""

from __future__ import annotations

import tensorflow as tf

from tfdistill import errors
from tfdistill.training.fit import TrainingBatches

MOST_PARTS = 20


class Stretch:
    """Some of the batches that a stream would give: for fits that are measured in steps.

    Stages that follow each other take stretches that follow each other, so that together they see
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
        """Cuts the stretch; nothing is read."""
        if start < 0 or min(steps, most_parts) < 1:
            raise errors.ConfigError(
                "stretch",
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
          ConfigError: If that is not inside the stretch.
        """
        end = epochs * self.steps_per_epoch
        if not 0 <= start_step <= end <= self._steps:
            raise errors.ConfigError(
                "start_step", f"0 to {self._steps} steps", f"{start_step} to {end}"
            )
        whole = -(-(self._start + end) // self._batches.steps_per_epoch)  # epochs, rounded up
        rest = self._batches.dataset(epochs=whole, start_step=self._start + start_step)
        return rest.take(end - start_step)
