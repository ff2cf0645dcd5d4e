"""The epochs of a stream of batches that a distiller was trained on; the next fit goes on."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator

from tfdistill.data.batches import Batches
from tfdistill.data.shards import ShardedBatches
from tfdistill.data.streaming import MappedBatches, TrainingBatches

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
