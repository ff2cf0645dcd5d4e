"""The students of a run: variants of stages, sharing every prefix that they have in common."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

import tf_keras as keras

from tfdistill import compress, config, models, results, training
from tfdistill.run import initialise
from tfdistill.run.folder import RunContext
from tfdistill.run.initialise import Student, new_student
from tfdistill.run.lessons import Lesson, num_batches
from tfdistill.run.stages import build_stage, by_width
from tfdistill.training import checkpoints, precision, variables

RESULT = "result.json"
STUDENT, PROJECTION = "student.safetensors", "projection.safetensors"
MASKED = "masked_lm.safetensors"


def stage_folder(
    root: pathlib.Path, recipe: config.Recipe, stages: tuple[str, ...], seed: int
) -> pathlib.Path:
    """The folder of the stage that ends `stages`: shared by variants with this prefix.

    Stages on plain text see no task and are trained once, with the first seed, for all seeds.
    """
    if recipe.data.task is not None and all(recipe.stages[name].on_corpus for name in stages):
        seed = recipe.seeds[0]
    return root / "stages" / "+".join(stages) / f"seed-{seed}"


def start_of(context: RunContext, first: config.Stage) -> initialise.Start:
    """What a run's students follow from; `first` is their first stage."""
    pruned_file = context.root / "stages" / initialise.START
    data = context.data, context.student_data
    return initialise.Start(context.recipe.student, first, context.teachers, *data, pruned_file)


def stage_data_without_teacher(context: RunContext, name: str) -> Lesson:
    """What a stage of a run reads, without its teacher."""
    data = context.student_data
    return Lesson(teacher=None, data=data, teacher_data=data, corpus=context.corpora.get(name))


def lesson_of(
    context: RunContext, name: str, stage: config.Stage, teacher: keras.Model | None = None
) -> Lesson:
    """What a student learns from in a stage of a run.

    `teacher` is another than the run's: one that reads the student's tokens, and is as wide.
    """
    teacher = context.teachers.for_stage(stage) if teacher is None else teacher
    lesson = stage_data_without_teacher(context, name)
    if context.own_tokens is not None and context.teachers.knows(teacher):
        lesson = dataclasses.replace(lesson, teacher_data=context.data)
    return dataclasses.replace(lesson, teacher=teacher, answers=context.teachers.answers)


def train_stages(context: RunContext, stages: tuple[str, ...], seed: int) -> Student:
    """Trains a student through `stages`, reusing the longest prefix that is already trained."""
    *earlier, last = stages
    folder = stage_folder(context.root, context.recipe, stages, seed)
    place = _place(context, folder)
    stage = context.recipe.stages[last]
    start = start_of(context, stage)
    student = train_stages(context, tuple(earlier), seed) if earlier else new_student(start, seed)
    trained, weights_file = student.model, folder / STUDENT
    if stage.traits.predicts_words:
        weights_file = folder / MASKED
        trained = student.with_words(next_sentence=stage.next_sentence)
        if not earlier and stage.traits.has_teacher:
            layers = start.settings.teacher_layers  # of which the encoder, and so the head, is made
            if start.settings.initialise == "layers" and isinstance(layers, tuple):
                training.initialise_from_layers(trained, start.teachers.words, layers=layers)
    compressing, result = stage.compress, results.read_finished(folder / RESULT, results.FitResult)
    if result is not None and weights_file.is_file():
        if compressing is not None and compressing.learns_ranges:
            trained = student.model = _compressing(compressing, student.model, total_steps=1)
        variables.load(trained.weights, weights_file, made_from=place)
    else:
        teacher = None
        if compressing is not None:
            if compressing.teacher == "student":  # as it enters the stage
                teacher = models.with_policy(student.model, "float32")
            counted = by_width(stage, models.config_of(student.model))
            steps = num_batches(counted, stage_data_without_teacher(context, last), seed)
            trained = _compressing(compressing, student.model, steps)
        keras.utils.set_random_seed(seed)
        lesson = lesson_of(context, last, stage, teacher)
        if teacher is not None and "projection" in stage.traits.keys:
            stage = stage.model_copy(update={"projection": "none"})
        with precision.training_in(trained, stage.precision) as learner:
            fit, projections = build_stage(stage, lesson, learner, seed, student.origin.layers)
            _start_projections(context, projections, tuple(earlier), seed, stage, student)
            result = fit(folder, f"{'+'.join(stages)} seed {seed}")
        if compressing is not None:
            if not compress.is_quantize_aware(trained):
                trained = compress.strip(trained)
            student.model = trained
        variables.save(trained.weights, weights_file, made_from=place)
        if projections:
            held = [weight for layer in projections for weight in layer.weights]
            variables.save(held, folder / PROJECTION, made_from=place)
        results.write_result_file(result, folder / RESULT)
    checkpoints.remove(folder)
    if stage.traits.predicts_words:
        models.copy_encoder(trained, student.model)
    return student


def train_seconds(context: RunContext, stages: tuple[str, ...], seed: int) -> float:
    """The time that all stages of a student took."""
    folders = _folders(context, stages, seed).values()
    fits = [results.read_result_file(folder / RESULT, results.FitResult) for folder in folders]
    return sum(fit.seconds for fit in fits)


def histories(
    context: RunContext, stages: tuple[str, ...], seed: int
) -> tuple[results.HistoryFile, ...]:
    """The loss curves of a student's stages: one file each, or one for each part of a transfer."""
    listed = []
    for stage, folder in _folders(context, stages, seed).items():
        paths = [folder / "history.csv"]
        if not paths[0].is_file():
            paths = sorted(folder.glob("*/history.csv"))
        for path in paths:
            name = stage if path.parent == folder else f"{stage} {path.parent.name}"
            csv = str(path.relative_to(context.root))
            listed.append(results.HistoryFile.of(context.root, name, csv))
    return tuple(listed)


def _place(context: RunContext, folder: pathlib.Path) -> str:
    """What the weights of a stage are made from: its folder, which names its stages and seed."""
    return folder.relative_to(context.root).as_posix()


def _folders(context: RunContext, stages: tuple[str, ...], seed: int) -> dict[str, pathlib.Path]:
    """Stage -> folder, for every stage that a student went through."""
    return {
        stage: stage_folder(context.root, context.recipe, stages[: index + 1], seed)
        for index, stage in enumerate(stages)
    }


def _start_projections(
    context: RunContext,
    layers: Sequence[keras.layers.Layer],
    earlier: tuple[str, ...],
    seed: int,
    stage: config.Stage,
    student: Student,
) -> None:
    """Hidden projections continue from the stage before, or start as the teacher's directions."""
    if not layers:
        return
    held = [variable for layer in layers for variable in layer.weights]
    before = [folder / PROJECTION for folder in _folders(context, earlier, seed).values()]
    last = next((path for path in reversed(before) if path.is_file()), None)
    if last is not None and variables.by_name(held).keys() == variables.read(last).keys():
        variables.load(held, last, made_from=_place(context, last.parent))
    elif context.teachers.soft_labels is None or student.origin.basis is not None:
        teacher = functools.partial(context.teachers.in_float32, stage)
        initialise.start_projections(layers, student.model, student.origin, teacher)


def _compressing(
    settings: config.CompressConfig, student: keras.Model, total_steps: int
) -> keras.Model:
    options = {key: getattr(settings, key) for key in config.METHODS[settings.method]}
    if settings.layers is not None:
        options["layers"] = settings.layers
    if settings.method == "prune":
        return compress.prune(student, total_steps=total_steps, **options)
    if settings.method == "cluster":
        return compress.cluster(student, **options)
    return compress.quantize_aware(student, **options)
