"""The groups that a run is compared by: the models of one variant, and the speed of two files."""

from __future__ import annotations

import dataclasses
import statistics

from tfdistill.benchmark import schema as measured
from tfdistill.report.run_results import RunResults
from tfdistill.results import ModelResult


@dataclasses.dataclass(frozen=True)
class ModelGroup:
    """The models of one variant: the same training under several seeds."""

    name: str  # name of the variant, or of the teacher
    models: tuple[ModelResult, ...]  # one per seed
    taught: bool | None  # whether a teacher took part in the training; None for a teacher itself
    chosen: bool  # whether one of them was exported as the student

    @property
    def role(self) -> str:
        """`teacher` or `student`."""
        return self.models[0].role

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that they went through."""
        return self.models[0].stages

    def values(self, metric: str) -> list[float]:
        """Returns the metric of every seed that has it."""
        values = (model.metrics.get(metric) for model in self.models)
        return [value for value in values if value is not None]

    def mean(self, metric: str) -> float | None:
        """Returns the mean over the seeds."""
        values = self.values(metric)
        return statistics.fmean(values) if values else None

    def deviation(self, metric: str) -> float | None:
        """Returns the standard deviation over the seeds (n - 1); None for a single one."""
        values = self.values(metric)
        return statistics.stdev(values) if len(values) > 1 else None

    def train_seconds(self) -> float | None:
        """Returns the mean training time of one model."""
        times = [m.train_seconds for m in self.models if m.train_seconds is not None]
        return statistics.fmean(times) if times else None


@dataclasses.dataclass(frozen=True)
class Speed:
    """Latency of student and teacher at one length and number of threads."""

    sequence_length: int
    threads: int
    teacher: measured.Summary
    student: measured.Summary
    speedup: float  # teacher's p50 / student's p50
    interval: tuple[float, float] | None  # its 95% interval, or None
    faster: bool | None  # whether the student is faster by the interval; None if that is not clear
    busy: bool = False  # whether other programs disturbed the measurement of either


def model_groups(results: RunResults) -> tuple[ModelGroup, ...]:
    """Groups the models of a run by variant, the teacher first."""
    metrics = results.metrics
    if metrics is None:
        return ()
    kinds = results.stage_kinds
    by_name: dict[tuple[str, str], list[ModelResult]] = {}
    for model in sorted(metrics.models, key=lambda m: m.role != "teacher"):
        by_name.setdefault((model.role, model.name), []).append(model)
    groups = []
    for (role, name), models in by_name.items():
        taught = None
        if role == "student":
            taught = any(kinds.get(stage, stage) != "labels" for stage in models[0].stages)
        chosen = role == "student" and metrics.chosen in {m.folder for m in models}
        groups.append(ModelGroup(name, tuple(models), taught, chosen))
    return tuple(groups)
