"""A proposed student as a recipe that is ready to run."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from tfdistill import config, errors, files, models, structured
from tfdistill.search.pareto import Estimate
from tfdistill.search.space import Candidate, Teacher

_BERT_PRESETS = {"tinybert": "tinybert_4l_312d", "minilm": "minilm_6l_384d", "logits": "bert_small"}
_MOBILE_PRESETS = {"no_norm": "mobilebert", "no_norm_2ffn": "mobilebert_tiny"}
_FINETUNE = {"epochs": 3, "batch_size": 32, "learning_rate": 3.0e-5}
_LABELS = {"kind": "labels", "epochs": 3, "batch_size": 32, "learning_rate": 5.0e-5}


@dataclasses.dataclass(frozen=True)
class Goal:
    """What the recipes of a search are for.

    Attributes:
      method: One of `space.METHODS`.
      teacher: The teacher.
      task: The task; mobilebert, which reads plain text only, has none.
      lengths: Of the exported file.
      quantize: Of the exported file.
      threads: What the benchmark of a run measures with.
      data: What else is known of the task's files: fields of a recipe's `data`.
    """

    method: str
    teacher: Teacher
    task: str
    lengths: tuple[int, ...]
    quantize: str
    threads: int
    data: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def recipe_values(candidate: Candidate, goal: Goal) -> dict[str, Any]:
    """Returns a recipe as plain values, with what it `extends`, if anything.

    pruned cuts the student out of the fine-tuned teacher, which it then learns from in one joint
    stage. tinybert extends the published settings for the task, mobilebert those of its
    pre-training; minilm has the published relations on plain text and then the teacher's answers,
    logits the teacher's answers alone.
    """
    task = goal.task
    values: dict[str, Any] = {"name": f"{goal.method}_{candidate.name}"}
    if goal.method == "mobilebert":
        shape = candidate.config
        teacher: dict[str, Any] = {"num_layers": shape.num_layers, "hidden_size": shape.hidden_size}
        assert isinstance(shape, models.MobileBertConfig)
        teacher["embedding_size"] = shape.embedding_size
        values = {"extends": "mobilebert", **values, "teacher": teacher}
    else:
        values["name"] += f"_{task}"
        values["data"] = {**goal.data, "task": task, "max_length": max(goal.lengths)}
        values["teacher"] = {"source": goal.teacher.source}
    if goal.method == "tinybert":
        values = {"extends": "tinybert_4l", **values}
    values["student"] = _student(candidate, goal)
    if goal.method in _STAGES:
        values |= _STAGES[goal.method]
    if goal.method in ("minilm", "logits"):
        values["teacher"] |= {"finetune": _FINETUNE}
    values["export"] = {"quantize": goal.quantize, "lengths": list(goal.lengths)}
    values["benchmark"] = {"threads": [goal.threads]}
    return values


_STAGES: dict[str, dict[str, Any]] = {
    "pruned": {
        "stages": {"joint": {"kind": "joint"}},
        "variants": {"full": {"stages": ["joint"]}},
    },
    "logits": {
        "stages": {
            "labels": _LABELS,
            "distillation": {**_LABELS, "kind": "logits", "epochs": 6},
        },
        "variants": {
            "no_teacher": {"stages": ["labels"]},
            "full": {"stages": ["distillation"]},
        },
    },
    "minilm": {
        "stages": {
            "labels": _LABELS,
            "relations": {
                "kind": "relations",
                "reads": "corpus",
                "steps": 400000,
                "batch_size": 256,
                "learning_rate": 6.0e-4,
                "warmup": 0.01,
                "clip": "global",
            },
            "prediction": {**_LABELS, "kind": "prediction", "learning_rate": 3.0e-5},
        },
        "variants": {
            "no_teacher": {"stages": ["labels"]},
            "full": {"stages": ["relations", "prediction"]},
        },
    },
}


def pruned_preset(candidate: Candidate) -> str:
    """The short form of a student that is pruned to a shape: ``pruned:layers=3,ffn=384,...``."""
    shape = candidate.config
    return str(
        config.PrunedShape(
            layers=shape.num_layers,
            ffn=shape.intermediate_size,
            heads=shape.num_heads,
            width=shape.hidden_size,
        )
    )


def _student(candidate: Candidate, goal: Goal) -> dict[str, Any]:
    shape, method = candidate.config, goal.method
    if method == "pruned":
        return {"preset": pruned_preset(candidate), "initialise": "pruned"}
    sizes: dict[str, Any] = {
        "num_layers": shape.num_layers,
        "hidden_size": shape.hidden_size,
        "num_heads": shape.num_heads,
        "intermediate_size": shape.intermediate_size,
    }
    if isinstance(shape, models.MobileBertConfig):
        preset = _MOBILE_PRESETS[candidate.kind]
        sizes |= {"embedding_size": shape.embedding_size, "bottleneck_size": shape.bottleneck_size}
        start = "teacher" if method == "mobilebert" else "random"
        return {"preset": preset, **sizes, "initialise": start}
    if shape.hidden_act != "gelu":
        sizes["hidden_act"] = shape.hidden_act
    # MiniLM and plain logits are published with students that start at random.
    start = "teacher" if method == "tinybert" else "random"
    return {"preset": _BERT_PRESETS[method], **sizes, "initialise": start}


def write_recipe(path: files.Path, estimate: Estimate, goal: Goal, notes: Sequence[str]) -> str:
    """Writes a proposed student as a recipe and reads it back.

    Args:
      path: The YAML file.
      estimate: The student.
      goal: What it is for.
      notes: Sentences for the comment that the file begins with; what the recipe needs before
        it can run follows them.

    Returns:
      The name of the recipe.

    Raises:
      ConfigError: If it is no valid recipe, or builds another student.
    """
    values = recipe_values(estimate.candidate, goal)
    text = yaml.safe_dump(_plain(values), sort_keys=False, allow_unicode=True)
    files.atomic_write_text(path, text)
    recipe = config.load_recipe(str(path))
    missing = config.missing_inputs(recipe)
    needs = ["Before it can run it needs", *(f"  {line}" for line in missing)] if missing else []
    # Notes name the device as it names itself: whatever YAML takes for a new line stays inside.
    lines = [" ".join(line.splitlines()) for line in [*notes, *needs]]
    header = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    files.atomic_write_text(path, header + text)
    built = shape_of(recipe.student, estimate.candidate.config.vocab_size, goal.teacher)
    wanted = estimate.candidate.config.replace(max_positions=built.max_positions)
    if built != wanted:
        raise errors.ConfigError(f"student of {recipe.name}", wanted, built)
    return recipe.name


def shape_of(
    student: config.StudentConfig, vocab_size: int, teacher: Teacher
) -> models.EncoderConfig:
    """The shape that a recipe's student has."""
    if config.is_pruned(student.preset):
        assert teacher.config is not None
        return structured.pruned_config(teacher.config, config.parse_pruned(student.preset))
    return models.preset(student.preset).replace(vocab_size=vocab_size, **student.sizes())


def _plain(value: Any) -> Any:
    """A copy without shared parts, for which YAML would write anchors."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return list(value) if isinstance(value, (list, tuple)) else value
