"""`sweep`: every quantization of one model, one row each."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, manifest, results
from tfdistill.io import files, work_folder
from tfdistill.results import SweepResults, Trial, quantities, tables
from tfdistill.tasks.encoded import EncodedExamples

from ..checking.evidence import FloatConversion
from ..conversion import quantize as quantizing
from ..file import bundle
from ..model.request import ExportRequest, check_options
from .trial import Measure, Report, attempt

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..model.options import ExportOptions

_SETTLED = ("good", "beyond bounds")  # what trying again would not change
_FILE = "model.tflite"
# What rows do not depend on, or what is compared in another form.
_NOT_COMPARED = {"model", "path", "lengths", "quantize", "overwrite", "timeout_s"}
KIND = "sweep"


@dataclasses.dataclass(frozen=True)
class Sweep:
    """All quantizations that were tried on one model."""

    # where the good files are: folder/<quantization>/model.tflite and what belongs to it
    folder: pathlib.Path
    lengths: tuple[int, ...]
    # a trial for each quantization, in the order in which they were asked for
    rows: tuple[Trial, ...]
    # of the measurement; None where it is not known or nothing was measured
    threads: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        results_of_rows = SweepResults(
            format_version=results.FORMAT_VERSION,
            lengths=self.lengths,
            threads=self.threads,
            rows=self.rows,
        )
        return results_of_rows.model_dump(mode="json", exclude={"request"})

    def format_text(self) -> str:
        """Returns a table for a terminal; below it, why rows are not good."""
        return format_rows(self.rows, self.lengths, threads=self.threads)


def sweep(
    model: keras.Model,
    folder: files.Path,
    names: Sequence[str] | None = None,
    *,
    measure: Measure | None = None,
    threads: int | None = None,
    report: Report | None = None,
    **options: Unpack[ExportOptions],
) -> Sweep:
    """Exports a model in many quantizations and lists size, speed and accuracy of each.

    The good files stay, each in a folder of its own; of those beyond their bounds only the figures
    do. A row is saved as soon as it is finished: after a kill the same call resumes, and tries
    again only what failed.

    Args:
      model: As for `to_tflite`.
      folder: The folder to fill; sweep.json holds the rows.
      names: Quantizations; default all of `quantizations()`.
      measure: Measures a file: returns "p50_ms" by length, "busy_lengths" and "peak_rss_bytes", as
        `tfdistill.benchmark.quick_benchmark` does. None leaves these figures out.
      threads: How many `measure` uses, where that is known: of other threads is another sweep.
      report: Called with each trial as soon as it is finished; not with an earlier call's.
      **options: See `ExportOptions`; `check_on` with labels and `task` give the metric of each
        file, static quantizations need `calibrate_on`. `overwrite` starts anew where there is a
        sweep of something else, or this one.

    Raises:
      ConfigError: If a name is not known, or an argument suits no quantization.
      DataError: If the examples do not fit the model or the lengths.
      OutputExistsError: If the folder holds the sweep of another model or other arguments.

    Examples:
      >>> sweep = export.sweep(student, "formats", ["float32", "dynamic_wi8_afp32"], data=data)
      >>> sizes = [row.size_bytes for row in sweep.rows]
      >>> sizes[0] > 3 * sizes[1]
      True
    """
    chosen = [quantization.name for quantization in quantizing.chosen(names)]
    folder = pathlib.Path(folder)
    check_options(options, but=("quantize", "variants", "name"))
    request = ExportRequest(model, folder / _FILE, **options).collected()
    replaced = request.overwrite
    threads = None if measure is None else threads
    fingerprint = _fingerprint(request, measured=measure is not None, threads=threads)
    with work_folder.WorkFolder(folder, KIND).open(resume=not replaced, overwrite=replaced):
        done = _finished(folder, fingerprint)
        _save(folder, fingerprint, done)
        with files.temporary_folder("sweep") as temporary:
            floats = FloatConversion(temporary / "float32.tflite")
            for name in chosen:
                if name in done:
                    continue
                refused = temporary / name
                refused.mkdir()
                done[name] = attempt(
                    request.replace(quantize=name, path=folder / name / _FILE),
                    floats=floats,
                    measure=measure,
                    refused=refused / _FILE,
                )
                shutil.rmtree(refused)
                _save(folder, fingerprint, done)
                if report is not None:
                    report(done[name])
    rows = tuple(done[name] for name in chosen)
    if all(row.verdict == "impossible" for row in rows):
        raise errors.ConfigError(rows[0].why)
    return Sweep(folder, tuple(sorted(request.chosen_lengths)), rows, threads)


def format_rows(
    rows: Sequence[Trial], lengths: Sequence[int], *, threads: int | None = None
) -> str:
    """Writes trials as a table with the reasons of those that are not good below it.

    A length gets a column where any row has its latency; more than one thread stand in the titles.
    """
    primary = next((row.primary_metric for row in rows if row.file_metrics), None)
    several = f", {threads} threads" if threads is not None and threads > 1 else ""
    lines = []
    for row in rows:
        equal = row.size_bytes is not None and row.sqnr_db is None
        latencies = {
            f"p50 ms @{length}{several}": tables.marked(
                _number(row.p50_ms.get(length), 2), length in row.busy_lengths
            )
            for length in lengths
        }
        cells = {
            "quantization": _title(row),
            "MB": quantities.megabytes(row.size_bytes, absent="-"),
            "zip MB": quantities.megabytes(row.zipped_bytes, absent="-"),
            **latencies,
            primary or "": _number(row.file_metrics.get(primary or ""), 4),
            "drop": _number(row.metric_drop, 4),
            "agree": _number(row.argmax_agreement, 4),
            "SQNR dB": "equal" if equal else _number(row.sqnr_db, 1),
            "parts": "-" if row.partitions is None else str(row.partitions),
            "RSS MB": quantities.megabytes(row.peak_rss_bytes, absent="-"),
            "verdict": row.verdict,
        }
        lines.append(cells)
    reasons = [f"{_title(row)}: {row.why}" for row in rows if row.verdict != "good"]
    if any(row.size_bytes is not None and not row.file_metrics for row in rows):
        reasons.append("No metric: labelled examples and their task were not given; parity only.")
    if any(not row.real_inputs for row in rows):
        reasons.append("Checked on random token ids, for want of real examples.")
    return "\n".join([*tables.lines(lines), *([""] if reasons else []), *reasons])


def _title(row: Trial) -> str:
    if not row.layers:
        return row.name
    return f"{row.name} ({', '.join(f'{p}: {q}' for p, q in row.layers.items())})"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _fingerprint(request: ExportRequest, *, measured: bool, threads: int | None) -> dict[str, Any]:
    """The request of a sweep, comparable: rows of two equal requests are the same."""
    digest = hashlib.sha256()
    for weight in request.model.weights:
        digest.update(f"{weight.name} {weight.shape}".encode())
        digest.update(np.ascontiguousarray(weight.numpy()).tobytes())
    names = vars(request).keys() - _NOT_COMPARED
    plain = {name: _plain(getattr(request, name)) for name in sorted(names)}
    return {
        "weights": digest.hexdigest(),
        "lengths": sorted(request.chosen_lengths),
        "measured": measured,
        "threads": threads,
        "arguments": json.loads(json.dumps(plain)),
    }


def _plain(value: Any) -> Any:
    """A value for JSON; examples and everything else that is large as a checksum."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, EncodedExamples):
        arrays = (value.ids, value.offsets, value.types, value.labels)
        joined = b"".join(b"-" if a is None else np.ascontiguousarray(a).tobytes() for a in arrays)
        return hashlib.sha256(joined).hexdigest()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _finished(folder: pathlib.Path, request: dict[str, Any]) -> dict[str, Trial]:
    """Returns the rows of an earlier call of the same request that need not be tried again."""
    path = folder / results.SWEEP_FILE
    if not path.is_file():
        return {}
    try:
        saved = results.read_result_file(path, SweepResults)
    except errors.DataError as error:
        raise errors.OutputExistsError(
            f"{path}", "a sweep to resume", error, "Pass overwrite to start."
        ) from error
    rows = [row for row in saved.rows if row.verdict in _SETTLED]
    if rows and saved.request != request:
        raise errors.OutputExistsError(
            f"{path}",
            "a sweep of this model with these arguments",
            "another one",
            "Choose another folder, or overwrite it to start anew.",
        )
    return {row.name: row for row in rows if _is_whole(folder, row)}


def _is_whole(folder: pathlib.Path, row: Trial) -> bool:
    """Whether the files of a good row are there as they were written."""
    if row.verdict != "good":
        return True
    try:
        manifest.read_manifest(bundle.paths_of(folder / row.name / _FILE).manifest)
    except errors.ManifestError:
        return False
    return True


def _save(folder: pathlib.Path, request: dict[str, Any], done: Mapping[str, Trial]) -> None:
    content = SweepResults(
        format_version=results.FORMAT_VERSION,
        lengths=tuple(request["lengths"]),
        threads=request["threads"],
        request=request,
        rows=tuple(done.values()),
    )
    path = folder / results.SWEEP_FILE
    with bundle.writing(f"{path}"):
        results.write_result_file(content, path)
