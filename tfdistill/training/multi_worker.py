"""Training on several machines: one folder, which the chief keeps, and workers that go away.

Every worker computes the same from the same files: batches, evaluations and decisions. So each one
works in a folder of its own, and only the chief's stays. What differs is its rows of each batch.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import pathlib
import shutil
from collections.abc import Callable, Iterator, Mapping

import tensorflow as tf

from tfdistill import errors
from tfdistill.io import files

_working = contextvars.ContextVar("working", default=False)


def is_cluster(strategy: tf.distribute.Strategy | None) -> bool:
    """Checks whether a strategy spans several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


@contextlib.contextmanager
def working_folder(
    folder: files.Path, strategy: tf.distribute.Strategy | None
) -> Iterator[pathlib.Path]:
    """Yields the folder that this process works in, and waits for the other workers.

    For the chief, and without a cluster, that is `folder`. Any other worker gets a copy of it in
    the system's temporary folder, which is removed afterwards: it reads what the chief reads, and
    what it writes is thrown away. Inside another such block nothing happens.
    """
    folder = pathlib.Path(folder)
    if strategy is None or not is_cluster(strategy) or _working.get():
        yield folder
        return
    token = _working.set(True)
    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_naming_lost_workers(strategy))
            if not strategy.extended.should_checkpoint:
                private = stack.enter_context(files.temporary_folder("worker")) / folder.name
                if folder.is_dir():
                    shutil.copytree(folder, private, symlinks=True)
                folder = private
            of_chief(strategy, {})  # all copies are made before the chief writes
            yield folder
            of_chief(strategy, {})  # whoever is done knows that the chief's files are there
    finally:
        _working.reset(token)


def of_chief(
    strategy: tf.distribute.Strategy | None, values: Mapping[str, float]
) -> dict[str, float]:
    """The chief's numbers, for all workers; they decide by them. It is a barrier as well."""
    if strategy is None or not is_cluster(strategy):
        return dict(values)
    all_rows = _of_all(strategy, [float(value) for value in values.values()])
    return dict(zip(values, all_rows[0], strict=True))


def check_same_step(strategy: tf.distribute.Strategy | None, step: int, folder: files.Path) -> None:
    """Refuses workers that found different checkpoints."""
    if strategy is None or not is_cluster(strategy):
        return
    steps = sorted({int(row[0]) for row in _of_all(strategy, [float(step)])})
    if len(steps) > 1:
        raise errors.ConfigError(
            f"{folder}",
            "the same checkpoint at every worker",
            f"steps {', '.join(map(str, steps))}",
            "Put it on a file system that all workers share.",
        )


def _of_all(strategy: tf.distribute.Strategy, values: list[float]) -> list[list[float]]:
    """The values of every replica, in the order of the replicas: the chief's come first."""
    gathered = _gatherer(strategy)(tf.constant([[0.0, *values]], tf.float64))
    return gathered[:, 1:].numpy().tolist()


@functools.cache
def _gatherer(strategy: tf.distribute.Strategy) -> Callable[[tf.Tensor], tf.Tensor]:
    """Makes (1, n) of each replica (replicas, n) in all of them; traced once for every n."""

    def gathered(values: tf.Tensor) -> tf.Tensor:
        context = tf.distribute.get_replica_context()
        assert context is not None
        # A copy: an argument of a traced function has no device.
        return context.all_gather(tf.identity(values), axis=0)

    return tf.function(
        lambda values: strategy.experimental_local_results(strategy.run(gathered, args=(values,)))[
            0
        ],
        autograph=False,
    )


def is_lost(error: BaseException | None) -> bool:
    """Checks whether TensorFlow gave up because another worker went away."""
    return isinstance(error, tf.errors.OpError) and "Collective ops is aborted" in str(error)


@contextlib.contextmanager
def _naming_lost_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    try:
        yield
    except tf.errors.OpError as error:
        if not is_lost(error):
            raise
        cause = str(error).partition("aborted by:")[2].strip().splitlines()
        raise errors.EnvironmentFault(
            "cluster of TF_CONFIG",
            f"every worker to stay until the end ({strategy.num_replicas_in_sync} replicas)",
            f"one that went away: {cause[0] if cause else error}",
            "Start all workers again with the same command (--resume): they go on from the last "
            "checkpoint.",
        ) from error
