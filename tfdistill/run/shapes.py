"""What the shapes of a recipe's teacher and student say before anything is read or trained."""

from __future__ import annotations

import pathlib

from tfdistill import config, errors, models, reading
from tfdistill.run import task_models
from tfdistill.weights import hf_config

_VOCAB_SIZE = 1000  # any: it is known only once there is a vocabulary


def shape_faults(recipe: config.Recipe, *, import_classes: bool = False) -> list[str]:
    """Finds presets and losses that there are not, sizes that do not fit, and unequal heads.

    Args:
      recipe: The recipe. What is on the hub is not fetched for this, nor checked.
      import_classes: Whether losses by import path are imported, which runs their module.

    Returns:
      A sentence for every fault, with its remedy.
    """
    faults = []
    teacher, student = _shapes(recipe, faults)
    if teacher is not None and student is not None:
        faults += _head_faults(recipe, teacher, student) + _word_faults(recipe, teacher, student)
    return faults + _loss_faults(recipe, import_classes)


def _loss_faults(recipe: config.Recipe, import_classes: bool) -> list[str]:
    faults = []
    for name, stage in recipe.used_stages.items():
        if "losses" in stage.traits.keys:
            from tfdistill import losses  # it imports TensorFlow, which other recipes need not

            try:
                losses.build_losses(stage.losses, import_classes=import_classes)
            except errors.TfdistillError as error:
                faults += [f"stages.{name}.{line}" for line in str(error).splitlines()]
    return faults


def unequal_heads(recipe: config.Recipe) -> bool:
    """Whether teacher and student are known to have other numbers of attention heads."""
    return _unequal(*_shapes(recipe, []))


def _unequal(teacher: models.EncoderConfig | None, student: models.EncoderConfig | None) -> bool:
    if teacher is None or student is None:
        return False
    if any(isinstance(shape, models.WordVectorConfig) for shape in (teacher, student)):
        return False
    return teacher.num_heads != student.num_heads


def _shapes(
    recipe: config.Recipe, faults: list[str]
) -> tuple[models.EncoderConfig | None, models.EncoderConfig | None]:
    """Teacher and student as far as they are known; adds to `faults` what is wrong with them."""
    teacher = student = None
    preset = recipe.student.preset
    here = not config.is_checkpoint(preset) or pathlib.Path(preset).is_dir()
    try:
        teacher = _teacher(recipe.teacher)
    except errors.TfdistillError as error:
        faults.append(f"teacher.source: {error}")
    try:
        known = teacher is not None or not config.is_pruned(preset)
        if known and here and not recipe.student.keep_head:
            student = task_models.student_shape(recipe.student, _VOCAB_SIZE, teacher)
    except errors.TfdistillError as error:
        faults.append(f"student: {error}")
    if student is not None and student.max_positions < recipe.data.max_length:
        expected = f"at most {student.max_positions}, the positions of {preset}"
        faults.append(errors.explain("data.max_length", expected, recipe.data.max_length))
    return teacher, student


def _teacher(settings: config.TeacherConfig) -> models.EncoderConfig | None:
    if settings.answers is not None:
        return None
    if settings.source.startswith(task_models.PRESET):
        name = settings.source.removeprefix(task_models.PRESET)
        return task_models.shape_of(name, settings, _VOCAB_SIZE)
    file = pathlib.Path(settings.source) / "config.json"
    try:
        return hf_config.parse_config(reading.read_json_object(file))
    except errors.TfdistillError:
        return None  # of the hub, or damaged: an error where it is opened


def _word_faults(
    recipe: config.Recipe, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> list[str]:
    firsts = [recipe.stages[variant.stages[0]] for variant in recipe.variants.values()]
    asked = recipe.student.start == "teacher"
    if not asked or not any(task_models.has_narrower_words(s, teacher, student) for s in firsts):
        return []
    return [
        errors.explain(
            "student.initialise",
            "a start without the teacher's word vectors, which are narrower than the student's",
            "'teacher'",
            "Set student.initialise=random.",
        )
    ]


def _head_faults(
    recipe: config.Recipe, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> list[str]:
    if not _unequal(teacher, student):
        return []
    return [
        errors.explain(
            f"student.num_heads, for stages.{name}",
            f"{teacher.num_heads} as in the teacher, since attention is compared head by head",
            student.num_heads,
            f"Set student.num_heads, stages.{name}.loss_weights.attention=0, or learn relations "
            "(MiniLM), which need no equal heads.",
        )
        for name, stage in recipe.used_stages.items()
        if stage.weight_of("attention") != 0 and not stage.own_teacher
    ]
