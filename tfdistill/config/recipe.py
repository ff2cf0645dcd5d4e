"""A whole recipe: its sections, and what holds between them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

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
    usual_lengths,
)
from tfdistill.config.stages import AnyStage, Stage


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
        return last is not None and last.method == "quantize"

    @pydantic.model_validator(mode="before")
    @classmethod
    def _shorthands(cls, values: Any) -> Any:
        return spelled_out(values)

    @pydantic.model_validator(mode="after")
    def _sections_fit_together(self) -> Recipe:
        if faults := cross_faults(self):
            raise ValueError("\n".join(faults))
        return self
