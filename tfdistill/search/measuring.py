"""Exports students with random weights and measures the files: latency needs no trained ones."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

import tqdm

from tfdistill import _version, errors, files
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.settings import Settings
from tfdistill.search.shapes import Candidate

# Measures named files on the device with the same settings, interleaved.
Measure = Callable[[Mapping[str, pathlib.Path], Settings], schema.Result]
# Writes the file of a candidate with random weights.
Convert = Callable[[Candidate, pathlib.Path], None]

_KEPT = "Finished measurements are kept: the same command continues from there."


@dataclasses.dataclass(frozen=True)
class MeasuredStudent:
    """A measured file: medians and their 95% intervals by sequence length, milliseconds."""

    candidate: Candidate
    size_bytes: int
    p50_ms: dict[int, float]
    p50_ci_ms: dict[int, schema.Interval]


class StudentBench:
    """Measures groups of files that take turns; each group is a benchmark result in a folder.

    A group that is in the folder is read and not measured again.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        measure: Measure,
        convert: Convert,
        settings: Settings,
        quantize: str,
        *,
        progress: bool = False,
    ) -> None:
        self._folder, self._measure, self._convert = folder, measure, convert
        self._settings, self._quantize, self._progress = settings, quantize, progress
        self.results: list[schema.Result] = []
        self._files: dict[str, MeasuredStudent] = {}

    def measure(self, candidates: Sequence[Candidate], what: str) -> list[MeasuredStudent]:
        """Measures those of a group that no earlier one had, or reads them; in their order."""
        missing = [candidate for candidate in candidates if candidate.name not in self._files]
        if missing:
            self._add(missing, what)
        return [self._files[candidate.name] for candidate in candidates]

    def _add(self, candidates: Sequence[Candidate], what: str) -> None:
        path = self._folder / f"{what}-{self._key(candidates)}.json"
        if path.is_file():
            measured = result.read_result(path)
        else:
            measured = self._measured(candidates, what)
            result.write_result(measured, path)
        self.results.append(measured)
        self._check_one_device()
        sizes = {model.name: model.size_bytes for model in measured.models}
        cells = {(cell.model, cell.sequence_length): cell for cell in measured.summary}
        for candidate in candidates:
            of_file = {n: cells[candidate.name, n] for n in self._settings.lengths or ()}
            self._files[candidate.name] = MeasuredStudent(
                candidate,
                sizes[candidate.name],
                {n: cell.p50_ms for n, cell in of_file.items()},
                {n: cell.p50_ci_ms for n, cell in of_file.items()},
            )

    def _key(self, candidates: Sequence[Candidate]) -> str:
        """Eight digits that differ wherever another result is to be expected."""
        shapes = [dataclasses.asdict(candidate.config) for candidate in candidates]
        settings = dataclasses.asdict(self._settings)
        form = [self._quantize, settings, _version.__version__]
        text = json.dumps([shapes, form], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def _measured(self, candidates: Sequence[Candidate], what: str) -> schema.Result:
        with files.temporary_folder("search") as folder:
            paths = {c.name: folder / f"{c.name}.tflite" for c in candidates}
            hidden = None if self._progress else True
            for candidate in tqdm.tqdm(candidates, desc=what, unit="file", disable=hidden):
                self._convert(candidate, paths[candidate.name])
            try:
                measured = self._measure(paths, self._settings)
            except errors.BenchmarkError as error:
                if not self.results:
                    raise
                raise type(error)(f"{error}\n{_KEPT}") from error
        cells = {(cell.model, cell.sequence_length) for cell in measured.summary}
        wanted = [(name, n) for name in paths for n in self._settings.lengths or ()]
        missing = [cell for cell in wanted if cell not in cells]
        if missing:
            reasons = dict.fromkeys(f"{f.what}: {f.error}" for f in measured.failures)
            raise errors.BenchmarkError(
                "measurement",
                f"a latency of {missing[0][0]} at {missing[0][1]} tokens",
                "; ".join(reasons) or "none",
                _KEPT if self.results else "",
            )
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
            path.write_bytes(exported.read_bytes())
        keras.backend.clear_session()

    return convert
