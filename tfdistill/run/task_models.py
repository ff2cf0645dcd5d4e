"""Models of a task: their shapes, and how they are built or opened."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import tf_keras as keras

from tfdistill import compress, config, errors, models, pruning, tasks, training, weights
from tfdistill.data.task_data import TaskData
from tfdistill.weights import head_checks

PRESET = "preset:"


def shape_of(preset: str, sizes: config.ShapeConfig, vocab_size: int) -> models.EncoderConfig:
    """The shape of a preset or of ``preset:NAME``, with the sizes that a recipe gives instead."""
    changed = sizes.sizes()
    shape = models.preset(preset.removeprefix(PRESET))
    if "dropout" in changed and hasattr(shape, "attention_dropout"):
        changed["attention_dropout"] = changed["dropout"]
    return shape.replace(vocab_size=vocab_size, **changed)


def student_shape(
    settings: config.StudentConfig,
    vocab_size: int,
    teacher: models.EncoderConfig | None,
    *,
    pairs: bool = False,
) -> models.EncoderConfig:
    """The student's architecture: its preset, a part of the teacher's shape, or a checkpoint's.

    The section's sizes replace those of the preset; a checkpoint has its own. `vocab_size` are the
    rows of the word table. Of a task of `pairs` a static student compares two means.
    """
    if settings.is_teacher:
        assert teacher is not None
        return teacher
    if config.is_checkpoint(settings.preset):
        if settings.sizes():
            raise errors.ConfigError(
                f"student {settings.preset}",
                "no sizes: a checkpoint has its own",
                ", ".join(settings.sizes()),
            )
        return weights.read_config(settings.preset)
    if not config.is_pruned(settings.preset):
        static = config.is_static(settings.preset)
        shape: Any = shape_of("static" if static else settings.preset, settings, vocab_size)
        if static:
            sizes = config.parse_static(settings.preset)
            embedding, dense = sizes.width or shape.embedding_size, sizes.dense or shape.dense_size
            shape = shape.replace(embedding_size=embedding, dense_size=dense)
        siamese = pairs and shape.family == models.StaticConfig.family
        return shape.replace(pair_encoding="siamese") if siamese else shape
    assert teacher is not None
    shape = pruning.pruned_config(teacher, config.parse_pruned(settings.preset))
    shape = shape.replace(vocab_size=vocab_size, **settings.sizes())
    size = shape.head_width
    if shape.hidden_size % size or shape.attention_width > shape.hidden_size:
        raise errors.ConfigError(
            f"student.preset {settings.preset}",
            f"heads whose size divides the width {shape.hidden_size}, no more than fill it",
            f"{shape.num_heads} heads of {size}",
            "A Hugging Face folder can hold no other; give heads or head_size.",
        )
    return shape


def has_narrower_words(
    first: config.Stage, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> bool:
    """Whether no student as wide can start its word vectors from the teacher's in a first stage."""
    if not first.traits.has_teacher or first.traits.in_parts:
        return False
    teacher_width, student_width = (
        shape.embedding_size or shape.hidden_size for shape in (teacher, student)
    )
    return teacher_width < student_width


def build_for_task(
    shape: models.EncoderConfig, task: tasks.TaskSpec | None, head: models.Head | None = None
) -> keras.Model:
    """Builds a fresh model with the head that the task needs; an encoder without a task.

    `head` is another one than the task's own, see `embedding_head`.
    """
    if task is None:
        return models.build_encoder(shape)
    return models.build_model(shape, head or models.head_for(task.head, task.num_labels))


def embedding_head(settings: config.StudentConfig, teacher: keras.Model) -> models.Head:
    """The head of a student that embeds as its teacher does.

    Pooling and normalisation are the teacher's. The vectors are as wide as the teacher's unless the
    recipe says otherwise: a student of another width gets a linear projection.
    """
    head = models.read_head(teacher)
    width = settings.vector_size or head.num_labels
    return dataclasses.replace(head, num_labels=width, projection=None)


def head_of_vectors(settings: config.StudentConfig, width: int, *, normalised: bool) -> models.Head:
    """The head of a student whose teacher is known by its vectors alone.

    Pooling and normalisation are those of the student's folder, where that is one of
    sentence-transformers; otherwise the mean, and length 1 if the teacher's vectors have it. The
    section's `vector_size` replaces their width.
    """
    head = None
    if settings.start not in config.STARTS:
        head = weights.sentence_head(settings.start)
    head = head or models.Head("embedding", normalize=normalised)
    return dataclasses.replace(head, num_labels=settings.vector_size or width, projection=None)


def open_for_task(
    source: str,
    task: tasks.TaskSpec,
    *,
    family: str | None = None,
    new_head: bool = False,
    pooled: bool = False,
    head: models.Head | None = None,
) -> Any:
    """Loads a checkpoint under the head that the task needs, of an embedding under `head`."""
    if task.traits.vectors:
        return weights.load_embedder(source, head=head)
    head = models.head_for(task.head, task.num_labels)
    width = head.num_labels if new_head else None
    return weights.load_model(
        source,
        head.kind,
        num_labels=width,
        family=family,
        new_head=new_head,
        pooled=pooled,
        task_kind=task.kind,
        pairs=task.pair_column is not None,
    )


def open_model(
    source: str, task: tasks.TaskSpec | None = None, *, kind: str | None = None
) -> weights.LoadedModel:
    """Opens the model of a run folder, of a model folder or of the hub.

    `source` is a run folder (its chosen student; the teacher of `finetune`), a folder with ``hf``
    in it, a Hugging Face folder or a hub id. The task decides the head, or the `kind` of one that
    is not known; without both it is a sentence encoder where the folder is that of one, and
    otherwise a classifier of whole texts.
    """
    path = pathlib.Path(source)
    for place in (path / "student", path):
        if (place / weights.DESCRIPTION).is_file():
            return weights.load_bilstm(place)
    folder = config.model_folder(source)
    if task is not None:
        loaded = open_for_task(folder, task)
    elif kind is None and weights.has_modules(folder):
        loaded = weights.load_embedder(folder)
    else:
        loaded = _open_alone(folder, kind)
    ranges = pathlib.Path(folder).parent / compress.RANGES  # of a quantization-aware one
    if not ranges.is_file():
        return loaded
    return dataclasses.replace(loaded, model=compress.with_ranges(loaded.model, ranges))


def _open_alone(source: str, kind: str | None) -> weights.LoadedModel:
    """Loads a checkpoint under the head of a kind, by default of whole texts; it must be there."""
    head = models.Head("sequence") if kind is None else models.head_for(tasks.KINDS[kind].head, 0)
    if head.traits.vectors:
        return weights.load_embedder(source)
    checkpoint = weights.open_checkpoint(source)
    if not weights.has_head(checkpoint, head.kind):
        expected, remedy = f"a head of kind {head.kind!r}", "Fine-tune it (`tfdistill finetune`)."
        if kind is None:
            expected += ", or a sentence-transformers folder, with modules.json"
            remedy += " Of a sentence encoder copy modules.json and 1_Pooling from its origin, too."
        raise errors.WeightsError(
            f"model {source}", expected, weights.other_head(checkpoint), remedy
        )
    return weights.load_model(checkpoint, head.kind, task_kind=kind)


def is_as_named(recipe: config.Recipe, data: TaskData, root: pathlib.Path) -> bool:
    """Whether the teacher of a task is a folder of the user's as it is, and so not copied.

    A run copies one whose outputs were matched to the labels by answers, whose tokenizer the recipe
    changes, or that is the student itself.
    """
    teacher, task, folder = recipe.teacher, data.task, pathlib.Path(recipe.teacher.source)
    reads = data.settings.vocab == "teacher" and data.settings.lower_case is None
    trained = teacher.finetune or teacher.pretrain or recipe.student.is_teacher
    ours = folder.absolute().is_relative_to(root.absolute())  # cut
    ranges = (folder.parent / compress.RANGES).is_file()  # which a teacher has not
    if trained or not reads or data.tokenizer.prompt or ours or ranges or not folder.is_dir():
        return False
    if task.traits.vectors or task.traits.nameless:
        return True
    checkpoint = weights.open_checkpoint(str(folder), shapes_only=True)
    named = head_checks.labels_of(checkpoint, task.num_labels)
    return sorted(named) == sorted(task.labels) or not head_checks.are_unnamed(enumerate(named))


def open_saved(folder: pathlib.Path, task: tasks.TaskSpec, dtype: str = "float32") -> keras.Model:
    """Opens a model of a run for forward passes in the given arithmetic, in the task's order."""
    loaded = open_model(str(folder), task)
    training.align_labels(loaded.model, loaded.labels, task)
    return in_precision(loaded.model, dtype)


def in_precision(model: keras.Model, dtype: str) -> keras.Model:
    """Copies a model into another arithmetic; float32 is the model itself."""
    return model if dtype == "float32" else models.with_policy(model, dtype)
