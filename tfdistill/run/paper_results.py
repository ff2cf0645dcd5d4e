"""From files and measurements of the papers' models to the table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfdistill import _version, errors, manifest, models
from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.statistics import remarks, summaries
from tfdistill.report import papers
from tfdistill.run import paper_files
from tfdistill.run.paper_request import FILES, MEASUREMENTS, Request, Unit

_NOTES = (
    "Parameters: of the encoder, with its pooler where it has one, without a head. MobileBERT as "
    "it was released (24.6 M) shares the input of queries and keys within a block; the 25.3 M of "
    "its paper are those of the preset mobilebert_25m, which does not.",
    "FLOPs: 2 for each multiply-accumulate of the matrix products, without a head.",
    "The weights of our files are random: time does not depend on them, accuracy would.",
)
_LOAD = "Load average"


def check_one_device(results: Sequence[schema.Result]) -> None:
    """Checks that all measurements are of one device and one build of the runtime.

    Raises:
      BenchmarkError: If they are not.
    """
    seen = {
        (
            *(found.kind, found.backend, found.device.name, found.device.id),
            *(found.runtime.version, found.runtime.sha256),
        )
        for found in results
    }
    if len(seen) > 1:
        raise errors.BenchmarkError(
            errors.explain(
                "measurements of a table",
                "all on one device, with one runtime",
                sorted(map(str, seen)),
                "Use another --out for each.",
            )
        )


def gather(
    request: Request,
    cards: dict[tuple[str, str], manifest.Manifest],
    results: dict[Unit, schema.Result],
) -> papers.PapersTable:
    """Gathers files and measurements into a table.

    Args:
      request: What was asked for.
      cards: The manifests, by preset and quantization.
      results: The measurements, complete.

    Returns:
      The table.
    """
    first = next(iter(results.values()))
    configs = {
        preset: paper_files.shape(preset, scaled_down=request.scaled_down)
        for preset in request.presets
    }
    return papers.PapersTable(
        created=environment.now(),
        tfdistill_version=_version.__version__,
        kind=first.kind,
        backend=first.backend,
        device=first.device,
        runtime=first.runtime,
        settings=request.how(),
        reference=request.reference,
        scaled_down=request.scaled_down,
        models=tuple(
            papers.Model(
                model=preset,
                parameters=models.count_parameters(config),
                flops={n: models.flops(config, n) for n in request.settings.lengths or ()},
            )
            for preset, config in configs.items()
        ),
        files=tuple(
            papers.File(
                model=preset,
                quantization=quantization,
                file=f"{FILES}/{paper_files.name_of(preset, quantization)}/{card.model.file}",
                sha256=card.model.sha256,
                size_bytes=card.model.size_bytes,
            )
            for (preset, quantization), card in cards.items()
        ),
        latencies=tuple(
            row for unit, found in results.items() for row in _latencies(request, unit, found)
        ),
        measurements=tuple(f"{MEASUREMENTS}/{request.place}/{unit.file}" for unit in results),
        notes=(*_NOTES, *_remarks(results.values())),
    )


def _remarks(results: Iterable[schema.Result]) -> list[str]:
    """Gathers what the measurements say to their readers; of the loads only the highest.

    Places that slowed down are marked in the table, each by itself.
    """
    ordered = sorted(results, key=_load, reverse=True)
    notes = list(dict.fromkeys(note for found in ordered for note in found.notes))
    loads = [note for note in notes if note.startswith(_LOAD)]
    return [note for note in notes if note not in loads[1:] and remarks.SLOWED not in note]


def _load(found: schema.Result) -> float:
    return (found.before.load_average if found.before else None) or 0.0


def _latencies(request: Request, unit: Unit, found: schema.Result) -> Iterator[papers.Latency]:
    cells = summaries.cells(found.measurements)
    seed = request.settings.seed
    same, float32 = (
        {
            row.candidate: row
            for row in summaries.comparisons(
                cells, paper_files.name_of(request.reference, quantization), seed=seed
            )
        }
        for quantization in (unit.quantization, "float32")
    )
    described = {row.model: row for row in found.summary}
    for preset in request.presets:
        name = paper_files.name_of(preset, unit.quantization)
        row, over, over32 = described[name], same.get(name), float32.get(name)
        yield papers.Latency(
            model=preset,
            quantization=unit.quantization,
            sequence_length=unit.sequence_length,
            threads=unit.threads,
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
