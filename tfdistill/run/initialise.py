"""How a student begins: from its teacher, from a checkpoint, or at random."""

from __future__ import annotations

import dataclasses
import logging
import pathlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import config, errors, losses, models, pruning, training, weights
from tfdistill.data import soft_label_values, task_data, vocab
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.run import task_models, teachers
from tfdistill.training import variables

_log = logging.getLogger(__name__)

START = "start.safetensors"  # a pruned student before any training
_BASIS, _LAYERS = "basis", "layers"


@dataclasses.dataclass(frozen=True)
class Origin:
    """How a student began."""

    start: str  # one of `config.STARTS`, or the checkpoint that it comes from
    # Of a pruned student that is narrower than its teacher: the teacher's directions that it keeps,
    # (teacher width, width).
    basis: np.ndarray | None = None
    layers: tuple[int, ...] | None = None  # of a pruned student the teacher layers that it keeps
    seed: int | None = None  # of its random weights; None where nobody says


_ORIGINS: weakref.WeakKeyDictionary[keras.Model, Origin] = weakref.WeakKeyDictionary()


@dataclasses.dataclass
class Student:
    """A student on its way through the stages."""

    model: keras.Model  # a classifier, or an encoder where there is no task
    origin: Origin
    # The same encoder under a head for masked words, once a stage needed one.
    masked_lm: keras.Model | None = None

    def with_words(self, *, next_sentence: bool) -> keras.Model:
        """The masked language model that starts as the student is now."""
        if self.masked_lm is None:
            shape = models.config_of(self.model)
            self.masked_lm = models.build_masked_lm(shape, next_sentence=next_sentence)
        models.copy_encoder(self.model, self.masked_lm)
        return self.masked_lm


def build_student(
    student: str,
    teacher: keras.Model,
    data: TaskData,
    *,
    seed: int = 1,
    **settings: Any,
) -> keras.Model:
    """Builds a student of a task and starts its weights, as `tfdistill distill --student` does.

    Args:
      student: A part of the teacher, such as "pruned:layers=3,ffn=768", a preset, "static", or a
        Hugging Face folder (./NAME) or id.
      teacher: The teacher, with the head of the task; not changed.
      data: The task's data; a student that is a part of its teacher is cut by its training texts.
      seed: Seed of random weights.
      **settings: Further keys of the section `student` of a recipe. `initialise` is "auto": a part
        of the teacher where the student can be one, otherwise the teacher's projected embeddings.

    Returns:
      The student, with the task's head.

    Raises:
      ConfigError: If a setting or the shape is not valid.
      ShapeError: If it is larger than the teacher.
      VocabularyError: If it is a checkpoint with another vocabulary.
      WeightsError: If its checkpoint cannot be read.

    Examples:
      >>> student = tfdistill.build_student("pruned:layers=3,ffn=768", teacher, data)
      >>> tfdistill.models.config_of(student).num_layers
      3
    """
    errors.check_types(
        student=(student, str), teacher=(teacher, keras.Model), data=(data, TaskData)
    )
    values = {"preset": student, "initialise": "auto", **settings}
    if config.is_checkpoint(student):
        values["preset"] = config.model_folder(student)
    section = config.parse_section(
        config.StudentConfig, values, source="build_student", place="student"
    )
    first = config.new_stage("embedding" if data.task.traits.vectors else "joint")
    start = Start(section, first, teachers.OneTeacher(teacher), data, data)
    return new_student(start, seed).model


def origin_of(student: keras.Model) -> Origin:
    """How a student of `new_student` began; any other model is its own start."""
    return _ORIGINS.get(student, Origin("checkpoint"))


@dataclasses.dataclass(frozen=True)
class Start:
    """What a new student follows from.

    A first stage that learns without a teacher knows none, not even its embeddings, unless the
    student is made of the teacher's layers, which is the published baseline of its method.
    """

    settings: config.StudentConfig
    first: config.Stage
    teachers: teachers.TeacherModels
    data: TextData  # in the teacher's tokens
    student_data: TextData  # in the student's
    # Where a run keeps a part of its teacher, for all seeds.
    pruned_file: pathlib.Path | None = None


def new_student(start: Start, seed: int) -> Student:
    """Builds a student and starts its weights as `student.initialise` says."""
    keras.utils.set_random_seed(seed)
    student = _new_student(start)
    student.origin = dataclasses.replace(student.origin, seed=seed)
    _ORIGINS[student.model] = student.origin
    return student


def _new_student(start: Start) -> Student:
    settings, first = start.settings, start.first
    source = settings.start
    vocab_size = start.student_data.tokenizer.vocab_size
    teacher = start.teachers.shape(first)
    shared = start.data.settings.vocab == "teacher" and first.traits.has_teacher
    if teacher is not None and shared and source in ("auto", "pruned", "teacher"):
        vocab_size = max(vocab_size, teacher.vocab_size)  # its table may have spare rows
    pairs = start.data.task is not None and start.data.of_task.train_examples.pairs is not None
    shape = task_models.student_shape(settings, vocab_size, teacher, pairs=pairs)
    if teacher is None:
        named = source not in config.STARTS
        begins = f"with the weights of {source}" if named else "at random"
        _log.info(f"student: starts {begins}")
    if source not in config.STARTS:
        if settings.keep_head and isinstance(start.student_data, TaskData):
            return Student(teachers.load_classifier(source, start.student_data), Origin(source))
        return Student(_from_checkpoint(start, source, shape), Origin(source))
    student = task_models.build_for_task(shape, start.data.task, _head(start))
    if start.data.task is not None:
        training.start_at_numbers(student, start.data.of_task.train_examples)
    source = resolve_start(start, shape)
    if source == "pruned":
        return _prune(start, student)
    if source == "layers":
        layers = settings.teacher_layers
        assert isinstance(layers, tuple)
        general = start.teachers.general
        training.initialise_from_layers(student, general, layers=layers, mlm_head=False)
    elif source == "teacher" and first.traits.in_parts:
        training.initialise_from_mobilebert_teacher(student, start.teachers.words)
    elif source == "teacher" and first.traits.has_teacher:
        training.initialise_from_teacher(student, start.teachers.in_float32(first))
        if isinstance(shape, models.StaticConfig):
            training.scale_words(student, start.data.of_task.train.encoded)
    return Student(student, Origin(settings.start))


def start_projections(
    layers: Sequence[keras.layers.Layer],
    student: keras.Model,
    origin: Origin,
    teacher: Callable[[], keras.Model],
) -> None:
    """Starts hidden projections as the teacher's directions, where the student has these."""
    if origin.basis is not None:
        for layer in layers:
            if tuple(layer.kernel.shape) == origin.basis.T.shape:  # vectors may have other widths
                layer.set_weights([origin.basis.T, np.zeros(len(origin.basis), np.float32)])
    elif origin.start in ("auto", "teacher"):
        training.initialise_projections(layers, student, teacher())


def resolve_start(start: Start, shape: models.EncoderConfig) -> str:
    """What `student.initialise` means for this student; "auto" is "pruned" or "teacher".

    Of a teacher that is known by its answers alone, or whose word vectors are narrower than the
    student's, it is "random". Refuses a student that is to be pruned and cannot be.
    """
    wanted, first = start.settings.start, start.first
    if wanted not in ("auto", "pruned"):
        return wanted
    if start.teachers.soft_labels is not None:  # whose words and layers nobody knows
        return "random"
    fallback, begins = "teacher", "from the teacher's projected embeddings"
    teacher = start.teachers.shape(first)
    if teacher is not None and task_models.has_narrower_words(first, teacher, shape):
        fallback, begins = (
            "random",
            "at random, since its word vectors are wider than the teacher's",
        )
    if not first.traits.has_teacher or first.traits.predicts_words or start.data.task is None:
        return fallback  # a recipe with `pruned` is refused then
    try:
        pruning.check_prunable(models.config_of(start.teachers.task), shape)
    except (errors.ConfigError, errors.ShapeError) as error:
        if wanted == "pruned":
            raise
        _log.info(f"student: it starts {begins}, not pruned: {error}")
        return fallback
    return "pruned"


def _prune(start: Start, model: keras.Model) -> Student:
    """Starts a student as a part of the task's teacher; computed once in a run, for all seeds."""
    path, teacher, data = start.pruned_file, start.teachers.task, start.data.of_task
    made_from = training.teacher_digest(teacher).hexdigest()
    if path is not None and path.is_file():
        remedy = "Delete it and resume: it is made again."
        names = (_BASIS, _LAYERS)
        more = variables.load(model.weights, path, made_from=made_from, beside=names, remedy=remedy)
        layers = tuple(more[_LAYERS].tolist())
        return Student(model, Origin(start.settings.start, more.get(_BASIS), layers))
    pruned = pruning.initialise_by_pruning(
        model,
        teacher,
        pruning.take_sample(task_data.to_train(data.texts(), data.seed).dataset()),
        layers=chosen_layers(start.settings),
        multi_label=data.task.traits.many_classes,
    )
    layers = pruned.selection.layers
    more: dict[str, np.ndarray] = {_LAYERS: np.array(layers, np.int64)}
    if pruned.basis is not None:
        more[_BASIS] = np.ascontiguousarray(pruned.basis, np.float32)
    if path is not None:
        variables.save(model.weights, path, made_from=made_from, beside=more)
    described = losses.describe_layer_map(layers)
    _log.info(f"pruned student: {described}")
    return Student(model, Origin(start.settings.start, pruned.basis, layers))


def chosen_layers(settings: config.StudentConfig) -> str | tuple[int, ...]:
    """Which teacher layers a pruned student keeps, see `losses.layer_map`."""
    short = None
    if config.is_pruned(settings.preset):
        short = config.parse_pruned(settings.preset).choose
    return settings.teacher_layers or short or "uniform"


def _head(start: Start) -> models.Head | None:
    """The head of an embedding, or of a part of a teacher with pooled states; None of others."""
    task, settings, answers = start.data.task, start.settings, start.teachers.soft_labels
    if task is None:
        return None
    if not task.traits.vectors:
        if answers is not None or not config.is_pruned(settings.preset):
            return None
        head = models.read_head(start.teachers.task)
        return head if head.pooled else None
    if answers is None:
        return task_models.embedding_head(settings, start.teachers.task)
    normalised = soft_label_values.are_normalised(answers.train)
    return task_models.head_of_vectors(settings, answers.width, normalised=normalised)


def _from_checkpoint(start: Start, source: str, shape: models.EncoderConfig) -> keras.Model:
    task = start.data.task
    loaded: Any
    if task is None:
        loaded = weights.load_model(source, "none", family=shape.family)
    else:
        head = _head(start) if task.traits.vectors else None
        loaded = task_models.open_for_task(
            source,
            task,
            family=shape.family,
            new_head=True,
            head=head,
        )
        training.start_head(loaded.model, start.student_data.of_task)
    if loaded.tokenizer is not None:
        vocab.check_same_vocabulary(start.student_data.tokenizer.vocab, loaded.tokenizer.vocab)
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    read = {name: getattr(loaded.config, name) for name in sizes}
    expected = {name: getattr(shape, name) for name in sizes}
    if read != expected:
        raise errors.ShapeError(f"student in {source}", expected, read, "Choose its preset.")
    return loaded.model
