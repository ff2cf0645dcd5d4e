"""Recipes: what a run does, as validated values.

A recipe is a YAML file. `load_recipe` reads it, applies dotted overrides (``data.dir=glue/SST-2``)
and reports every fault at once, with the nearest valid key for a misspelt one. Only the builders
in `tfdistill.run` see these classes; everything below takes plain arguments.
"""

from __future__ import annotations

import importlib.resources
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import pydantic
import yaml

from tfdistill import errors

StageKind = Literal["general", "intermediate", "prediction", "labels"]
Quantize = Literal["float32", "float16", "dynamic_wi8_afp32"]
BUILT_IN_DATA = "assistant"


class _Section(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", protected_namespaces=(), frozen=True)


SectionType = TypeVar("SectionType", bound=_Section)


class DataConfig(_Section):
    """The task and its files.

    `task` is a GLUE name, "assistant" (the embedded synthetic commands) or any name of
    your own together with `text_column` and `label_column`.
    """

    task: str
    dir: str | None = None
    text_column: str | None = None
    pair_column: str | None = None
    label_column: str | None = None
    labels: tuple[str, ...] | None = None
    regression: bool = False
    max_length: int = pydantic.Field(default=128, ge=3, le=512)
    vocab: str = "teacher"  # "teacher", a vocab.txt, or "train:SIZE"
    lower_case: bool | None = None  # None: as the teacher's tokenizer
    train_limit: int | None = pydantic.Field(default=None, gt=0)
    dev_limit: int | None = pydantic.Field(default=None, gt=0)


class OptimizerConfig(_Section):
    """AdamW; learning rates are per step, warm-up is a fraction of all steps."""

    learning_rate: float = pydantic.Field(gt=0)
    schedule: Literal["linear", "constant"] = "linear"
    warmup: float = pydantic.Field(default=0.1, ge=0, lt=1)
    weight_decay: float = pydantic.Field(default=0.01, ge=0)
    clip: Literal["per_tensor", "global", "none"] = "per_tensor"
    clip_norm: float = pydantic.Field(default=1.0, gt=0)


class FineTuneConfig(OptimizerConfig):
    """Fine-tuning of the teacher on gold labels."""

    learning_rate: float = pydantic.Field(default=5e-5, gt=0)
    clip: Literal["per_tensor", "global", "none"] = "global"
    epochs: int = pydantic.Field(default=3, gt=0)
    batch_size: int = pydantic.Field(default=32, gt=0)
    token_budget: int | None = pydantic.Field(default=None, gt=0)
    keep_best: bool = True


class TeacherConfig(_Section):
    """Where the teacher comes from.

    `source` is a Hugging Face folder or hub id, or ``preset:NAME`` for a teacher that is trained
    from random weights on the task itself.
    """

    source: str
    finetune: FineTuneConfig | None = None
    dtype: Literal["float32", "bfloat16"] = "float32"
    allow_weak: bool = False
    export: bool = True


class StudentConfig(_Section):
    """The student's architecture and how its weights start.

    The sizes that are given replace those of the preset. `initialise` is "teacher" (embeddings
    projected from the teacher's), "random", or a Hugging Face folder or hub id of a student that
    went through a general stage elsewhere, such as a published TinyBERT.
    """

    preset: str
    num_layers: int | None = pydantic.Field(default=None, gt=0)
    hidden_size: int | None = pydantic.Field(default=None, gt=0)
    num_heads: int | None = pydantic.Field(default=None, gt=0)
    intermediate_size: int | None = pydantic.Field(default=None, gt=0)
    dropout: float | None = pydantic.Field(default=None, ge=0, lt=1)
    initialise: str = "teacher"


class StageConfig(OptimizerConfig):
    """One stage of training.

    `kind` decides the default terms: general and intermediate learn attention scores, embeddings
    and hidden states; prediction learns the teacher's logits; labels learns the gold labels
    without a teacher. `loss_weights` scales the terms by name, 0 switches one off.
    """

    kind: StageKind
    learning_rate: float = pydantic.Field(default=5e-5, gt=0)
    epochs: int = pydantic.Field(default=3, gt=0)
    batch_size: int = pydantic.Field(default=32, gt=0)
    token_budget: int | None = pydantic.Field(default=None, gt=0)
    bucketing: bool = True
    max_length: int | None = pydantic.Field(default=None, ge=3, le=512)
    corpus: tuple[str, ...] = ()
    max_tokens: int | None = pydantic.Field(default=None, gt=0)
    loss_weights: dict[str, float] = {}
    layer_weights: dict[str, tuple[float, ...]] = {}
    layer_map: Literal["uniform", "top", "bottom"] | tuple[int, ...] = "uniform"
    projection: Literal["shared", "per_layer", "none"] = "shared"
    prediction: Literal["soft_cross_entropy", "kl_divergence", "logit_mse"] = "soft_cross_entropy"
    temperature: float = pydantic.Field(default=1.0, gt=0)
    reduction: Literal["tokens", "reference"] = "tokens"
    keep_best: bool | None = None  # None: where the stage trains the classifier
    patience: int | None = pydantic.Field(default=None, gt=0)


class VariantConfig(_Section):
    """One student of the comparison: the stages that it goes through, in order."""

    stages: tuple[str, ...] = pydantic.Field(min_length=1)


class ExportConfig(_Section):
    """The phone file."""

    quantize: Quantize = "dynamic_wi8_afp32"
    lengths: tuple[int, ...] = pydantic.Field(default=(32, 64, 128), min_length=1)
    softmax: bool = False
    teacher_quantize: Quantize = "float32"


class BenchmarkConfig(_Section):
    """The measurement on this host."""

    threads: tuple[int, ...] = pydantic.Field(default=(1,), min_length=1)
    warmup: int = pydantic.Field(default=10, ge=0)
    runs: int = pydantic.Field(default=100, gt=0)
    min_seconds: float = pydantic.Field(default=2.0, ge=0)
    repetitions: int = pydantic.Field(default=3, gt=0)


class Recipe(_Section):
    """A whole run: teacher, students, stages, export, benchmark, report.

    The last variant is the one that is exported, with the seed whose development metric is the
    median of its seeds (the lower one for an even count).
    """

    format_version: Literal[1] = 1
    name: str = pydantic.Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    data: DataConfig
    teacher: TeacherConfig
    student: StudentConfig
    stages: dict[str, StageConfig] = pydantic.Field(min_length=1)
    variants: dict[str, VariantConfig] = pydantic.Field(min_length=1)
    seeds: tuple[int, ...] = pydantic.Field(default=(1,), min_length=1)
    export: ExportConfig = ExportConfig()
    benchmark: BenchmarkConfig = BenchmarkConfig()

    @pydantic.model_validator(mode="before")
    @classmethod
    def _shorthands(cls, values: Any) -> Any:
        """Accepts ``teacher: SOURCE`` and ``student: PRESET`` as plain strings."""
        if isinstance(values, dict):
            values = dict(values)
            if isinstance(values.get("teacher"), str):
                values["teacher"] = {"source": values["teacher"]}
            if isinstance(values.get("student"), str):
                values["student"] = {"preset": values["student"]}
        return values

    @pydantic.model_validator(mode="after")
    def _names_are_known(self) -> Recipe:
        faults = _variant_faults(self.model_dump())
        if faults:
            raise ValueError("\n".join(faults))
        return self


def missing_inputs(recipe: Recipe) -> list[str]:
    """What a valid recipe still needs before it can run on this machine.

    Args:
      recipe: The recipe.

    Returns:
      A sentence for every input that is not named or not there, with its remedy.
    """
    faults = []
    embedded = recipe.data.task == BUILT_IN_DATA
    if recipe.data.dir is None and not embedded:
        faults.append("data.dir: the task's files. Give them with --set data.dir=FOLDER")
    elif recipe.data.dir is not None and not pathlib.Path(recipe.data.dir).exists():
        faults.append(f"data.dir: {recipe.data.dir} is not there")
    choice = recipe.data.vocab
    if choice == "teacher" and recipe.teacher.source.startswith("preset:"):
        faults.append("data.vocab: a preset has none. Use --set data.vocab=train:SIZE or a file")
    elif choice != "teacher" and not choice.startswith("train:") and not _is_file(choice):
        faults.append(f"data.vocab: {choice} is not there")
    used = {stage for variant in recipe.variants.values() for stage in variant.stages}
    for name in sorted(used):
        stage = recipe.stages[name]
        if stage.kind != "general":
            continue
        if not stage.corpus and not embedded:
            faults.append(
                f"stages.{name}.corpus: plain text. Give it with "
                f"--set stages.{name}.corpus=[FILE,...]"
            )
        faults += [
            f"stages.{name}.corpus: {path} is not there"
            for path in stage.corpus
            if not _is_file(path)
        ]
    return faults


def _is_file(path: str) -> bool:
    return pathlib.Path(path).is_file()


def _variant_faults(values: Mapping[str, Any]) -> list[str]:
    """Faults between variants and stages; what is malformed by itself is left to the fields."""
    stages, variants = values.get("stages"), values.get("variants")
    if not isinstance(stages, Mapping) or not isinstance(variants, Mapping):
        return []
    faults = []
    for name, variant in variants.items():
        names = variant.get("stages") if isinstance(variant, Mapping) else None
        if not isinstance(names, (list, tuple)) or not names:
            continue
        for stage in names:
            if stage not in stages:
                hint = errors.nearest(stage, stages)
                faults.append(f"variants.{name}.stages: no stage {stage!r}. {hint}")
        last = stages.get(names[-1])
        kind = last.get("kind") if isinstance(last, Mapping) else None
        if kind in ("general", "intermediate"):
            faults.append(
                f"variants.{name}.stages: ends in a {kind} stage, which trains no classifier. "
                "End with a prediction or a labels stage"
            )
    return faults


def recipes() -> dict[str, pathlib.Path]:
    """Returns the named recipes that come with tfdistill: name -> file."""
    folder = pathlib.Path(str(importlib.resources.files("tfdistill"))) / "recipes"
    return {path.stem: path for path in sorted(folder.rglob("*.yaml"))}


def find_recipe(name: str) -> pathlib.Path:
    """Finds a recipe by name, or takes a path to a YAML file.

    Raises:
      ConfigError: If there is neither.
    """
    known = recipes()
    if name in known:
        return known[name]
    path = pathlib.Path(name)
    if path.suffix in (".yaml", ".yml") and path.is_file():
        return path
    hint = errors.nearest(name, known)
    raise errors.ConfigError(
        errors.explain("recipe", "a known name or a YAML file", repr(name), hint)
        + " Try `tfdistill recipes ls`."
    )


def load_recipe(source: str, overrides: Sequence[str] = ()) -> Recipe:
    """Reads a recipe, applies overrides and validates the whole.

    Args:
      source: The name of a recipe or a path to a YAML file.
      overrides: Assignments "dotted.key=value"; the value is YAML.

    Returns:
      The validated recipe.

    Raises:
      ConfigError: With every fault, a line each.
    """
    path = find_recipe(source)
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.ConfigError(
            errors.explain(f"recipe {path.name}", "YAML in UTF-8", error)
        ) from error
    if not isinstance(values, dict):
        raise errors.ConfigError(
            errors.explain(f"recipe {path.name}", "a mapping", type(values).__name__)
        )
    for assignment in overrides:
        _assign(values, assignment)
    return parse_recipe(values, source=path.name)


def parse_recipe(values: dict[str, Any], *, source: str = "recipe") -> Recipe:
    """Validates a recipe given as plain values.

    Raises:
      ConfigError: With every fault, a line each.
    """
    return parse_section(Recipe, values, source=source)


def parse_section(
    section: type[SectionType], values: dict[str, Any], *, source: str
) -> SectionType:
    """Validates one section given as plain values; see `parse_recipe`."""
    try:
        return section.model_validate(values)
    except pydantic.ValidationError as error:
        faults = [_describe(fault, section) for fault in error.errors()]
        if section is Recipe and all(fault["loc"] for fault in error.errors()):
            faults += _variant_faults(values)  # pydantic looks at these only when fields are valid
        raise errors.ConfigError(
            f"{source}: {len(faults)} fault{'s' if len(faults) > 1 else ''}.\n  - "
            + "\n  - ".join(faults)
        ) from error


def dump_recipe(recipe: Recipe) -> str:
    """Writes a recipe as YAML that `load_recipe` reads back to an equal value."""
    return yaml.safe_dump(recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _assign(values: dict[str, Any], assignment: str) -> None:
    key, separator, text = assignment.partition("=")
    if not separator or not key:
        raise errors.ConfigError(errors.explain("--set", "dotted.key=value", repr(assignment)))
    try:
        value = yaml.safe_load(text) if text else None
    except yaml.YAMLError as error:
        raise errors.ConfigError(errors.explain(f"--set {key}", "a YAML value", text)) from error
    *parents, last = key.split(".")
    place: Any = values
    for parent in parents:
        inner = place.get(parent)
        if isinstance(inner, str) and parent in ("teacher", "student"):
            inner = {"source" if parent == "teacher" else "preset": inner}
        place[parent] = inner = inner if isinstance(inner, dict) else {}
        place = inner
    shorthand = {"teacher": "source", "student": "preset"}.get(key)
    if shorthand and isinstance(value, str) and isinstance(place.get(last), dict):
        place[last][shorthand] = value
    else:
        place[last] = value


def _describe(fault: Any, section: type[pydantic.BaseModel]) -> str:
    where = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        hint = errors.nearest(fault["loc"][-1], _keys_at(section, fault["loc"][:-1]))
        return f"{where}: unknown key. {hint}"
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "missing":
        return f"{where}: missing. It is required"
    if not where:
        return message.replace("\n", "\n  - ")
    return f"{where}: {message}, received {fault.get('input')!r}"


def _keys_at(section: type[pydantic.BaseModel], location: Sequence[Any]) -> list[str]:
    inner = {
        "data": DataConfig,
        "teacher": TeacherConfig,
        "student": StudentConfig,
        "stages": StageConfig,
        "variants": VariantConfig,
        "export": ExportConfig,
        "benchmark": BenchmarkConfig,
        "finetune": FineTuneConfig,
    }
    for part in location:
        section = inner.get(str(part), section)
    return list(section.model_fields)
