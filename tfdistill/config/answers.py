"""What a recipe cannot do whose teacher is known by its answers alone."""

from __future__ import annotations

from tfdistill import storage
from tfdistill.config.pruned import is_pruned
from tfdistill.config.recipe import Recipe
from tfdistill.config.sections import STARTS, AnswersConfig
from tfdistill.config.stages import ANSWERS_ALONE, STAGES, VECTOR_LOSSES, Stage


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
    embeds = recipe.data.gives_vectors
    faults += _faults_of_vectors(answers) if embeds else []
    kinds = [kind for kind in ANSWERS_ALONE if embeds == STAGES[kind].for_vectors]
    for name, stage in recipe.used_stages.items():
        why = _needs_model(stage)
        if why is not None:
            faults.append(
                f"stages.{name}: a stage of kind {stage.kind} {why}, and teacher.answers holds "
                f"answers alone. Use a stage of kind {', '.join(kinds)}, or a teacher model"
            )
    student = recipe.student
    if is_pruned(student.preset) or student.start in ("pruned", "teacher", "layers"):
        said = student.preset if is_pruned(student.preset) else f"initialise: {student.start}"
        faults.append(
            f"student.preset: {said} is made of a teacher model, and teacher.answers holds answers "
            f"alone. Name a checkpoint (./FOLDER){' or' if embeds else ', static or'} a preset"
        )
    elif recipe.data.vocab == "teacher" and student.start in STARTS:
        faults.append(
            "data.vocab: answers come without a vocabulary, and a student that starts at random "
            "has none. Use --set data.vocab=train:SIZE or a vocab.txt"
        )
    return faults


def _faults_of_vectors(answers: AnswersConfig) -> list[str]:
    """What files of vectors cannot be: parts of an ensemble."""
    faults = []
    if len(answers.files) > 1:
        faults.append(
            f"teacher.answers.files: {len(answers.files)} files are an ensemble, and vectors of "
            "several models are in several spaces. Name one file; join those of one model into one"
        )
    if answers.temperatures:
        faults.append("teacher.answers.temperatures: vectors have none. Leave them out")
    return faults


def _needs_model(stage: Stage) -> str | None:
    """What a stage takes from a teacher besides answers to the task's texts, or None."""
    if not stage.traits.has_teacher or stage.own_teacher:
        return None
    if stage.on_corpus:
        return "asks the teacher about the text of a corpus"
    if stage.augmented:
        return "asks the teacher about augmented texts"
    if "losses" in stage.traits.keys:
        named = [loss.get("loss") for loss in stage.losses.values()]
        if all(name in VECTOR_LOSSES for name in named):
            return None
    if not stage.traits.answers_alone:
        return "compares the student with the teacher's layers"
    return None
