"""A whole recipe: its sections, what holds between them, and recipes made of others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from tfdistill import errors
from tfdistill.config.cross_checks import cross_faults
from tfdistill.config.schema import Section, Seed, described, each_once
from tfdistill.config.sections import (
    Baselines,
    BenchmarkConfig,
    DataConfig,
    ExportConfig,
    StudentConfig,
    TeacherConfig,
    VariantConfig,
    spelled_out,
)
from tfdistill.config.stages import AnyStage, Stage, new_stage
from tfdistill.config.training import LEAST_STEPS, OptimizerConfig

_USUAL_LENGTHS = (32, 64, 128)


class Recipe(Section):
    """A whole run: teacher, students, stages, export, benchmark, report.

    Where `student.preset` is "teacher", the teacher is exported, and there are no stages and no
    variants. Otherwise the last variant is the one that is exported, with the seed whose
    development metric is the median of its seeds (the lower one for an even count).
    """

    format_version: Literal[1] = 1
    name: str = pydantic.Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    data: DataConfig
    teacher: TeacherConfig
    student: StudentConfig
    stages: dict[str, AnyStage]
    variants: dict[str, VariantConfig]
    seeds: Annotated[tuple[Seed, ...], pydantic.AfterValidator(each_once)] = pydantic.Field(
        default=(1,), min_length=1
    )
    baselines: Baselines = described(
        "cheap",
        "what the student is compared with: none, cheap (linear models), or all (also the same "
        "student trained without a teacher, which takes as long again)",
    )
    export: ExportConfig = ExportConfig()
    benchmark: BenchmarkConfig = BenchmarkConfig()

    @property
    def export_lengths(self) -> tuple[int, ...]:
        """The lengths that are named, or `usual_lengths`; a run's student gets those that fit."""
        return self.export.lengths or usual_lengths(self.data.max_length)

    @property
    def used_stages(self) -> dict[str, Stage]:
        """The stages that a variant goes through, by name, in the order of the recipe."""
        used = {name for variant in self.variants.values() for name in variant.stages}
        return {name: stage for name, stage in self.stages.items() if name in used}

    @property
    def gives_quantize_aware(self) -> bool:
        """Whether the last stage of the exported variant is quantization-aware training."""
        names = [name for variant in self.variants.values() for name in variant.stages]
        last = self.stages[names[-1]].compress if names else None
        return last is not None and last.learns_ranges

    @pydantic.model_validator(mode="before")
    @classmethod
    def _shorthands(cls, values: Any) -> Any:
        return spelled_out(values)

    @pydantic.model_validator(mode="after")
    def _sections_fit_together(self) -> Recipe:
        if faults := cross_faults(self):
            raise ValueError("\n".join(faults))
        return self


NAME = "no_teacher"
_COMMON = {*OptimizerConfig.model_fields, "batch_size", "token_budget", "bucketing", "patience"}
_COMMON -= {"learning_rate"}
_LENGTH = {"epochs", "steps", "min_steps"}


def labels_alone(last: Stage, *, learning_rate: float | None, batches: int | None = None) -> Stage:
    """Makes a stage of gold labels like `last`, the one that trains a classifier.

    A `learning_rate` of None is the default. `batches` is the least number of them; None: as long
    as `last`.
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
    A recipe without a task stays as it is; one of kind "embedding" is refused.
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


def usual_lengths(
    max_length: int | None = None, *, positions: int | None = None
) -> tuple[int, ...]:
    """The lengths of a file whose texts are not known: 32, 64 and 128 tokens, as far as they go.

    The most tokens that it was trained on are the longest; None: not known. So are `positions`.
    """
    lengths = _USUAL_LENGTHS
    if max_length is not None:
        lengths = (*(length for length in _USUAL_LENGTHS if length < max_length), max_length)
    if positions is not None:
        lengths = tuple(length for length in lengths if length <= positions) or (positions,)
    return lengths
