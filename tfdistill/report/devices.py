"""Results ordered by the device that they were measured on; devices are never mixed. Pure."""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from collections.abc import Hashable, Mapping, Sequence

from tfdistill.benchmark import schema
from tfdistill.report import format as fmt
from tfdistill.report.plot import charts
from tfdistill.results import tables

_KINDS = {"host": "Host", "emulator": "Emulated device", "phone": "Phone"}
_DELEGATES = {"none": "plain kernels", "xnnpack": "XNNPACK", "gpu": "GPU", "nnapi": "NNAPI"}
_BACKENDS = {"litert": "LiteRT", "benchmark_model": "benchmark_model", "app": "app"}


@dataclasses.dataclass(frozen=True)
class NamedResult:
    """A result and its name in the report, which is unique."""

    label: str
    result: schema.Result


@dataclasses.dataclass(frozen=True)
class DeviceFile:
    """A measured file."""

    label: str  # unique among the files of its device
    model: schema.MeasuredFile  # its description in the result
    source: NamedResult


@dataclasses.dataclass(frozen=True)
class Timing:
    """The latency of a file at a length, on so many threads, in one configuration."""

    file: DeviceFile
    summary: schema.Summary  # its figures
    # the delegate, cores and backend, as far as they differ on the device; may be empty
    configuration: str
    series: int  # number of its colour and mark

    @property
    def label(self) -> str:
        """The file, and the configuration where there are several."""
        return ", ".join(filter(None, (self.file.label, self.configuration)))


@dataclasses.dataclass(frozen=True)
class DeviceResults:
    """A device and all that was measured on it."""

    key: str  # anchor, unique in the report; empty for one device, whose parts have plain ones
    device: schema.Device  # the device, from the first result
    kind: schema.Kind  # what kind of device
    results: tuple[NamedResult, ...]
    # number of colour and mark by the name of a file that has a role, see `plot.charts`
    series: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def title(self) -> str:
        """Such as "Phone: Google Pixel 8"."""
        return f"{_KINDS[self.kind]}: {self.device.name}"

    @property
    def where(self) -> str:
        """Such as "on the phone Google Pixel 8"; of a run's own host, "on this host"."""
        if self.kind == "host" and not self.key:
            return "on this host"
        return f"on the {kind_word(self.kind)} {self.device.name}"

    @functools.cached_property
    def files(self) -> tuple[DeviceFile, ...]:
        """Every file of every result.

        A file that several results measured in different cases has one name; one that they
        measured in the same cases has a name for each, since its figures differ.
        """
        rows = [(named, model) for named in self.results for model in named.result.models]
        # Where each file was found first, and the cases that it was measured in.
        identified: list[tuple[NamedResult, schema.MeasuredFile, set[Hashable]]] = []
        identities: list[int] = []
        for named, model in rows:
            cases, key = _cases(named.result, model.name), (model.name, model.sha256)
            same = (
                i
                for i, (_, first, taken) in enumerate(identified)
                if (first.name, first.sha256) == key and taken.isdisjoint(cases)
            )
            identities.append(next(same, len(identified)))
            if identities[-1] == len(identified):
                identified.append((named, model, set()))
            identified[identities[-1]][2].update(cases)
        labels = _unique_labels(
            [
                (model.name, model.quantization or "", named.label, model.sha256[:8])
                for named, model, _ in identified
            ]
        )
        return tuple(
            DeviceFile(labels[i], model, named)
            for i, (named, model) in zip(identities, rows, strict=True)
        )

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """The number of colour and mark of each file in each configuration, by its label."""
        free = max([charts.OTHERS - 1, *self.series.values()]) + 1
        numbers: dict[str, int] = {}
        for file in self.files:
            result = file.source.result
            for part in result.summary:
                label = self.name(file, part)
                if part.model != file.model.name or label in numbers:
                    continue
                numbers[label] = self.series.get(file.model.name, free)
                free += file.model.name not in self.series
        return numbers

    @functools.cached_property
    def order(self) -> dict[str, int]:
        """The position of each file in each configuration, from 1: its short name in charts."""
        return {label: number for number, label in enumerate(self.numbers, start=1)}

    def name(self, file: DeviceFile, case: schema.BenchmarkCase) -> str:
        """Returns the label of a file, and its configuration where there are several."""
        return ", ".join(filter(None, (file.label, self.configuration(case, file.source))))

    @functools.cached_property
    def timings(self) -> tuple[Timing, ...]:
        """Every latency of every file, in the order of the files."""
        return tuple(
            Timing(
                file,
                summary,
                self.configuration(summary, file.source),
                self.numbers[self.name(file, summary)],
            )
            for file in self.files
            for summary in file.source.result.summary
            if summary.model == file.model.name
        )

    @functools.cached_property
    def _differing(self) -> tuple[bool, bool, bool]:
        """Whether delegate, affinity and backend differ."""
        configurations = [
            (part.delegate, part.affinity, named.result.backend)
            for named in self.results
            for part in (*named.result.summary, *named.result.answers)
        ]
        delegates, affinities, backends = ({case[i] for case in configurations} for i in range(3))
        return delegates - {"xnnpack"} != set(), len(affinities) > 1, len(backends) > 1

    def configuration(
        self,
        case: schema.BenchmarkCase | schema.EndToEnd | schema.TextTime | schema.Comparison,
        of: NamedResult,
    ) -> str:
        """Names delegate, cores and backend, as far as they differ on this device."""
        cores = f"cores {case.affinity}" if case.affinity else "all cores"
        words = (_DELEGATES[case.delegate], cores, _BACKENDS[of.result.backend])
        return ", ".join(itertools.compress(words, self._differing))

    @functools.cached_property
    def common_case(self) -> tuple[int, int] | None:
        """The length and threads that files are compared at.

        Those that most files were measured at; of equal ones the fewest threads, then the longest
        length. None where nothing was measured.
        """
        cases = {(t.file.label, t.summary.sequence_length, t.summary.threads) for t in self.timings}
        counted = collections.Counter((length, number) for _, length, number in cases)
        return max(counted, key=lambda case: (counted[case], -case[1], case[0]), default=None)

    def compared_timings(self) -> list[Timing]:
        """Returns the timings at `common_case`."""
        return [
            timing
            for timing in self.timings
            if (timing.summary.sequence_length, timing.summary.threads) == self.common_case
        ]

    def anchor(self, name: str) -> str:
        """Returns an id for a part of this device's section, unique in the report."""
        return f"{self.key}-{name}" if self.key else name

    def answers(self) -> list[tuple[DeviceFile, schema.AnswerComparison]]:
        """Returns the comparisons of answers of all results, each with its file."""
        return [
            (file, part)
            for file in self.files
            for part in file.source.result.answers
            if part.model == file.model.name
        ]

    def describe(self, case: schema.BenchmarkCase, of: NamedResult) -> str:
        """Writes length, threads and configuration."""
        words = fmt.case(case.sequence_length, case.threads), self.configuration(case, of)
        return ", ".join(filter(None, words))


def by_device(
    results: Sequence[NamedResult], series: Mapping[str, int] | None = None
) -> tuple[DeviceResults, ...]:
    """Orders results by kind of device, then by device."""
    same_device: dict[Hashable, list[NamedResult]] = {}
    for kind in _KINDS:
        for named in results:
            if named.result.kind == kind:
                same_device.setdefault((kind, _identity(named.result.device)), []).append(named)
    return tuple(
        DeviceResults(
            f"device-{i}", same[0].result.device, same[0].result.kind, tuple(same), series or {}
        )
        for i, same in enumerate(same_device.values(), start=1)
    )


def kind_word(kind: schema.Kind) -> str:
    """Names a kind inside a sentence: "host", "emulated device", "phone"."""
    return _KINDS[kind].lower()


def primary_metric(model: schema.MeasuredFile) -> str | None:
    """Returns the main metric of a file's task, or None where nothing was checked."""
    manifest = model.manifest
    if manifest is None or manifest.parity is None or not manifest.parity.file_metrics:
        return None
    names = list(manifest.parity.file_metrics)
    if manifest.task is not None and manifest.task.primary_metric in names:
        return manifest.task.primary_metric
    return "accuracy" if "accuracy" in names else names[0]


def marks(summary: schema.Summary) -> str:
    """The disturbances of a measurement: "busy machine", "throttled", both or nothing."""
    return ", ".join([tables.BUSY] * summary.busy + ["throttled"] * summary.throttled)


def thermal_words(status: int | None) -> str:
    """Names Android's thermal status."""
    names = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
    if status is None:
        return fmt.ABSENT
    return names[status] if 0 <= status < len(names) else str(status)


def _identity(device: schema.Device) -> Hashable:
    if device.id is not None:
        return device.id, device.name  # some makers give all their phones one serial number
    return device.name, device.soc, device.abi, device.cores_logical, device.memory_bytes


def _cases(result: schema.Result, name: str) -> set[Hashable]:
    return {
        (row.sequence_length, row.threads, row.delegate, row.affinity, result.backend)
        for row in result.summary
        if row.model == name
    }


def _unique_labels(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Labels that differ: the first entry, and as many of the others as needed."""
    parts: list[list[str]] = [[row[0]] for row in rows]
    for column in (1, 2, 3):
        counted = collections.Counter(map(tuple, parts))
        for label in [label for label, number in counted.items() if number > 1]:
            same = [i for i, part in enumerate(parts) if tuple(part) == label]
            if len({rows[i][column] for i in same}) > 1:
                for i in same:
                    parts[i] = [*parts[i], rows[i][column]]
    labels = [f"{p[0]} ({', '.join(filter(None, p[1:]))})" if p[1:] else p[0] for p in parts]
    counted = collections.Counter(labels)
    seen: collections.Counter[str] = collections.Counter()
    for i, label in enumerate(labels):
        if counted[label] > 1:  # one file that is listed twice
            seen[label] += 1
            labels[i] = f"{label} #{seen[label]}"
    return labels
