"""Results put in order by the device that they were measured on, which are never mixed. Pure."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from tfdistill.benchmark import schema

_KINDS = {"host": "Host", "emulator": "Emulated device", "phone": "Phone"}
_DELEGATES = {"none": "plain kernels", "xnnpack": "XNNPACK", "gpu": "GPU", "nnapi": "NNAPI"}
_BACKENDS = {"litert": "LiteRT", "benchmark_model": "benchmark_model", "app": "app"}


@dataclasses.dataclass(frozen=True)
class Named:
    """A result and what it is called here, which no other result is."""

    label: str
    result: schema.Result


@dataclasses.dataclass(frozen=True)
class File:
    """A measured file.

    Attributes:
      label: No other file of its device has it.
      model: What the result says of it.
      source: The result that it stands in.
    """

    label: str
    model: schema.ModelFile
    source: Named


@dataclasses.dataclass(frozen=True)
class Timing:
    """The latency of a file at a place.

    Attributes:
      file: The file.
      summary: Its figures.
      way: The delegate, cores and backend, as far as they differ on the device; may be empty.
      series: Number of its colour and mark.
    """

    file: File
    summary: schema.Summary
    way: str
    series: int

    @property
    def label(self) -> str:
        """The file, and the way where there are several."""
        return f"{self.file.label}, {self.way}" if self.way else self.file.label


@dataclasses.dataclass(frozen=True)
class Bench:
    """A device and all that was measured on it.

    Attributes:
      key: Anchor, unique in the report; may be empty for one device.
      device: The device, as the first result tells.
      kind: What kind of device.
      results: The results.
      series: Numbers of colour and mark by the name of a file, where they are settled already.
    """

    key: str
    device: schema.Device
    kind: schema.Kind
    results: tuple[Named, ...]
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
    def files(self) -> tuple[File, ...]:
        """Every file of every result.

        One that several results measured in different ways goes by one name; one that they
        measured in the same way goes by a name for each, since its figures differ.
        """
        rows = [(named, model) for named in self.results for model in named.result.models]
        known: list[tuple[str, str, set[Hashable]]] = []  # name, checksum, places
        first: list[int] = []  # the row that each identity was found in
        whose: list[int] = []
        for number, (named, model) in enumerate(rows):
            places = _places(named.result, model.name)
            for i, (name, digest, taken) in enumerate(known):
                if (name, digest) == (model.name, model.sha256) and taken.isdisjoint(places):
                    taken |= places
                    whose.append(i)
                    break
            else:
                whose.append(len(known))
                known.append((model.name, model.sha256, set(places)))
                first.append(number)
        named_by = [(rows[i][1], rows[i][0].label) for i in first]
        labels = _distinct(
            [(m.name, m.quantization or "", label, m.sha256[:8]) for m, label in named_by]
        )
        return tuple(
            File(labels[i], model, named) for i, (named, model) in zip(whose, rows, strict=True)
        )

    @functools.cached_property
    def numbers(self) -> dict[str, int]:
        """The number of colour and mark of each file in each way, by its label."""
        free = max(self.series.values(), default=0) + 1
        found: dict[str, int] = {}
        for file in self.files:
            result = file.source.result
            parts = (*result.summary, *result.sustained, *result.operators)
            for label in dict.fromkeys(
                self.name(file, part) for part in parts if part.model == file.model.name
            ):
                given = self.series.get(file.model.name)
                if label in found:
                    continue
                if given is not None and given not in found.values():
                    found[label] = given
                else:
                    found[label] = free
                    free += 1
        return found

    @functools.cached_property
    def order(self) -> dict[str, int]:
        """The place of each file in each way in a list from 1: its short name in charts."""
        return {label: number for number, label in enumerate(self.numbers, start=1)}

    def name(self, file: File, place: schema.Place) -> str:
        """The file, and the way where there are several."""
        return ", ".join(filter(None, (file.label, self.way(place, file.source))))

    @functools.cached_property
    def timings(self) -> tuple[Timing, ...]:
        """Every file at every place, in the order of the files."""
        return tuple(
            Timing(
                file,
                summary,
                self.way(summary, file.source),
                self.numbers[self.name(file, summary)],
            )
            for file in self.files
            for summary in file.source.result.summary
            if summary.model == file.model.name
        )

    @functools.cached_property
    def _ways(self) -> tuple[bool, bool, bool]:
        """Whether delegate, affinity and backend differ."""
        places = [
            (part.delegate, part.affinity, named.result.backend)
            for named in self.results
            for part in (
                *named.result.summary,
                *named.result.sustained,
                *named.result.operators,
                *named.result.answers,
            )
        ]
        delegates, affinities, backends = ({place[i] for place in places} for i in range(3))
        return delegates - {"xnnpack"} != set(), len(affinities) > 1, len(backends) > 1

    def way(self, place: schema.Place | schema.EndToEnd | schema.Comparison, of: Named) -> str:
        """Names the delegate, cores and backend of a place as far as they differ here."""
        delegate, affinity, backend = self._ways
        parts = []
        if delegate:
            parts.append(_DELEGATES[place.delegate])
        if affinity:
            parts.append(f"cores {place.affinity}" if place.affinity else "all cores")
        if backend:
            parts.append(_BACKENDS[of.result.backend])
        return ", ".join(parts)

    @functools.cached_property
    def place(self) -> tuple[int, int] | None:
        """Length and threads that files are compared at.

        The length and number of threads that most files were measured at; of equal ones the fewest
        threads, then the longest length. None where nothing was measured.
        """
        held = {(t.file.label, t.summary.sequence_length, t.summary.threads) for t in self.timings}
        counted = collections.Counter((length, number) for _, length, number in held)
        if not counted:
            return None
        return max(counted, key=lambda place: (counted[place], -place[1], place[0]))

    def anchor(self, name: str) -> str:
        """An id for a part of this device's section, unique in the report."""
        return f"{self.key}-{name}" if self.key else name

    def parts(self, name: Literal["operators", "sustained", "answers"]) -> list[tuple[File, Any]]:
        """The parts of a kind of all results, each with its file."""
        return [
            (file, part)
            for file in self.files
            for part in getattr(file.source.result, name)
            if part.model == file.model.name
        ]

    def words(self, place: schema.Place, of: Named) -> str:
        """Says length, threads and way of a place."""
        words = f"{place.sequence_length} tokens", threads(place.threads), self.way(place, of)
        return ", ".join(filter(None, words))

    def here(self) -> list[Timing]:
        """The timings at `place`."""
        return [
            timing
            for timing in self.timings
            if (timing.summary.sequence_length, timing.summary.threads) == self.place
        ]


def one_bench(named: Named, series: Mapping[str, int]) -> Bench:
    """The device of a single result, whose parts have plain anchors."""
    return Bench("", named.result.device, named.result.kind, (named,), series)


def benches(results: Sequence[Named], series: Mapping[str, int] | None = None) -> tuple[Bench, ...]:
    """Puts results in order by kind of device, then by device.

    Args:
      results: The results.
      series: Numbers of colour and mark by the name of a file, where they are settled already.

    Returns:
      Hosts first, then emulated devices, then phones; devices in the order of the results.
    """
    found: dict[Hashable, list[Named]] = {}
    for kind in _KINDS:
        for named in results:
            if named.result.kind == kind:
                found.setdefault((kind, _identity(named.result.device)), []).append(named)
    return tuple(
        Bench(
            f"device-{i + 1}", same[0].result.device, same[0].result.kind, tuple(same), series or {}
        )
        for i, same in enumerate(found.values())
    )


def kind_word(kind: schema.Kind) -> str:
    """Names a kind inside a sentence: "host", "emulated device", "phone"."""
    return _KINDS[kind].lower()


def threads(number: int) -> str:
    """Writes a number of threads: "1 thread", "2 threads"."""
    return f"{number} thread{'s' if number != 1 else ''}"


def _identity(device: schema.Device) -> Hashable:
    if device.id is not None:
        return device.id, device.name  # some makers give all their phones one serial number
    return device.name, device.soc, device.abi, device.cores_logical, device.memory_bytes


def _places(result: schema.Result, name: str) -> set[Hashable]:
    return {
        (row.sequence_length, row.threads, row.delegate, row.affinity, result.backend)
        for row in result.summary
        if row.model == name
    }


def _distinct(rows: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Names that tell apart: the name, and as much of the rest as it takes."""
    names: list[list[str]] = [[row[0]] for row in rows]
    for part in (1, 2, 3):
        counted = collections.Counter(map(tuple, names))
        twice = {name for name, number in counted.items() if number > 1}
        for key in twice:
            same = [i for i, name in enumerate(names) if tuple(name) == key]
            if len({rows[i][part] for i in same}) > 1:
                for i in same:
                    names[i] = [*names[i], rows[i][part]]
    written = [f"{n[0]} ({', '.join(filter(None, n[1:]))})" if n[1:] else n[0] for n in names]
    counted = collections.Counter(written)
    seen: collections.Counter[str] = collections.Counter()
    for i, name in enumerate(written):
        if counted[name] > 1:  # one file that is listed twice
            seen[name] += 1
            written[i] = f"{name} #{seen[name]}"
    return written
