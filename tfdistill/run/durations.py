"""How long a run takes: the multiplications of its steps at a measured rate, and what is fixed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import pathlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tfdistill import analysis, config, models, tasks
from tfdistill.manifest import lengths
from tfdistill.run import shapes, stages, task_models
from tfdistill.tasks import KINDS, splitting

_WORDS = 30522  # of a student that a preset names, where no teacher says more
_BATCH = 32  # rows of a batch of the products that are timed
_PRODUCTS, _SECONDS = 15, 1.0  # of each form, and of all: the least that is timed
_EFFICIENCY = 0.83  # of a training step beside its products alone: softmax, GELU, norms, batches
_UPDATE = 500  # FLOPs in whose time AdamW updates a parameter
# Seconds on a core with AVX-512, whose products reach `_USUAL_RATE` FLOP/s.
_USUAL_RATE = 154e9
_START, _TRACE, _REPORT = 8.0, 9.0, 6.0
_FILE, _FILE_A_PARAMETER = 6.0, 1.0e-6  # export: conversion and checks
_OTHER_FORMAT = 0.2e-6  # of a model that is converted already, a parameter
_CELL = 0.45  # a repetition of a file at a length, beside the time that it measures
# 250,000 pieces, read, cut, saved and compared with: for each number of a row; a list of words.
_CUT_A_WIDTH, _WORD_LIST = 0.08, 3.0
_TAGGED = 1e-4  # of a linear tagger, a token
_ASKED = 0.5  # tokens that are words to exchange: the masked language model is asked for each
_CUT_TEXTS = 1500  # texts whose forward and backward pass takes as long as cutting a student


@dataclasses.dataclass(frozen=True)
class TimedPart:
    """A part of a run: its name, its seconds, and of a training its steps and the seconds of each.

    Of several seeds `steps` are those of one, and the seconds of a step those of all.
    """

    name: str
    seconds: float
    steps: int = 0
    step_seconds: float = 0.0


@functools.cache
def training_rate(shape: models.EncoderConfig, tokens: int) -> tuple[float, float]:
    """Measures the FLOP/s of a step's three products in a model's widest layer, on this machine.

    Returns those where no other program runs, and how many times as long they take now. Threads
    that wait for a processor tell the two apart; where the system does not count that, and of a
    machine of which others have a share, the rate is the present one. Measured once in a process.
    """
    rows, width = _BATCH * tokens, shape.hidden_size
    inner = shape.intermediate_size or width
    inputs, kernel, gradient = (
        tf.random.stateless_normal(shape, seed=(0, 0))
        for shape in ((rows, width), (width, inner), (rows, inner))
    )
    turns, began = -2, _clocks()  # the first ones find their buffers
    while turns < _PRODUCTS or time.perf_counter() < began[0] + _SECONDS:
        products = (
            tf.matmul(inputs, kernel),
            tf.matmul(inputs, gradient, transpose_a=True),
            tf.matmul(gradient, kernel, transpose_b=True),
        )
        [product[0, 0].numpy() for product in products]
        turns += 1
        began = _clocks() if turns == 0 else began
    seconds, used, waited = _clocks() - began
    load = 1 + max(0.0, waited) / used
    return turns * 6 * rows * width * inner * load / seconds, load


def _clocks() -> np.ndarray:
    """Seconds on the clock, on processors, and (on Linux) in wait for one, of all threads; (3,)."""
    waited = 0
    for thread in pathlib.Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has ended
            waited += int(thread.read_text().split()[1])
    return np.array([time.perf_counter(), time.process_time(), waited / 1e9])


def estimate(
    recipe: config.Recipe,
    teacher_shape: models.EncoderConfig | None,
    student_shape: models.EncoderConfig | None,
    rows: Mapping[str, int],
    tokens: np.ndarray,
    rate: float,
) -> list[TimedPart]:
    """Estimates the parts of a run of one task, in their order.

    The teacher's shape is None where it is known by its answers, the student's where there is none.
    `rows` are counts of "train", "dev", "test", "unlabelled" and, where it augments, "augmented";
    `tokens` are the lengths of its texts, (n,); `rate` is the quiet one of `training_rate`. Stages
    on plain text are left out: nobody has counted it.
    """
    longest = recipe.data.max_length
    length = max(2, round(float(np.minimum(tokens, longest).mean())))
    flops = {
        shape: models.flops(shape, length) for shape in (teacher_shape, student_shape) if shape
    }
    parameters = {shape: models.count_parameters(shape) for shape in flops}
    slower = max(1.0, _USUAL_RATE / rate)
    train, dev, test = (rows.get(name, 0) for name in ("train", "dev", "test"))
    teacher = flops.get(teacher_shape, 0) if teacher_shape else 0
    student = flops.get(student_shape, 0) if student_shape else 0

    def of_flops(count: float) -> float:
        return count / (rate * _EFFICIENCY)

    def trained(
        name: str,
        shape: models.EncoderConfig,
        settings: config.FineTuneConfig | config.Stage,
        steps: int,
        epochs: float,
        taught_by: float = 0.0,
        trainings: int = 1,
    ) -> TimedPart:
        passes = of_flops(settings.batch_size * (3 * flops[shape] + taught_by))
        step = passes + of_flops(_UPDATE * parameters[shape])
        evaluated = of_flops(epochs * dev * flops[shape])
        seconds = trainings * (slower * _TRACE + steps * step + evaluated)
        return TimedPart(name, seconds, steps, trainings * step)

    parts, seeds = [], len(recipe.seeds)
    if (words := recipe.data.cut) is not None and teacher_shape is not None:
        lists = len(words.languages) + (words.languages_of is not None)
        seconds = _CUT_A_WIDTH * teacher_shape.hidden_size + _WORD_LIST * lists
        parts.append(TimedPart("cut the vocabulary", slower * seconds))
    tuned = recipe.teacher.finetune
    if tuned is not None and tuned.method == "frozen":
        parts.append(TimedPart("fit a head over the teacher", of_flops(2 * train * teacher)))
    elif tuned is not None and teacher_shape is not None:
        per_epoch = math.ceil(train / tuned.batch_size)
        epochs, name = tuned.num_epochs(per_epoch), "fine-tune the teacher"
        if tuned.pooled:  # on all rows, and without each fold
            epochs, name = epochs * (1 + splitting.FOLDS), f"{name} on pairs of rows"
        steps = epochs * per_epoch
        trainings = 1 if tuned.pooled else len(tuned.targets)
        parts.append(trained(name, teacher_shape, tuned, steps, epochs, 0.0, trainings))
    if (augmented := rows.get("augmented", 0)) and teacher_shape is not None:
        passes = train * _ASKED * length * models.flops(teacher_shape, 2 * length)
        parts.append(TimedPart("augment the training set", of_flops(passes)))
    if student_shape is not None:
        if recipe.student.start in ("auto", "pruned") and teacher_shape is not None:
            cut = of_flops(3 * min(_CUT_TEXTS, train) * teacher) + slower * _TRACE
            parts.append(TimedPart("cut the student out of the teacher", cut))
        for name, stage in recipe.used_stages.items():
            if stage.on_corpus:
                continue
            # Variants that begin with the same stages share them.
            ways = [v.stages for v in recipe.variants.values() if name in v.stages]
            ways = {stages_before[: stages_before.index(name)] for stages_before in ways}
            texts = augmented if stage.augmented else train
            texts += 0 if stage.needs_labels() else rows.get("unlabelled", 0)
            per_epoch = math.ceil(texts / stage.batch_size)
            stage = stages.by_width(stage, student_shape)
            steps = stage.steps or stage.num_epochs(per_epoch) * per_epoch
            asks = teacher if stage.traits.has_teacher else 0.0
            parts.append(
                trained(
                    ("distil the student" if name == "joint" else f"train the student: {name}")
                    + (f", {seeds} seeds" if seeds > 1 else ""),
                    student_shape,
                    stage,
                    steps,
                    steps / max(per_epoch, stage.traits.watched_every),
                    asks,
                    seeds * len(ways),
                )
            )
    if recipe.baselines != "none":
        untuned = tuned is not None and tuned.method != "frozen"
        frozen = (train + dev) * teacher * (1 if words is None else 2) if untuned else 0.0
        kind, fixed = recipe.data.kind, 3.0
        if kind is not None and KINDS[kind].tags_words:  # a linear tagger, no frozen states
            frozen, fixed = 0.0, fixed + _TAGGED * length * min(train, analysis.MOST_TAGGED_TEXTS)
        parts.append(TimedPart("compare with baselines", slower * fixed + of_flops(frozen)))
    delivered = student_shape or teacher_shape
    num_lengths = len(file_lengths(recipe, tokens, delivered)) if delivered else 0
    formats = 1 + len({*recipe.export.also_quantize} - {recipe.export.teacher_quantize})
    exported = _FILE + _FILE_A_PARAMETER * parameters[delivered] if delivered else 0.0
    cells = num_lengths
    if recipe.teacher.export and teacher_shape is not None and student_shape is not None:
        count = parameters[teacher_shape]
        exported += _FILE + (_FILE_A_PARAMETER + (formats - 1) * _OTHER_FORMAT) * count
        cells += formats
    parts.append(TimedPart("export and check the files", slower * exported))
    settings = recipe.benchmark
    cell = settings.repetitions * (settings.min_seconds + slower * _CELL)
    parts.append(TimedPart("measure them on this host", len(settings.threads) * cells * cell))
    tested = of_flops(test * (teacher + 2 * student))
    parts.append(TimedPart("start, test and report", slower * (_START + _REPORT) + tested))
    return parts


def seconds_of(
    recipe: config.Recipe, rows: Mapping[str, Any], train: tasks.Examples
) -> float | None:
    """Estimates a run on this machine from its training texts; None where a model is unknown.

    A text has 4 pieces for 3 words; `rows` are as for `estimate`.
    """
    teacher, student = shapes.shapes_of(recipe, [])
    if (teacher is None and recipe.teacher.answers is None) or student is None:
        return None
    trained = None if recipe.student.is_teacher else student_of(recipe, teacher)
    rest = train.pairs or [""] * len(train)
    words = [len(f"{text} {pair}".split()) for text, pair in zip(train.texts, rest, strict=True)]
    tokens = 2 + 4 / 3 * np.asarray(words)
    longest = min(recipe.data.max_length, round(float(tokens.mean())))
    rate, _ = training_rate(teacher or student, longest)
    return sum(p.seconds for p in estimate(recipe, teacher, trained, rows, tokens, rate))


def student_of(recipe: config.Recipe, teacher: models.EncoderConfig | None) -> models.EncoderConfig:
    """The shape of a recipe's student, with as many words as its teacher."""
    words = teacher.vocab_size if teacher is not None else _WORDS
    return task_models.student_shape(recipe.student, words, teacher)


def file_lengths(
    recipe: config.Recipe, tokens: np.ndarray, shape: models.EncoderConfig
) -> tuple[int, ...]:
    """The lengths of a file: those that are named, or that fit texts of so many tokens, (n,)."""
    return recipe.export.lengths or lengths.choose(
        lengths.counted(tokens.tolist()),
        recipe.data.max_length,
        lambda length: float(models.flops(shape, length)),
    )
