"""How a student begins: from its teacher, from a checkpoint, or at random."""

from __future__ import annotations

import dataclasses
from typing import Any

import tf_keras as keras

from tfdistill import config, errors, models, training, weights
from tfdistill.data import vocab
from tfdistill.run import task_models, teachers
from tfdistill.run.context import RunContext


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
    start = settings.initialise
    shape = task_models.student_shape(settings, context.data.tokenizer.vocab_size)
    if start not in ("teacher", "layers", "random"):
        if settings.keep_head and context.data.task is not None:
            return Student(teachers.load_classifier(start, context.task_data))
        return Student(_from_checkpoint(context, start, shape))
    student = task_models.build_for_task(shape, context.data.task)
    if start == "layers":
        layers = settings.teacher_layers
        if layers is None:
            raise errors.ConfigError(
                "student.teacher_layers",
                f"{shape.num_layers} layers of the teacher, for initialise: layers",
                "none",
            )
        general = context.teachers.general
        training.initialise_from_layers(student, general, layers=layers, mlm_head=False)
    elif start == "teacher" and isinstance(first, config.MobileBertStage):
        training.initialise_from_mobilebert_teacher(student, context.teachers.words)
    elif start == "teacher" and first.has_teacher:
        training.initialise_from_teacher(student, context.teachers.in_float32(first))
    return Student(student)


def initialise_words(context: RunContext, student: keras.Model) -> None:
    """Where the encoder is made of the teacher's layers, so is the head for masked words."""
    settings = context.recipe.student
    if settings.initialise == "layers" and settings.teacher_layers is not None:
        training.initialise_from_layers(
            student, context.teachers.words, layers=settings.teacher_layers
        )


def _from_checkpoint(context: RunContext, source: str, shape: models.EncoderConfig) -> keras.Model:
    """A student whose encoder comes from a checkpoint, with a fresh head."""
    task = context.data.task
    loaded: Any
    if task is None:
        loaded = weights.open_encoder(source, family=shape.family)
    else:
        loaded = task_models.open_for_task(source, task, family=shape.family, new_head=True)
    if loaded.vocab_file is not None:
        vocab.check_same_vocabulary(context.data.vocab_file, loaded.vocab_file)
    sizes = ("num_layers", "hidden_size", "num_heads", "intermediate_size", "vocab_size")
    found = {name: getattr(loaded.config, name) for name in sizes}
    expected = {name: getattr(shape, name) for name in sizes}
    if found != expected:
        raise errors.ShapeError(f"student in {source}", expected, found, "Choose its preset.")
    return loaded.model
