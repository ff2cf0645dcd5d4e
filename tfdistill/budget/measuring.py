"""Exports students with random weights and measures the files: latency needs no trained ones."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable, Mapping

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.budget.shapes import Candidate
from tfdistill.io import files

# Measures named files on the device with the same settings, interleaved.
Measure = Callable[[Mapping[str, pathlib.Path], Settings], schema.Result]
# Writes the file of a candidate with random weights.
Convert = Callable[[Candidate, pathlib.Path], None]


@dataclasses.dataclass
class StudentBench:
    """Measures students on one device; `latency_ms` has their medians by name.

    At several lengths that is the slowest median.
    """

    measurer: Measure
    converter: Convert
    settings: Settings
    latency_ms: dict[str, float] = dataclasses.field(default_factory=dict)
    devices: set[tuple[str | None, ...]] = dataclasses.field(default_factory=set)

    def measure(self, candidate: Candidate) -> float:
        """Adds a student to `latency_ms` and returns its latency."""
        name = candidate.name
        with files.temporary_folder("fitting") as folder:
            path = folder / f"{name}.tflite"
            self.converter(candidate, path)
            result = self.measurer({name: path}, self.settings)
        device, runtime = result.device, result.runtime
        self.devices.add(
            (result.kind, result.backend, device.name, device.id, runtime.version, runtime.sha256)
        )
        if len(self.devices) > 1:
            raise errors.BenchmarkError(
                "measurements of students",
                "all on one device, with one runtime",
                sorted(map(str, self.devices)),
                "Name the device with --serial.",
            )
        medians = {cell.sequence_length: cell.p50_ms for cell in result.summary}
        for length in self.settings.lengths or ():
            if length not in medians:
                reasons = dict.fromkeys(f"{f.what}: {f.error}" for f in result.failures)
                raise errors.BenchmarkError(
                    "measurement",
                    f"a latency of {name} at {length} tokens",
                    "; ".join(reasons) or "none",
                )
        self.latency_ms[name] = max(medians.values())
        return self.latency_ms[name]


def converter(quantize: str, lengths: tuple[int, ...], head: str) -> Convert:
    """Returns what writes files with random weights, through the same export as any other."""

    def convert(candidate: Candidate, path: pathlib.Path) -> None:
        import tf_keras as keras

        import export
        from tfdistill import models

        model = models.build_random(candidate.config, models.head_for(head, 2))
        # Speed and size are asked about: answers of random weights need not survive rounding.
        loose = {"max_error": 1e3, "mean_error": 1e3, "sqnr_db": -60.0}
        exported = path.parent / "export" / path.name
        exported.parent.mkdir()
        export.to_tflite(model, exported, quantize=quantize, lengths=lengths, bounds=loose)
        exported.rename(path)  # only the file is measured
        keras.backend.clear_session()

    return convert
