"""The batches of a stage: of its corpus, or of the task's texts with the teacher's answers."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import config, distillers, errors, training
from tfdistill.data import batches, noise, streaming
from tfdistill.data.task_data import TaskData, TextData
from tfdistill.distillers.teacher import TEACHER_LOGITS
from tfdistill.run import corpora, soft_labels

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lesson:
    """What a student learns from in a stage.

    Attributes:
      teacher: A model, answers in files, or None.
      data: The data in the student's tokens.
      teacher_data: The same in the teacher's: another object only where these are others.
      answers: (teacher, examples) -> its logits, computed once; None without a teacher.
      corpus: The text of a stage on plain text.
    """

    teacher: keras.Model | soft_labels.SoftLabels | None
    data: TextData
    teacher_data: TextData
    answers: Callable[[Any, batches.EncodedExamples], np.ndarray] | None = None
    corpus: corpora.Corpus | None = None

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
    """Plans the batches of a stage.

    Args:
      stage: The stage.
      lesson: What it learns from.
      seed: Seed of order and masks.
      distiller: Its distiller: where it learns from nothing but the teacher's logits, the batches
        bring them along.

    Returns:
      The batches.
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
    """Refuses noise in texts whose answers are known before the training.

    Raises:
      ConfigError: If the stage asks for it.
    """
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
    """The batches with other pairs of texts, then other tokens, as the stage says.

    Raises:
      ConfigError: If it asks for other pairs and the task has single texts.
    """
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
