"""Carries out a knowledge transfer, stage after stage, resumable at any moment."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
import tf_keras as keras

from tfdistill import distillers, errors
from tfdistill.data.streaming import StepRange, TrainingBatches
from tfdistill.io import files, reading
from tfdistill.losses import methods
from tfdistill.results import FitResult, read_finished, read_result_file, write_result_file
from tfdistill.training import multi_worker, transfer, variables
from tfdistill.training.fit import fit

FORMAT_VERSION = 1
PLAN, START, WEIGHTS, RESULT = (
    "plan.json",
    "start.safetensors",
    "weights.safetensors",
    "result.json",
)
_REMEDY = f"Delete {RESULT} next to it and resume, or take the student of the first call."


def run_transfer(
    stages: Sequence[transfer.TransferStage],
    teacher: keras.Model,
    student: keras.Model,
    train: TrainingBatches,
    folder: files.Path,
    *,
    optimizer: Callable[
        [transfer.TransferStage, int], keras.optimizers.Optimizer
    ] = transfer.published_optimizer,
    loss_weights: Mapping[str, float] | None = None,
    distiller_options: Mapping[str, Any] | None = None,
    compile_options: Mapping[str, Any] | None = None,
    gradient_accumulation: int = 1,
    seed: int = 0,
    evaluate: Callable[[], Mapping[str, float]] | None = None,
    checkpoint_seconds: float | None = None,
    description: str = "",
    extra_callbacks: tuple[keras.callbacks.Callback, ...] = (),
) -> tuple[FitResult, ...]:
    """Carries out stages one after the other; killed at any moment, it resumes when called again.

    Each stage is a `fit` in a folder of its own, ``<number>-<name>``, with a fresh optimizer. It
    starts from the weights that the stage before it ended with, and takes the batches that follow
    those of the stage before it. The weights that the student came with are kept as well, so that
    a second call does not depend on how its student starts.

    Args:
      stages: From `transfer_stages`.
      teacher: As for `MobileBertDistiller`.
      student: Trained in place.
      train: The batches; masked ones where words are predicted.
      folder: Gets the stages' folders and what a resume needs.
      optimizer: Makes the optimizer of a stage, given the number of its optimizer steps.
      loss_weights: Weights by term; each stage takes those of its own terms.
      distiller_options: More options of `MobileBertDistiller`: attention, reduction, ...
      compile_options: More options of `compile`: run_eagerly, jit_compile, ...
      gradient_accumulation: Batches of an optimizer step.
      seed: Seed of the dropout masks.
      evaluate: Returns development metrics, for the history.
      checkpoint_seconds: As for `fit`.
      description: Shown in front of the stage's name in the progress bar.
      extra_callbacks: Keras callbacks of your own.

    Returns:
      The result of each stage.

    Raises:
      ConfigError: If `folder` holds another list of stages, or an option does not fit.
      ShapeError: If teacher and student cannot be compared.
      NonFiniteLossError: If a loss or a weight is NaN or infinite.
      WeightsError: If a checkpoint cannot be written or read.

    Examples:
      >>> student = tfdistill.load_teacher("teacher", task=data.task)  # as deep and as wide
      >>> stages = tfdistill.transfer_stages("jkt", num_layers=4, transfer_steps=2)
      >>> results = tfdistill.run_transfer(stages, teacher, student, data.train, "runs/jkt")
      >>> [result.steps for result in results]
      [2]
    """
    _check_terms(loss_weights or {})
    with multi_worker.working_folder(folder, tf.distribute.get_strategy()) as root:
        _open(root, stages, student)
        results = []
        weights, done = root / START, 0
        for index, stage in enumerate(stages):
            where = root / f"{index:02d}-{stage.name}"
            steps = stage.num_batches(train.steps_per_epoch)
            if read_finished(where / RESULT, FitResult) is None:
                variables.load(student.weights, weights, remedy=_REMEDY)
                distiller = distillers.MobileBertDistiller(
                    teacher,
                    student,
                    layers=stage.layers,
                    predict_words=stage.predict_words,
                    seed=1000 * seed + index,
                    **(distiller_options or {}),
                )
                distiller.compile(
                    optimizer(stage, steps // gradient_accumulation),
                    loss_weights={
                        term: weight
                        for term, weight in (loss_weights or {}).items()
                        if term in distiller.terms
                    },
                    gradient_accumulation=gradient_accumulation,
                    lr_multipliers=stage.rates,
                    **(compile_options or {}),
                )
                part = StepRange(train, start=done, steps=steps)
                result = fit(
                    distiller,
                    part,
                    epochs=part.parts,
                    folder=where,
                    evaluate=evaluate,
                    checkpoint_seconds=checkpoint_seconds,
                    description=f"{description} {stage.name}".strip(),
                    extra_callbacks=extra_callbacks,
                )
                variables.save(student.weights, where / WEIGHTS)
                write_result_file(result, where / RESULT)
            # The weights are all that a later stage needs; two dozen optimizers fill a disk.
            shutil.rmtree(where / "checkpoints", ignore_errors=True)
            results.append(read_result_file(where / RESULT, FitResult))
            weights, done = where / WEIGHTS, done + steps
        variables.load(student.weights, weights, remedy=_REMEDY)
        return tuple(results)


def _check_terms(loss_weights: Mapping[str, float]) -> None:
    terms = (*methods.TRANSFER_WEIGHTS, *methods.WORD_WEIGHTS)
    for term in loss_weights:
        if term not in terms:
            raise errors.ConfigError(
                "loss_weights",
                f"terms among {', '.join(terms)}",
                repr(term),
                errors.nearest(term, terms),
            )


def _open(
    folder: pathlib.Path, stages: Sequence[transfer.TransferStage], student: keras.Model
) -> None:
    """Begins a folder, or makes sure that it was begun with the same stages."""
    plan = {
        "format_version": FORMAT_VERSION,
        "stages": [dataclasses.asdict(stage) for stage in stages],
    }
    plan = json.loads(json.dumps(plan))  # tuples become lists, as they come back from a file
    if not plan["stages"] or len({stage["name"] for stage in plan["stages"]}) < len(stages):
        raise errors.ConfigError(
            "stages", "at least one, each with a name of its own", list(stages)
        )
    if not (folder / PLAN).is_file():
        variables.save(
            student.weights, folder / START
        )  # before the plan, which says that all is there
        files.atomic_write_json(folder / PLAN, plan)
        return
    saved = reading.read_json_object(folder / PLAN, error=errors.ConfigError)
    if saved != plan:
        raise errors.ConfigError(
            f"stages in {folder}",
            f"those in {PLAN}, {[stage['name'] for stage in saved['stages']]}",
            [stage.name for stage in stages],
            "Choose another folder, or the strategy and lengths of the first call.",
        )
