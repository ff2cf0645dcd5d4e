"""Checkpoints that are whole or absent, and the state that a resumed run needs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from typing import Any

import tensorflow as tf

from tfdistill import distillers, errors
from tfdistill.io import files
from tfdistill.training import multi_worker

FOLDER = "checkpoints"
_WRITTEN = re.compile(r"checkpoint(\.tmp.*)?|ckpt-\d+[._].+")  # by TensorFlow, a kill included


def remove(folder: files.Path) -> None:
    """Removes the checkpoints of fits that are over, in this folder or below it, nothing else."""
    for parent, names, _ in os.walk(folder, topdown=False):
        if FOLDER not in names:
            continue
        root = pathlib.Path(parent, FOLDER)
        for place in (root / "last", root / "best", root):
            if root.is_symlink() or place.is_symlink():
                continue
            for path in place.glob("c*"):
                if not _WRITTEN.fullmatch(path.name):
                    continue
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
            with contextlib.suppress(OSError):  # it is not there, or holds something else
                place.rmdir()


class Progress(tf.Module):
    """The state of a fit besides weights, optimizer and metrics.

    `best` is the best development metric so far (-inf before the first), `best_loss` the training
    loss of its epoch, both float64, `best_epoch` that epoch, 0-based (-1 before the first),
    `waited` the epochs since then. `seconds` is the time spent training, over all sessions;
    `stopped` says whether training stopped early.
    """

    def __init__(self):
        """Starts from nothing."""
        super().__init__(name="progress")
        self.best = tf.Variable(float("-inf"), dtype=tf.float64, trainable=False)
        self.best_loss = tf.Variable(float("inf"), dtype=tf.float64, trainable=False)
        self.best_epoch = tf.Variable(-1, dtype=tf.int64, trainable=False)
        self.waited = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.seconds = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.stopped = tf.Variable(False, trainable=False)


class Checkpoints:
    """The last checkpoint and the best weights of one fit, in a folder.

    TensorFlow writes a checkpoint under a temporary name and renames it; the file ``checkpoint``
    names the newest whole one and is replaced last. The previous one is deleted only then, so a
    kill or a full disk at any moment leaves one that can be restored.
    """

    def __init__(self, folder: files.Path, model: distillers.Distiller, progress: Progress):
        """Opens the folder; nothing is written yet."""
        folder = pathlib.Path(folder)
        for kind in ("last", "best"):
            _check_names(folder / kind)
        self._gathered = model.gathered
        self._whole = tf.train.Checkpoint(
            model=model, optimizer=model.optimizer, gathered=model.gathered, progress=progress
        )
        self._last = tf.train.CheckpointManager(self._whole, str(folder / "last"), max_to_keep=1)
        weights = tf.train.Checkpoint(**{str(i): v for i, v in enumerate(model.weights)})
        self._best = tf.train.CheckpointManager(weights, str(folder / "best"), max_to_keep=1)

    def restore_last(self) -> bool:
        """Restores the newest whole checkpoint; returns whether there was one."""
        path = self._last.latest_checkpoint
        if path is None:
            return False
        batches = int(self._gathered.batches.numpy())
        _restore(self._whole, path)
        saved = int(self._gathered.batches.numpy())
        if saved != batches:
            raise errors.WeightsError(
                f"checkpoint {path}",
                f"one of gradient_accumulation {batches}",
                saved,
                "Start again with --overwrite, or with the recipe that wrote it.",
            )
        return True

    def save_last(self, step: int) -> None:
        """Saves everything as of `step`."""
        self._save(self._last, step)

    def save_best(self, step: int) -> None:
        """Saves the weights alone, as the best so far."""
        self._save(self._best, step)

    def restore_best(self) -> bool:
        """Restores the best weights; returns whether any were kept."""
        path = self._best.latest_checkpoint
        if path is None:
            return False
        _restore(self._best.checkpoint, path)
        return True

    def _save(self, manager: tf.train.CheckpointManager, step: int) -> None:
        try:
            manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            if multi_worker.is_lost(error):  # in the sum over the replicas
                raise
            latest: Any = manager.latest_checkpoint or "none yet"
            raise errors.WeightsError(
                f"checkpoint at step {step}",
                f"room to write in {manager.directory}",
                str(error).splitlines()[0],
                f"The last good checkpoint is kept ({latest}); make room and resume.",
            ) from error


def _restore(checkpoint: tf.train.Checkpoint, path: str) -> None:
    try:
        checkpoint.restore(path).assert_existing_objects_matched()
    except (
        *(tf.errors.OpError, AssertionError, LookupError, RuntimeError),
        *(ValueError, TypeError, AttributeError),
    ) as error:
        raise errors.WeightsError(
            f"checkpoint {path}",
            "one of this model and this recipe",
            (str(error).splitlines() or [type(error).__name__])[0],
            "Start again with --overwrite, or with the recipe that wrote it; if it is damaged, "
            f"remove {pathlib.Path(path).parent} and resume: the fit starts again.",
        ) from error


def _check_names(folder: pathlib.Path) -> None:
    """TensorFlow reads, and as soon as there is a newer one deletes, what ``checkpoint`` names."""
    path = folder / "checkpoint"
    if not path.is_file():
        return
    try:
        state = tf.train.get_checkpoint_state(str(folder))
    except (tf.errors.OpError, ValueError):  # ValueError: no UTF-8
        state = None
    names = [state.model_checkpoint_path, *state.all_model_checkpoint_paths] if state else []
    root = os.path.realpath(folder)
    elsewhere = [
        name
        for name in names
        if "\0" in name or not pathlib.Path(os.path.realpath(name)).is_relative_to(root)
    ]
    if elsewhere or not names:
        raise errors.WeightsError(
            f"{path}",
            "names of files next to it",
            repr(elsewhere[0]) if elsewhere else "another text",
            "Remove the folder and resume: the fit starts again.",
        )
