"""What a stage of a recipe is made of: its rate and temperature, its batches, its fit."""

from __future__ import annotations

import functools
import logging
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import analysis, config, errors, losses, models, results, training
from tfdistill.data import streaming
from tfdistill.data.batches import Batches
from tfdistill.data.task_data import TaskData
from tfdistill.distillers import checks
from tfdistill.io import files, ledger, work_folder
from tfdistill.run import digests, initialise, prepare, soft_labels, teachers
from tfdistill.run.lessons import Lesson, distiller_of, has_noise, stage_batches
from tfdistill.training import multi_worker, optimizers, precision

_log = logging.getLogger(__name__)

SETTINGS = "distillation.json"
_NEAR = 0.04  # share missed: after 250 steps or 1,000 such a student answered as it did before


def by_width(
    stage: config.Stage, shape: models.EncoderConfig | models.BiLstmConfig | models.StaticConfig
) -> config.Stage:
    """Chooses rate and fewest steps by the width of the student, where a stage leaves them open."""
    chosen: dict[str, Any] = {}
    if stage.learning_rate is None:
        static = isinstance(shape, models.StaticConfig)
        rate = config.STATIC_RATE if static else config.joint_rate(shape.hidden_size)
        chosen["learning_rate"] = rate
    if stage.min_steps == "auto":
        measured = isinstance(shape, models.EncoderConfig)
        steps = config.joint_steps(shape.hidden_size) if measured else config.LEAST_STEPS
        chosen["min_steps"] = steps
    return stage.model_copy(update=chosen)


def _resolved(
    stage: config.Stage,
    lesson: Lesson,
    student: keras.Model,
    kept_layers: tuple[int, ...] | None,
) -> config.Stage:
    """Chooses rate, steps, temperature and layers where the recipe leaves them open.

    A pruned student is compared at the teacher layers that it was cut from (`kept_layers`). One
    that answers nearly as its teacher does before it is trained takes smaller steps, and fewer.
    """
    chosen: dict[str, Any] = {}
    answered = lesson.teacher is not None and not stage.traits.for_vectors
    answers = _answers(lesson) if answered else None
    if stage.temperature is None:
        chosen["temperature"] = 1.0 if answers is None else _sharpening(lesson, *answers)
    weighs_alike = stage.compress is None or stage.compress.bits == 4  # as without compression
    cut = kept_layers is not None and lesson.same_tokens and weighs_alike
    open_rate = stage.learning_rate is None and isinstance(lesson.teacher, keras.Model)
    if cut and open_rate and answers is not None:
        missed = _missed(*answers, student)
        chosen["learning_rate"] = config.joint_rate(models.config_of(student).hidden_size, missed)
        _log.info(
            f"learning rate {chosen['learning_rate']:.2g}: before its training the student misses "
            f"{missed:.0%} of the variance of its teacher's answers to the development set"
        )
        if missed < _NEAR and stage.min_steps == "auto":
            chosen["min_steps"] = config.LEAST_STEPS // 4
            _log.info(f"at least {chosen['min_steps']} steps: a student so near learns little")
    stage = by_width(stage, models.config_of(student))
    if kept_layers is not None and stage.layer_map == "uniform":
        chosen["layer_map"] = kept_layers
    return stage.model_copy(update=chosen)


def _answers(lesson: Lesson) -> tuple[np.ndarray, Batches]:
    """The teacher's logits for the development set, and the texts that they answer."""
    dev, teacher = lesson.teacher_data.of_task.dev, lesson.teacher
    if isinstance(teacher, soft_labels.SoftLabels):
        return teacher.dev, teacher.dev_set(dev)
    return training.predict_logits(teacher, dev), dev


def _missed(logits: np.ndarray, dev: Batches, student: keras.Model) -> float:
    """The share of the variance of the teacher's logits t that the student's, s, lack.

    sum |t - s|^2 / sum |t - mean t|^2 over the rows.
    """
    errors_made = logits - training.predict_logits(student, dev)
    return float((errors_made**2).sum() / ((logits - logits.mean(axis=0)) ** 2).sum())


def _sharpening(lesson: Lesson, logits: np.ndarray, dev: Batches) -> float:
    """1, or the temperature that calibrates a teacher whose answers are nearly uniform."""
    if not lesson.teacher_data.of_task.task.traits.exclusive:
        return 1.0
    labels = analysis.gold_labels(dev.encoded)
    logits, labels = logits[labels >= 0], labels[labels >= 0]  # of words their first pieces
    share = analysis.entropy_share(logits)
    if share < analysis.NEARLY_UNIFORM:
        return 1.0
    temperature = min(analysis.fit_temperature(logits, labels), 1.0)
    _log.info(
        f"The teacher's answers are nearly uniform (mean entropy {share:.0%} of the largest): they "
        f"are sharpened with the temperature {temperature:.2f}, fitted on the development set."
    )
    return temperature


# Trains in a folder, resumable; the text is shown in front of the progress bar.
Fit = Callable[[pathlib.Path, str], results.FitResult]


def distill(
    teacher: keras.Model | None,
    student: keras.Model,
    data: TaskData,
    folder: files.Path,
    *,
    kind: str | None = None,
    epochs: int = 3,
    batch_size: int = 32,
    learning_rate: float | None = None,
    seed: int = 1,
    allow_weak: bool = False,
    overwrite: bool = False,
    **settings: Any,
) -> results.FitResult:
    """Trains a student in one stage, as `tfdistill distill` does: the two give equal weights.

    By default a stage of kind "joint": the teacher's answers to texts of which three quarters have
    tokens replaced, and its hidden states; a rate by the student's width that rises in a tenth of
    the steps and falls to 0; at least 1,000 steps, for narrow students more (`config.joint_steps`).
    Where texts have noise, the student has no dropout, and its last epoch is kept. Elsewhere the
    best one on the development set is kept, and training stops after 5 without a better one. A call
    that was stopped goes on where it was.

    Args:
      teacher: The teacher, with the head of the task; None for a kind without one.
      student: The student of `build_student`, or another model with that head; trained in place.
      data: The data of `load_data`.
      folder: Absent, empty, or that of a call with the same settings, models and examples, which
        goes on. Gets distillation.json (what it began with), checkpoints/, history.csv and
        tensorboard/.
      kind: The kind of stage; None: "embedding" for a task of that kind, otherwise "joint".
      epochs: Passes over the training texts, more where these are fewer than `min_steps`.
      batch_size: Examples of a batch.
      learning_rate: The peak rate; None: that of the kind.
      seed: Seed of order, noise and dropout.
      allow_weak: Whether a teacher is accepted that answers near chance.
      overwrite: Whether an earlier call's files in `folder` are removed first.
      **settings: Further keys of a stage in a recipe, such as ``min_steps``, ``patience``,
        ``keep_best``, ``token_noise``, ``temperature``, ``warmup`` and ``schedule``; not
        `compress`, which only a run carries out.

    Returns:
      The steps, the seconds, and the best value on the development set.

    Raises:
      ConfigError: With every setting that is not valid; if the folder began with others.
      OutputExistsError: If the folder holds what `distill` did not write.
      ShapeError: If the kind cannot compare the two models.
      TeacherError: If the teacher answers near chance.

    Examples:
      >>> options = {"epochs": 1, "min_steps": 2, "patience": None}
      >>> result = tfdistill.distill(teacher, student, data, "runs/python", **options)
      >>> result.steps
      2
    """
    errors.check_types(
        teacher=(teacher, (keras.Model, type(None))),
        student=(student, keras.Model),
        data=(data, TaskData),
    )
    kind = kind or ("embedding" if data.task.traits.vectors else "joint")
    values: dict[str, Any] = {"epochs": epochs, "batch_size": batch_size, **settings}
    if learning_rate is not None:
        values["learning_rate"] = learning_rate
    if kind not in config.STAGES:
        raise errors.ConfigError(
            "kind",
            f"one of {', '.join(config.STAGES)}",
            repr(kind),
            errors.nearest(kind, config.STAGES),
        )
    section = config.STAGE_SECTIONS[kind]
    stage = config.parse_section(section, values, source="distill", place=kind)
    if not stage.trains_classifier:
        remedy = "Run a recipe: `tfdistill run`."
        raise errors.ConfigError("kind", "a stage that trains the answers of a task", kind, remedy)
    if faults := list(_without_effect(stage, data)):
        raise errors.ConfigError("\n".join(faults))
    if data.unlabelled is not None:
        prepare.say_use({kind: stage}, data.task, len(data.train_examples))
    if not allow_weak:
        checks.check_teacher(teacher, data.dev)
    origin = initialise.origin_of(student)
    begins = {
        "stage": stage.model_dump(mode="json"),
        "seed": seed,
        "teacher": "" if teacher is None else training.teacher_digest(teacher).hexdigest(),
        "student": repr(models.config_of(student)),
        "start": repr((origin.start, origin.layers, origin.seed)),
        "max_length": data.settings.max_length,
        # As earlier versions named them: those beside the primary one choose nothing.
        "metrics": [name.partition(":")[0] for name in data.task.metrics if name != "r2"],
        "primary_metric": data.task.primary_metric,
        "class_weights": None if data.class_weights is None else data.class_weights.tolist(),
        "train": digests.of_examples(data.train_examples),
        "dev": digests.of_examples(data.dev_examples),
        "tokens": digests.of_encoded(
            train=data.train.encoded,
            dev=data.dev.encoded,
            unlabelled=data.unlabelled,
            augmented=data.augmented,
        ),
    }
    strategy = student.distribute_strategy
    with (
        multi_worker.working_folder(folder, strategy) as root,
        work_folder.WorkFolder(root, "distillation").open(resume=True, overwrite=overwrite),
    ):
        remedy = "Name another folder, or pass overwrite=True to start again."
        expected = "the settings, models and examples that the folder began with"
        ledger.check_same_file(root / SETTINGS, begins, expected, remedy)
        taught = teacher
        if teacher is not None and stage.precision == precision.MIXED:
            taught = models.with_policy(teacher, "bfloat16")
        answers = functools.partial(training.cached_logits, folder=root / "cache")
        lesson = Lesson(teacher=taught, data=data, teacher_data=data, answers=answers)
        keras.utils.set_random_seed(seed)
        with precision.training_in(student, stage.precision) as trained:
            fit, projections = build_stage(stage, lesson, trained, seed, origin.layers)
            if teacher is not None:
                initialise.start_projections(projections, trained, origin, lambda: teacher)
            files.atomic_write_json(root / SETTINGS, begins)
            return fit(root, "student")


def _without_effect(stage: config.Stage, data: TaskData) -> Iterator[str]:
    """What a recipe carries out, or data cannot give: a sentence for each of the settings."""
    if stage.compress is not None:
        remedy = "Compress in a stage of a recipe: `tfdistill run`."
        yield errors.explain("compress", "none in distill", stage.compress.method, remedy)
    if stage.augmented and data.augmented is None:
        remedy = "A recipe makes them: `tfdistill run`."
        yield errors.explain("augmented", "data with augmented texts", "none", remedy)
    yield from stage.length_faults(data.settings.max_length, "max_length")
    if data.class_weights is not None and not stage.needs_labels(data.task.traits):
        yield errors.explain(
            "data.class_weights",
            "a stage that learns from gold labels",
            f"one of kind {stage.kind}, which learns the teacher's answers alone",
            "Leave class_weights out of load_data, or give loss_weights={'label': 1.0}.",
        )


def build_stage(
    stage: config.Stage,
    lesson: Lesson,
    student: keras.Model,
    seed: int,
    kept_layers: tuple[int, ...] | None = None,
) -> tuple[Fit, Sequence[keras.layers.Layer]]:
    """Builds the distiller and the batches of a stage; the caller has set the random seed.

    Returns its fit, and the projections from the student's states to the teacher's width. `seed` is
    that of order, masks and dropout; `kept_layers` are the teacher layers that a pruned student was
    cut from.
    """
    if stage.traits.in_parts:
        return _transfer(stage, lesson, student, seed)
    if stage.traits.from_start:
        stage = _resolved(stage, lesson, student, kept_layers)
    distiller = distiller_of(stage, lesson, student, seed)
    if not stage.on_corpus:
        weights = lesson.data.of_task.class_weights
        if weights is not None and any(
            isinstance(loss, losses.GoldLabels) for loss in distiller.losses_by_name.values()
        ):
            distiller.weigh_classes(weights)
    train = stage_batches(stage, lesson, seed, distiller)
    noisy = has_noise(stage, train)
    epochs = stage.num_epochs(train.steps_per_epoch)
    if stage.steps is not None:
        parts = max(1, stage.steps // stage.traits.watched_every)
        parts = min(streaming.MOST_PARTS, parts)
        train = training.StepRange(train, start=0, steps=stage.steps, most_parts=parts)
        epochs = train.parts
    keras.utils.set_random_seed(seed)
    updates = train.steps_per_epoch * epochs // stage.gradient_accumulation
    distiller.compile(
        optimizers.build(stage, updates),
        loss_weights=stage.loss_weights or None,
        gradient_accumulation=stage.gradient_accumulation,
        dropout=not noisy,
    )
    fit = functools.partial(training.fit, distiller, train, epochs=epochs)
    if stage.trains_classifier:
        data = lesson.data.of_task
        prunes = stage.compress is not None and stage.compress.method == "prune"
        keep = not (prunes or noisy) if stage.keep_best is None else stage.keep_best
        fit = functools.partial(
            fit,
            evaluate=teachers.watcher(student, data),
            monitor=data.task.primary_metric if keep else None,
            patience=stage.patience,
            min_steps=stage.min_steps,
        )
    return (
        lambda folder, description: fit(folder=folder, description=description),
        distiller.projections,
    )


def _transfer(
    stage: config.Stage, lesson: Lesson, student: keras.Model, seed: int
) -> tuple[Fit, Sequence[keras.layers.Layer]]:
    teacher = lesson.teacher
    assert isinstance(teacher, keras.Model)
    train = stage_batches(stage, lesson, seed)
    auxiliary = stage.strategy == "akt"
    by_steps = stage.transfer_steps is not None
    parts = training.transfer_stages(
        stage.strategy,
        num_layers=models.config_of(student).num_layers,
        transfer_steps=None if auxiliary else stage.transfer_steps,
        transfer_epochs=None if auxiliary or by_steps else stage.transfer_epochs,
        steps=stage.steps,
        epochs=None if stage.steps is not None else stage.epochs,
        earlier=stage.earlier,
    )
    constant = {
        "learning_rate": stage.transfer_learning_rate or stage.learning_rate,
        "end_learning_rate": 0.0,
        "schedule": "constant",
        "warmup": 0.0,
    }

    def optimizer(part: training.TransferStage, steps: int) -> keras.optimizers.Optimizer:
        settings = stage if part.predict_words else stage.model_copy(update=constant)
        return optimizers.build(settings, steps)

    def run(folder: pathlib.Path, description: str) -> results.FitResult:
        keras.utils.set_random_seed(seed)
        done = training.run_transfer(
            parts,
            teacher,
            student,
            train,
            folder,
            optimizer=optimizer,
            loss_weights=stage.loss_weights or None,
            gradient_accumulation=stage.gradient_accumulation,
            seed=seed,
            description=description,
        )
        return results.FitResult(
            steps=sum(result.steps for result in done),
            seconds=sum(result.seconds for result in done),
        )

    return run, ()
