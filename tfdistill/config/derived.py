"""Recipes made of others: with a student that learns without a teacher."""

from __future__ import annotations

from tfdistill import errors
from tfdistill.config.recipe import Recipe
from tfdistill.config.stages import Stage, new_stage
from tfdistill.config.training import LEAST_STEPS, OptimizerConfig

NAME = "no_teacher"
_COMMON = {*OptimizerConfig.model_fields, "batch_size", "token_budget", "bucketing", "patience"}
_COMMON -= {"learning_rate"}
_LENGTH = {"epochs", "steps", "min_steps"}


def labels_alone(last: Stage, *, learning_rate: float | None, batches: int | None = None) -> Stage:
    """Makes a stage of gold labels like the one that trains a classifier.

    Args:
      last: That stage.
      learning_rate: Its rate, or None for the default.
      batches: The least number of batches; None: as long as `last`.

    Returns:
      The stage.
    """
    values = last.model_dump(include=_COMMON if batches else _COMMON | _LENGTH)
    if learning_rate is not None:
        values["learning_rate"] = learning_rate
    if values.get("min_steps") == "auto":  # of a joint stage, by the width of its student
        values["min_steps"] = LEAST_STEPS
    if batches:
        values |= {"epochs": 1, "min_steps": batches}
    return new_stage("labels", **values)


def with_baseline(recipe: Recipe) -> Recipe:
    """Adds the student that learns from gold labels alone, unless the recipe has it.

    It is trained as long, in batches as large and at the rate of the exported variant's last
    stage, which trains the classifier there. A student that starts as a part of its teacher, or
    whose rate follows from its start, gets the baseline "no_teacher" instead, which starts alike.

    Args:
      recipe: A recipe.

    Returns:
      The recipe with a first variant "no_teacher", or with all baselines; the recipe itself, if it
      has no task or a variant whose stages are all of kind "labels".

    Raises:
      ConfigError: If it is of kind "embedding".
    """
    if recipe.data.gives_vectors:
        raise errors.ConfigError(
            "the student without a teacher",
            "a task with labels",
            "sentence vectors, which come from a teacher alone",
            "Leave --no-teacher out.",
        )
    alone = any(
        all(recipe.stages[stage].kind == "labels" for stage in variant.stages)
        for variant in recipe.variants.values()
    )
    if alone or recipe.data.task is None or recipe.student.is_teacher:
        return recipe
    last = recipe.stages[list(recipe.variants.values())[-1].stages[-1]]
    if recipe.student.start in ("auto", "pruned") or last.learning_rate is None:
        return recipe.model_copy(update={"baselines": "all"})
    values = recipe.model_dump()
    values["stages"][NAME] = labels_alone(last, learning_rate=last.learning_rate).model_dump()
    values["variants"] = {NAME: {"stages": (NAME,)}, **values["variants"]}
    return Recipe.model_validate(values)
