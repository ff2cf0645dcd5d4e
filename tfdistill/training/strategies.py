"""Training on several devices and machines: which of them, and each one's share of a batch.

A recipe's batch is the global one. It is cut into as many shares of rows as there are replicas,
every objective divides by the global batch's count (`losses.reduction`), and gradients are
added up: a step on four devices is the step on one, up to the order of additions.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tfdistill import errors
from tfdistill.io import cluster
from tfdistill.training import multi_worker

_log = logging.getLogger(__name__)


def devices_here() -> list[str]:
    """The devices that training may use, such as GPU:0: all visible GPUs, or else the CPU."""
    devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
    return [_short(device.name) for device in devices]


def choose(devices: int | None = None) -> tf.distribute.Strategy | None:
    """Chooses how training is spread: over `devices` of this machine, or the workers of TF_CONFIG.

    Where TF_CONFIG names several workers this waits until all of them are there. TensorFlow has to
    be told of a cluster first of all: before any tensor or variable is made. By default every
    visible GPU is taken, and the CPU where there is none. Returns None for a single device, which
    needs no strategy.
    """
    worker = cluster.this_worker()
    if worker is not None:
        _show(devices, worker)
        return _over_workers(worker)
    names = devices_here()
    if devices is None:
        devices = len(names) if tf.config.list_logical_devices("GPU") else 1
    _check_devices(devices, names)
    return None if devices == 1 else _mirrored(tuple(names[:devices]))


def _check_devices(devices: int, names: list[str]) -> None:
    if not 1 <= devices <= len(names):
        raise errors.ConfigError(
            "devices",
            f"1 to {len(names)}, the devices here ({', '.join(names)})",
            devices,
            "CUDA_VISIBLE_DEVICES says which GPUs are visible.",
        )


def refuse_cluster(what: str, remedy: str) -> None:
    """Refuses what one machine does, before it waits for others."""
    worker = cluster.this_worker()
    if worker is not None:
        raise errors.ConfigError(
            f"{what} under TF_CONFIG", "one machine", f"{worker.count} workers", remedy
        )


def devices_of(strategy: tf.distribute.Strategy | None) -> list[str]:
    """The devices that training takes under what `choose` returned, such as GPU:0.

    Of several workers all devices are listed, as if they were equipped like this one: 1/GPU:0.
    """
    if strategy is None:
        return devices_here()[:1]
    names = [_short(name) for name in strategy.extended.worker_devices]
    if not multi_worker.is_cluster(strategy):
        return names
    count = strategy.num_replicas_in_sync // len(names)
    return [f"{index}/{name}" for index in range(count) for name in names]


def scope(strategy: tf.distribute.Strategy | None) -> contextlib.AbstractContextManager[Any]:
    """The scope in which models, optimizers and distillers are made; None: anywhere."""
    return contextlib.nullcontext() if strategy is None else strategy.scope()


def check_batch_sizes(sizes: Mapping[str, int], strategy: tf.distribute.Strategy | None) -> None:
    """Refuses batches that leave some devices less to do than others at every step.

    Smaller batches on the way, the last of an epoch or one of long examples under a token budget,
    are shared out as evenly as they go.
    """
    replicas = 1 if strategy is None else strategy.num_replicas_in_sync
    faults = []
    for name, size in ((name, size) for name, size in sizes.items() if size % replicas):
        below = size // replicas * replicas
        remedy = f"Use {f'{below} or ' if below else ''}{below + replicas}"
        if not multi_worker.is_cluster(strategy):
            remedy += f", or --gpus {max(n for n in range(1, replicas) if size % n == 0)}"
        expected = f"a multiple of {replicas}, the devices that share a batch"
        faults.append(errors.explain(name, expected, size, f"{remedy}."))
    if faults:
        raise errors.ConfigError("\n".join(faults))


def share_out(batches: tf.data.Dataset, strategy: tf.distribute.Strategy) -> Any:
    """Gives each replica its rows of every batch.

    Replica i of r gets the rows from ``n i // r`` to ``n (i + 1) // r`` of a batch of n: shares
    differ by one row at most, and one is empty only where n < r. The batches themselves are those
    of a single device, their padding and masks too: every worker makes them, and keeps its rows.

    Shapes: `batches` (n, ...).
    """
    replicas = strategy.num_replicas_in_sync
    if replicas == 1:
        return batches

    def shares(context: tf.distribute.InputContext) -> tf.data.Dataset:
        local = replicas // context.num_input_pipelines  # of this worker
        first = local * context.input_pipeline_id

        def cut(*parts: Any) -> tf.data.Dataset:
            batch: Any = parts[0] if len(parts) == 1 else parts
            rows = tf.shape(tf.nest.flatten(batch)[0])[0]

            def share(replica: tf.Tensor) -> Any:
                start, end = rows * replica // replicas, rows * (replica + 1) // replicas
                return tf.nest.map_structure(lambda values: values[start:end], batch)

            return tf.data.Dataset.range(first, first + local, output_type=tf.int32).map(share)

        return batches.flat_map(cut).prefetch(2 * local)

    return strategy.distribute_datasets_from_function(shares)


@functools.cache
def _mirrored(names: tuple[str, ...]) -> tf.distribute.Strategy:
    """One strategy for all of a process: a second one would reuse the keys of its collectives."""
    return tf.distribute.MirroredStrategy(names)


def _show(devices: int | None, worker: cluster.Worker) -> None:
    """Makes the first `devices` GPUs the visible ones, and says what this process waits for."""
    if devices is not None:
        physical = tf.config.list_physical_devices("GPU")
        _check_devices(devices, [_short(device.name) for device in physical] or ["CPU:0"])
        with _before_use():
            tf.config.set_visible_devices(physical[:devices], "GPU")
    _log.info(
        f"worker {worker.index} of {worker.count} ({cluster.VARIABLE}): waiting for the others"
    )


@functools.cache
def _over_workers(worker: cluster.Worker) -> tf.distribute.Strategy:
    """One strategy for all of a process: TensorFlow starts its server once."""
    with _before_use():
        return tf.distribute.MultiWorkerMirroredStrategy()


@contextlib.contextmanager
def _before_use() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise errors.EnvironmentFault(
            f"cluster of {cluster.VARIABLE}",
            "TensorFlow to be told of it before it is used",
            f"{error}",
            "Call strategies.choose() first in the program.",
        ) from error


def _short(name: str) -> str:
    return name.rpartition("device:")[2]
