"""Recipes made of others: with a student without a teacher, or scaled down to a toy."""

from __future__ import annotations

from typing import Any

from tfdistill import errors
from tfdistill.config.pruned import PrunedShape, is_checkpoint, is_pruned, is_static, parse_pruned
from tfdistill.config.recipe import Recipe
from tfdistill.config.sections import BUILT_IN_DATA, STARTS, ShapeConfig
from tfdistill.config.stages import Stage, new_stage
from tfdistill.config.training import LEAST_STEPS, SCALED_DOWN_RATE

NAME = "no_teacher"
_COMMON = {
    *("optimizer", "end_learning_rate", "beta_2", "epsilon"),
    *("schedule", "bias_correction", "warmup", "weight_decay", "clip", "clip_norm"),
    *("batch_size", "token_budget", "bucketing", "patience", "precision"),
}
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


_MAX_LENGTH, _BATCH_SIZE, _STEPS, _EXAMPLES, _TOKENS = 32, 16, 24, 256, 4000
_NO_SIZES = {name: None for name in ShapeConfig.model_fields if name != "hidden_act"}
_BERT = {"num_layers": 4, "hidden_size": 32, "num_heads": 4, "intermediate_size": 64}
_MOBILEBERT = {
    "num_layers": 3,
    "hidden_size": 32,
    "embedding_size": 16,
    "bottleneck_size": 16,
    "num_heads": 2,
    "intermediate_size": 32,
}
_PRETRAIN = {"learning_rate": SCALED_DOWN_RATE, "warmup": 0.1}
_IB_BERT = {**_MOBILEBERT, "bottleneck_size": 48, "intermediate_size": 64}


def scaled_down(recipe: Recipe) -> Recipe:
    """Shrinks a recipe until it runs in minutes on two cores, without any file of yours.

    Stages, methods, losses, schedules and their order stay. The task's files are generated in
    the task's own form (`data.placeholder_data`), the vocabulary is trained on them, the teacher
    is a toy of the same kind (pre-trained on generated text where the stages need a masked
    language model), models become shallow and narrow, batches and epochs few.

    Args:
      recipe: Any recipe.

    Returns:
      A recipe whose name ends in "-scaled-down". Its figures say nothing about real text.

    Raises:
      ConfigError: If its teacher is a sentence encoder, or stays frozen: no toy stands for it.
    """
    what, tuned = f"recipe {recipe.name} to scale down", recipe.teacher.finetune
    if recipe.data.gives_vectors:
        raise errors.ConfigError(what, "a task with labels", "one of kind embedding")
    if tuned is not None and tuned.pooled:
        remedy = "It takes a minute on few rows: run it as it is."
        expected = "teacher.finetune.method labels"
        raise errors.ConfigError(what, expected, tuned.method, remedy)
    kinds = [stage.traits for stage in recipe.stages.values()]
    mobile = any(kind.in_parts for kind in kinds)
    masked = any(kind.predicts_words and kind.has_teacher for kind in kinds)
    masked |= recipe.teacher.pretrain is not None or recipe.data.augment is not None
    values = recipe.model_dump()
    values["name"] = f"{recipe.name}-scaled-down"
    values["data"] |= {
        "dir": None,
        "placeholder_data": recipe.data.task != BUILT_IN_DATA,
        "vocab": "train:400",
        "lower_case": True,
        "max_length": min(recipe.data.max_length, _MAX_LENGTH),
        "doc_stride": min(recipe.data.doc_stride, _MAX_LENGTH // 4),
        "max_question_length": min(recipe.data.max_question_length, _MAX_LENGTH // 4),
        "train_limit": _EXAMPLES,
        "dev_limit": _EXAMPLES // 4,
        "unlabelled": (),
    }
    if recipe.data.augment is not None:
        values["data"]["augment"] |= {"masked_lm": None, "vectors": None, "copies": 2}
    finetune = values["teacher"]["finetune"]
    values["teacher"] |= {
        **_NO_SIZES,
        **(_IB_BERT if mobile else _BERT),
        "source": "preset:ib_bert_large" if mobile else "preset:bert_base",
        "answers": None,
        "general": None,
        "dtype": "float32",
        "allow_weak": True,
        "finetune": finetune and _short(finetune),
        "pretrain": _short(values["teacher"]["pretrain"] or {**_PRETRAIN, "next_sentence": mobile})
        if masked or recipe.data.task is None
        else None,
    }
    values["student"] |= {**_NO_SIZES, **_student(recipe, mobile=mobile)}
    values["stages"] = {name: _stage(stage) for name, stage in values["stages"].items()}
    values["seeds"] = recipe.seeds[:1]
    values["export"]["lengths"] = (_MAX_LENGTH,)
    values["benchmark"] |= {"threads": (1,), "runs": 10, "min_seconds": 0.0, "repetitions": 1}
    return Recipe.model_validate(values)


def _student(recipe: Recipe, *, mobile: bool) -> dict[str, Any]:
    """Half the teacher's layers, and its width where the recipe's student has it."""
    start = recipe.student.initialise
    chosen: dict[str, Any] = {
        "initialise": start if start in STARTS else "teacher",
        "keep_head": False,
        "allow_weak": True,
    }
    if mobile:
        return {**chosen, **_MOBILEBERT}
    if is_pruned(recipe.student.preset):
        choose = parse_pruned(recipe.student.preset).choose
        return {**chosen, "preset": str(PrunedShape(layers=2, ffn=32, heads=2, choose=choose))}
    if recipe.student.preset == "static" or is_static(recipe.student.preset):
        return {**chosen, "preset": "static", "embedding_size": 16}
    if is_checkpoint(recipe.student.preset):
        chosen["preset"] = "bert_tiny"
    if recipe.student.preset.startswith("bilstm"):
        return {**chosen, "embedding_size": 16, "hidden_size": 8, "dense_size": 16}
    wide = recipe.student.preset.endswith(("_base", "_768d"))
    width = _BERT["hidden_size"] if wide else _BERT["hidden_size"] // 2
    if isinstance(recipe.student.teacher_layers, tuple):
        chosen["teacher_layers"] = (0, 2)
    return {
        **chosen,
        "num_layers": _BERT["num_layers"] // 2,
        "hidden_size": width,
        "num_heads": _BERT["num_heads"],
        "intermediate_size": 2 * width,
    }


def _stage(values: dict[str, Any]) -> dict[str, Any]:
    """A stage cut short; layers and heads that are named by number are those of the toy."""
    toy: dict[str, Any] = {
        "relation_heads": 2 * _BERT["num_heads"],
        "transfer_steps": _STEPS // 4,
        "teacher_layer": _BERT["num_layers"] - 2,
        "gradient_accumulation": min(values["gradient_accumulation"], 2),
    }
    shorter = {**values, **{key: toy[key] for key in toy if values.get(key) not in (None, -1)}}
    if "max_tokens" in values:
        shorter["max_tokens"] = _TOKENS
    if not isinstance(values.get("layer_map", ""), str):
        shorter["layer_map"] = "uniform"
    return _short(shorter)


def _short(values: dict[str, Any]) -> dict[str, Any]:
    """One epoch of small batches, or a few steps; the text is the generated one."""
    shorter = {**values, "epochs": 1, "batch_size": _BATCH_SIZE}
    if values.get("steps") is not None:
        shorter["steps"] = _STEPS
    if values.get("min_steps") is not None:
        shorter["min_steps"] = _STEPS
    if "corpus" in values:
        shorter["corpus"] = ()
    if values.get("max_length") is not None:
        shorter["max_length"] = _MAX_LENGTH
    return shorter
