"""One fit: a compiled distiller over planned batches, resumable at any step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tf_keras as keras

from tfdistill import distillers, errors
from tfdistill.data import streaming
from tfdistill.data.streaming import TrainingBatches
from tfdistill.io import files, processes
from tfdistill.results import FitResult
from tfdistill.training import callbacks, checkpoints, multi_worker, strategies

_TENSORBOARD = "tensorboard"


def fit(
    distiller: distillers.Distiller,
    train: TrainingBatches,
    *,
    epochs: int,
    folder: files.Path,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    monitor: str | None = None,
    patience: int | None = None,
    min_steps: int | None = None,
    checkpoint_seconds: float | None = None,
    description: str = "",
    extra_callbacks: tuple[keras.callbacks.Callback, ...] = (),
) -> FitResult:
    """Runs `distiller.fit` so that it can be killed at any moment and called again.

    A second call with the same arguments resumes from the last checkpoint in `folder`: the data
    order follows from seed and step, dropout from the step, and the running means and the
    gradients that were gathered since the last optimizer step are part of the checkpoint. A call
    after the end changes nothing and returns the same result. A step is a batch, also where an
    optimizer step gathers several (``compile(gradient_accumulation=...)``). Of several workers all
    call it; the chief's folder is the one that is read and written (`multi_worker.working_folder`).

    Args:
      distiller: Compiled; trained in place.
      train: The batches, for example `data.batches.Batches`; one epoch is every example once.
      epochs: Epochs in all.
      folder: Gets checkpoints/, history.csv and tensorboard/.
      evaluate: Returns development metrics, called after every epoch.
      monitor: The metric (a key of `evaluate`) whose best epoch is kept and restored at the end.
      patience: Epochs without a better `monitor` before training stops.
      min_steps: Batches before which it does not stop for lack of patience.
      checkpoint_seconds: Seconds of training between checkpoints, the most that a killed process
        loses; None: 30, or 20 times what the last one took to write. The end is always saved.
      description: Shown in front of the progress bar.
      extra_callbacks: Keras callbacks of your own, called last. One that stops the training ends it
        for later calls, too.

    Returns:
      The result; the distiller holds the final, or with `monitor` the best, weights.

    Raises:
      ConfigError: If `monitor` is not among the metrics, the distiller was trained before and
        `folder` does not know about it, its losses have another head than the task of `train`, or
        all batches together are fewer than those of an optimizer step.
      NonFiniteLossError: If a loss or a weight is NaN or infinite.
      WeightsError: If a checkpoint cannot be written, or the one found belongs to another model.
      EnvironmentFault: If another worker goes away.

    Examples:
      >>> distiller = tfdistill.LogitDistiller(teacher, student, temperature=2.0)
      >>> distiller.compile(tfdistill.adamw(1e-3))
      >>> result = tfdistill.fit(distiller, data.train, epochs=2, folder="runs/logits")
      >>> result.steps  # 32 examples in a batch, twice
      2
    """
    errors.check_types(distiller=(distiller, distillers.Distiller), train=(train, TrainingBatches))
    if monitor is not None and evaluate is None:
        raise errors.ConfigError("monitor", "evaluate=..., which computes it", f"{monitor!r} alone")
    distiller.check_task(train)
    of_step, batches = int(distiller.gathered.batches.numpy()), epochs * train.steps_per_epoch
    if 0 < batches < of_step:
        raise errors.ConfigError(
            "gradient_accumulation",
            f"at most {batches}, the batches of the training: with more, no optimizer "
            "step is taken",
            of_step,
        )
    strategy = distiller.distribute_strategy
    with multi_worker.working_folder(folder, strategy) as root:
        progress = checkpoints.Progress()
        store = checkpoints.Checkpoints(root / checkpoints.FOLDER, distiller, progress)
        callbacks.rename_events(root / _TENSORBOARD)  # of a session that was killed
        resumed = store.restore_last()
        per_epoch = train.steps_per_epoch
        step = distiller.batches_trained
        multi_worker.check_same_step(strategy, step, root)
        if step and not resumed:
            raise errors.ConfigError(
                "distiller",
                f"one at step 0, since {root} holds no checkpoint",
                f"one at step {step}",
                "Compile it again with a new optimizer.",
            )
        saver = callbacks.SaveProgress(
            store, progress, seconds=checkpoint_seconds, steps_per_epoch=per_epoch
        )
        saver.set_model(distiller)
        bar = callbacks.ProgressBar(description or distiller.name, per_epoch * epochs)
        chain: list[keras.callbacks.Callback] = [callbacks.StopOnNonFinite()]
        if evaluate is not None:
            chain.append(callbacks.EvaluateTask(evaluate))
        if monitor is not None:
            chain.append(
                callbacks.KeepBest(f"val_{monitor}", progress, store, patience, min_steps or 0)
            )
        chain += [
            callbacks.HistoryWriter(root / "history.csv", train.num_examples, per_epoch),
            keras.callbacks.TensorBoard(str(root / _TENSORBOARD), write_graph=False),
            saver,
            bar,
            *extra_callbacks,
        ]
        if resumed and step % per_epoch:
            saver.restore_running_means()
        try:
            while step < per_epoch * epochs and not bool(progress.stopped.numpy()):
                # An epoch that was cut off is finished first; the others follow in one call.
                epoch, done = divmod(step, per_epoch)
                last = epoch + 1 if done else epochs
                # Short steps of small students: our own callbacks are as long.
                quiet = processes.without_log("is slow compared to the batch time")
                with streaming.raising_faults(), quiet:
                    distiller.fit(
                        strategies.share_out(
                            train.dataset(epochs=epochs, start_step=step), strategy
                        ),
                        initial_epoch=epoch,
                        epochs=last,
                        steps_per_epoch=per_epoch - done,
                        callbacks=chain,
                        verbose=0,
                    )
                step = distiller.batches_trained
        finally:
            bar.close()
            callbacks.rename_events(root / _TENSORBOARD)
        restored = monitor is not None and store.restore_best()
        return FitResult(
            steps=step,
            seconds=float(progress.seconds.numpy()),
            best_metric=float(progress.best.numpy()) if restored else None,
            best_epoch=int(progress.best_epoch.numpy()) + 1 if restored else None,
        )
