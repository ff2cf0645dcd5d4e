"""A toy fit that can be put back to its start, so that one traced step serves many tests.

As a program it is one process of a run that may be killed: ``python toy_run.py FOLDER``.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys
import types
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras as keras
import toys

from tfdistill import distillers, training
from tfdistill.data import batches
from tfdistill.training import callbacks

STEPS, EPOCHS = 5, 3  # steps of an epoch


class Run:
    """A classifier with dropout, trained on labels with AdamW, warm-up and a falling rate."""

    def __init__(
        self,
        gradient_accumulation: int = 1,
        *,
        dropout: float = 0.2,
        num_examples: int = 18,
        built: bool = False,
    ):
        config = toys.SHALLOW_STUDENT.replace(dropout=dropout, attention_dropout=dropout)
        self.student = toys.classifier(config, seed=6)
        self.distiller = distillers.LabelTrainer(self.student)
        self.train = batches.Batches(toys.encoded(num_examples, weights=True), batch_size=4, seed=3)
        assert self.train.steps_per_epoch == STEPS
        # A small epsilon would make whole steps of gradients that are nothing but rounding.
        optimizer = training.adamw(
            0.02, total_steps=2 * STEPS * EPOCHS, schedule="linear", warmup=0.2, epsilon=1e-3
        )
        if built:  # its variables exist: the step is traced once instead of twice
            optimizer = keras.optimizers.Adam(0.02)
            optimizer.build(self.student.trainable_variables)
        self.distiller.compile(optimizer, gradient_accumulation=gradient_accumulation)
        # Converting the source of functions is a third of the time that tracing takes.
        self.distiller.train_step = tf.autograph.experimental.do_not_convert(
            self.distiller.train_step
        )
        self._start = [(variable, variable.numpy()) for variable in self._variables()]

    def _variables(self) -> list[Any]:
        optimizer = self.distiller.optimizer.variables()
        return [*self.distiller.variables, *self.distiller.gathered.variables, *optimizer]

    def restart(self) -> None:
        """Forgets everything, as a new process does."""
        for variable, value in self._start:
            variable.assign(value)
        at_start = {variable.ref() for variable, _ in self._start}
        for variable in self.distiller.optimizer.variables():
            if variable.ref() not in at_start:
                variable.assign(np.zeros(variable.shape, variable.dtype.as_numpy_dtype))

    def fit(self, folder: pathlib.Path, *extra: keras.callbacks.Callback, **options: Any):
        """One process: starts anew and lets `training.fit` find what there is in `folder`."""
        self.restart()
        options = {"epochs": EPOCHS, "train": self.train, **options}
        return training.fit(self.distiller, folder=folder, extra_callbacks=extra, **options)

    def state(self) -> dict[str, np.ndarray]:
        """Weights, the optimizer's moments and step, and gathered gradients, by name."""
        optimizer = self.distiller.optimizer.variables()
        # Moments that were restored before the first step lack the optimizer's name scope.
        return {
            v.name.split("AdamWeightDecay/")[-1]: v.numpy()
            for v in [*self.student.variables, *optimizer, *self.distiller.gathered.variables]
        }


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAt(keras.callbacks.Callback):
    """Ends the process after the last callback of a batch."""

    def __init__(self, batch: int):
        super().__init__()
        self.batch = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.model.batches_trained == self.batch:
            raise Killed


def check_equals(whole: Any, run: Run, result: Any, folder: pathlib.Path) -> None:
    """A fit ended as the whole one did: (result, state, history), bit for bit."""
    expected, state, rows = whole
    assert result.steps == expected.steps
    received = run.state()
    assert sorted(received) == sorted(state)
    for name, value in received.items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    assert history(folder) == rows


def clock_of_steps(run: Run) -> Any:
    """A module `time` for `callbacks` in which every step takes a second, and nothing else does."""
    return types.SimpleNamespace(monotonic=lambda: float(run.distiller.batches_trained))


def history(folder: pathlib.Path) -> list[dict[str, str]]:
    """history.csv without what a clock wrote."""
    rows = callbacks.read_history(folder / "history.csv")
    return [
        {k: v for k, v in row.items() if k not in ("seconds", "examples_per_second")}
        for row in rows
    ]


def digest(state: dict[str, np.ndarray]) -> str:
    """A hash of a state, bit for bit."""
    total = hashlib.sha256()
    for name in sorted(state):
        total.update(name.encode() + state[name].tobytes())
    return total.hexdigest()


if __name__ == "__main__":
    if "TOY_RUN_AS_IT_IS" in os.environ:  # as in conftest.py: the bits are those of the same graph
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    run = Run()
    run.fit(pathlib.Path(sys.argv[1]), checkpoint_seconds=0)
    print(digest(run.state()))
