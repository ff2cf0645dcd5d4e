"""What a stage is trained with: its text as batches, and the losses of its kind in a distiller."""

from __future__ import annotations

import dataclasses
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
    def task_data(self) -> TaskData:
        """The data of a stage on a task."""
        assert isinstance(self.data, TaskData)
        return self.data

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
    data = lesson.task_data
    labelled = stage.needs_labels(data.task.traits)
    encoded = data.texts(labelled=labelled, augmented=stage.augmented)
    extra: dict[str, Any] = {}
    teacher = None if distiller is None or not distiller.needs_only_logits() else distiller.teacher
    # A teacher with another vocabulary reads its own tokens.
    reads = encoded
    if not lesson.same_tokens:
        assert isinstance(lesson.teacher_data, TaskData)
        reads = lesson.teacher_data.texts(labelled=labelled, augmented=stage.augmented)
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
    if extra:
        _check_no_noise(stage)
        return plain
    return _noisy(plain, stage, data, seed)


def _check_no_noise(stage: config.Stage) -> None:
    """Refuses noise in texts whose answers are known before the training."""
    for name, share in stage.asked_noise.items():
        raise errors.ConfigError(
            name,
            "0 where the student learns from stored answers alone",
            share,
            f"Noise needs a teacher that answers during the training: leave {name} out.",
        )


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


@dataclasses.dataclass(frozen=True)
class DistilledPair:
    """What a distiller is built from; `teacher` is not None where the stage has one."""

    teacher: Any  # a model, or answers in files
    student: keras.Model
    seed: int
    kind: tasks.TaskKind | None = None  # of the task
    same_tokens: bool = True

    @property
    def vector_width(self) -> int | None:
        """The width of the vectors of a teacher that is known by them alone."""
        return self.teacher.width if isinstance(self.teacher, soft_labels.SoftLabels) else None

    @property
    def head(self) -> str | None:
        """The head that answers the task."""
        return None if self.kind is None else self.kind.head

    @property
    def regression(self) -> bool:
        """Whether an answer is a number."""
        return self.kind is not None and self.kind.one_number

    def objective(self, stage: config.Stage) -> str:
        """The objective of the answers: of a regression they are numbers."""
        return "logit_mse" if self.regression else stage.objective


def distiller_of(stage: config.Stage, pair: DistilledPair) -> distillers.Distiller:
    """Builds the distiller of a stage, with the losses of its kind."""
    return distillers.Distiller(
        pair.teacher if stage.traits.has_teacher else None,
        pair.student,
        LOSSES[stage.kind](stage, pair),
        same_tokens=pair.same_tokens,
        vector_width=pair.vector_width,
        seed=pair.seed,
        name=f"{stage.kind}_distiller",
    )


def _joint(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    objective = pair.objective(stage)
    used = f"the teacher's answers ({objective})"
    if stage.loss_weights.get("label"):
        used += ", gold labels"
    return methods.joint(
        objective=objective,
        temperature=stage.temperature or 1.0,
        layers=stage.layer_map,
        hidden_states=_has_hidden_states(stage, pair, used),
        head=pair.head,
    )


def _embedding(stage: Any, pair: DistilledPair) -> methods.Losses:
    used = f"the teacher's vectors ({stage.objective}) and their similarities"
    return methods.embedding(
        objective=stage.objective,
        temperature=stage.temperature,
        prefixes=stage.prefixes,
        layers=stage.layer_map,
        hidden_states=_has_hidden_states(stage, pair, used),
    )


def _layers(stage: Any, pair: DistilledPair) -> methods.Losses:
    return methods.tinybert(
        stage.kind,
        layers=stage.layer_map,
        projection=stage.projection,
        layer_weights=stage.layer_weights,
        reduction=stage.reduction,
    )


def _prediction(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.tinybert(
        "prediction",
        objective=stage.objective,
        temperature=stage.temperature,
        reduction=stage.reduction,
        head=pair.head,
        regression=pair.regression,
    )


def _logits(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.hinton(
        objective=pair.objective(stage),
        temperature=stage.temperature,
        scale_by_t2=stage.scale_by_t2,
        head=pair.head,
    )


def _patient(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.patient(
        layers=stage.layer_map,
        projection="auto",
        temperature=stage.temperature,
        objective=pair.objective(stage),
        head=pair.head,
    )


def _relations(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.minilm(
        teacher_layer=stage.teacher_layer,
        num_relation_heads=stage.relation_heads,
        reduction=stage.reduction,
    )


def _masked_words(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    return methods.masked_words(next_sentence=words.has_nsp_head(pair.student))


def _combination(stage: config.Stage, pair: DistilledPair) -> methods.Losses:
    built = losses.build_losses(stage.losses)
    if pair.head is not None:
        labels.name_heads(built, pair.head)
    return built


LOSSES: Mapping[str, Callable[[Any, DistilledPair], methods.Losses]] = {
    "general": _layers,
    "intermediate": _layers,
    "prediction": _prediction,
    "labels": lambda stage, pair: methods.labels(head=pair.head),
    "logits": _logits,
    "joint": _joint,
    "embedding": _embedding,
    "patient": _patient,
    "relations": _relations,
    "combination": _combination,
    "mlm": _masked_words,
    "distilbert": lambda stage, pair: methods.distilbert(temperature=stage.temperature),
}
"""Kind of stage -> its losses; the stages of mobilebert are `training.transfer_stages`."""


def _has_hidden_states(stage: config.Stage, pair: DistilledPair, used: str) -> bool:
    """Whether hidden states can be compared; logs what the student learns from, `used` among it."""
    lacking = _no_hidden_states(stage, pair)
    if not stage.weight_of("hidden"):
        pass
    elif lacking is None:
        teacher_layers, student_layers = (
            models.config_of(model).num_layers for model in (pair.teacher, pair.student)
        )
        layers = losses.layer_map(teacher_layers, student_layers, stage.layer_map)
        used += f" and hidden states, {losses.describe_layer_map(layers)}"
    else:
        used += f" and no hidden states, since {lacking}"
    _log.info(f"{stage.kind}: the student learns from {used}")
    return lacking is None


def _no_hidden_states(stage: config.Stage, pair: DistilledPair) -> str | None:
    """Why hidden states of teacher and student cannot be compared, or None."""
    if isinstance(pair.teacher, soft_labels.SoftLabels):
        return "its teacher is known by its answers alone"
    teacher, student = models.config_of(pair.teacher), models.config_of(pair.student)
    if not student.num_layers:
        return "it has no layers"
    if not pair.same_tokens:
        return "its vocabulary is not the teacher's"
    if student.num_layers > teacher.num_layers and isinstance(stage.layer_map, str):
        return f"it has {student.num_layers} layers, its teacher {teacher.num_layers}"
    return None
