"""What a stage is trained with: its text as batches, and the losses of its kind in a distiller."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import config, distillers, errors, losses, models, tasks, training
from tfdistill.data import batches, noise, streaming
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.distillers.teacher import TEACHER_LOGITS
from tfdistill.losses import labels, methods, words
from tfdistill.run import corpora, soft_labels

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a student learns from in a stage."""

    teacher: keras.Model | soft_labels.SoftLabels | None
    data: TextData  # in the student's tokens
    teacher_data: TextData  # in the teacher's: another object only where these are others
    # (teacher, examples) -> its logits, computed once; None without a teacher.
    answers: Callable[[Any, batches.EncodedExamples], np.ndarray] | None = None
    corpus: corpora.Corpus | None = None  # of a stage on plain text

    @property
    def same_tokens(self) -> bool:
        """Whether teacher and student read the same ids."""
        return self.teacher_data is self.data


def stage_batches(
    stage: config.Stage,
    lesson: Lesson,
    seed: int,
    distiller: distillers.Distiller | None = None,
) -> training.TrainingBatches:
    """Plans the batches of a stage; `seed` is that of order and masks.

    Where its distiller learns from nothing but the teacher's logits, the batches bring them along.
    """
    if not stage.on_corpus:
        return _of_task(stage, lesson, seed, distiller)
    assert lesson.corpus is not None
    if stage.traits.predicts_words is not None:
        return lesson.corpus.masked(stage, seed, predict=stage.traits.predicts_words)
    return lesson.corpus.batches(stage, seed)


def num_batches(stage: config.Stage, lesson: Lesson, seed: int) -> int:
    """Counts the batches that a stage trains on."""
    if stage.steps is not None:
        return stage.steps
    steps = stage_batches(stage, lesson, seed).steps_per_epoch
    return steps * stage.num_epochs(steps)


def _of_task(
    stage: config.Stage,
    lesson: Lesson,
    seed: int,
    distiller: distillers.Distiller | None,
) -> training.TrainingBatches:
    data = lesson.data.of_task
    labelled = stage.needs_labels(data.task.traits)
    encoded = data.texts(labelled=labelled, augmented=stage.augmented)
    extra: dict[str, Any] = {}
    teacher = None if distiller is None or not distiller.needs_only_logits() else distiller.teacher
    # A teacher with another vocabulary reads its own tokens.
    reads = encoded
    if not lesson.same_tokens:
        reads = lesson.teacher_data.of_task.texts(labelled=labelled, augmented=stage.augmented)
    # A regression learns from the numbers that its teacher's pass gives; of a head over tokens
    # every token has an answer.
    brought = reads is not encoded or isinstance(teacher, soft_labels.SoftLabels)
    if teacher is not None and (brought or not data.task.traits.one_number):
        assert lesson.answers is not None
        logits = lesson.answers(teacher, reads)
        of_tokens = data.task.traits.over_tokens
        extra["token_extra" if of_tokens else "extra"] = {TEACHER_LOGITS: logits}
    plain = batches.Batches(
        encoded,
        batch_size=stage.batch_size,
        token_budget=stage.token_budget,
        bucketing=stage.bucketing,
        max_length=None if stage.bucketing else stage.max_length,
        seed=seed,
        **extra,
    )
    if "token_noise" not in stage.traits.keys or distiller is None:
        return plain
    if not extra:
        return _noisy(plain, stage, data, seed)
    for name, share in stage.asked_noise.items():  # in texts whose answers are known
        raise errors.ConfigError(
            name,
            "0 where the student learns from stored answers alone",
            share,
            f"Noise needs a teacher that answers during the training: leave {name} out.",
        )
    return plain


def _noisy(
    plain: batches.Batches, stage: config.Stage, data: TaskData, seed: int
) -> training.TrainingBatches:
    """The batches with other pairs of texts, then other tokens, as the stage says."""
    noisy: training.TrainingBatches = plain
    pairs = data.task.pair_column is not None and not data.task.traits.over_tokens
    if stage.pair_noise and not pairs:
        raise errors.ConfigError(
            "pair_noise",
            "0 for a task without pairs of texts",
            stage.pair_noise,
            "Leave pair_noise out.",
        )
    if pairs and stage.noisy_pairs:
        _log.info(
            f"{stage.kind}: {stage.noisy_pairs:.0%} of the pairs that the teacher answers are "
            "made of other texts of the batch (pair_noise)"
        )
        change = noise.PairNoise(data.tokenizer, share=stage.noisy_pairs)
        noisy = streaming.MappedBatches(noisy, change, seed)
    if stage.piece_noise:
        if data.tokenizer.halves is None or data.task.traits.over_tokens:
            expected = "0 but for the whole texts of a Unigram"
            raise errors.ConfigError(
                "piece_noise", expected, stage.piece_noise, "Leave piece_noise out."
            )
        _log.info(
            f"{stage.kind}: {stage.piece_noise:.0%} of the texts that the teacher answers have "
            "pieces cut into smaller ones (piece_noise)"
        )
        change = noise.PieceNoise(data.tokenizer, share=stage.piece_noise)
        noisy = streaming.MappedBatches(noisy, change, seed)
    if stage.noisy_share:
        _log.info(
            f"{stage.kind}: {stage.noisy_share:.0%} of the texts that the teacher answers have "
            f"tokens replaced, each with a probability of up to {noise.HIGHEST_RATE:.0%} "
            "(token_noise)"
        )
        change = noise.TokenNoise(data.tokenizer, share=stage.noisy_share)
        noisy = streaming.MappedBatches(noisy, change, seed)
    return noisy


def has_noise(stage: config.Stage, train: training.TrainingBatches) -> bool:
    """Whether no epoch of these batches repeats a text: the student then needs no dropout."""
    return "token_noise" in stage.traits.keys and isinstance(train, streaming.MappedBatches)


ARGUMENTS = {"relation_heads": "num_relation_heads"}  # keys that a method calls otherwise
METHODS: Mapping[str, Callable[..., methods.Losses]] = {
    "general": methods.tinybert,
    "intermediate": methods.tinybert,
    "prediction": methods.tinybert,
    "labels": methods.labels,
    "logits": methods.hinton,
    "joint": methods.joint,
    "embedding": methods.embedding,
    "patient": functools.partial(methods.patient, projection="auto"),
    "relations": methods.minilm,
    "mlm": methods.masked_words,
    "distilbert": methods.distilbert,
}
"""Kind of stage -> its method, which takes the keys of the stage that are its parameters.

Those of combination are `losses.build_losses`, of mobilebert `training.transfer_stages`.
"""


def losses_of(
    stage: config.Stage,
    teacher: Any,
    student: keras.Model,
    task: tasks.TaskKind | None = None,
    *,
    same_tokens: bool = True,
) -> methods.Losses:
    """Builds the losses of a stage's kind from its keys, and from what the two models are.

    `teacher` is a model, or answers in files; `same_tokens` says whether both read the same ids.
    """
    head = None if task is None else task.head
    if stage.kind == "combination":
        built = losses.build_losses(stage.losses)
        if head is not None:
            labels.name_heads(built, head)
        return built
    method = METHODS[stage.kind]
    values = {ARGUMENTS.get(key, key): getattr(stage, key) for key in stage.traits.keys}
    values |= {"stage": stage.kind, "head": head, "temperature": stage.temperature or 1.0}
    if task is not None and task.one_number:  # answers are numbers
        values |= {"regression": True, "objective": "logit_mse"}
    if stage.traits.predicts_words:
        values["next_sentence"] = words.has_nsp_head(student)
    if stage.traits.from_start:
        lacking = _no_hidden_states(stage, teacher, student, same_tokens)
        values["hidden_states"] = lacking is None
        _tell_what_is_learnt(stage, values["objective"], teacher, student, lacking)
    parameters = inspect.signature(method).parameters
    return method(**{name: value for name, value in values.items() if name in parameters})


def distiller_of(
    stage: config.Stage, lesson: Lesson, student: keras.Model, seed: int
) -> distillers.Distiller:
    """Builds the distiller of a stage, with the losses of its kind; `seed` is that of dropout."""
    teacher, task = lesson.teacher, lesson.data.task
    kind = None if task is None else task.traits
    return distillers.Distiller(
        teacher if stage.traits.has_teacher else None,
        student,
        losses_of(stage, teacher, student, kind, same_tokens=lesson.same_tokens),
        same_tokens=lesson.same_tokens,
        vector_width=teacher.width if isinstance(teacher, soft_labels.SoftLabels) else None,
        seed=seed,
        name=f"{stage.kind}_distiller",
    )


def _tell_what_is_learnt(
    stage: config.Stage, objective: str, teacher: Any, student: keras.Model, lacking: str | None
) -> None:
    """Logs what the student learns from; `lacking` says why hidden states are not among it."""
    used = f"the teacher's answers ({objective})"
    if stage.traits.for_vectors:
        used = f"the teacher's vectors ({objective}) and their similarities"
    elif stage.loss_weights.get("label"):
        used += ", gold labels"
    if stage.weight_of("hidden") and lacking is None:
        teacher_layers, student_layers = (
            models.config_of(model).num_layers for model in (teacher, student)
        )
        layers = losses.layer_map(teacher_layers, student_layers, stage.layer_map)
        used += f" and hidden states, {losses.describe_layer_map(layers)}"
    elif stage.weight_of("hidden"):
        used += f" and no hidden states, since {lacking}"
    _log.info(f"{stage.kind}: the student learns from {used}")


def _no_hidden_states(
    stage: config.Stage, teacher: Any, student: keras.Model, same_tokens: bool
) -> str | None:
    """Why hidden states of teacher and student cannot be compared, or None."""
    if isinstance(teacher, soft_labels.SoftLabels):
        return "its teacher is known by its answers alone"
    taught_by, shape = models.config_of(teacher), models.config_of(student)
    if not shape.num_layers:
        return "it has no layers"
    if not same_tokens:
        return "its vocabulary is not the teacher's"
    if shape.num_layers > taught_by.num_layers and isinstance(stage.layer_map, str):
        return f"it has {shape.num_layers} layers, its teacher {taught_by.num_layers}"
    return None
