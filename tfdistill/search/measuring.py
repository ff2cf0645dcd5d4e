"""Exports students with random weights and measures the files: latency needs no trained ones."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import tqdm

from tfdistill import _version, errors
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings
from tfdistill.io import files
from tfdistill.search.result import MeasuredShape, Role
from tfdistill.search.shapes import Candidate

# Measures named files on the device with the same settings, interleaved.
Measure = Callable[[Mapping[str, pathlib.Path], Settings], schema.Result]
# Writes the file of a candidate with random weights.
Convert = Callable[[Candidate, pathlib.Path], None]

_KEPT = "Finished measurements are kept: the same command continues from there."


@dataclasses.dataclass
class StudentBench:
    """Measures groups of files that take turns; each group is a benchmark result in a folder.

    A group that is in the folder is read and not measured again; its files are there until it is
    measured. `measured` has all files of all groups by the names of their candidates, `results` the
    groups.
    """

    folder: pathlib.Path
    measurer: Measure
    converter: Convert
    settings: Settings
    quantize: str
    head: str
    progress: bool = False
    results: list[schema.Result] = dataclasses.field(default_factory=list)
    measured: dict[str, MeasuredShape] = dataclasses.field(default_factory=dict)

    def measure(self, candidates: Sequence[Candidate], role: Role) -> None:
        """Adds a group of files to `measured`."""
        path = self.folder / f"{role}s-{self._key(candidates)}.json"
        exported = {c.name: path.with_suffix("") / f"{c.name}.tflite" for c in candidates}
        if path.is_file():
            group = result.read_result(path)
        else:
            group = self._measured(candidates, role, exported)
            result.write_result(group, path)
        for file in exported.values():
            file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # no such folder, or it holds something else
            path.with_suffix("").rmdir()
        self.results.append(group)
        self._check_one_device()
        for file in group.models:
            cells = [cell for cell in group.summary if cell.model == file.name]
            self.measured[file.name] = MeasuredShape(
                role=role,
                name=file.name,
                p50_ms={cell.sequence_length: cell.p50_ms for cell in cells},
                busy_lengths=tuple(cell.sequence_length for cell in cells if cell.busy),
                size_bytes=file.size_bytes,
            )

    def _key(self, candidates: Sequence[Candidate]) -> str:
        """Eight digits that differ wherever another result is to be expected."""
        shapes = [dataclasses.asdict(candidate.config) for candidate in candidates]
        settings = dataclasses.asdict(self.settings)
        form = [self.quantize, self.head, settings, _version.__version__]
        text = json.dumps([shapes, form], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _measured(
        self, candidates: Sequence[Candidate], role: Role, paths: Mapping[str, pathlib.Path]
    ) -> schema.Result:
        hidden = None if self.progress else True
        for candidate in tqdm.tqdm(candidates, desc=f"{role}s", unit="file", disable=hidden):
            path = paths[candidate.name]
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.is_file():  # else a search that was stopped wrote it
                self.converter(candidate, path)
        try:
            measured = self.measurer(paths, self.settings)
            _check_complete(measured, [*paths], self.settings.lengths or ())
        except errors.BenchmarkError as error:
            if not self.results:
                raise
            raise type(error)(f"{error}\n{_KEPT}") from error
        return measured

    def _check_one_device(self) -> None:
        devices = {
            (*(r.kind, r.backend, r.device.name, r.device.id), r.runtime.version, r.runtime.sha256)
            for r in self.results
        }
        if len(devices) > 1:
            raise errors.BenchmarkError(
                "measurements of a search",
                "all on one device, with one runtime",
                sorted(map(str, devices)),
                "Use another --out for each.",
            )


def _check_complete(measured: schema.Result, names: Sequence[str], lengths: Sequence[int]) -> None:
    cells = {(cell.model, cell.sequence_length) for cell in measured.summary}
    missing = [(name, n) for name in names for n in lengths if (name, n) not in cells]
    if missing:
        name, length = missing[0]
        reasons = dict.fromkeys(f"{f.what}: {f.error}" for f in measured.failures)
        raise errors.BenchmarkError(
            "measurement",
            f"a latency of {name} at {length} tokens",
            "; ".join(reasons) or "none",
        )


def converter(quantize: str, lengths: tuple[int, ...], head: str) -> Convert:
    """Returns what writes files with random weights, through the same export as any other."""

    def convert(candidate: Candidate, path: pathlib.Path) -> None:
        import tf_keras as keras

        import export
        from tfdistill import models

        model = models.build_random(candidate.config, models.head_for(head, 2))
        # Speed and size are asked about: answers of random weights need not survive rounding.
        loose = {"max_error": 1e3, "mean_error": 1e3, "sqnr_db": -60.0}
        with files.temporary_folder("random") as folder:
            exported = folder / path.name
            export.to_tflite(model, exported, quantize=quantize, lengths=lengths, bounds=loose)
            with files.atomic_write(path) as temporary:
                temporary.write_bytes(exported.read_bytes())
        keras.backend.clear_session()

    return convert
