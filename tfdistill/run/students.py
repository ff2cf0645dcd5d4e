"""The students of a run: variants of stages, sharing every prefix that they have in common."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors.numpy
import tensorflow as tf
import tf_keras as keras

from tfdistill import config, errors, files, models, results, training, weights
from tfdistill.data import vocab
from tfdistill.run import compression, methods, prepare
from tfdistill.run import teacher as teachers

STUDENT, PROJECTION, MASKED = (
    "student.safetensors",
    "projection.safetensors",
    "masked_lm.safetensors",
)


@dataclasses.dataclass
class Student:
    """A student on its way through the stages.

    Attributes:
      model: What the run delivers: a classifier, or an encoder where there is no task.
      masked_lm: The same encoder under a head for masked words, once a stage needed one.
    """

    model: keras.Model
    masked_lm: keras.Model | None = None

    def with_words(self, *, next_sentence: bool) -> keras.Model:
        """The masked language model that starts as the student is now."""
        if self.masked_lm is None:
            shape = models.config_of(self.model)
            self.masked_lm = models.build_masked_lm(shape, next_sentence=next_sentence)
        models.copy_encoder(self.model, self.masked_lm)
        return self.masked_lm


def stage_folder(
    root: pathlib.Path, recipe: config.Recipe, stages: tuple[str, ...], seed: int
) -> pathlib.Path:
    """Where the stage that ends `stages` keeps its files: shared by variants with this prefix.

    Stages on plain text see no task and are trained once, with the first seed, for all seeds.
    """
    if recipe.data.task is not None and all(recipe.stages[name].on_corpus for name in stages):
        seed = recipe.seeds[0]
    return root / "stages" / "+".join(stages) / f"seed-{seed}"


def train_stages(
    recipe: config.Recipe,
    stages: tuple[str, ...],
    seed: int,
    prepared: prepare.Texts,
    teacher: teachers.Teachers,
    root: pathlib.Path,
) -> Student:
    """Trains a student through `stages`, reusing the longest prefix that is already trained.

    Args:
      recipe: The recipe.
      stages: Stage names in order.
      seed: Decides initial weights, order and dropout.
      prepared: The data.
      teacher: The teachers.
      root: The run folder.

    Returns:
      The trained student.
    """
    folder = stage_folder(root, recipe, stages, seed)
    *earlier, last = stages
    settings = recipe.stages[last]
    if earlier:
        student = train_stages(recipe, tuple(earlier), seed, prepared, teacher, root)
        before = _last_projection(root, recipe, tuple(earlier), seed)
    else:
        student, before = _new_student(recipe, settings, seed, prepared, teacher), None
    masked = settings.kind in config.MASKED_KINDS
    trained = student.model
    if masked:
        trained = student.with_words(next_sentence=settings.next_sentence)
        if not earlier and settings.kind != "mlm":
            _start_words(recipe, trained, teacher)
    done = (folder / "result.json").is_file()
    compressing, own_teacher = settings.compress, None
    if compressing is not None and not done:
        own_teacher = compression.own_teacher(compressing, student.model)
        total_steps = methods.num_batches(settings, last, seed, prepared)
        trained = compression.begin(compressing, student.model, total_steps)
    if not done:
        lesson = methods.lesson(recipe, last, seed, prepared, teacher, trained, own_teacher)
        projections = getattr(lesson.distiller, "projections", [])
        _start_projections(recipe, projections, before, student.model, settings, teacher)
        result = _fit(lesson, settings, folder, prepared, f"{'+'.join(stages)} seed {seed}")
        if compressing is not None:
            trained = student.model = compression.finish(trained)
        _save_weights(trained.weights, folder / (MASKED if masked else STUDENT))
        if projections:
            _save_weights([w for layer in projections for w in layer.weights], folder / PROJECTION)
        results.write_result_file(result, folder / "result.json")
    else:
        if compressing is not None:
            trained = student.model = compression.restart(compressing, student.model)
        _load_weights(trained.weights, folder / (MASKED if masked else STUDENT))
    if masked:
        models.copy_encoder(trained, student.model)
    return student


def stage_records(
    recipe: config.Recipe, stages: tuple[str, ...], seed: int, root: pathlib.Path
) -> list[dict[str, Any]]:
    """The records of every stage that a student went through: name, folder, FitResult fields."""
    records = []
    for count in range(1, len(stages) + 1):
        prefix = stages[:count]
        folder = stage_folder(root, recipe, prefix, seed)
        result = results.read_result_file(folder / "result.json", results.FitResult)
        where = str(folder.relative_to(root))
        records.append({"stage": prefix[-1], "folder": where, **result.model_dump()})
    return records


def histories(record: dict[str, Any], root: pathlib.Path) -> list[dict[str, str]]:
    """Where the loss curves of a stage lie: one file, or one for each part of a transfer."""
    folder = root / record["folder"]
    files_found = [folder / "history.csv"]
    if not files_found[0].is_file():
        files_found = sorted(folder.glob("*/history.csv"))
    return [
        {
            "stage": record["stage"]
            if path.parent == folder
            else f"{record['stage']} {path.parent.name}",
            "csv": str(path.relative_to(root)),
        }
        for path in files_found
    ]


def student_shape(settings: config.StudentConfig, vocab_size: int) -> models.EncoderConfig:
    """The student's architecture: its preset, with the sizes that the recipe gives instead."""
    return teachers.shape_of(settings.preset, settings, vocab_size)


def _fit(
    lesson: methods.Lesson,
    settings: config.StageConfig,
    folder: pathlib.Path,
    prepared: prepare.Texts,
    description: str,
) -> training.FitResult:
    if lesson.transfer is not None:
        return lesson.transfer(folder, description)
    assert lesson.distiller is not None
    evaluate, monitor = None, None
    if lesson.answers and isinstance(prepared, prepare.Prepared):
        evaluate = teachers.watcher(lesson.distiller.student, prepared)
        pruning = settings.compress is not None and settings.compress.method == "prune"
        if settings.keep_best is not False and not pruning:  # early epochs have few zeros
            monitor = prepared.task.primary_metric
    return training.fit(
        lesson.distiller,
        lesson.train,
        epochs=lesson.epochs,
        folder=folder,
        evaluate=evaluate,
        monitor=monitor,
        patience=settings.patience,
        description=description,
    )


def _new_student(
    recipe: config.Recipe,
    first: config.StageConfig,
    seed: int,
    prepared: prepare.Texts,
    teacher: teachers.Teachers,
) -> Student:
    keras.utils.set_random_seed(seed)
    shape = student_shape(recipe.student, prepared.tokenizer.vocab_size)
    start = recipe.student.initialise
    if start not in ("teacher", "layers", "random"):
        if recipe.student.keep_head and isinstance(prepared, prepare.Prepared):
            return Student(teachers.load_task_teacher(start, prepared))
        return Student(_published_student(start, shape, prepared))
    if isinstance(prepared, prepare.Prepared):
        student = teachers.build_for_task(shape, prepared.task)
    else:
        student = models.build_encoder(shape)
    # A student that learns without a teacher knows none, not even its embeddings; one that is
    # made of the teacher's layers is the published baseline of its method.
    if start == "layers":
        layers = recipe.student.teacher_layers
        if layers is None:
            raise errors.ConfigError(
                errors.explain(
                    "student.teacher_layers",
                    f"{shape.num_layers} layers of the teacher, for initialise: layers",
                    "none",
                )
            )
        training.initialise_from_layers(student, teacher.general, layers=layers, mlm_head=False)
    elif start == "teacher" and first.kind == "mobilebert":
        training.initialise_from_mobilebert_teacher(student, teacher.words)
    elif start == "teacher" and first.kind not in ("labels", "mlm"):
        training.initialise_from_teacher(student, teacher.in_float32(first))
    return Student(student)


def _start_words(recipe: config.Recipe, student: keras.Model, teacher: teachers.Teachers) -> None:
    """Where the encoder is made of the teacher's layers, so is the head for masked words."""
    if recipe.student.initialise == "layers" and recipe.student.teacher_layers is not None:
        training.initialise_from_layers(
            student, teacher.words, layers=recipe.student.teacher_layers
        )


def _published_student(
    source: str, shape: models.EncoderConfig, prepared: prepare.Texts
) -> keras.Model:
    """A student whose encoder comes from a checkpoint, with a fresh head."""
    if isinstance(prepared, prepare.Prepared):
        loaded: Any = teachers.open_for_task(
            source, prepared.task, family=shape.family, new_head=True
        )
    else:
        loaded = weights.open_encoder(source, family=shape.family)
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


def _start_projections(
    recipe: config.Recipe,
    layers: Sequence[keras.layers.Layer],
    before: pathlib.Path | None,
    student: keras.Model,
    settings: config.StageConfig,
    teacher: teachers.Teachers,
) -> None:
    """Hidden projections go on from the stage before, or start as the teacher's directions."""
    if not layers:
        return
    variables = [variable for layer in layers for variable in layer.weights]
    if before is not None and _names(variables).keys() == read_weights(before).keys():
        _load_weights(variables, before)
    elif recipe.student.initialise == "teacher":
        training.initialise_projections(layers, student, teacher.in_float32(settings))


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
    arrays = {name: np.asarray(variable) for name, variable in _names(variables).items()}
    with files.atomic_write(path) as temporary:
        safetensors.numpy.save_file(arrays, temporary)


def read_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The weights that a stage ended with: variable name -> array."""
    return safetensors.numpy.load_file(path)


def _load_weights(variables: Sequence[tf.Variable], path: pathlib.Path) -> None:
    arrays = read_weights(path)
    for name, variable in _names(variables).items():
        variable.assign(arrays[name])
