"""What a stage of a recipe is made of: its rate and temperature, its batches, its fit."""

from __future__ import annotations

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import tf_keras as keras

from tfdistill import analysis, config, models, results, training
from tfdistill.config import rates
from tfdistill.data import streaming
from tfdistill.run import soft_labels, teachers
from tfdistill.run.context import RunContext
from tfdistill.run.stage_batches import stage_batches
from tfdistill.run.stage_distillers import DistilledPair, distiller_of
from tfdistill.training import optimizers

_log = logging.getLogger(__name__)

_WATCHED_EVERY = 50  # steps of a joint stage, at least: evaluations cost as much as training


def joint_rate(shape: models.EncoderConfig | models.BiLstmConfig | models.StaticConfig) -> float:
    """The learning rate of a joint stage, by the width of the student."""
    if isinstance(shape, models.StaticConfig):
        return rates.STATIC
    return rates.joint(shape.hidden_size)


def _resolved(
    stage: config.PrunedStage,
    context: RunContext,
    teacher: teachers.Teacher | None,
    student: keras.Model,
    kept: tuple[int, ...] | None,
) -> config.PrunedStage:
    """Chooses rate, temperature and layers where the recipe leaves them open.

    A pruned student is compared at the teacher layers that it was cut from (`kept`).
    """
    rate = stage.learning_rate or joint_rate(models.config_of(student))
    chosen: dict[str, Any] = {"learning_rate": rate}
    if isinstance(stage, config.JointStage) and stage.temperature is None and teacher is not None:
        chosen["temperature"] = _sharpening(context, teacher)
    if kept is not None and stage.layer_map == "uniform":
        chosen["layer_map"] = kept
    return stage.model_copy(update=chosen)


def _sharpening(context: RunContext, teacher: teachers.Teacher) -> float:
    """1, or the temperature that calibrates a teacher whose answers are nearly uniform."""
    itself = not context.teachers.knows(teacher)  # a student that compresses reads its own tokens
    data = context.student_task_data if itself else context.task_data
    if not data.task.traits.exclusive:
        return 1.0
    dev = data.dev
    if isinstance(teacher, soft_labels.SoftLabels):
        logits, dev = teacher.dev, teacher.dev_set(data.dev)
    else:
        logits = training.predict_logits(teacher, dev)
    labels = analysis.gold_labels(dev.encoded)
    logits, labels = logits[labels >= 0], labels[labels >= 0]  # of words their first pieces
    share = analysis.entropy_share(logits)
    if share < analysis.NEARLY_UNIFORM:
        return 1.0
    temperature = min(analysis.fit_temperature(logits, labels), 1.0)
    _log.info(
        f"The teacher's answers are nearly uniform (mean entropy {share:.0%} of the largest): they "
        f"are sharpened with the temperature {temperature:.2f}, fitted on the development set."
    )
    return temperature


@dataclasses.dataclass(frozen=True)
class StageJob:
    """A stage that is ready to be trained.

    Attributes:
      run: Trains in a folder, resumable; the text is shown in front of the progress bar.
      projections: The layers that map the student's states to the teacher's width.
    """

    run: Callable[[pathlib.Path, str], results.FitResult]
    projections: Sequence[keras.layers.Layer] = ()


def build_stage(
    context: RunContext,
    name: str,
    seed: int,
    student: keras.Model,
    teacher: keras.Model | None = None,
    kept: tuple[int, ...] | None = None,
) -> StageJob:
    """Builds the distiller and the batches of a stage.

    Args:
      context: The run.
      name: The stage.
      seed: Seed of order, masks and dropout.
      student: The student, with the head that the stage trains.
      teacher: The model that the stage learns from, as wide as the student, where it is none of
        the run's teachers.
      kept: The teacher layers that a pruned student was cut from.

    Returns:
      What trains it.
    """
    stage = context.recipe.stages[name]
    if isinstance(stage, config.MobileBertStage):
        return _transfer(stage, context, name, seed, student)
    keras.utils.set_random_seed(seed)
    if teacher is None:
        teacher = context.teachers.for_stage(stage)
    elif isinstance(stage, config.LayerOptions):
        stage = stage.model_copy(update={"projection": "none"})
    if isinstance(stage, config.PrunedStage):
        stage = _resolved(stage, context, teacher, student, kept)
    task = context.data.task
    pair = DistilledPair(
        teacher,
        student,
        seed,
        head=None if task is None else task.head,
        regression=task is not None and task.num_labels == 1,
        same_tokens=context.own_tokens is None or not context.teachers.knows(teacher),
    )
    distiller = distiller_of(stage, pair)
    if isinstance(stage, config.TaskStage) and not stage.on_corpus:
        weights = context.student_task_data.class_weights
        if weights is not None:
            distiller.weigh_classes(weights)
    train = stage_batches(context, stage, name, seed, distiller)
    epochs = stage.num_epochs(train.steps_per_epoch)
    if stage.steps is not None:
        parts = streaming.MOST_PARTS
        if isinstance(stage, config.JointStage):
            parts = min(parts, max(1, stage.steps // _WATCHED_EVERY))
        train = training.StepRange(train, start=0, steps=stage.steps, most_parts=parts)
        epochs = train.parts
    keras.utils.set_random_seed(seed)
    updates = train.steps_per_epoch * epochs // stage.gradient_accumulation
    distiller.compile(
        optimizers.build(stage, updates),
        loss_weights=stage.loss_weights or None,
        gradient_accumulation=stage.gradient_accumulation,
    )
    fit = functools.partial(training.fit, distiller, train, epochs=epochs)
    if isinstance(stage, config.ClassifierStage) and stage.trains_classifier:
        data = context.student_task_data
        pruning = isinstance(stage.compress, config.PruneConfig)
        keep = stage.keep_best is not False and not pruning
        fit = functools.partial(
            fit,
            evaluate=teachers.watcher(student, data),
            monitor=data.task.primary_metric if keep else None,
            patience=stage.patience,
            min_steps=stage.min_steps,
        )
    return StageJob(
        lambda folder, description: fit(folder=folder, description=description),
        getattr(distiller, "projections", ()),
    )


def _transfer(
    stage: config.MobileBertStage,
    context: RunContext,
    name: str,
    seed: int,
    student: keras.Model,
) -> StageJob:
    """MobileBERT's fits, one after the other in folders of their own."""
    teacher = context.teachers.for_stage(stage)
    assert teacher is not None
    train = stage_batches(context, stage, name, seed)
    auxiliary = stage.strategy == "akt"
    by_steps = stage.transfer_steps is not None
    parts = training.transfer_stages(
        stage.strategy,
        num_layers=models.config_of(student).num_layers,
        transfer_steps=None if auxiliary else stage.transfer_steps,
        transfer_epochs=None if auxiliary or by_steps else stage.transfer_epochs,
        steps=stage.steps,
        epochs=None if stage.steps is not None else stage.epochs,
        earlier=stage.earlier,
    )
    constant = {
        "learning_rate": stage.transfer_learning_rate or stage.learning_rate,
        "end_learning_rate": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
    }

    def optimizer(part: training.TransferStage, steps: int) -> keras.optimizers.Optimizer:
        settings = stage if part.predict_words else stage.model_copy(update=constant)
        return optimizers.build(settings, steps)

    def run(folder: pathlib.Path, description: str) -> results.FitResult:
        keras.utils.set_random_seed(seed)
        done = training.run_transfer(
            parts,
            teacher,
            student,
            train,
            folder,
            optimizer=optimizer,
            loss_weights=stage.loss_weights or None,
            gradient_accumulation=stage.gradient_accumulation,
            seed=seed,
            description=description,
        )
        return results.FitResult(
            steps=sum(result.steps for result in done),
            seconds=sum(result.seconds for result in done),
        )

    return StageJob(run)
