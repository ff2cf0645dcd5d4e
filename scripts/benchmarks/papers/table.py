"""table.json: sizes and latencies of the papers' models, gathered from their measurements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.statistics import remarks, summaries

from .published import ROWS, SOURCES, PaperTable, PublishedRow

FORMAT_VERSION = 1
_LOAD = "Load average"


class TableModel(schema.Part):
    """A model of the table.

    Attributes:
      model: Its preset.
      parameters: Of the encoder, with its pooler where it has one, without a head.
      flops: Of one sequence, by its length in tokens: matrix products only, without a head.
    """

    model: str
    parameters: int
    flops: dict[int, int]


class TableFile(schema.Part):
    """An exported file."""

    model: str
    quantization: str
    file: str
    sha256: str
    size_bytes: int


class Latency(schema.Part):
    """The latency of a file at a length and a number of threads.

    Attributes:
      n: Number of inferences.
      repetitions: Number of fresh processes that they ran in.
      p50_ci_ms: 95% interval; so for the others.
      throttled: Whether the device slowed down meanwhile.
      speedup: Over the table's reference in the same quantization; None for the reference itself.
      over_float32: Over the reference in float32; None where it is not in the table, and for the
        reference in float32 itself.
    """

    model: str
    quantization: str
    sequence_length: int
    threads: int
    n: int
    repetitions: int
    p50_ms: float
    p50_ci_ms: schema.Interval
    throttled: bool = False
    speedup: float | None = None
    speedup_ci: schema.Interval | None = None
    over_float32: float | None = None
    over_float32_ci: schema.Interval | None = None


class PapersTable(schema.Part):
    """The whole of table.json.

    Attributes:
      kind: Of what it was measured on: a host, an emulated device, a phone.
      reference: The preset that speed-ups are over.
      scaled_down: Whether toy models replace the papers' models.
      measurements: The benchmark results that the latencies come from, by name in the folder.
      sources: The papers.
      published: Their rows.
    """

    format_version: Literal[1] = FORMAT_VERSION
    created: str
    tfdistill_version: str
    kind: schema.Kind
    backend: schema.BackendName
    device: schema.Device
    runtime: schema.Runtime
    settings: dict[str, Any]
    reference: str
    scaled_down: bool
    models: tuple[TableModel, ...]
    files: tuple[TableFile, ...]
    latencies: tuple[Latency, ...]
    measurements: tuple[str, ...]
    sources: tuple[PaperTable, ...] = SOURCES
    published: tuple[PublishedRow, ...] = ROWS
    notes: tuple[str, ...] = ()

    @property
    def quantizations(self) -> tuple[str, ...]:
        """The quantizations, in order."""
        return tuple(dict.fromkeys(file.quantization for file in self.files))

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths, ascending."""
        return tuple(sorted({row.sequence_length for row in self.latencies}))

    @property
    def threads(self) -> tuple[int, ...]:
        """The numbers of threads, ascending."""
        return tuple(sorted({row.threads for row in self.latencies}))

    def latency(self, model: str, quantization: str, length: int, threads: int) -> Latency | None:
        """Finds a latency."""
        wanted = (model, quantization, length, threads)
        for row in self.latencies:
            if (row.model, row.quantization, row.sequence_length, row.threads) == wanted:
                return row
        return None

    def to_json(self) -> dict[str, Any]:
        """Returns the value of table.json."""
        return self.model_dump(mode="json", by_alias=True)


def check_one_device(results: Sequence[schema.Result]) -> None:
    """Checks that all measurements are of one device and one build of the runtime.

    Raises:
      BenchmarkError: If they are not.
    """
    seen = {
        (
            *(measured.kind, measured.backend, measured.device.name, measured.device.id),
            *(measured.runtime.version, measured.runtime.sha256),
        )
        for measured in results
    }
    if len(seen) > 1:
        raise errors.BenchmarkError(
            "measurements of a table",
            "all on one device, with one runtime",
            sorted(map(str, seen)),
            "Use another --out for each.",
        )


def latencies(
    result: schema.Result, names: Mapping[str, str], quantization: str, reference: str, seed: int
) -> list[Latency]:
    """Describes the files of one measurement, with speed-ups over the reference.

    Args:
      result: Of one length and number of threads.
      names: The names of the measured files in `quantization`, by preset.
      quantization: Of these files.
      reference: The preset that speed-ups are over; its float32 file may be among the measured.
      seed: Of the bootstrap.

    Returns:
      One for each preset.
    """
    cells = summaries.by_case(result.measurements)
    same, float32 = (
        {row.candidate: row for row in summaries.comparisons(cells, baseline, seed=seed)}
        for baseline in (names[reference], file_name(reference, "float32"))
    )
    described = {row.model: row for row in result.summary}
    rows = []
    for preset, name in names.items():
        row, over, over32 = described[name], same.get(name), float32.get(name)
        latency = Latency(
            model=preset,
            quantization=quantization,
            sequence_length=row.sequence_length,
            threads=row.threads,
            n=row.n,
            repetitions=len(row.repetition_p50_ms),
            p50_ms=row.p50_ms,
            p50_ci_ms=row.p50_ci_ms,
            throttled=row.throttled,
            speedup=over.speedup if over else None,
            speedup_ci=over.speedup_ci if over else None,
            over_float32=over32.speedup if over32 else None,
            over_float32_ci=over32.speedup_ci if over32 else None,
        )
        rows.append(latency)
    return rows


def file_name(preset: str, quantization: str) -> str:
    """Returns the name of a file in the results, and of its folder."""
    return f"{preset}-{quantization}"


def notes_of(results: Iterable[schema.Result]) -> list[str]:
    """Gathers the notes of the measurements; of the load averages only the highest.

    Slowed-down latencies are marked in the table itself.
    """
    ordered = sorted(results, key=_load, reverse=True)
    notes = list(dict.fromkeys(note for measured in ordered for note in measured.notes))
    loads = [note for note in notes if note.startswith(_LOAD)]
    return [note for note in notes if note not in loads[1:] and remarks.SLOWED not in note]


def _load(measured: schema.Result) -> float:
    return (measured.before.load_average if measured.before else None) or 0.0
