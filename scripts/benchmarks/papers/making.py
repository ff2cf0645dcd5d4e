"""Makes the papers' table: exports the models, measures them in turns, gathers the results.

Every file and measurement is kept as soon as it is finished, so that a table that was stopped
continues from there.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tqdm

from tfdistill import _version, errors, files, manifest, models, reading, work_folder
from tfdistill.benchmark import environment, result, schema
from tfdistill.benchmark.settings import Settings

from . import exporting, published, rendering, table
from .table import PapersTable, TableFile, TableModel, file_name

FILES, MEASUREMENTS = "files", "measurements"  # folders of a table
REQUEST, TABLE = "request.json", "table.json"
KIND = "table"
# The settings that all measurements of a table share.
_SETTINGS = (
    *("warmup", "runs", "min_seconds", "max_runs", "repetitions", "rounds", "lead_in"),
    "cool_down_seconds",
)
_NOTES = (
    "Parameters: of the encoder, with its pooler where it has one, without a head. MobileBERT as "
    "it was released (24.6 M) shares the input of queries and keys within a block; the 25.3 M of "
    "its paper are those of the preset mobilebert_25m, which does not.",
    "FLOPs: 2 for each multiply-accumulate of the matrix products, without a head.",
    "The weights of our files are random: time does not depend on them, accuracy would.",
)
Measure = Callable[[Sequence[pathlib.Path], Settings], schema.Result]


@dataclasses.dataclass(frozen=True)
class MeasurementUnit:
    """What is measured at once: all models in one quantization at a length, on so many threads.

    The reference in float32 takes its turns among files of another quantization.
    """

    quantization: str
    sequence_length: int
    threads: int

    @property
    def file(self) -> str:
        """Name of its result."""
        return f"{self.quantization}-{self.sequence_length}-{self.threads}.json"


@dataclasses.dataclass(frozen=True)
class TableRequest:
    """What a table is asked for.

    Attributes:
      presets: The models.
      quantizations: Of each model.
      settings: How to measure; with lengths and threads.
      folder: Name of the folder of the measurements: one for each device.
      scaled_down: Whether toy models replace the papers' models.
    """

    presets: tuple[str, ...]
    quantizations: tuple[str, ...]
    settings: Settings
    folder: str = "host"
    scaled_down: bool = False

    def __post_init__(self) -> None:
        """Checks what can be checked before the long work."""
        if not self.presets or not self.quantizations or not self.settings.lengths:
            raise errors.ConfigError("table", "models, quantizations and lengths", "none of one")
        longest = max(self.settings.lengths)
        for preset in self.presets:
            config = exporting.shape(preset, scaled_down=self.scaled_down)
            if longest > config.max_positions:
                raise errors.ConfigError(
                    "--lengths", f"at most {config.max_positions} tokens", longest
                )
        exporting.check_quantizations(self.quantizations)

    @property
    def reference(self) -> str:
        """The preset that speed-ups are over."""
        usual = published.REFERENCE
        return usual if usual in self.presets else self.presets[0]

    @property
    def measured_with(self) -> dict[str, Any]:
        """The settings that all measurements share."""
        return {name: getattr(self.settings, name) for name in _SETTINGS}

    def fixed(self) -> dict[str, Any]:
        """Returns what must not change between two runs into the same folder, as in JSON."""
        return {
            "format_version": 1,
            "models": list(self.presets),
            "lengths": list(self.settings.lengths or ()),
            "seed": self.settings.seed,
            "scaled_down": self.scaled_down,
        }

    def units(self) -> Iterator[MeasurementUnit]:
        """Yields what has to be measured, in order."""
        for quantization in self.quantizations:
            for length in self.settings.lengths or ():
                for threads in self.settings.threads:
                    yield MeasurementUnit(quantization, length, threads)


def make_table(
    out: files.Path,
    request: TableRequest,
    measure: Measure,
    *,
    overwrite: bool = False,
    progress: bool = False,
) -> PapersTable:
    """Exports, measures and gathers; continues what an earlier run into the folder left.

    Args:
      out: The folder: files/, measurements/, table.json, table.md, table.csv.
      request: What to do.
      measure: Measures files in turns, as `benchmark.compare` does, on the device of the table.
      overwrite: Whether to remove an earlier table first.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      The table.

    Raises:
      OutputExistsError: If the folder holds another table, or something else.
      BenchmarkError: If a file could not be measured, or two were on different machines.
      ExportError: If a file could not be made.
    """
    folder = pathlib.Path(out)
    with work_folder.WorkFolder(folder, KIND).open(resume=not overwrite, overwrite=overwrite):
        _prepare(folder, request.fixed())
        units = list(request.units())
        steps = len(request.presets) + len(units)
        exports: dict[tuple[str, str], manifest.Manifest] = {}
        results: dict[MeasurementUnit, schema.Result] = {}
        with tqdm.tqdm(total=steps, unit="step", disable=None if progress else True) as bar:
            for preset in request.presets:
                bar.set_description(f"export {published.title(preset)}")
                manifests = exporting.export_missing(
                    folder / FILES,
                    preset,
                    request.quantizations,
                    lengths=request.settings.lengths or (),
                    scaled_down=request.scaled_down,
                    seed=request.settings.seed,
                )
                exports.update(
                    {
                        (preset, quantization): exported
                        for quantization, exported in manifests.items()
                    }
                )
                bar.update()
            for unit in units:
                bar.set_description(f"measure {unit.file.removesuffix('.json')}")
                results[unit] = _measured(folder, request, unit, exports, measure)
                bar.update()
        gathered = _gather(request, exports, results)
        write(gathered, folder)
        return gathered


def write(value: PapersTable, folder: files.Path) -> None:
    """Writes table.json, table.md and table.csv, each whole or unchanged."""
    root = pathlib.Path(folder)
    files.atomic_write_text(root / TABLE, result.to_json(value.to_json()))
    files.atomic_write_text(root / "table.md", rendering.render_markdown(value))
    files.atomic_write_text(root / "table.csv", rendering.render_csv(value))


def _gather(
    request: TableRequest,
    exports: Mapping[tuple[str, str], manifest.Manifest],
    results: Mapping[MeasurementUnit, schema.Result],
) -> PapersTable:
    configs = {p: exporting.shape(p, scaled_down=request.scaled_down) for p in request.presets}
    table.check_one_device(list(results.values()))
    first = next(iter(results.values()))
    return PapersTable(
        created=environment.now(),
        tfdistill_version=_version.__version__,
        kind=first.kind,
        backend=first.backend,
        device=first.device,
        runtime=first.runtime,
        measurements=tuple(f"{MEASUREMENTS}/{request.folder}/{unit.file}" for unit in results),
        settings=request.measured_with,
        reference=request.reference,
        scaled_down=request.scaled_down,
        models=tuple(
            TableModel(
                model=preset,
                parameters=models.count_parameters(config),
                flops={n: models.flops(config, n) for n in request.settings.lengths or ()},
            )
            for preset, config in configs.items()
        ),
        files=tuple(
            TableFile(
                model=preset,
                quantization=quantization,
                file=f"{FILES}/{file_name(preset, quantization)}/{exported.model.file}",
                sha256=exported.model.sha256,
                size_bytes=exported.model.size_bytes,
            )
            for (preset, quantization), exported in exports.items()
        ),
        latencies=tuple(
            row
            for unit, measured in results.items()
            for row in table.latencies(
                measured,
                {preset: file_name(preset, unit.quantization) for preset in request.presets},
                unit.quantization,
                request.reference,
                request.settings.seed,
            )
        ),
        notes=(*_NOTES, *table.notes_of(results.values())),
    )


def _prepare(folder: pathlib.Path, request: dict[str, Any]) -> None:
    """Records the request, or checks that what the folder holds belongs to the same table."""
    if (folder / REQUEST).is_file():
        earlier = _earlier(folder / REQUEST)
        other = [name for name in request if earlier.get(name) != request[name]]
        if other:
            raise errors.OutputExistsError(
                f"table in {folder}",
                f"one of the same {' and '.join(other)}",
                ", ".join(str(earlier.get(name)) for name in other),
                "Use --overwrite or another --out.",
            )
        return
    files.atomic_write_json(folder / REQUEST, request)


def _earlier(path: pathlib.Path) -> dict[str, Any]:
    try:
        return reading.read_json_object(path)
    except errors.DataError:
        return {}  # no request at all: another table


def _measured(
    folder: pathlib.Path,
    request: TableRequest,
    unit: MeasurementUnit,
    exports: Mapping[tuple[str, str], manifest.Manifest],
    measure: Measure,
) -> schema.Result:
    """Reads the result of a unit, or measures it and keeps it."""
    wanted = [(preset, unit.quantization) for preset in request.presets]
    if unit.quantization != "float32" and "float32" in request.quantizations:
        wanted.append((request.reference, "float32"))
    digests = [exports[key].model.sha256 for key in wanted]
    result_file = folder / MEASUREMENTS / request.folder / unit.file
    if result_file.is_file():
        earlier = result.read_result(result_file)
        settings = {name: earlier.settings.get(name) for name in _SETTINGS}
        same = settings == request.measured_with
        if [model.sha256 for model in earlier.models] != digests or not same:
            raise errors.OutputExistsError(
                f"{result_file}",
                f"a measurement of the files in {FILES}/ with {request.measured_with}",
                "one of other files" if same else f"one with {settings}",
                "Remove it to measure again, or use --overwrite.",
            )
        return earlier
    settings = dataclasses.replace(
        request.settings, lengths=(unit.sequence_length,), threads=(unit.threads,), texts=False
    )
    measured = measure([folder / FILES / file_name(*key) for key in wanted], settings)
    if measured.failures:
        raise errors.BenchmarkError(
            "\n".join(f"{failure.what}: {failure.error}" for failure in measured.failures)
        )
    result.write_result(measured, result_file)
    return measured
