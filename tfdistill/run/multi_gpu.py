"""A run over several devices or machines: what can be known to be wrong before it begins."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from tfdistill import config, errors, files
from tfdistill.run import folder
from tfdistill.training import multi_worker, strategies


@contextlib.contextmanager
def open_run(
    recipe: config.Recipe,
    out: files.Path,
    devices: int | None,
    *,
    resume: bool,
    overwrite: bool,
    cluster: bool = False,
) -> Iterator[tuple[folder.RunFolder, tf.distribute.Strategy | None]]:
    """Chooses the strategy of a run, checks that its batches fit, and takes the run folder.

    Of several workers each gets a folder of its own, and the chief's is kept.

    Args:
      recipe: The recipe, whose batches are shared out.
      out: The run folder.
      devices: As for `strategies.choose`.
      resume: As for `folder.RunFolder.open`.
      overwrite: The same.
      cluster: Whether the workers of TF_CONFIG may share the work.

    Yields:
      The folder, and the strategy, None for one device.

    Raises:
      ConfigError: If there are not so many devices, a stage needs one, a batch cannot be shared
        out evenly, the folder does not fit, or there is a cluster that may not share the work.
      OutputExistsError: If the folder is not free.
      EnvironmentFault: If another worker goes away.
    """
    if not cluster:
        strategies.refuse_cluster(
            "a whole run or search",
            "It exports and measures as well. Train with `tfdistill finetune` and `distill` on the "
            "workers, and export on one machine.",
        )
    strategy = strategies.choose(devices)
    if strategy is not None:
        _check_stages(recipe, strategy.num_replicas_in_sync)
    strategies.check_batch_sizes(_batch_sizes(recipe), strategy)
    with multi_worker.working_folder(out, strategy) as own:
        opened = folder.RunFolder(own, strategies.devices_of(strategy))
        with opened.open(recipe, resume=resume, overwrite=overwrite):
            yield opened, strategy


def _check_stages(recipe: config.Recipe, replicas: int) -> None:
    """Refuses what would be another computation on several devices."""
    for name, stage in recipe.used_stages.items():
        if stage.compress is not None and stage.compress.method == "quantize":
            raise errors.ConfigError(
                f"stages.{name}.compress",
                "one device: the ranges of activations are those of whole batches",
                f"{replicas} devices",
                "Use --gpus 1.",
            )


def _batch_sizes(recipe: config.Recipe) -> dict[str, int]:
    """The global batches of all that a recipe trains, by the names of the options."""
    sizes = {f"stages.{name}.batch_size": s.batch_size for name, s in recipe.used_stages.items()}
    teacher = recipe.teacher
    for name, settings in (("finetune", teacher.finetune), ("pretrain", teacher.pretrain)):
        if settings is not None:
            sizes[f"teacher.{name}.batch_size"] = settings.batch_size
    return sizes
