"""How a student begins: from its teacher, from a checkpoint, or at random."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import (
    config,
    errors,
    losses,
    models,
    structured,
    training,
    weights,
)
from tfdistill.data import batches, soft_label_values, vocab
from tfdistill.run import task_models, teachers, variables
from tfdistill.run.context import RunContext

_log = logging.getLogger(__name__)

START = "start.safetensors"  # a pruned student before any training
_BASIS, _LAYERS = "basis", "layers"


@dataclasses.dataclass
class Student:
    """A student on its way through the stages.

    Attributes:
      model: What the run delivers: a classifier, or an encoder where there is no task.
      masked_lm: The same encoder under a head for masked words, once a stage needed one.
      basis: Of a pruned student that is narrower than its teacher: the teacher's directions that it
        keeps, (teacher width, width).
      layers: Of a pruned student the teacher layers that it keeps.
    """

    model: keras.Model
    masked_lm: keras.Model | None = None
    basis: np.ndarray | None = None
    layers: tuple[int, ...] | None = None

    def with_words(self, *, next_sentence: bool) -> keras.Model:
        """The masked language model that starts as the student is now."""
        if self.masked_lm is None:
            shape = models.config_of(self.model)
            self.masked_lm = models.build_masked_lm(shape, next_sentence=next_sentence)
        models.copy_encoder(self.model, self.masked_lm)
        return self.masked_lm


def new_student(context: RunContext, first: config.StageConfig, seed: int) -> Student:
    """Builds a student and starts its weights as `student.initialise` says.

    Args:
      context: The run.
      first: The student's first stage: one that learns without a teacher knows none, not even its
        embeddings, unless the student is made of the teacher's layers, which is the published
        baseline of its method.
      seed: Of random weights.

    Returns:
      The student.

    Raises:
      ConfigError: If the teacher's layers are not named.
      ShapeError: If a checkpoint has another shape.
      VocabularyError: If it has another vocabulary.
      WeightsError: If it cannot be read.
    """
    keras.utils.set_random_seed(seed)
    settings = context.recipe.student
    start = settings.start
    vocab_size = context.student_data.tokenizer.vocab_size
    teacher = context.teachers.shape(first)
    shared = context.recipe.data.vocab == "teacher" and first.has_teacher
    if teacher is not None and shared and start in ("auto", "pruned", "teacher"):
        vocab_size = max(vocab_size, teacher.vocab_size)  # its table may have spare rows
    pairs = context.data.task is not None and context.task_data.train_examples.pairs is not None
    shape = task_models.student_shape(settings, vocab_size, teacher, pairs=pairs)
    if teacher is None:
        named = start not in config.STARTS
        begins = f"with the weights of {start}" if named else "at random"
        _log.info(f"student: starts {begins}")
    if start not in config.STARTS:
        if settings.keep_head and context.data.task is not None:
            return Student(teachers.load_classifier(start, context.student_task_data))
        return Student(_from_checkpoint(context, start, shape))
    student = task_models.build_for_task(shape, context.data.task, _embedding_head(context))
    start = resolve_start(context, first, shape)
    if start == "pruned":
        return _prune(context, student)
    if start == "layers":
        layers = settings.teacher_layers
        if layers is None or isinstance(layers, str):
            raise errors.ConfigError(
                "student.teacher_layers",
                f"{shape.num_layers} layers of the teacher, for initialise: layers",
                "none" if layers is None else repr(layers),
            )
        general = context.teachers.general
        training.initialise_from_layers(student, general, layers=layers, mlm_head=False)
    elif start == "teacher" and isinstance(first, config.MobileBertStage):
        training.initialise_from_mobilebert_teacher(student, context.teachers.words)
    elif start == "teacher" and first.has_teacher:
        training.initialise_from_teacher(student, context.teachers.in_float32(first))
        if isinstance(shape, models.StaticConfig):
            training.scale_words(student, context.task_data.train)
    return Student(student)


def resolve_start(
    context: RunContext, first: config.StageConfig, shape: models.EncoderConfig
) -> str:
    """What `student.initialise` means for this student; "auto" is "pruned" or "teacher".

    Of a teacher that is known by its answers alone, or whose word vectors are narrower than the
    student's, it is "random".

    Raises:
      ConfigError: If a student is to be pruned that cannot be.
      ShapeError: If it is of another family than BERT's.
    """
    start = context.recipe.student.start
    if start not in ("auto", "pruned"):
        return start
    if context.teachers.soft_labels is not None:  # whose words and layers nobody knows
        return "random"
    learns_words = isinstance(first, config.MaskedStage)
    fallback, begins = "teacher", "from the teacher's projected embeddings"
    teacher = context.teachers.shape(first)
    if teacher is not None and task_models.has_narrower_words(first, teacher, shape):
        fallback, begins = (
            "random",
            "at random, since its word vectors are wider than the teacher's",
        )
    if not first.has_teacher or learns_words or context.data.task is None:
        if start == "auto":
            return fallback
        raise errors.ConfigError(
            "student.initialise: pruned",
            "a task, and a first stage that learns layers or answers from a teacher",
            f"a first stage of kind {first.kind}",
        )
    try:
        structured.check_prunable(models.config_of(context.teachers.task), shape)
    except (errors.ConfigError, errors.ShapeError) as error:
        if start == "pruned":
            raise
        _log.info(f"student: it starts {begins}, not pruned: {error}")
        return fallback
    return "pruned"


def _prune(context: RunContext, model: keras.Model) -> Student:
    """Starts a student as a part of the task's teacher; computed once in a run, for all seeds."""
    path = context.root / "stages" / START
    teacher = context.teachers.task
    made_from = training.teacher_digest(teacher).hexdigest()
    if path.is_file():
        remedy = "Delete it and resume: it is made again."
        names = (_BASIS, _LAYERS)
        more = variables.load(model.weights, path, made_from=made_from, beside=names, remedy=remedy)
        kept = tuple(more[_LAYERS].tolist())
        return Student(model, basis=more.get(_BASIS), layers=kept)
    data = context.task_data
    texts = batches.Batches(data.all_texts, batch_size=32, seed=context.recipe.seeds[0])
    pruned = structured.initialise_by_pruning(
        model,
        teacher,
        structured.take_sample(texts.dataset()),
        layers=chosen_layers(context.recipe.student),
        multi_label=data.task.traits.many_classes,
    )
    layers = pruned.kept.layers
    more: dict[str, np.ndarray] = {_LAYERS: np.array(layers, np.int64)}
    if pruned.basis is not None:
        more[_BASIS] = np.ascontiguousarray(pruned.basis, np.float32)
    variables.save(model.weights, path, made_from=made_from, beside=more)
    described = losses.describe_layer_map(layers)
    _log.info(f"pruned student: {described}")
    return Student(model, basis=pruned.basis, layers=layers)


def chosen_layers(settings: config.StudentConfig) -> str | tuple[int, ...]:
    """Which teacher layers a pruned student keeps, see `structured.choose_layers`.

    Raises:
      ConfigError: If short form and `teacher_layers` both say it.
    """
    named = settings.teacher_layers
    short = None
    if config.is_pruned(settings.preset):
        short = config.parse_pruned(settings.preset).choose
    if named is not None and short is not None:
        raise errors.ConfigError(
            "student.teacher_layers", f"none beside choose={short} in student.preset", repr(named)
        )
    return named or short or "uniform"


def _embedding_head(context: RunContext) -> models.Head | None:
    task = context.data.task
    if task is None or not task.traits.vectors:
        return None
    settings, answers = context.recipe.student, context.teachers.soft_labels
    if answers is None:
        return task_models.embedding_head(settings, context.teachers.task)
    normalised = soft_label_values.are_normalised(answers.train)
    return task_models.head_of_vectors(settings, answers.width, normalised=normalised)


def initialise_words(context: RunContext, student: keras.Model) -> None:
    """Where the encoder is made of the teacher's layers, so is the head for masked words."""
    settings = context.recipe.student
    layers = settings.teacher_layers
    if settings.initialise == "layers" and isinstance(layers, tuple):
        training.initialise_from_layers(student, context.teachers.words, layers=layers)


def _from_checkpoint(context: RunContext, source: str, shape: models.EncoderConfig) -> keras.Model:
    """A student whose encoder comes from a checkpoint, with a fresh head."""
    task = context.data.task
    loaded: Any
    if task is None:
        loaded = weights.open_encoder(source, family=shape.family)
    else:
        head = _embedding_head(context)
        loaded = task_models.open_for_task(
            source, task, family=shape.family, new_head=True, head=head
        )
    if loaded.vocab_file is not None:
        vocab.check_same_vocabulary(context.student_data.vocab_file, loaded.vocab_file)
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    found = {name: getattr(loaded.config, name) for name in sizes}
    expected = {name: getattr(shape, name) for name in sizes}
    if found != expected:
        raise errors.ShapeError(f"student in {source}", expected, found, "Choose its preset.")
    return loaded.model
