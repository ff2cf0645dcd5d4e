"""What is wrong with the models and losses of a recipe: found before anything is trained."""

from __future__ import annotations

import pathlib
from typing import Any

from export.conversion import device_form
from export.conversion import quantize as quantizing
from tfdistill import config, errors, losses, models, pruning
from tfdistill.io import reading
from tfdistill.run import lessons, task_models
from tfdistill.weights import hf_config

_VOCAB_SIZE = 1000  # any: it is known only once there is a vocabulary
Shape = models.EncoderConfig | None


class _ShapePair(losses.ModelPair):
    """The shapes of two models in their place: what a loss is fitted to before they are built."""

    def shapes(self, loss: str) -> tuple[Any, Any]:
        """The two."""
        return self.teacher, self.student


def shape_faults(recipe: config.Recipe, *, import_classes: bool = False) -> list[str]:
    """Finds what of a recipe's models, losses and files does not fit together: a sentence each.

    What is on the hub is not fetched for this, nor checked. `import_classes` imports losses by
    import path, which runs their module.
    """
    faults: list[str] = []
    teacher, student = shapes_of(recipe, faults)
    if teacher is not None and student is not None:
        faults += _head_faults(recipe, teacher, student) + _word_faults(recipe, teacher, student)
        faults += _start_faults(recipe, teacher, student)
    faults += _position_faults(recipe, teacher, student)
    for name, stage in recipe.used_stages.items():
        for line in _loss_faults(recipe, stage, (teacher, student), import_classes):
            faults.append(f"stages.{name}.{line}")
    try:
        for device, quantize in recipe.export.variants.items():
            device_form.form(device, quantizing.quantization(quantize))
    except errors.ConfigError as error:
        faults.append(f"export.variants: {error}")
    if recipe.export.size_mb is not None:
        for applies, expected in (
            (recipe.gives_quantize_aware, "none after quantization-aware training, for one format"),
            (recipe.data.cross_fitted, "none with data.cross_fitted: no labelled texts are left"),
        ):
            if applies:
                faults.append(errors.explain("export.size_mb", expected, recipe.export.size_mb))
    return faults


def _loss_faults(
    recipe: config.Recipe, stage: config.Stage, pair: tuple[Shape, Shape], import_classes: bool
) -> list[str]:
    """Builds the losses of a stage and fits them to the shapes, as its distiller will."""
    teacher, student = pair
    if stage.own_teacher:
        teacher = student
    general = stage.on_corpus and recipe.teacher.general is not None  # of a shape of its own
    try:
        if "losses" in stage.traits.keys:
            built = losses.build_losses(stage.losses, import_classes=import_classes)
        elif stage.traits.from_start or not {"layer_map", "relation_heads"} & {*stage.traits.keys}:
            built = {}
        else:
            built = lessons.losses_of(stage, None, None)  # pyright: ignore
        if teacher is None or student is None or general:
            return []
        if stage.traits.from_start and isinstance(stage.layer_map, tuple) and student.num_layers:
            losses.layer_map(teacher.num_layers, student.num_layers, stage.layer_map)
        for name, loss in built.items():
            if isinstance(loss, losses.LayerLoss):
                taps = (str(loss.tap),)
                shapes = _ShapePair(teacher, student, teacher_outputs=taps, student_outputs=taps)  # pyright: ignore
                fitted = loss.bind(name, shapes)
                told = loss.tap == "attention_scores" and stage.weight_of("attention")
                if stage.loss_weights.get(name, loss.weight) and not told:  # see `_head_faults`
                    fitted.check(shapes)
    except errors.TfdistillError as error:
        return str(error).splitlines()
    return []


def _start_faults(
    recipe: config.Recipe, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> list[str]:
    """Layers that the teacher has not to start from, and sizes that it cannot be cut to."""
    settings = recipe.student
    try:
        if settings.start in ("layers", "pruned") and isinstance(settings.teacher_layers, tuple):
            losses.layer_map(teacher.num_layers, student.num_layers, settings.teacher_layers)
        if settings.start == "pruned":
            words = teacher.vocab_size  # it reads the teacher's, or both read new ones
            pruning.check_prunable(teacher, student.replace(vocab_size=words))
    except errors.TfdistillError as error:
        return [f"student: {error}"]
    return []


def _position_faults(recipe: config.Recipe, teacher: Shape, student: Shape) -> list[str]:
    """Texts and files that are longer than a model has positions."""
    lengths = {"data.max_length": recipe.data.max_length}
    for name, stage in recipe.used_stages.items():
        if stage.on_corpus and stage.max_length is not None:
            lengths[f"stages.{name}.max_length"] = stage.max_length
    exported, pretrain = recipe.export.lengths, recipe.teacher.pretrain
    if exported is not None and recipe.data.task is not None:
        lengths["export.lengths"] = min(exported)  # longer ones are left out
    of_teacher = dict(lengths)
    if pretrain is not None and pretrain.max_length is not None:
        of_teacher["teacher.pretrain.max_length"] = pretrain.max_length
    faults = []
    for shape, source, read in (
        (teacher, recipe.teacher.source, of_teacher),
        (student, recipe.student.preset, lengths),
    ):
        for key, length in read.items():
            if shape is not None and length > shape.max_positions:
                expected = f"at most {shape.max_positions}, the positions of {source}"
                faults.append(errors.explain(key, expected, length))
    return faults


def unequal_heads(recipe: config.Recipe) -> bool:
    """Whether teacher and student are known to have other numbers of attention heads."""
    return _unequal(*shapes_of(recipe, []))


def _unequal(teacher: models.EncoderConfig | None, student: models.EncoderConfig | None) -> bool:
    if teacher is None or student is None:
        return False
    if any(isinstance(shape, models.WordVectorConfig) for shape in (teacher, student)):
        return False
    return teacher.num_heads != student.num_heads


def shapes_of(
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
        of_teacher = config.is_pruned(preset) or recipe.student.is_teacher
        has_shape = teacher is not None or not of_teacher
        if has_shape and here and not recipe.student.keep_head:
            student = task_models.student_shape(recipe.student, _VOCAB_SIZE, teacher)
    except errors.TfdistillError as error:
        faults.append(f"student: {error}")
    return teacher, student


def _teacher(settings: config.TeacherConfig) -> models.EncoderConfig | None:
    if settings.answers is not None:
        return None
    if settings.source.startswith(task_models.PRESET):
        return task_models.shape_of(settings.source, settings, _VOCAB_SIZE)
    file = pathlib.Path(settings.source) / "config.json"
    try:
        return hf_config.parse_config(reading.read_json_object(file))
    except errors.TfdistillError:
        return None  # of the hub, or damaged: an error where it is opened


def _word_faults(
    recipe: config.Recipe, teacher: models.EncoderConfig, student: models.EncoderConfig
) -> list[str]:
    firsts = [recipe.stages[variant.stages[0]] for variant in recipe.variants.values()]
    copies_words = recipe.student.start == "teacher"
    if not copies_words or not any(
        task_models.has_narrower_words(s, teacher, student) for s in firsts
    ):
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
