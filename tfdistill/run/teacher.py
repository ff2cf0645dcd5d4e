"""The teacher of a run: loaded, fitted to the task's labels, fine-tuned, checked."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import config, distillers, models, training, weights
from tfdistill.data import batches, vocab
from tfdistill.data import metrics as task_metrics
from tfdistill.run import prepare

PRESET = "preset:"


def general_teacher(
    recipe: config.Recipe, load_task_teacher: Callable[[], keras.Model]
) -> keras.Model:
    """The teacher before fine-tuning, which general stages learn from.

    A teacher that starts from a preset knows nothing before it is fine-tuned: then it is the
    fine-tuned one.
    """
    if recipe.teacher.source.startswith(PRESET):
        return load_task_teacher()
    return weights.load_encoder(recipe.teacher.source)


def task_teacher(
    recipe: config.Recipe, prepared: prepare.Prepared, folder: pathlib.Path
) -> tuple[keras.Model, dict[str, Any]]:
    """Loads or fine-tunes the teacher of the task and measures it.

    Args:
      recipe: The recipe.
      prepared: Its data.
      folder: Gets checkpoints and history of the fine-tuning.

    Returns:
      The classifier, and {"metrics", "train_seconds", "steps"}.

    Raises:
      TeacherError: If it answers near chance.
      VocabularyError: If its vocabulary is not that of the data.
      WeightsError: If its checkpoint cannot be read.
    """
    keras.utils.set_random_seed(recipe.seeds[0])
    model = load_task_teacher(
        recipe.teacher.source, prepared, fresh_head=recipe.teacher.finetune is not None
    )
    result = training.FitResult(0, 0.0, None, None)
    if recipe.teacher.finetune is not None:
        result = finetune(
            model,
            prepared,
            recipe.teacher.finetune,
            folder,
            seed=recipe.seeds[0],
            description="teacher",
        )
    metrics = training.evaluate(model, prepared.dev, prepared.task)
    training.check_teacher(
        metrics,
        prepared.task,
        training.gold_labels(prepared.dev),
        allow_weak=recipe.teacher.allow_weak,
    )
    return model, {
        "metrics": metrics,
        "train_seconds": result.seconds,
        "steps": result.steps,
    }


def load_task_teacher(
    source: str, prepared: prepare.Prepared, *, fresh_head: bool = False
) -> keras.Model:
    """Loads a classifier whose outputs are the task's labels, in the task's order.

    Args:
      source: A Hugging Face folder or hub id, or ``preset:NAME``.
      prepared: Names the labels and the vocabulary.
      fresh_head: Whether a head may start at random (it will be fine-tuned).

    Returns:
      The classifier.
    """
    outputs = prepared.task.num_labels
    if source.startswith(PRESET):
        shape = models.preset(source.removeprefix(PRESET))
        shape = shape.replace(vocab_size=prepared.tokenizer.vocab_size)
        return models.build_classifier(shape, outputs)
    if fresh_head:
        loaded = weights.load_classifier(source, num_labels=outputs, new_head=True)
    else:
        loaded = weights.load_classifier(source)
    if loaded.vocab_file is not None:
        vocab.check_same_vocabulary(loaded.vocab_file, prepared.vocab_file)
    if not fresh_head:
        training.align_labels(loaded.model, loaded.labels, prepared.task)
    return loaded.model


def finetune(
    model: keras.Model,
    prepared: prepare.Prepared,
    settings: config.FineTuneConfig,
    folder: pathlib.Path,
    *,
    seed: int,
    description: str,
) -> training.FitResult:
    """Trains a classifier on the task's gold labels, resumable; keeps the best epoch if asked."""
    train = batches.Batches(
        prepared.train,
        batch_size=settings.batch_size,
        token_budget=settings.token_budget,
        seed=seed,
    )
    trainer = distillers.LabelTrainer(model, seed=seed)
    trainer.compile(optimizer_of(settings, train.steps_per_epoch * settings.epochs))
    predict = training.predictor(model)
    return training.fit(
        trainer,
        train,
        epochs=settings.epochs,
        folder=folder,
        evaluate=lambda: dev_metrics(predict(prepared.dev), prepared),
        monitor=prepared.task.primary_metric if settings.keep_best else None,
        description=description,
    )


def dev_metrics(logits: np.ndarray, prepared: prepare.Prepared) -> dict[str, float]:
    """The task's metrics of logits over the development set."""
    return task_metrics.compute_metrics(prepared.task, logits, training.gold_labels(prepared.dev))


def optimizer_of(settings: config.OptimizerConfig, total_steps: int) -> keras.optimizers.Optimizer:
    """The optimizer of a fine-tuning or a stage."""
    return training.adamw(
        settings.learning_rate,
        total_steps=total_steps,
        schedule=settings.schedule,
        warmup=settings.warmup,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        clip_norm=settings.clip_norm,
    )
