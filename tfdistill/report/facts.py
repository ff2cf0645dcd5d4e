"""What follows from the results: who kept how much, how much smaller, how much faster. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from tfdistill import manifest
from tfdistill.benchmark import schema as measured
from tfdistill.report import devices, schema
from tfdistill.report.results import RunResults


@dataclasses.dataclass(frozen=True)
class Group:
    """The models of one variant: the same training under several seeds.

    Attributes:
      name: Name of the variant, or of the teacher.
      models: One per seed.
      taught: Whether a teacher took part in the training; None for a teacher itself.
      chosen: Whether one of them was exported as the student.
    """

    name: str
    models: tuple[schema.ModelResult, ...]
    taught: bool | None
    chosen: bool

    @property
    def role(self) -> str:
        """`teacher` or `student`."""
        return self.models[0].role

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that they went through."""
        return self.models[0].stages

    def values(self, metric: str) -> list[float]:
        """The metric of every seed that has it."""
        found = (model.metrics.get(metric) for model in self.models)
        return [value for value in found if value is not None]

    def mean(self, metric: str) -> float | None:
        """Mean over the seeds."""
        values = self.values(metric)
        return statistics.fmean(values) if values else None

    def spread(self, metric: str) -> float | None:
        """Standard deviation over the seeds (n - 1); None for a single one."""
        values = self.values(metric)
        return statistics.stdev(values) if len(values) > 1 else None

    def train_seconds(self) -> float | None:
        """Mean training time of one model."""
        times = [m.train_seconds for m in self.models if m.train_seconds is not None]
        return statistics.fmean(times) if times else None


@dataclasses.dataclass(frozen=True)
class Speed:
    """Latency of student and teacher at one length and number of threads.

    Attributes:
      speedup: Teacher's p50 / student's p50.
      interval: Its 95% interval, or None.
      faster: Whether the interval says so; None if it does not say.
    """

    sequence_length: int
    threads: int
    teacher: measured.Summary
    student: measured.Summary
    speedup: float
    interval: tuple[float, float] | None
    faster: bool | None


class Facts:
    """Derived values of a run.

    Args:
      results: What the run folder holds.

    Attributes:
      results: The same.
      metric: The primary metric.
      groups: Teachers first, then the variants in the order of the run.
      teacher: The group of the teacher, or None.
      student: The group of the chosen student, or None.
      bench: The device of the run's own benchmark, or None.
      others: Devices of other benchmarks of its files.
    """

    def __init__(self, results: RunResults) -> None:
        self.results = results
        metrics = results.metrics
        self.metric = metrics.task.primary_metric if metrics else "accuracy"
        self.groups = _groups(results)
        self.teacher = next((g for g in self.groups if g.role == "teacher"), None)
        students = [g for g in self.groups if g.role == "student"]
        chosen = [g for g in students if g.chosen] or students[-1:]
        self.student = chosen[0] if chosen else None
        self._exports = metrics.exports if metrics else ()
        series = self._series()
        named = devices.Named("benchmark", results.benchmark) if results.benchmark else None
        self.bench = devices.one_bench(named, series) if named else None
        self.others = devices.benches(results.others, series)

    def series_of(self) -> dict[str, int]:
        """The number of each variant's colour and mark; 0 is the teacher's."""
        students = [group for group in self.groups if group.role == "student"]
        numbers = {group.name: i + 1 for i, group in enumerate(students)}
        return {**{g.name: 0 for g in self.groups if g.role == "teacher"}, **numbers}

    def _series(self) -> dict[str, int]:
        """The number of every measured file: that of its variant where it has one."""
        numbers = self.series_of()
        known = {self.measured_name(self.export_of(g)): numbers[g.name] for g in self.groups}
        free = max([0, *numbers.values()]) + 1
        benchmark = self.results.benchmark
        found = {}
        for name in [file.name for file in benchmark.models] if benchmark else []:
            found[name] = known.get(name, free)
            free += name not in known
        return found

    @property
    def untaught(self) -> Group | None:
        """The variant that was trained without a teacher, if it is not the chosen one."""
        found = (g for g in self.groups if g.taught is False and g is not self.student)
        return next(found, None)

    def kept(self, group: Group | None) -> float | None:
        """Share of the teacher's metric that a group reaches on the mean over its seeds."""
        if group is None or self.teacher is None:
            return None
        own, reference = group.mean(self.metric), self.teacher.mean(self.metric)
        return own / reference if own is not None and reference and reference > 0 else None

    def gain(self) -> float | None:
        """How much the metric of the student exceeds that of the one without a teacher."""
        if self.student is None or self.untaught is None:
            return None
        own, other = self.student.mean(self.metric), self.untaught.mean(self.metric)
        return None if own is None or other is None else own - other

    def export_of(self, group: Group | None) -> schema.ExportFile | None:
        """The exported file of a group, or None."""
        folders = {model.folder for model in group.models} if group else set()
        return next((export for export in self._exports if export.of in folders), None)

    def card_of(self, group: Group | None) -> manifest.Manifest | None:
        """The manifest of a group's file, or None."""
        export = self.export_of(group)
        return self.results.manifests.get(export.name) if export else None

    def same_shape(self, group: Group) -> bool:
        """Whether a group's models have the shape of the exported student."""
        if self.student is None or group.role == "teacher":
            return False
        one, other = group.models[0], self.student.models[0]
        shape = (one.architecture, one.parameters)
        return bool(one.architecture) and shape == (other.architecture, other.parameters)

    def measured_name(self, export: schema.ExportFile | None) -> str | None:
        """How the benchmark calls an exported file.

        The checksum decides; the name only where the manifest is gone.
        """
        benchmark = self.results.benchmark
        if export is None or benchmark is None:
            return None
        card = self.results.manifests.get(export.name)
        for file in benchmark.models:
            if file.sha256 == card.model.sha256 if card else file.name == export.name:
                return file.name
        return None

    def stale(self) -> list[str]:
        """Names of exports that the benchmark measured in another state than the manifest's."""
        benchmark = self.results.benchmark
        names = {file.name for file in benchmark.models} if benchmark else set()
        return [e.name for e in self._exports if e.name in names and not self.measured_name(e)]

    def summary(self) -> list[measured.Summary]:
        """The latencies in the usual way: by XNNPACK on all cores, or else as the first is."""
        rows = self.results.benchmark.summary if self.results.benchmark else ()
        usual: tuple[str, str | None] = ("xnnpack", None)
        ways = [(row.delegate, row.affinity) for row in rows]
        way = usual if usual in ways else next(iter(ways), usual)
        return [row for row in rows if (row.delegate, row.affinity) == way]

    def cell(self, group: Group | None, length: int, threads: int) -> measured.Summary | None:
        """The latency of a group's file, or None."""
        name = self.measured_name(self.export_of(group))
        if name is None:
            return None
        return next(
            (
                c
                for c in self.summary()
                if (c.model, c.sequence_length, c.threads) == (name, length, threads)
            ),
            None,
        )

    def speeds(self) -> list[Speed]:
        """Student against teacher wherever both were measured, by threads, then length."""
        names = [self.measured_name(self.export_of(g)) for g in (self.teacher, self.student)]
        benchmark = self.results.benchmark
        if benchmark is None or None in names or names[0] == names[1]:
            return []
        cells = {(c.model, c.sequence_length, c.threads): c for c in self.summary()}
        found = []
        for (name, length, threads), teacher in sorted(
            cells.items(), key=lambda item: (item[0][2], item[0][1])
        ):
            student = cells.get((str(names[1]), length, threads))
            if name != names[0] or student is None:
                continue
            ratio = teacher.p50_ms / student.p50_ms
            said = _comparison(benchmark.comparisons, teacher, student)
            found.append(Speed(length, threads, teacher, student, *(said or (ratio, None, None))))
        return found

    def headline_speed(self) -> Speed | None:
        """The speed-up at the longest length on the fewest threads."""
        speeds = self.speeds()
        if not speeds:
            return None
        return max(speeds, key=lambda s: (-s.threads, s.sequence_length))

    def headline_place(self) -> tuple[int, int] | None:
        """Length and threads that a single latency is shown for."""
        speed = self.headline_speed()
        if speed is not None:
            return speed.sequence_length, speed.threads
        cells = self.summary()
        places = [(-c.threads, c.sequence_length) for c in cells]
        return (max(places)[1], -max(places)[0]) if places else None

    def smaller(self) -> float | None:
        """Size of the teacher's file / size of the student's."""
        teacher, student = self.card_of(self.teacher), self.card_of(self.student)
        if teacher is None or student is None or not student.model.size_bytes:
            return None
        return teacher.model.size_bytes / student.model.size_bytes

    def flops_length(self) -> str | None:
        """The length that FLOPs are shown for: the headline's, else the longest known."""
        known = {n for g in self.groups for m in g.models for n in m.flops}
        place = self.headline_place()
        if place is not None and str(place[0]) in known:
            return str(place[0])
        return max(known, key=int, default=None)


def _groups(results: RunResults) -> tuple[Group, ...]:
    metrics = results.metrics
    if metrics is None:
        return ()
    kinds = results.stage_kinds
    by_name: dict[tuple[str, str], list[schema.ModelResult]] = {}
    for model in sorted(metrics.models, key=lambda m: m.role != "teacher"):
        by_name.setdefault((model.role, model.name), []).append(model)
    groups = []
    for (role, name), models in by_name.items():
        taught = None
        if role == "student":
            taught = any(kinds.get(stage, stage) != "labels" for stage in models[0].stages)
        chosen = role == "student" and metrics.chosen in {m.folder for m in models}
        groups.append(Group(name, tuple(models), taught, chosen))
    return tuple(groups)


def _comparison(
    rows: Sequence[measured.Comparison],
    teacher: measured.Summary,
    student: measured.Summary,
) -> tuple[float, tuple[float, float] | None, bool | None] | None:
    """Finds the recorded speed-up, its interval and its verdict, in either direction."""
    place = ("sequence_length", "threads", "delegate", "affinity")
    for row in rows:
        if any(getattr(row, key) != getattr(student, key) for key in place):
            continue
        if (row.baseline, row.candidate) == (teacher.model, student.model):
            return row.speedup, row.speedup_ci, row.faster
        if (row.baseline, row.candidate) == (student.model, teacher.model):
            interval = row.speedup_ci and (1 / row.speedup_ci[1], 1 / row.speedup_ci[0])
            return 1 / row.speedup, interval, None if row.faster is None else not row.faster
    return None
