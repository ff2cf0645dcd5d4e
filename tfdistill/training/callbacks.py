"""Callbacks of every fit: guard, evaluation, best weights, checkpoints, history, progress."""

from __future__ import annotations

import csv
import glob
import io
import itertools
import math
import pathlib
import platform
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

import tensorflow as tf
import tf_keras as keras
import tqdm

from tfdistill import errors
from tfdistill.io import files, reading
from tfdistill.training import checkpoints, multi_worker


class StopOnNonFinite(keras.callbacks.Callback):
    """Ends training with an error when the loss is NaN or infinite, before anything is saved."""

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Looks at the running means; a NaN stays in them."""
        bad = [name for name, value in (logs or {}).items() if not math.isfinite(float(value))]
        if bad:
            step = self.model.batches_trained
            raise errors.NonFiniteLossError(
                f"step {step}",
                "finite losses",
                f"NaN or infinity in {', '.join(bad)}",
                "The last good checkpoint is kept. Lower the learning rate or the loss weight, "
                "or look for NaN in the teacher's weights; then resume.",
            )


class EvaluateTask(keras.callbacks.Callback):
    """Adds the task's development metrics to the logs of an epoch, as ``val_<metric>``."""

    def __init__(self, evaluate: Callable[[], Mapping[str, float]]):
        """Keeps the function."""
        super().__init__()
        self._evaluate = evaluate

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Evaluates and extends `logs` in place, as Keras' own validation does."""
        if logs is not None:
            metrics = multi_worker.of_chief(self.model.distribute_strategy, self._evaluate())
            logs.update({f"val_{name}": value for name, value in metrics.items()})


class KeepBest(keras.callbacks.Callback):
    """Keeps the weights of the best epoch, and stops after `patience` epochs without a better one.

    Of epochs with an equal metric the one with the lowest loss is the best; patience counts them
    as epochs without a better one. It does not stop before `min_steps` batches: a metric may stay
    flat while training begins.
    """

    def __init__(
        self,
        monitor: str,
        progress: checkpoints.Progress,
        store: checkpoints.Checkpoints,
        patience: int | None = None,
        min_steps: int = 0,
    ):
        """Keeps the arguments."""
        super().__init__()
        self._min_steps = min_steps
        self._monitor = monitor
        self._progress = progress
        self._store = store
        self._patience = patience

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Compares, keeps, counts."""
        logs = logs or {}
        if self._monitor not in logs:
            computed = [name.removeprefix("val_") for name in logs if name.startswith("val_")]
            wanted = self._monitor.removeprefix("val_")
            raise errors.ConfigError(
                "monitor", "a development metric", repr(wanted), errors.nearest(wanted, computed)
            )
        value, loss = float(logs[self._monitor]), float(logs.get("loss", 0.0))
        progress = self._progress
        best, lowest = float(progress.best.numpy()), float(progress.best_loss.numpy())
        if value > best or (value == best and loss < lowest):
            self._store.save_best(self.model.batches_trained)
            progress.best.assign(value)
            progress.best_loss.assign(loss)
            progress.best_epoch.assign(epoch)
        if value > best:
            progress.waited.assign(0)
            return
        progress.waited.assign_add(1)
        waited = self._patience is not None and int(progress.waited.numpy()) >= self._patience
        if waited and self.model.batches_trained >= self._min_steps:
            progress.stopped.assign(True)
            self.model.stop_training = True


REPLICAS_EVERY = 100
"""Steps of an epoch after which several replicas may save; they first add up their sums."""

_USUAL_SECONDS = 30.0  # of training that a killed process loses
_MOST_OF_THE_TIME = 0.05  # that checkpoints may take


class SaveProgress(keras.callbacks.Callback):
    """Saves a checkpoint after so many seconds of training, and at its end.

    In the middle of an epoch the running means are saved too, and restored when the epoch continues
    after a resume: the history of a resumed run equals that of an uninterrupted one.
    Weights that are not finite end the fit and are not saved: the loss that they give would only
    show when the last good checkpoint was gone.
    """

    def __init__(
        self,
        store: checkpoints.Checkpoints,
        progress: checkpoints.Progress,
        *,
        seconds: float | None,
        steps_per_epoch: int,
    ):
        """Keeps the arguments; `seconds` None: 30, or more where a checkpoint takes long."""
        super().__init__()
        self._store = store
        self._progress = progress
        self._seconds = seconds
        self._steps_per_epoch = steps_per_epoch
        self._means: list[tuple[tf.Variable, Any]] = []
        self._clock = time.monotonic()
        self._seconds_to_save = 0.0  # of the last checkpoint
        self._saved_step = -1

    def restore_running_means(self) -> None:
        """Remembers the metric variables as restored; Keras resets them before an epoch."""
        variables = [v for metric in self.model.metrics for v in metric.variables]
        self._means = [(variable, variable.numpy()) for variable in variables]

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Starts the clock."""
        self._clock = time.monotonic()

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Puts the restored running means back, once."""
        for variable, value in self._means:
            variable.assign(value)
        self._means = []

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves in the middle of an epoch where it is time; its end follows its evaluation."""
        step = self.model.batches_trained
        every = 1 if self.model.distribute_strategy.num_replicas_in_sync == 1 else REPLICAS_EVERY
        if step % every == 0 and step % self._steps_per_epoch:
            self._save_in_time(step)

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Saves the whole epoch where it is time."""
        self._save_in_time(self.model.batches_trained)

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Saves the last step, and that a callback of the user's own has ended the fit there."""
        told = {"stops": float(self.model.stop_training)}
        told = multi_worker.of_chief(self.model.distribute_strategy, told)
        stops = bool(told["stops"]) and not bool(self._progress.stopped.numpy())
        if stops:
            self._progress.stopped.assign(True)
        if stops or self._saved_step != self.model.batches_trained:
            self._save(self.model.batches_trained)

    def _save_in_time(self, step: int) -> None:
        least = self._seconds
        if least is None:
            least = max(_USUAL_SECONDS, self._seconds_to_save / _MOST_OF_THE_TIME)
        due = {"due": float(time.monotonic() - self._clock >= least)}
        if multi_worker.of_chief(self.model.distribute_strategy, due)["due"]:
            self._save(step)
        self._as_restored()

    def _save(self, step: int) -> None:
        variables = self.model.trainable_variables
        bad = [v.name for v in variables if not bool(tf.reduce_all(tf.math.is_finite(v)))]
        if bad:
            raise errors.NonFiniteLossError(
                f"weights at step {step}",
                "finite numbers",
                f"NaN or infinity in {', '.join(bad)}",
                "The last good checkpoint is kept. Lower the learning rate, or clip the "
                "gradient; then resume.",
            )
        now = time.monotonic()
        self._progress.seconds.assign_add(now - self._clock)
        self._clock = now
        self._store.save_last(step)
        self._seconds_to_save = time.monotonic() - now
        self._saved_step = step

    def _as_restored(self) -> None:
        """Spreads the sums of each replica as a restore does: a checkpoint has the total.

        What follows is then added to the same numbers, whether the run continues or is resumed, and
        whenever the clock lets it save.
        """
        if self.model.distribute_strategy.num_replicas_in_sync == 1:
            return
        running = [v for metric in self.model.metrics for v in metric.variables]
        for variable in [*running, *self.model.gathered.variables]:
            variable.assign(variable.read_value())


class HistoryWriter(keras.callbacks.Callback):
    """Writes history.csv: one row an epoch, whole after every epoch, without repeats on resume.

    Columns: epoch (1-based), step, the losses, learning_rate, seconds, examples_per_second, and
    the development metrics as ``val_<metric>``.
    """

    def __init__(self, path: files.Path, num_examples: int, steps_per_epoch: int):
        """Keeps the arguments."""
        super().__init__()
        self._path = pathlib.Path(path)
        self._examples_per_step = num_examples / steps_per_epoch
        self._clock = time.monotonic()
        self._steps = 0

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Starts the clock."""
        self._clock = time.monotonic()
        self._steps = 0

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Counts the steps of this session: an epoch that was cut off has only a part of them."""
        self._steps += 1

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Rewrites the file with this epoch's row at the end."""
        seconds = time.monotonic() - self._clock
        losses = {name: value for name, value in (logs or {}).items() if name[:4] != "val_"}
        row = {
            "epoch": epoch + 1,
            "step": self.model.batches_trained,
            **{name: repr(float(value)) for name, value in losses.items()},
            "learning_rate": repr(learning_rate_of(self.model.optimizer)),
            "seconds": f"{seconds:.3f}",
            "examples_per_second": f"{self._steps * self._examples_per_step / seconds:.2f}",
            **{n: repr(float(v)) for n, v in (logs or {}).items() if n.startswith("val_")},
        }
        rows = [old for old in read_history(self._path) if int(old["epoch"]) <= epoch]
        rows.append({name: str(value) for name, value in row.items()})
        columns = list(dict.fromkeys(name for old in rows for name in old))
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        files.atomic_write_text(self._path, text.getvalue())


def rename_events(folder: files.Path) -> None:
    """Takes the name of this machine out of the names of TensorBoard's files."""
    host = f".{platform.node()}."
    for path in pathlib.Path(folder).rglob(f"events.out.tfevents.*{glob.escape(host)}*"):
        path.rename(path.with_name(path.name.replace(host, ".host.", 1)))


def read_history(path: files.Path) -> list[dict[str, str]]:
    """Reads a history.csv; an absent file is an empty history."""
    path = pathlib.Path(path)
    if not path.is_file():
        return []
    rows = list(csv.DictReader(io.StringIO(reading.read_text(path), newline="")))
    if any(not str(row.get("epoch")).isdecimal() for row in rows):
        raise errors.DataError(
            f"{path}", "a row an epoch, numbered", "other rows", "Move the file away and resume."
        )
    return rows


def learning_rate_of(optimizer: keras.optimizers.Optimizer) -> float:
    """The learning rate of the optimizer's current step."""
    rate = optimizer.learning_rate
    if callable(rate):
        rate = rate(optimizer.iterations)
    return float(tf.convert_to_tensor(rate).numpy())


_WIDE = 100  # columns
_NARROW_BAR = (
    "{desc}: {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"
)


class ProgressBar(keras.callbacks.Callback):
    """One line on stderr: step of all steps, rate, time left, losses as far as there is room.

    A narrow terminal shows no rate. Without a terminal a line is written every half minute instead
    of many times a second.
    """

    def __init__(self, description: str, total_steps: int, stream: TextIO | None = None):
        """Keeps the arguments; the bar appears when training begins."""
        super().__init__()
        self._description = description
        self._total_steps = total_steps
        self._stream = stream
        self._bar: Any = None

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Opens the bar at the step that training continues from."""
        if self._bar is not None:
            return
        stream = self._stream or sys.stderr
        self._bar = tqdm.tqdm(
            desc=self._description,
            total=self._total_steps,
            initial=self.model.batches_trained,
            unit="step",
            file=stream,
            mininterval=0.2 if stream.isatty() else 30,
            dynamic_ncols=True,
        )
        if (self._bar.ncols or _WIDE) < _WIDE:
            self._bar.bar_format = _NARROW_BAR

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Advances by a step."""
        values = {name: f"{float(value):.4f}" for name, value in (logs or {}).items()}
        self._bar.set_postfix(self._fitting(values), refresh=False)
        self._bar.update(1)

    def _fitting(self, values: dict[str, str]) -> dict[str, str]:
        """The first losses that leave ten characters for the bar."""
        facts = self._bar.format_dict
        if not facts["ncols"]:  # no terminal
            return values
        line = self._bar.format_meter(**{**facts, "ncols": None, "postfix": None})
        ends = itertools.accumulate(len(f", {name}={value}") for name, value in values.items())
        count = sum(len(line) + end <= facts["ncols"] for end in ends)
        return dict(itertools.islice(values.items(), count))

    def close(self) -> None:
        """Finishes the line, also after an error."""
        if self._bar is not None:
            self._bar.close()
