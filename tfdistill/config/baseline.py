"""The same student without a teacher, added to the variants of a recipe."""

from __future__ import annotations

from tfdistill.config.sections import Recipe

NAME = "no_teacher"


def with_baseline(recipe: Recipe) -> Recipe:
    """Adds the student that learns from gold labels alone, unless the recipe has it.

    It is trained as long, in batches as large and at the rate of the exported variant's last
    stage, which trains the classifier there.

    Args:
      recipe: A recipe.

    Returns:
      The recipe with a first variant "no_teacher"; the recipe itself, if it has no task or a
      variant whose stages are all of kind "labels".
    """
    alone = any(
        all(recipe.stages[stage].kind == "labels" for stage in variant.stages)
        for variant in recipe.variants.values()
    )
    if alone or recipe.data.task is None:
        return recipe
    last = recipe.stages[list(recipe.variants.values())[-1].stages[-1]]
    values = recipe.model_dump()
    values["stages"][NAME] = {
        "kind": "labels",
        **last.model_dump(
            include={
                *("optimizer", "learning_rate", "end_learning_rate", "beta_2", "epsilon"),
                *("schedule", "warmup", "weight_decay", "clip", "clip_norm"),
                *("epochs", "steps", "batch_size", "token_budget", "bucketing", "patience"),
            }
        ),
    }
    values["variants"] = {NAME: {"stages": (NAME,)}, **values["variants"]}
    return Recipe.model_validate(values)
