"""Results that the app wrote by itself, such as on a device farm: read, checked and marked.

docs/reference/benchmark-protocol.md describes how the app is started, and what it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdistill import errors
from tfdistill.benchmark import result as results
from tfdistill.benchmark import schema
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject, open_all
from tfdistill.io import files

_OF_A_START = ("process_start_ms", "cold_start_ms")  # the runner of the test was in that process
_NOTE = (
    "Adopted from a device farm: the app measured without the harness. Unknown are sensors, clocks "
    "and load that only the shell sees, and who else used the device; all repetitions ran in one "
    "process and no file took turns with another."
)
_COOL = "The thermal status was 0 throughout, which is also what a device without a sensor says."


def _without_thermal_status(value: Any) -> Any:
    """Returns a result, or a part of one, in which every thermal status is unknown."""
    if isinstance(value, tuple):
        return tuple(map(_without_thermal_status, value))
    if isinstance(value, schema.Conditions):
        return value.model_copy(update={"thermal_status": None})
    if isinstance(value, schema.Part):
        parts = {name: _without_thermal_status(part) for name, part in value}
        return value.model_copy(update=parts)
    return value


def adopt(results: Sequence[files.Path], models: Sequence[files.Path]) -> list[schema.Result]:
    """Reads and checks results of the app, and marks them as a farm's.

    Args:
      results: Files that the app wrote, each about one model.
      models: Export folders or files; each result must be about one of them.

    Returns:
      The complete results under the names that the files have here, in the order of `results`.

    Raises:
      BenchmarkError: If a result is damaged, of another format or version, not of an app, about
        another file, or lacks cases without a failure that explains it.
      ManifestError: If the checksum of a model differs from its manifest's.
    """
    subjects = open_all(models, Settings(), ())
    return [_adopted(path, subjects) for path in results]


def _adopted(path: files.Path, subjects: Sequence[Subject]) -> schema.Result:
    ran = results.read_result(path)
    if ran.backend != "app" or len(ran.models) != 1 or ran.device.id is not None:
        by = "of tfdistill itself" if ran.device.id is not None else f"of {ran.backend}"
        raise errors.BenchmarkError(
            f"{path}",
            "a result that the app wrote by itself, about one model",
            f"one {by}, about {len(ran.models)}",
            "Results of tfdistill benchmark need no --adopt: report and compare read them.",
        )
    (model,) = ran.models
    subject = next((one for one in subjects if one.sha256 == model.sha256), None)
    if subject is None:
        measured_files = ", ".join(f"{one.name} ({one.sha256})" for one in subjects)
        raise errors.BenchmarkError(
            f"{path}",
            f"a result of {measured_files}",
            f"one of {model.name} ({model.sha256})",
            "Name the export that the app was built with.",
        )
    _check_rows(ran, subject, f"{path}")
    notes = [*ran.notes, _NOTE]
    states = [ran.before, ran.after]
    states += [state for row in ran.measurements for state in (row.before, row.after)]
    statuses = {state.thermal_status for state in states if state is not None}
    if statuses <= {0, None} and 0 in statuses:
        ran = _without_thermal_status(ran)
        notes.append(_COOL)
    name = {"model": subject.name}
    renamed = {
        part: tuple(row.model_copy(update=name) for row in getattr(ran, part))
        for part in ("texts", "answers")
    }
    name_and_start = {**name, **dict.fromkeys(_OF_A_START)}
    renamed["measurements"] = tuple(
        row.model_copy(update=name_and_start) for row in ran.measurements
    )
    here = results.model_file(subject).model_copy(update={"inputs": model.inputs})
    settings = {**ran.settings, "adopted": "device farm"}
    update = {**renamed, "models": (here,), "notes": tuple(notes), "settings": settings}
    return results.complete(ran.model_copy(update=update))


def _check_rows(ran: schema.Result, subject: Subject, what: str) -> None:
    """Checks the rows against the file, and against what the app was asked for."""
    rows = (*ran.measurements, *ran.answers, *ran.texts)
    delegates = {row.delegate for row in rows}
    if len(delegates) != 1 or not ran.measurements:
        raise errors.BenchmarkError(what, "measurements with one delegate", sorted(delegates))
    (delegate,) = delegates
    lengths = {row.sequence_length for row in (*ran.measurements, *ran.answers)}
    lengths |= _requested(ran, "lengths")
    threads = _requested(ran, "threads") | {row.threads for row in rows}
    if strange := lengths - {*subject.signatures}:
        expected = f"lengths of {sorted(subject.signatures)}"
        raise errors.BenchmarkError(what, expected, sorted(strange))
    measured = [(row.sequence_length, row.threads) for row in ran.measurements]
    numbers = [row.repetition for row in ran.measurements]
    if min(numbers) < 0 or len({*zip(measured, numbers, strict=True)}) < len(measured):
        one = f"each repetition once of {ran.models[0].name} at {sorted(lengths)} tokens"
        raise errors.BenchmarkError(what, one, "several repetitions")
    missing = sorted({(length, n) for length in lengths for n in threads} - {*measured})
    faults = "; ".join(failure.error for failure in ran.failures)
    if missing and not ran.failures:
        lacking = ", ".join(f"{length} tokens on {n} thread(s)" for length, n in missing)
        raise errors.BenchmarkError(what, "measurements", f"none at {lacking}")
    durations = [row.samples_ms for row in (*ran.measurements, *ran.texts)]
    durations += [row.tokenizer_ms for row in ran.texts]
    if not all(values and min(values) > 0 for values in durations):
        raise errors.BenchmarkError(what, "durations of more than 0 ms", "others")
    if delegate == "gpu" and not ran.answers:
        expected = "the GPU's answers next to its durations: fast and wrong is no figure"
        raise errors.BenchmarkError(what, expected, faults or "none")


def _requested(ran: schema.Result, name: str) -> set[int]:
    """The request, as the app reports it."""
    values = ran.settings.get(name)
    return {n for n in values if isinstance(n, int)} if isinstance(values, list) else set()
