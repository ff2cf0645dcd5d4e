"""`sweep`: every quantization of one model side by side, one row each."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tf_keras as keras

from tfdistill import errors, files, manifest
from tfdistill.data.encoded import EncodedExamples

from ..conversion import quantize as quantizing
from ..file import bundle
from ..model import inputs
from .trial import Measure, Report, Trial, attempt

FILE_NAME = "sweep.json"
FORMAT_VERSION = 1
_SETTLED = ("good", "beyond bounds")  # what trying again would not change


@dataclasses.dataclass(frozen=True)
class Sweep:
    """All quantizations that were tried on one model.

    Attributes:
      folder: Where the good files are: folder/<quantization>/model.tflite and what belongs to it.
      lengths: Their sequence lengths.
      rows: A trial for each quantization, in the order in which they were asked for.
    """

    folder: pathlib.Path
    lengths: tuple[int, ...]
    rows: tuple[Trial, ...]

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "lengths": list(self.lengths),
            "rows": [row.as_dict() for row in self.rows],
        }

    def format_text(self) -> str:
        """Returns a table for a terminal; below it, why rows are not good."""
        return format_rows(self.rows, self.lengths)


def sweep(
    model: keras.Model,
    folder: files.Path,
    names: Sequence[str] | None = None,
    *,
    measure: Measure | None = None,
    report: Report | None = None,
    lengths: Sequence[int] = (32, 64, 128),
    overwrite: bool = False,
    **arguments: Any,
) -> Sweep:
    """Exports a model in many quantizations and lists size, speed and accuracy of each.

    The good files stay, each in a folder of its own; of those beyond their bounds only the figures
    do. A row is saved as soon as it is finished: after a kill the same call goes on from there, and
    tries again only what failed.

    Args:
      model: As for `to_tflite`.
      folder: The folder to fill; sweep.json holds the rows.
      names: Quantizations; default all of `quantizations()`.
      measure: Measures a file: gives "p50_ms" by length and "peak_rss_bytes", as
        `tfdistill.benchmark.glance` does. None leaves these figures out.
      report: Is told of each trial as soon as it is finished; not of those of an earlier call.
      lengths: Sequence lengths.
      overwrite: Whether to start anew where there is a sweep of something else, or this one.
      **arguments: The other arguments of `to_tflite`; `check_on` with labels and `task` give the
        metric of each file, `calibrate_on` lets static quantizations in.

    Returns:
      The rows.

    Raises:
      ConfigError: If a name is not known, or an argument suits no quantization.
      DataError: If the examples do not fit the model or the lengths.
      OutputExistsError: If the folder holds the sweep of another model or other arguments.
    """
    for argument in ("quantize", "path"):
        if argument in arguments:
            raise errors.ConfigError(
                "sweep", f"no {argument}", "one", "It has `names` and a folder."
            )
    chosen = list(dict.fromkeys(quantizing.quantizations() if names is None else names))
    if not chosen:
        raise errors.ConfigError("names", "at least one quantization", "none")
    for name in chosen:
        quantizing.quantization(name)
    for examples in ("check_on", "calibrate_on"):
        if arguments.get(examples) is not None:  # an iterator would be used up by the first row
            arguments[examples] = inputs.collect(arguments[examples])
    place = pathlib.Path(folder)
    request = _request(model, lengths, measured=measure is not None, arguments=arguments)
    done = {} if overwrite else _finished(place, request)
    if overwrite:
        for name in {*chosen, *quantizing.quantizations()}:
            shutil.rmtree(place / name, ignore_errors=True)
    _save(place, request, done)
    rows: list[Trial] = []
    for name in chosen:
        trial = done.get(name)
        if trial is None:
            with tempfile.TemporaryDirectory(prefix="tfdistill-refused-") as temporary:
                trial = attempt(
                    model,
                    place / name / "model.tflite",
                    name,
                    measure=measure,
                    refused=pathlib.Path(temporary) / "model.tflite",
                    lengths=lengths,
                    **arguments,
                )
            done[name] = trial
            _save(place, request, done)
            if report is not None:
                report(trial)
        rows.append(trial)
    if all(row.verdict == "impossible" for row in rows):
        raise errors.ConfigError(rows[0].why)
    return Sweep(place, tuple(sorted(lengths)), tuple(rows))


def format_rows(rows: Sequence[Trial], lengths: Sequence[int]) -> str:
    """Writes trials as a table with the reasons of those that are not good below it.

    Args:
      rows: The trials.
      lengths: The lengths whose latency gets a column, where any row has one.

    Returns:
      Lines of text without a final line break.
    """
    timed = [length for length in lengths if any(length in row.p50_ms for row in rows)]
    primary = next((row.primary_metric for row in rows if row.file_metrics), None)
    memory = any(row.peak_rss_bytes is not None for row in rows)
    titles = ["quantization", "MB", "zip MB", *(f"p50 ms @{length}" for length in timed)]
    titles += [primary, "drop"] if primary else []
    titles += ["agree", "SQNR dB", "parts", *(["RSS MB"] if memory else []), "verdict"]
    table = [titles]
    for row in rows:
        cells = [_title(row), _number(row.size_bytes, 1e-6, 2), _number(row.zipped_bytes, 1e-6, 2)]
        cells += [_number(row.p50_ms.get(length), 1, 2) for length in timed]
        if primary:
            cells += [
                _number(row.file_metrics.get(primary), 1, 4),
                _number(row.metric_drop, 1, 4),
            ]
        equal = row.size_bytes is not None and row.sqnr_db is None
        cells += [
            _number(row.argmax_agreement, 1, 4),
            "equal" if equal else _number(row.sqnr_db, 1, 1),
            "-" if row.partitions is None else str(row.partitions),
        ]
        cells += [_number(row.peak_rss_bytes, 1e-6, 1)] if memory else []
        table.append([*cells, row.verdict])
    widths = [max(len(line[i]) for line in table) for i in range(len(titles))]
    lines = []
    for line in table:
        aligned = [
            cell.ljust(width) if i in (0, len(titles) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(aligned).rstrip())
    reasons = [f"{_title(row)}: {row.why}" for row in rows if row.verdict != "good"]
    if any(row.size_bytes is not None and not row.file_metrics for row in rows):
        reasons.append("No metric: labelled examples and their task were not given; parity only.")
    if any(not row.real_inputs for row in rows):
        reasons.append("Checked on random token ids, for want of real examples.")
    return "\n".join([*lines, *([""] if reasons else []), *reasons])


def _title(row: Trial) -> str:
    if not row.layers:
        return row.name
    return f"{row.name} ({', '.join(f'{p}: {q}' for p, q in row.layers.items())})"


def _number(value: float | None, scale: float, digits: int) -> str:
    return "-" if value is None else f"{value * scale:.{digits}f}"


def _request(
    model: keras.Model, lengths: Sequence[int], *, measured: bool, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """What a sweep was asked for, comparable: rows of two equal requests are the same."""
    digest = hashlib.sha256()
    for weight in model.weights:
        digest.update(f"{weight.name} {weight.shape}".encode())
        digest.update(np.ascontiguousarray(weight.numpy()).tobytes())
    plain = {name: _plain(value) for name, value in sorted(arguments.items())}
    return {
        "weights": digest.hexdigest(),
        "lengths": sorted(lengths),
        "measured": measured,
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


def _finished(place: pathlib.Path, request: dict[str, Any]) -> dict[str, Trial]:
    """Returns the rows of an earlier call of the same request that need not be tried again."""
    path = place / FILE_NAME
    if not path.is_file():
        taken = [name for name in quantizing.quantizations() if (place / name).exists()]
        if taken:
            raise errors.OutputExistsError(
                f"{place}", f"no {taken[0]}", "one", "Choose another folder, or overwrite it."
            )
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        same = saved["request"] == request
        rows = [Trial.from_dict(row) for row in saved["rows"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.OutputExistsError(
            f"{path}", "a sweep to go on with", error, "Pass overwrite to start."
        ) from error
    rows = [row for row in rows if row.verdict in _SETTLED]
    if rows and not same:
        raise errors.OutputExistsError(
            f"{path}",
            "a sweep of this model with these arguments",
            "another one",
            "Choose another folder, or overwrite it to start anew.",
        )
    return {row.name: row for row in rows if _is_whole(place, row)}


def _is_whole(place: pathlib.Path, row: Trial) -> bool:
    """Whether the files of a good row are there as they were written."""
    if row.verdict != "good":
        return True
    try:
        manifest.read_manifest(bundle.places(place / row.name / "model.tflite").manifest)
    except errors.ManifestError:
        return False
    return True


def _save(place: pathlib.Path, request: dict[str, Any], done: Mapping[str, Trial]) -> None:
    content = {
        "format_version": FORMAT_VERSION,
        "request": request,
        "rows": [trial.as_dict() for trial in done.values()],
    }
    try:
        files.atomic_write_json(place / FILE_NAME, content)
    except OSError as error:
        raise errors.ExportError(
            f"{place / FILE_NAME}", "room and permission to write it", error.strerror or error
        ) from error
