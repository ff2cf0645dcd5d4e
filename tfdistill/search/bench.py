"""Exports candidates with random weights and measures the files, here or on a phone."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tqdm

from tfdistill import errors, files
from tfdistill._version import __version__
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.search import design
from tfdistill.search.space import Candidate
from tfdistill.search.store import MeasurementContext, Reading, Store

# Measures named files on the device with the same settings, interleaved.
Measure = Callable[[Mapping[str, pathlib.Path], Settings], schema.Result]
# Writes the file of a candidate with random weights.
Convert = Callable[[Candidate, pathlib.Path], None]

_BATCH = 5  # files that take turns with the anchor
_ANCHOR = "anchor"
_KEPT = "Finished measurements are kept: the same command continues from there."
# Settings that change no latency, and what `FileForm` says already.
_HARMLESS = ("lengths", "seed", "timeout_seconds", "cool_timeout_seconds", "max_repeats")


@dataclasses.dataclass(frozen=True)
class FileForm:
    """What the files of a search have in common.

    Attributes:
      quantize: Name of a quantization.
      lengths: Sequence lengths, all in one file.
      head: "sequence", "token" or "span".
    """

    quantize: str
    lengths: tuple[int, ...]
    head: str


class CandidateBench:
    """Measures candidates on one device and remembers them.

    The anchor, a small file that is always the same, is measured first, to identify the device, and
    again with every batch, to correct for the device's drift.

    Args:
      measure: Measures files on the device.
      convert: Writes the file of a candidate.
      store: Where readings are kept.
      form: Of the files.
      settings: How to measure.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.
    """

    def __init__(
        self,
        measure: Measure,
        convert: Convert,
        store: Store,
        form: FileForm,
        settings: Settings,
        *,
        progress: bool = False,
    ) -> None:
        self._measure, self._convert, self._store = measure, convert, store
        self._settings = dataclasses.replace(settings, lengths=form.lengths, texts=False)
        self._progress = progress
        self._temporary = contextlib.ExitStack()
        try:
            self._folder = self._temporary.enter_context(files.temporary_folder("search"))
            self._anchor = self._file(_ANCHOR, design.ANCHOR)
            result = self._measured({_ANCHOR: self._anchor})
        except BaseException:
            self._temporary.close()
            raise
        options = dataclasses.asdict(self._settings)
        self.first = result
        self.context = MeasurementContext(
            device=result.device,
            runtime=result.runtime,
            settings={name: value for name, value in options.items() if name not in _HARMLESS},
            quantize=form.quantize,
            lengths=form.lengths,
            head=form.head,
            tfdistill_version=__version__,
        )

    def __enter__(self) -> CandidateBench:
        """Returns itself."""
        return self

    def __exit__(self, *_: Any) -> None:
        """Removes what was exported."""
        self._temporary.close()

    def readings(self, candidates: Sequence[Candidate], what: str) -> list[Reading]:
        """Measures what is not known yet, a batch at a time, and keeps each batch.

        Args:
          candidates: Of unique shapes.
          what: What they are, for the progress bar.

        Returns:
          A reading for each, in their order.

        Raises:
          BenchmarkError: If a file cannot be measured.
          ExportError: If a file cannot be made.
        """
        found = {c.name: self._store.get(self.context.key(c)) for c in candidates}
        missing = [c for c in candidates if found[c.name] is None]
        # In random order: what slows the device down for minutes does not hit one kind of shape.
        order = np.random.default_rng(self._settings.seed).permutation(len(missing))
        with tqdm.tqdm(
            total=len(candidates),
            initial=len(candidates) - len(missing),
            desc=what,
            unit="file",
            disable=None if self._progress else True,
        ) as bar:
            for start in range(0, len(missing), _BATCH):
                batch = [missing[i] for i in order[start : start + _BATCH]]
                for reading in self._batch(batch):
                    self._store.put(reading)
                    found[reading.name] = reading
                bar.update(len(batch))
        return [reading for reading in (found[c.name] for c in candidates) if reading is not None]

    def _batch(self, batch: list[Candidate]) -> list[Reading]:
        paths = {candidate.name: self._file(candidate.name, candidate) for candidate in batch}
        try:
            result = self._measured({**paths, _ANCHOR: self._anchor})
        except errors.BenchmarkError as error:
            raise type(error)(f"{error}\n{_KEPT}") from error
        anchor = {n: cell.p50_ms for n, cell in _cells(result, _ANCHOR).items()}
        sizes = {name: path.stat().st_size for name, path in paths.items()}
        readings = []
        for candidate in batch:
            cells = _cells(result, candidate.name)
            readings.append(
                Reading(
                    key=self.context.key(candidate),
                    name=candidate.name,
                    size_bytes=sizes[candidate.name],
                    p50_ms={n: cell.p50_ms for n, cell in cells.items()},
                    p50_ci_ms={n: cell.p50_ci_ms for n, cell in cells.items()},
                    anchor_ms=anchor,
                    created=result.created,
                )
            )
            paths[candidate.name].unlink()
        return readings

    def _file(self, name: str, candidate: Candidate) -> pathlib.Path:
        path = self._folder / f"{name}.tflite"
        self._convert(candidate, path)
        return path

    def _measured(self, paths: Mapping[str, pathlib.Path]) -> schema.Result:
        result = self._measure(paths, self._settings)
        wanted = {(name, n) for name in paths for n in self._settings.lengths or ()}
        missing = sorted(wanted - {(cell.model, cell.sequence_length) for cell in result.summary})
        if missing:
            reasons = list(dict.fromkeys(f"{f.what}: {f.error}" for f in result.failures))
            raise errors.BenchmarkError(
                "measurement",
                f"a latency of {missing[0][0]} at {missing[0][1]} tokens",
                "; ".join(reasons) or "none",
            )
        return result


def usual_latency(readings: Sequence[Reading], length: int) -> float:
    """The anchor's median latency over readings, milliseconds."""
    return statistics.median(reading.anchor_ms[length] for reading in readings)


def drift_corrected(readings: Sequence[Reading], length: int, usual_ms: float) -> list[float]:
    """Latencies corrected for the device's drift, milliseconds.

    Each is divided by the anchor's latency in its batch and multiplied with the usual one.
    """
    return [r.p50_ms[length] * usual_ms / r.anchor_ms[length] for r in readings]


def unsteadiness(readings: Sequence[Reading], length: int) -> float:
    """The anchor's slowest / fastest batch - 1: how much the device's speed changed."""
    anchors = [reading.anchor_ms[length] for reading in readings]
    return max(anchors) / min(anchors) - 1


def converter(form: FileForm, num_labels: int = 2) -> Convert:
    """Returns what writes files with random weights, through the same export as any other."""

    def convert(candidate: Candidate, path: pathlib.Path) -> None:
        import tf_keras as keras

        import export
        from tfdistill import models

        model = models.build_random(candidate.config, models.head_for(form.head, num_labels))
        with files.temporary_folder("random") as folder:
            made = folder / path.name
            # Speed and size are asked about: answers of random weights need not survive rounding.
            loose = {"max_error": 1e3, "mean_error": 1e3, "sqnr_db": -60.0}
            export.to_tflite(
                model, made, quantize=form.quantize, lengths=form.lengths, bounds=loose
            )
            path.write_bytes(made.read_bytes())
        keras.backend.clear_session()

    return convert


def _cells(result: schema.Result, name: str) -> dict[int, schema.Summary]:
    return {cell.sequence_length: cell for cell in result.summary if cell.model == name}
