"""Figures derived from a run: how good, how small and how fast the student is. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from tfdistill import manifest
from tfdistill.analysis import PairedDifference
from tfdistill.benchmark import schema as measured
from tfdistill.benchmark.statistics import summaries
from tfdistill.manifest import confidence
from tfdistill.report import answer_sides, devices
from tfdistill.report.answer_sides import (
    CROSS_VALIDATED,
    DEVELOPMENT,
    FILE,
    MAJORITY,
    MODEL,
    STUDENT,
    TEACHER,
    TEST,
)
from tfdistill.report.devices import DeviceResults
from tfdistill.report.model_groups import ModelGroup, Speed, model_groups
from tfdistill.report.plot import charts
from tfdistill.report.run_results import RunResults
from tfdistill.results import BaselineResult, ExportedFile, part_of


class RunAnalysis:
    """Derived values of a run.

    `groups` are teachers, then the variants in the order of the run; `student` is the chosen one.
    `series` are numbers of colour and mark by variant, see `plot.charts`. `device` is that of the
    run's own benchmark, `others` are those of other benchmarks of its files.
    """

    def __init__(self, results: RunResults) -> None:
        self.results = results
        metrics = results.metrics
        self.groups = model_groups(results)
        card = self.only_manifest()
        task = metrics.task if metrics else card and card.task
        self.metric = (task and task.primary_metric) or "accuracy"
        self.teacher = next((g for g in self.groups if g.role == "teacher"), None)
        students = [group for group in self.groups if group.role == "student"]
        chosen = [group for group in students if group.chosen] or students[-1:]
        self.student = chosen[0] if chosen else None
        variants = [group.name for group in students if group is not self.student]
        self.series = {name: i for i, name in enumerate(variants, start=charts.OTHERS)}
        self.series |= {g.name: charts.TEACHER for g in self.groups if g.role == "teacher"}
        self.series |= {self.student.name: charts.STUDENT} if self.student else {}
        self._exports = metrics.exports if metrics else ()
        series = self._file_series()
        self.device = None
        if results.benchmark is not None:
            named = devices.NamedResult("benchmark", results.benchmark)
            result = results.benchmark
            self.device = DeviceResults("", result.device, result.kind, (named,), series)
        self.others = devices.by_device(results.others, series)

    @property
    def split(self) -> str:
        """The set that the report judges by: the test set where there is one."""
        metrics = self.results.metrics
        return TEST if metrics is not None and metrics.test_metrics else self.dev_split

    @property
    def dev_split(self) -> str:
        """The set of development metrics: where all rows trained, each as it was left out."""
        return CROSS_VALIDATED if self.results.cross_fitted else DEVELOPMENT

    @functools.cached_property
    def scores(self) -> dict[str, float]:
        """The primary metric on `split` of teacher, student, file and majority, if known."""
        metrics = self.results.metrics
        figures: dict[str, float | None] = {}
        if metrics is not None and self.split == TEST:
            rows = metrics.test_metrics
            figures = {name: values.get(self.metric) for name, values in rows.items()}
            if self.judged_sides is not None:
                figures[MAJORITY] = self.judged_sides.scores.get(MAJORITY)
        else:
            for role, group in ((TEACHER, self.teacher), (STUDENT, self.student)):
                figures[role] = group.mean(self.metric) if group else None
            card = self.manifest_of(self.subject) or self.only_manifest()
            if card is not None and card.parity is not None:
                figures[FILE] = card.parity.file_metrics.get(self.metric)
                if not self.groups:
                    figures[MODEL] = card.parity.model_metrics.get(self.metric)
            named = {row.name: row for row in metrics.baselines} if metrics else {}
            if MAJORITY in named:
                figures[MAJORITY] = named[MAJORITY].metrics.get(self.metric)
        return {name: value for name, value in figures.items() if value is not None}

    @property
    def num_examples(self) -> int | None:
        """The number of examples of `split`, or None."""
        if self.judged_sides is not None:
            return len(self.judged_sides.gold)
        models = self.student or self.teacher
        return models.models[0].num_examples if models and self.split != TEST else None

    @property
    def subject(self) -> ModelGroup | None:
        """The model that the report is about: the student, or the teacher without one."""
        return self.student or self.teacher

    @property
    def judged(self) -> str | None:
        """The subject of the headline: the file where its metric is known, or else its model."""
        return next((name for name in (FILE, STUDENT, TEACHER) if name in self.scores), None)

    @functools.cached_property
    def dev_sides(self) -> answer_sides.AnswerSides | None:
        """The answers of teacher, student and file to the development set, or None."""
        by_place = self.results.answers
        folders = [g.models[0].folder if g else None for g in (self.teacher, self.student)]
        if self.student is not None:
            folders[1] = next((m.folder for m in self.student.models if m.folder in by_place), None)
        export = self.export_of(self.subject)
        name = "exported" if export is None and not self.groups else export and export.name
        best = self.best_baseline
        return answer_sides.sides(
            *(by_place.get(key or "") for key in (*folders, f"file {name}")),
            baseline=by_place.get(best.folder or "") if best else None,
            baseline_name=best.name if best else "",
            confidence=self._confidence,
            split=self.dev_split,
        )

    @functools.cached_property
    def sides(self) -> answer_sides.AnswerSides | None:
        """The answers to the test set, or else to the development set, or None."""
        tested = self.results.test_answers if self.split == TEST else None
        return answer_sides.of_test_set(tested, self._confidence) or self.dev_sides

    @property
    def _confidence(self) -> confidence.Confidence | None:
        """The confidence of the subject's file, or None."""
        card = self.manifest_of(self.subject) or self.only_manifest()
        return card.confidence if card is not None else None

    @property
    def judged_sides(self) -> answer_sides.AnswerSides | None:
        """The answers to the set that the report judges by, or None."""
        return self.sides if self.sides is not None and self.sides.split == self.split else None

    @functools.cached_property
    def against_teacher(self) -> PairedDifference | None:
        """The difference of the judged subject from the teacher on the same examples, or None."""
        sides, judged = self.judged_sides, self.judged
        if sides is None or judged is None or self.teacher_part:
            return None
        return sides.difference(TEACHER, judged)

    @property
    def best_baseline(self) -> BaselineResult | None:
        """The baseline with the best metric that a student should be above, or None."""
        listed = self.results.metrics.baselines if self.results.metrics else ()
        scored = [
            (value, row)
            for row in listed
            if row.is_alternative and (value := row.metrics.get(self.metric)) is not None
        ]
        return max(scored, key=lambda pair: pair[0])[1] if scored else None

    @functools.cached_property
    def against_baseline(self) -> PairedDifference | None:
        """The difference of the subject from the best baseline on the development set, or None."""
        sides, best = self.dev_sides, self.best_baseline
        return sides.difference(best.name, sides.subject) if sides and best else None

    @property
    def where(self) -> str:
        """The place where the latencies were measured: "on this host"."""
        return self.device.where if self.device else "on this host"

    @property
    def teacher_part(self) -> tuple[int, int] | None:
        """Of how many examples the teacher answered how many, where it left some out."""
        if self.teacher is None or self.student is None:
            return None
        return part_of(self.teacher.models[0].num_examples, self.student.models[0].num_examples)

    def share_of_teacher(self, value: float | None) -> float | None:
        """Returns a development metric over the teacher's on the same examples, or None."""
        if value is None or self.teacher is None or self.teacher_part:
            return None
        reference = self.teacher.mean(self.metric)
        return value / reference if reference is not None and reference > 0 else None

    def export_of(self, group: ModelGroup | None) -> ExportedFile | None:
        """Returns the exported file of a group, or None.

        Of several files of the teacher it is that in the student's format: like for like.
        """
        exports = self.exports_of(group)
        if group is self.teacher and len(exports) > 1:
            card = self.manifest_of(self.student)
            for export in exports:
                other = self.results.manifests.get(export.name)
                if card and other and other.quantization == card.quantization:
                    return export
        return next(iter(exports), None)

    def exports_of(self, group: ModelGroup | None) -> list[ExportedFile]:
        """Returns all exported files of a group."""
        folders = {model.folder for model in group.models} if group else set()
        return [export for export in self._exports if export.of in folders]

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
        """Returns the name of an exported file in the benchmark; None is that outside a run.

        The checksum decides; the name only where the manifest is missing.
        """
        card = self.results.manifests.get(export.name) if export else self.only_manifest()
        for file in self.results.benchmark.models if self.results.benchmark else ():
            if card is not None:
                same = file.sha256 == card.model.sha256
            else:
                same = export is not None and file.name == export.name
            if same:
                return file.name
        return None

    def stale(self) -> list[str]:
        """Returns the exports that the benchmark measured with another checksum."""
        benchmark = self.results.benchmark
        names = {file.name for file in benchmark.models} if benchmark else set()
        if names and self.only_manifest() and not self.measured_name(None):
            return ["exported"]
        return [e.name for e in self._exports if e.name in names and not self.measured_name(e)]

    @functools.cached_property
    def summary(self) -> list[measured.Summary]:
        """The latencies by XNNPACK on all cores, or else in the first configuration."""
        rows = self.results.benchmark.summary if self.results.benchmark else ()
        usual: tuple[str, str | None] = ("xnnpack", None)
        configurations = [(row.delegate, row.affinity) for row in rows]
        chosen = usual if usual in configurations else next(iter(configurations), usual)
        return [row for row in rows if (row.delegate, row.affinity) == chosen]

    def latency(
        self, group: ModelGroup | None, case: tuple[int, int] | None
    ) -> measured.Summary | None:
        """Returns the latency of a group's file at a length and number of threads, or None."""
        name = self.measured_name(self.export_of(group))
        for row in self.summary if name is not None and case is not None else ():
            if (row.model, (row.sequence_length, row.threads)) == (name, case):
                return row
        return None

    @functools.cached_property
    def speeds(self) -> list[Speed]:
        """Student against teacher wherever both were measured, by threads, then length."""
        cases = sorted({(row.threads, row.sequence_length) for row in self.summary})
        recorded = self.results.benchmark.comparisons if self.results.benchmark else ()
        speeds = []
        for threads, length in cases:
            case = (length, threads)
            teacher, student = self.latency(self.teacher, case), self.latency(self.student, case)
            if teacher is None or student is None or teacher is student:
                continue
            busy = teacher.busy or student.busy
            compared = (
                _comparison(recorded, teacher, student)
                or _comparison(self._computed, teacher, student)
                or (teacher.p50_ms / student.p50_ms, None, None)
            )
            ratio, interval, faster = compared
            if faster is None and interval is not None and not interval[0] <= 1 <= interval[1]:
                compared = (ratio, None, None)  # of one repetition: it tells nothing
            if not busy or compared[1] is not None:  # without an interval no ratio can be told
                speeds.append(Speed(length, threads, teacher, student, *compared, busy=busy))
        return speeds

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
        """Returns the length that FLOPs are shown for: the headline's, else the longest."""
        lengths = {n for g in self.groups for m in g.models for n in m.flops}
        case = self.headline_case()
        if case is not None and str(case[0]) in lengths:
            return str(case[0])
        return max(lengths, key=int, default=None)

    def _file_series(self) -> dict[str, int]:
        """The number of every measured file: the student's is "the file" of all charts."""
        numbers: dict[str | None, int] = {}
        for group in self.groups:
            number = charts.FILE if group is self.student else self.series[group.name]
            names = [self.measured_name(export) for export in self.exports_of(group)]
            numbers |= dict.fromkeys(names, number)
        free = max([charts.OTHERS - 1, *self.series.values()]) + 1
        series = {}
        for file in self.results.benchmark.models if self.results.benchmark else ():
            series[file.name] = numbers.get(file.name, free)
            free += file.name not in numbers
        return series


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
