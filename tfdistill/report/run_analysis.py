"""Figures derived from a run: how good, how small and how fast the student is. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tfdistill import manifest
from tfdistill.analysis import PairedDifference
from tfdistill.benchmark import schema as measured
from tfdistill.benchmark.statistics import summaries
from tfdistill.report import answer_sides, devices
from tfdistill.report import format as fmt
from tfdistill.report.run_parts import ComparedFiles, ModelGroup, Speed, model_groups
from tfdistill.report.run_results import RunResults
from tfdistill.results import BaselineResult, ExportedFile, part_of


class RunAnalysis:
    """Derived values of a run.

    Args:
      results: The contents of the run folder.

    Attributes:
      results: The same.
      metric: The primary metric.
      groups: Teachers first, then the variants in the order of the run.
      teacher: The group of the teacher, or None.
      student: The group of the chosen student, or None.
      untaught: The variant that was trained without a teacher, if it is not the chosen one.
      series: Number of colour and mark of each variant; 0 is the teacher's.
      device: The device of the run's own benchmark, or None.
      others: Devices of other benchmarks of its files.
    """

    def __init__(self, results: RunResults) -> None:
        self.results = results
        metrics = results.metrics
        self.metric = metrics.task.primary_metric if metrics else "accuracy"
        self.groups = model_groups(results)
        self.teacher = next((g for g in self.groups if g.role == "teacher"), None)
        students = [group for group in self.groups if group.role == "student"]
        chosen = [group for group in students if group.chosen] or students[-1:]
        self.student = chosen[0] if chosen else None
        untaught = (g for g in students if g.taught is False and g is not self.student)
        self.untaught = next(untaught, None)
        self.series = {g.name: 0 for g in self.groups if g.role == "teacher"}
        self.series |= {group.name: i for i, group in enumerate(students, start=1)}
        self._exports = metrics.exports if metrics else ()
        series = self._file_series()
        self.device = None
        if results.benchmark is not None:
            named = devices.NamedResult("benchmark", results.benchmark)
            self.device = devices.single_device(named, series)
        self.others = devices.by_device(results.others, series)

    @property
    def subject(self) -> ModelGroup | None:
        """The model that the report is about: the student, or the teacher without one."""
        return self.student or self.teacher

    @property
    def best_baseline(self) -> BaselineResult | None:
        """The baseline with the best metric that a student should be above, or None."""
        listed = self.results.metrics.baselines if self.results.metrics else ()
        known = [
            (value, row)
            for row in listed
            if row.is_alternative and (value := row.metrics.get(self.metric)) is not None
        ]
        return max(known, key=lambda pair: pair[0])[1] if known else None

    @property
    def levels(self) -> dict[tuple[str, str], tuple[tuple[str, float], ...]]:
        """Task and metric -> short name and metric of the baselines that are alternatives."""
        metrics = self.results.metrics
        if metrics is None:
            return {}
        rows = [row for row in metrics.baselines if row.is_alternative]
        found = [(row.name, row.metrics.get(self.metric)) for row in rows]
        named = tuple((fmt.baseline_words(name), v) for name, v in found if v is not None)
        return {(metrics.task.name, self.metric): named}

    @functools.cached_property
    def sides(self) -> answer_sides.AnswerSides | None:
        """The answers of teacher, student and file, or None."""
        kept = self.results.answers
        folders = [g.models[0].folder if g else None for g in (self.teacher, self.student)]
        if self.student is not None:
            folders[1] = next((m.folder for m in self.student.models if m.folder in kept), None)
        export = self.export_of(self.subject)
        name = "file" if export is None and not self.groups else export and export.name
        best = self.best_baseline
        return answer_sides.sides(
            *(kept.get(key or "") for key in (*folders, f"file {name}")),
            baseline=kept.get(best.folder or "") if best else None,
            baseline_title=fmt.baseline_title(best.name) if best else "",
        )

    @property
    def against_baseline(self) -> PairedDifference | None:
        """How the subject differs from the best baseline on the same examples, or None."""
        if self.sides is None or self.best_baseline is None:
            return None
        title = fmt.baseline_title(self.best_baseline.name)
        return self.sides.differences.get((title, self.sides.subject))

    @property
    def against_teacher(self) -> PairedDifference | None:
        """How the chosen student differs from its teacher on the same examples, or None."""
        pair = (answer_sides.TEACHER, answer_sides.STUDENT)
        return self.sides.differences.get(pair) if self.sides else None

    @property
    def where(self) -> str:
        """What the latencies were measured on: "on this host"."""
        return self.device.where if self.device else "on this host"

    @property
    def teacher_part(self) -> tuple[int, int] | None:
        """Of how many examples the teacher answered how many, where it left some out."""
        if self.teacher is None or self.student is None:
            return None
        return part_of(self.teacher.models[0].num_examples, self.student.models[0].num_examples)

    def kept(self, group: ModelGroup | None) -> float | None:
        """Returns the mean metric of a group over the teacher's on the same examples, or None."""
        if group is None or self.teacher is None or self.teacher_part:
            return None
        own, reference = group.mean(self.metric), self.teacher.mean(self.metric)
        return own / reference if own is not None and reference and reference > 0 else None

    def gain(self) -> float | None:
        """Returns the student's mean metric minus that of the variant without a teacher."""
        if self.student is None or self.untaught is None:
            return None
        own, other = self.student.mean(self.metric), self.untaught.mean(self.metric)
        return None if own is None or other is None else own - other

    def export_of(self, group: ModelGroup | None) -> ExportedFile | None:
        """Returns the exported file of a group, or None.

        Of several files of the teacher it is that in the student's format: like for like.
        """
        found = self.exports_of(group)
        own = self.manifest_of(self.student) if group is self.teacher and len(found) > 1 else None
        format_ = own.quantization if own else None
        for export in found:
            made = self.results.manifests.get(export.name)
            if made is not None and made.quantization == format_:
                return export
        return next(iter(found), None)

    def exports_of(self, group: ModelGroup | None) -> list[ExportedFile]:
        """Returns all exported files of a group."""
        folders = {model.folder for model in group.models} if group else set()
        return [export for export in self._exports if export.of in folders]

    @functools.cached_property
    def file_pairs(self) -> list[ComparedFiles]:
        """Every two files of teacher and student in the same format, then the first of each."""
        made = self.results.manifests
        found = []
        for teacher in self.exports_of(self.teacher):
            for student in self.exports_of(self.student):
                if teacher.name not in made or student.name not in made:
                    continue
                pair = ComparedFiles(
                    made[teacher.name], made[student.name], self._speed(teacher, student)
                )
                first = teacher is self.exports_of(self.teacher)[0]
                if pair.is_alike or (first and student is self.exports_of(self.student)[0]):
                    found.append(pair)
        own = self.manifest_of(self.student)
        return sorted(found, key=lambda pair: (not pair.is_alike, pair.student is not own))

    def manifest_of(self, group: ModelGroup | None) -> manifest.Manifest | None:
        """Returns the manifest of a group's file, or None."""
        export = self.export_of(group)
        return self.results.manifests.get(export.name) if export else None

    def has_student_shape(self, group: ModelGroup) -> bool:
        """Whether a group's models have the shape of the exported student."""
        if self.student is None or group.role == "teacher":
            return False
        one, other = group.models[0], self.student.models[0]
        shape = (one.architecture, one.parameters)
        return bool(one.architecture) and shape == (other.architecture, other.parameters)

    def only_manifest(self) -> manifest.Manifest | None:
        """Returns the manifest of an export outside a run, or None."""
        return None if self.groups else next(iter(self.results.manifests.values()), None)

    def measured_name(self, export: ExportedFile | None) -> str | None:
        """Returns the name of an exported file in the benchmark.

        The checksum decides; the name only where the manifest is missing.
        """
        benchmark = self.results.benchmark
        if export is None or benchmark is None:
            return None
        found = self.results.manifests.get(export.name)
        for file in benchmark.models:
            if file.sha256 == found.model.sha256 if found else file.name == export.name:
                return file.name
        return None

    def stale(self) -> list[str]:
        """Returns the exports that the benchmark measured with another checksum."""
        benchmark = self.results.benchmark
        names = {file.name for file in benchmark.models} if benchmark else set()
        return [e.name for e in self._exports if e.name in names and not self.measured_name(e)]

    @functools.cached_property
    def summary(self) -> list[measured.Summary]:
        """The latencies by XNNPACK on all cores, or else in the first configuration."""
        rows = self.results.benchmark.summary if self.results.benchmark else ()
        usual: tuple[str, str | None] = ("xnnpack", None)
        found = [(row.delegate, row.affinity) for row in rows]
        chosen = usual if usual in found else next(iter(found), usual)
        return [row for row in rows if (row.delegate, row.affinity) == chosen]

    def latency(
        self, group: ModelGroup | None, case: tuple[int, int] | None
    ) -> measured.Summary | None:
        """Returns the latency of a group's file at a length and number of threads, or None."""
        return self._latency_of(self.export_of(group), case)

    def _latency_of(
        self, export: ExportedFile | None, case: tuple[int, int] | None
    ) -> measured.Summary | None:
        name = self.measured_name(export)
        for row in self.summary if name is not None and case is not None else ():
            if (row.model, (row.sequence_length, row.threads)) == (name, case):
                return row
        return None

    @functools.cached_property
    def speeds(self) -> list[Speed]:
        """Student against teacher wherever both were measured, by threads, then length."""
        return self._speeds(self.export_of(self.teacher), self.export_of(self.student))

    def _speed(self, teacher: ExportedFile, student: ExportedFile) -> Speed | None:
        """Two files at the case of the headline, or None."""
        case = self.headline_case()
        found = self._speeds(teacher, student)
        return next((s for s in found if (s.sequence_length, s.threads) == case), None)

    def _speeds(self, one: ExportedFile | None, other: ExportedFile | None) -> list[Speed]:
        cases = sorted({(row.threads, row.sequence_length) for row in self.summary})
        recorded = self.results.benchmark.comparisons if self.results.benchmark else ()
        found = []
        for threads, length in cases:
            case = (length, threads)
            teacher, student = self._latency_of(one, case), self._latency_of(other, case)
            if teacher is None or student is None or teacher is student:
                continue
            compared = (
                _comparison(recorded, teacher, student)
                or _comparison(self._computed, teacher, student)
                or (teacher.p50_ms / student.p50_ms, None, None)
            )
            found.append(Speed(length, threads, teacher, student, *compared))
        return found

    @functools.cached_property
    def _computed(self) -> list[measured.Comparison]:
        """Comparisons with files of the teacher that no recorded one is about."""
        benchmark = self.results.benchmark
        recorded = benchmark.comparisons if benchmark else ()
        if benchmark is None or not recorded:
            return []
        by_case = summaries.by_case(benchmark.measurements)
        names = {self.measured_name(export) for export in self.exports_of(self.teacher)}
        names -= {row.baseline for row in recorded}
        return [row for name in names if name for row in summaries.comparisons(by_case, name)]

    def headline_speed(self) -> Speed | None:
        """Returns the speed-up at the longest length on the fewest threads."""
        return max(self.speeds, key=lambda s: (-s.threads, s.sequence_length), default=None)

    def headline_case(self) -> tuple[int, int] | None:
        """Returns the length and threads that a single latency is shown for."""
        cases = [(row.sequence_length, row.threads) for row in self.speeds or self.summary]
        return max(cases, key=lambda case: (-case[1], case[0]), default=None)

    def smaller(self) -> float | None:
        """Returns the size of the teacher's file over that of the student's."""
        teacher, student = self.manifest_of(self.teacher), self.manifest_of(self.student)
        if teacher is None or student is None or not student.model.size_bytes:
            return None
        return teacher.model.size_bytes / student.model.size_bytes

    def flops_length(self) -> str | None:
        """Returns the length that FLOPs are shown for: the headline's, else the longest known."""
        known = {n for g in self.groups for m in g.models for n in m.flops}
        case = self.headline_case()
        if case is not None and str(case[0]) in known:
            return str(case[0])
        return max(known, key=int, default=None)

    def _file_series(self) -> dict[str, int]:
        """The number of every measured file: that of its variant where it has one."""
        known = {self.measured_name(self.export_of(g)): self.series[g.name] for g in self.groups}
        free = max([0, *self.series.values()]) + 1
        found = {}
        for file in self.results.benchmark.models if self.results.benchmark else ():
            found[file.name] = known.get(file.name, free)
            free += file.name not in known
        return found


def _comparison(
    rows: Sequence[measured.Comparison],
    teacher: measured.Summary,
    student: measured.Summary,
) -> tuple[float, tuple[float, float] | None, bool | None] | None:
    """Finds the recorded speed-up, its interval and its verdict, in either direction."""
    case = ("sequence_length", "threads", "delegate", "affinity")
    for row in rows:
        if any(getattr(row, key) != getattr(student, key) for key in case):
            continue
        if (row.baseline, row.candidate) == (teacher.model, student.model):
            return row.speedup, row.speedup_ci, row.faster
        if (row.baseline, row.candidate) == (student.model, teacher.model):
            interval = row.speedup_ci and (1 / row.speedup_ci[1], 1 / row.speedup_ci[0])
            return 1 / row.speedup, interval, None if row.faster is None else not row.faster
    return None
