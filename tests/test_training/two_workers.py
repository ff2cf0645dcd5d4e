"""Two workers on loopback and two devices of one process; writes what each ended with as JSON.

The argument is a folder. A program of its own that imports TensorFlow once and forks before it is
used: a process that has been told of a cluster cannot be told of another one.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import time
import traceback
from typing import Any

import tensorflow as tf
import tf_keras as keras
import toy_run

from tfdistill import errors
from tfdistill.io import cluster
from tfdistill.training import callbacks, strategies

SAVED, STOP = 7, 8  # of 15, in the second of 3 epochs; one batch is gathered at the first


class Stopped(BaseException):
    """Stands for the end of both processes."""


class Watch(keras.callbacks.Callback):
    """Keeps the logs of every batch; does something at a step."""

    def __init__(self, stop=0, act=lambda: None):
        super().__init__()
        self.seen: list[dict[str, float]] = []
        self._stop, self._act = stop, act

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append({name: float(value) for name, value in (logs or {}).items()})
        if self.model.batches_trained == self._stop:
            self._act()


def stop():
    raise Stopped


def toy_fits(strategy):
    """Dropout, two batches an optimizer step, shares of one and two rows, and one of none."""
    with strategies.scope(strategy):
        return toy_run.Run(2, num_examples=17, built=True)


def fitted(fits, folder, watch=None):
    watch = watch or Watch()
    result = fits.fit(folder, watch, checkpoint_seconds=0)
    return {
        "state": toy_run.digest(fits.state()),
        "history": toy_run.history(folder),
        "logs": watch.seen,
        "steps": result.steps,
    }


def local(folder):
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return fitted(toy_fits(strategies.choose(2)), folder / "local")


def worker(index, ports, folder):
    """A fit that ends in the middle and goes on, and one whose other worker is killed."""
    os.environ[cluster.VARIABLE] = json.dumps(
        {
            "cluster": {"worker": [f"127.0.0.1:{port}" for port in ports]},
            "task": {"type": "worker", "index": index},
        }
    )
    strategy = strategies.choose()
    measured: dict[str, Any] = {"devices": strategies.devices_of(strategy)}
    fits = toy_fits(strategy)
    watch = Watch(STOP, stop)
    with contextlib.suppress(Stopped):
        fitted(fits, folder / "shared", watch)
    measured |= {"before": watch.seen, "resumed": fitted(fits, folder / "shared")}
    (folder / f"worker-{index}.json").write_text(json.dumps(measured), encoding="utf-8")
    begun = time.monotonic()
    try:
        end = Watch(2, lambda: os.kill(os.getpid(), signal.SIGKILL)) if index else None
        fitted(fits, folder / "killed", end)
    except errors.EnvironmentFault as error:
        return {"error": str(error), "seconds": time.monotonic() - begun}


def forked(path, work, *arguments):
    """Does some work in a process of its own, which writes what it found to a file."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            path.write_text(json.dumps(work(*arguments)), encoding="utf-8")
            code = 0
        finally:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(code)
    return process


def free_ports():
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in (first, second)]


def main():
    folder, ports = pathlib.Path(sys.argv[1]), free_ports()
    callbacks.REPLICAS_EVERY = SAVED
    processes = [
        forked(folder / "local.json", local, folder),
        forked(folder / "killed-0.json", worker, 0, ports, folder),
        forked(folder / "killed-1.json", worker, 1, ports, folder),
    ]
    print(json.dumps([os.waitpid(process, 0)[1] for process in processes]))


if __name__ == "__main__":
    main()
