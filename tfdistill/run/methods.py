"""What a stage of a recipe is made of: the distiller of its method, and its batches."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import tf_keras as keras

from tfdistill import config, distillers, models, training
from tfdistill.data import batches
from tfdistill.distillers import base
from tfdistill.run import prepare
from tfdistill.run import teacher as teachers


@dataclasses.dataclass(frozen=True)
class Lesson:
    """A compiled distiller and what it learns from.

    Attributes:
      distiller: Compiled; None where the stage is more than one fit.
      train: Its batches.
      epochs: How often it sees them.
      answers: Whether the student answers the task, so that its metrics can be watched.
      transfer: Runs the stage in a folder, where it is more than one fit.
    """

    distiller: distillers.Distiller | None
    train: training.TrainingBatches
    epochs: int
    answers: bool = False
    transfer: Callable[[pathlib.Path, str], training.FitResult] | None = None


def lesson(
    recipe: config.Recipe,
    name: str,
    seed: int,
    prepared: prepare.Texts,
    teacher: teachers.Teachers,
    student: keras.Model,
    own_teacher: keras.Model | None = None,
) -> Lesson:
    """Builds the distiller and the batches of a stage.

    Args:
      recipe: The recipe.
      name: The stage.
      seed: Seed of order, masks and dropout.
      prepared: The data.
      teacher: The teachers.
      student: The student, with the head that the stage trains.
      own_teacher: The teacher of this stage, where it is not one of `teacher`.

    Returns:
      What `training.fit` needs.
    """
    settings = recipe.stages[name]
    if settings.kind == "mobilebert":
        return _transfer(settings, name, seed, prepared, teacher, student)
    keras.utils.set_random_seed(seed)
    model = _teacher(settings, teacher, own_teacher)
    if own_teacher is not None:  # as wide as the student, state by state
        settings = settings.model_copy(update={"projection": "none"})
    distiller = _distiller(settings, seed, prepared, model, student)
    train = _batches(settings, name, seed, prepared, distiller, teacher)
    epochs = settings.epochs
    if settings.steps is not None:
        train = training.Stretch(train, start=0, steps=settings.steps)
        epochs = train.parts
    keras.utils.set_random_seed(seed)
    distiller.compile(
        teachers.optimizer_of(
            settings, train.steps_per_epoch * epochs // settings.gradient_accumulation
        ),
        loss_weights=settings.loss_weights or None,
        gradient_accumulation=settings.gradient_accumulation,
    )
    return Lesson(
        distiller,
        train,
        epochs,
        answers=not settings.on_corpus and settings.kind not in ("intermediate", "relations"),
    )


def num_batches(settings: config.StageConfig, name: str, seed: int, prepared: prepare.Texts) -> int:
    """Counts the batches of a stage on the task."""
    if settings.steps is not None:
        return settings.steps
    return _batches(settings, name, seed, prepared).steps_per_epoch * settings.epochs


def _teacher(
    settings: config.StageConfig, teacher: teachers.Teachers, own_teacher: keras.Model | None
) -> keras.Model | None:
    """The teacher of a stage, or None where it learns without one."""
    if settings.kind in ("labels", "mlm"):
        return None
    return teacher.for_stage(settings) if own_teacher is None else own_teacher


def _transfer(
    settings: config.StageConfig,
    name: str,
    seed: int,
    prepared: prepare.Texts,
    teacher: teachers.Teachers,
    student: keras.Model,
) -> Lesson:
    """MobileBERT's stages, one after the other in folders of their own."""
    model = teacher.for_stage(settings)
    train = prepared.corpora[name].masked(settings, seed, predict="masked")
    by_steps = settings.transfer_steps is not None
    auxiliary = settings.strategy == "akt"
    stages = training.transfer_stages(
        settings.strategy,
        num_layers=models.config_of(student).num_layers,
        transfer_steps=None if auxiliary else settings.transfer_steps,
        transfer_epochs=None if auxiliary or by_steps else settings.transfer_epochs,
        steps=settings.steps,
        epochs=None if settings.steps is not None else settings.epochs,
        earlier=settings.earlier,
    )

    def optimizer(stage: training.TransferStage, steps: int) -> keras.optimizers.Optimizer:
        if stage.predict_words:
            return teachers.optimizer_of(settings, steps)
        rate = settings.transfer_learning_rate or settings.learning_rate
        constant = {
            "learning_rate": rate,
            "end_learning_rate": 0.0,
            "schedule": "constant",
            "warmup": 0.0,
        }
        return teachers.optimizer_of(settings.model_copy(update=constant), steps)

    def run(folder: pathlib.Path, description: str) -> training.FitResult:
        keras.utils.set_random_seed(seed)
        results = training.run_transfer(
            stages,
            model,
            student,
            train,
            folder,
            optimizer=optimizer,
            loss_weights=settings.loss_weights or None,
            gradient_accumulation=settings.gradient_accumulation,
            seed=seed,
            description=description,
        )
        return training.FitResult(
            steps=sum(result.steps for result in results),
            seconds=sum(result.seconds for result in results),
            best_metric=None,
            best_epoch=None,
        )

    return Lesson(None, train, epochs=0, transfer=run)


def _distiller(
    settings: config.StageConfig,
    seed: int,
    prepared: prepare.Texts,
    model: keras.Model | None,
    student: keras.Model,
) -> distillers.Distiller:
    kind = settings.kind
    head = prepared.task.head if isinstance(prepared, prepare.Prepared) else None
    if kind == "labels":
        return distillers.LabelTrainer(student, head=head, seed=seed)
    if kind == "mlm":
        return distillers.MaskedLmTrainer(student, seed=seed)
    assert model is not None
    if kind == "distilbert":
        return distillers.DistilBertDistiller(
            model, student, temperature=settings.temperature, seed=seed
        )
    if kind == "relations":
        return distillers.MiniLmDistiller(
            model,
            student,
            teacher_layer=-1 if settings.teacher_layer is None else settings.teacher_layer,
            num_relation_heads=settings.relation_heads,
            reduction=settings.reduction,
            seed=seed,
        )
    if kind == "combination":
        return distillers.CombinationDistiller(model, student, terms=settings.terms, seed=seed)
    regression = isinstance(prepared, prepare.Prepared) and prepared.task.num_labels == 1
    objective = "logit_mse" if regression else settings.prediction
    if kind == "logits":
        return distillers.LogitDistiller(
            model,
            student,
            objective=objective,
            temperature=settings.temperature,
            scale_by_t2=settings.scale_by_t2,
            head=head,
            seed=seed,
        )
    if kind == "patient":
        chosen = settings.layer_map
        return distillers.PatientDistiller(
            model,
            student,
            layer_map="skip" if chosen == "uniform" else chosen,
            projection="none" if _same_width(model, student) else "per_layer",
            temperature=settings.temperature,
            objective=objective,
            head=head,
            seed=seed,
        )
    assert kind in ("general", "intermediate", "prediction")
    return distillers.TinyBertDistiller(
        model,
        student,
        stage=kind,
        layer_map=settings.layer_map,
        projection=settings.projection,
        layer_weights=settings.layer_weights,
        prediction=settings.prediction,
        temperature=settings.temperature,
        reduction=settings.reduction,
        head=head,
        seed=seed,
    )


def _same_width(teacher: keras.Model, student: keras.Model) -> bool:
    return models.config_of(teacher).hidden_size == models.config_of(student).hidden_size


def _batches(
    settings: config.StageConfig,
    name: str,
    seed: int,
    prepared: prepare.Texts,
    distiller: distillers.Distiller | None = None,
    teacher: teachers.Teachers | None = None,
) -> training.TrainingBatches:
    """The batches of a stage; with distiller and teacher they bring the teacher's logits along."""
    if settings.on_corpus:
        text = prepared.corpora[name]
        if settings.kind == "mlm":
            return text.masked(settings, seed, predict="masked")
        if settings.kind == "distilbert":
            return text.masked(settings, seed, predict="all")
        return text.batches(settings, seed)
    assert isinstance(prepared, prepare.Prepared)
    encoded = prepared.augmented if settings.augmented else prepared.train
    assert encoded is not None
    extra: dict[str, Any] = {}
    # A regression learns from gold numbers; of a head over tokens every token has an answer.
    cacheable = prepared.task.num_labels > 1
    model = None if distiller is None or not distiller.needs_only_logits() else distiller.teacher
    if model is not None and teacher is not None and cacheable:
        logits = teacher.answers(model, encoded)
        of_tokens = prepared.task.head in ("token", "span")
        extra["token_extra" if of_tokens else "extra"] = {base.TEACHER_LOGITS: logits}
    return batches.Batches(
        encoded,
        batch_size=settings.batch_size,
        token_budget=settings.token_budget,
        bucketing=settings.bucketing,
        max_length=None if settings.bucketing else settings.max_length,
        seed=seed,
        **extra,
    )
