"""The students of a run: variants of stages, sharing every prefix that they have in common."""

from __future__ import annotations

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import safetensors.numpy
import tensorflow as tf
import tf_keras as keras

from tfdistill import config, distillers, errors, files, models, training, weights
from tfdistill.data import batches, vocab
from tfdistill.distillers import base
from tfdistill.run import prepare
from tfdistill.run import teacher as teachers

STUDENT, PROJECTION = "student.safetensors", "projection.safetensors"


class Teachers:
    """The teachers of a run, loaded when the first stage needs them.

    Args:
      task: Returns the fine-tuned classifier.
      general: Returns the encoder before fine-tuning.
      dtype: "float32" or "bfloat16": the arithmetic of the teachers' forward passes.
      cache: Where their logits are kept.
    """

    def __init__(
        self,
        task: Callable[[], keras.Model],
        general: Callable[[], keras.Model],
        *,
        dtype: str,
        cache: pathlib.Path,
    ):
        """Keeps the loaders; nothing is loaded yet."""
        self.cache = cache
        self._load = {"task": functools.cache(task), "general": functools.cache(general)}
        self._forward = {
            which: functools.cache(lambda load=load: models.with_policy(load(), dtype))
            for which, load in self._load.items()
        }

    def in_float32(self, kind: config.StageKind) -> keras.Model:
        """The teacher of a stage, for its weights."""
        return self._load["general" if kind == "general" else "task"]()

    def for_stage(self, kind: config.StageKind) -> keras.Model:
        """The teacher of a stage in the chosen arithmetic, for its forward passes."""
        return self._forward["general" if kind == "general" else "task"]()


def stage_folder(
    root: pathlib.Path, recipe: config.Recipe, stages: tuple[str, ...], seed: int
) -> pathlib.Path:
    """Where the stage that ends `stages` keeps its files: shared by variants with this prefix.

    General stages see no task and are trained once, with the first seed, for all seeds.
    """
    if all(recipe.stages[name].kind == "general" for name in stages):
        seed = recipe.seeds[0]
    return root / "stages" / "+".join(stages) / f"seed-{seed}"


def train_stages(
    recipe: config.Recipe,
    stages: tuple[str, ...],
    seed: int,
    prepared: prepare.Prepared,
    teacher: Teachers,
    root: pathlib.Path,
) -> keras.Model:
    """Trains a student through `stages`, reusing the longest prefix that is already trained.

    Args:
      recipe: The recipe.
      stages: Stage names in order.
      seed: Decides initial weights, order and dropout.
      prepared: The data.
      teacher: The teachers.
      root: The run folder.

    Returns:
      The trained classifier.
    """
    folder = stage_folder(root, recipe, stages, seed)
    *earlier, last = stages
    settings = recipe.stages[last]
    if earlier:
        student = train_stages(recipe, tuple(earlier), seed, prepared, teacher, root)
        before = _last_projection(root, recipe, tuple(earlier), seed)
    else:
        student, before = _new_student(recipe, settings, seed, prepared, teacher), None
    if (folder / "result.json").is_file():
        _load_weights(student.weights, folder / STUDENT)
        return student
    distiller, train = _distiller(recipe, last, seed, prepared, teacher, student)
    _start_projections(recipe, distiller, before, student, settings, teacher)
    predict = training.predictor(student)
    watch = settings.kind in ("prediction", "labels")
    keep_best = watch if settings.keep_best is None else settings.keep_best and watch
    result = training.fit(
        distiller,
        train,
        epochs=settings.epochs,
        folder=folder,
        evaluate=(
            (lambda: teachers.dev_metrics(predict(prepared.dev), prepared)) if watch else None
        ),
        monitor=prepared.task.primary_metric if keep_best else None,
        patience=settings.patience,
        description=f"{'+'.join(stages)} seed {seed}",
    )
    _save_weights(student.weights, folder / STUDENT)
    projections = getattr(distiller, "projections", [])
    if projections:
        _save_weights([w for layer in projections for w in layer.weights], folder / PROJECTION)
    files.atomic_write_json(folder / "result.json", dataclasses.asdict(result))
    return student


def stage_records(
    recipe: config.Recipe, stages: tuple[str, ...], seed: int, root: pathlib.Path
) -> list[dict[str, Any]]:
    """The records of every stage that a student went through: name, folder, FitResult fields."""
    records = []
    for count in range(1, len(stages) + 1):
        prefix = stages[:count]
        folder = stage_folder(root, recipe, prefix, seed)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        records.append({"stage": prefix[-1], "folder": str(folder.relative_to(root)), **result})
    return records


def student_shape(settings: config.StudentConfig, vocab_size: int) -> models.EncoderConfig:
    """The student's architecture: its preset, with the sizes that the recipe gives instead."""
    sizes = settings.model_dump(exclude={"preset", "initialise"}, exclude_none=True)
    if "dropout" in sizes:
        sizes["attention_dropout"] = sizes["dropout"]
    return models.preset(settings.preset).replace(vocab_size=vocab_size, **sizes)


def _new_student(
    recipe: config.Recipe,
    first: config.StageConfig,
    seed: int,
    prepared: prepare.Prepared,
    teacher: Teachers,
) -> keras.Model:
    keras.utils.set_random_seed(seed)
    shape = student_shape(recipe.student, prepared.tokenizer.vocab_size)
    start = recipe.student.initialise
    if start not in ("teacher", "random"):
        return _published_student(start, shape, prepared)
    student = models.build_classifier(shape, prepared.task.num_labels)
    # A student that learns from labels alone knows no teacher, not even its embeddings.
    if start == "teacher" and first.kind != "labels":
        training.initialise_from_teacher(student, teacher.in_float32(first.kind))
    return student


def _published_student(
    source: str, shape: models.EncoderConfig, prepared: prepare.Prepared
) -> keras.Model:
    """A student whose encoder comes from a checkpoint, with a fresh head."""
    loaded = weights.load_classifier(
        source, num_labels=prepared.task.num_labels, family=shape.family, new_head=True
    )
    if loaded.vocab_file is not None:
        vocab.check_same_vocabulary(prepared.vocab_file, loaded.vocab_file)
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    found = {name: getattr(loaded.config, name) for name in sizes}
    expected = {name: getattr(shape, name) for name in sizes}
    if found != expected:
        raise errors.ShapeError(
            errors.explain(f"student in {source}", expected, found, "Choose its preset.")
        )
    return loaded.model


def _distiller(
    recipe: config.Recipe,
    name: str,
    seed: int,
    prepared: prepare.Prepared,
    teacher: Teachers,
    student: keras.Model,
) -> tuple[distillers.Distiller, batches.Batches]:
    settings = recipe.stages[name]
    encoded = prepared.corpora[name] if settings.kind == "general" else prepared.train
    options: dict[str, Any] = {
        "batch_size": settings.batch_size,
        "token_budget": settings.token_budget,
        "bucketing": settings.bucketing,
        "max_length": None if settings.bucketing else settings.max_length,
        "seed": seed,
    }
    distiller: distillers.Distiller
    if settings.kind == "labels":
        distiller = distillers.LabelTrainer(student, seed=seed)
    else:
        model = teacher.for_stage(settings.kind)
        distiller = distillers.TinyBertDistiller(
            model,
            student,
            stage=settings.kind,
            layer_map=settings.layer_map,
            projection=settings.projection,
            layer_weights=settings.layer_weights,
            prediction=settings.prediction,
            temperature=settings.temperature,
            reduction=settings.reduction,
            seed=seed,
        )
        if distiller.needs_only_logits() and not prepared.task.regression:
            once = batches.Batches(encoded, batch_size=64, shuffle=False)
            logits = training.cached_logits(model, once, teacher.cache)
            options["extra"] = {base.TEACHER_LOGITS: logits}
    train = batches.Batches(encoded, **options)
    keras.utils.set_random_seed(seed)
    distiller.compile(
        teachers.optimizer_of(settings, train.steps_per_epoch * settings.epochs),
        loss_weights=settings.loss_weights or None,
    )
    return distiller, train


def _start_projections(
    recipe: config.Recipe,
    distiller: distillers.Distiller,
    before: pathlib.Path | None,
    student: keras.Model,
    settings: config.StageConfig,
    teacher: Teachers,
) -> None:
    """Hidden projections go on from the stage before, or start as the teacher's directions."""
    layers = getattr(distiller, "projections", [])
    if not layers:
        return
    variables = [variable for layer in layers for variable in layer.weights]
    if before is not None and _names(variables) == read_weights(before).keys():
        _load_weights(variables, before)
    elif recipe.student.initialise == "teacher":
        training.initialise_projections(layers, student, teacher.in_float32(settings.kind))


def _last_projection(
    root: pathlib.Path, recipe: config.Recipe, stages: tuple[str, ...], seed: int
) -> pathlib.Path | None:
    for count in range(len(stages), 0, -1):
        path = stage_folder(root, recipe, stages[:count], seed) / PROJECTION
        if path.is_file():
            return path
    return None


def _names(variables: Sequence[tf.Variable]) -> dict[str, tf.Variable]:
    return {variable.name.removesuffix(":0"): variable for variable in variables}


def _save_weights(variables: Sequence[tf.Variable], path: pathlib.Path) -> None:
    arrays = {name: variable.numpy() for name, variable in _names(variables).items()}
    with files.atomic_write(path) as temporary:
        safetensors.numpy.save_file(arrays, temporary)


def read_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The weights that a stage ended with: variable name -> array."""
    return safetensors.numpy.load_file(path)


def _load_weights(variables: Sequence[tf.Variable], path: pathlib.Path) -> None:
    arrays = read_weights(path)
    for name, variable in _names(variables).items():
        variable.assign(arrays[name])
