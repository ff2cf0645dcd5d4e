"""What a recipe cannot do whose teacher is known by its answers alone."""

from __future__ import annotations

from tfdistill import storage
from tfdistill.config.pruned import is_pruned
from tfdistill.config.sections import STARTS, Recipe
from tfdistill.config.stages import ANSWERS_ALONE, StageConfig, TaskStage


def answers_faults(recipe: Recipe) -> list[str]:
    """Finds stages, starts and vocabularies that need a teacher's model, and missing files.

    Args:
      recipe: A recipe with `teacher.answers`.

    Returns:
      A sentence for every fault, with its remedy.
    """
    answers = recipe.teacher.answers
    assert answers is not None
    faults = [
        f"teacher.answers.files: {path} is not there"
        for path in answers.files
        if not storage.located(path).is_file()
    ]
    if recipe.data.task is None:
        faults.append("teacher.answers: answers belong to a task, and data.task is null")
    for name, stage in recipe.used_stages.items():
        why = _needs_model(stage)
        if why is not None:
            faults.append(
                f"stages.{name}: a stage of kind {stage.kind} {why}, and teacher.answers holds "
                f"answers alone. Use a stage of kind {', '.join(ANSWERS_ALONE)}, or a teacher model"
            )
    student = recipe.student
    if is_pruned(student.preset) or student.start in ("pruned", "teacher", "layers"):
        said = student.preset if is_pruned(student.preset) else f"initialise: {student.start}"
        faults.append(
            f"student.preset: {said} is made of a teacher model, and teacher.answers holds answers "
            "alone. Name a checkpoint (./FOLDER), a preset, or static"
        )
    elif recipe.data.vocab == "teacher" and student.start in STARTS:
        faults.append(
            "data.vocab: answers come without a vocabulary, and a student that starts at random "
            "has none. Use --set data.vocab=train:SIZE or a vocab.txt"
        )
    return faults


def _needs_model(stage: StageConfig) -> str | None:
    """What a stage takes from a teacher besides answers to the task's texts, or None."""
    compress = stage.compress if isinstance(stage, TaskStage) else None
    if not stage.has_teacher or (compress is not None and compress.teacher == "student"):
        return None
    if stage.on_corpus:
        return "asks the teacher about the text of a corpus"
    if isinstance(stage, TaskStage) and stage.augmented:
        return "asks the teacher about augmented texts"
    if stage.kind not in ANSWERS_ALONE:
        return "compares the student with the teacher's layers"
    return None
