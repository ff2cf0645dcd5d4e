"""Results that the app wrote where no shell of adb is to be had, such as on a device farm."""

from __future__ import annotations

from collections.abc import Sequence

from tfdistill import errors, files
from tfdistill.benchmark import result, schema
from tfdistill.benchmark.adb import app_backend
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject, open_all

_OF_A_START = ("process_start_ms", "cold_start_ms")  # the runner of the test was in that process
_NOTE = (
    "Adopted from a device farm: the app measured without the harness. Unknown are sensors, clocks "
    "and load that only the shell sees, and who else used the device; all repetitions ran in one "
    "process and no file took turns with another."
)
_COOL = "The thermal status was 0 throughout, which is also what a device without a sensor says."


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
    ran = result.read_result(path)
    if ran.backend != "app" or len(ran.models) != 1 or ran.device.id is not None:
        by = "of tfdistill itself" if ran.device.id is not None else f"of {ran.backend}"
        raise errors.BenchmarkError(
            f"{path}",
            "a result that the app wrote by itself, about one model",
            f"one {by}, about {len(ran.models)}",
            "Results of tfdistill benchmark need no --adopt: report and compare read them.",
        )
    (model,) = ran.models
    subject = next((own for own in subjects if own.sha256 == model.sha256), None)
    if subject is None:
        known = ", ".join(f"{own.name} ({own.sha256})" for own in subjects)
        raise errors.BenchmarkError(
            f"{path}",
            f"a result of {known}",
            f"one of {model.name} ({model.sha256})",
            "Name the export that the app was built with.",
        )
    _check(ran, subject, f"{path}")
    notes = [*ran.notes, _NOTE]
    if _always_cool(ran):
        ran = app_backend.without_thermal_status(ran)
        notes.append(_COOL)
    own = {"model": subject.name}
    renamed = {
        name: tuple(row.model_copy(update=own) for row in getattr(ran, name))
        for name in ("texts", "sustained", "answers")
    }
    own |= dict.fromkeys(_OF_A_START)
    renamed["measurements"] = tuple(row.model_copy(update=own) for row in ran.measurements)
    here = result.model_file(subject).model_copy(update={"inputs": model.inputs})
    settings = {**ran.settings, "adopted": "device farm"}
    update = {**renamed, "models": (here,), "notes": tuple(notes), "settings": settings}
    return result.complete(ran.model_copy(update=update))


def _check(ran: schema.Result, subject: Subject, what: str) -> None:
    """Checks the rows against the file, and against what the app was asked for."""
    delegates: set[schema.Delegate] = {row.delegate for row in ran.measurements}
    if len(delegates) != 1:
        raise errors.BenchmarkError(what, "measurements with one delegate", sorted(delegates))
    lengths = _asked(ran, "lengths") | {row.sequence_length for row in ran.measurements}
    threads = _asked(ran, "threads") | {row.threads for row in ran.measurements}
    if strange := lengths - {*subject.entries}:
        own = f"lengths of {sorted(subject.entries)}"
        raise errors.BenchmarkError(what, own, sorted(strange))
    settings = Settings(threads=tuple(sorted(threads)), lengths=tuple(sorted(lengths)))
    repetitions = 1 + max(row.repetition for row in ran.measurements)
    (delegate,) = delegates
    app_backend.check_rows(ran, subject, delegate, settings, what, repetitions=repetitions)


def _asked(ran: schema.Result, name: str) -> set[int]:
    """What the app says it was asked for."""
    found = ran.settings.get(name)
    return {n for n in found if isinstance(n, int)} if isinstance(found, list) else set()


def _always_cool(ran: schema.Result) -> bool:
    states = [ran.before, ran.after]
    states += [state for row in ran.measurements for state in (row.before, row.after)]
    states += [window.conditions for row in ran.sustained for window in row.windows]
    found = {state.thermal_status for state in states if state is not None}
    return found <= {0, None} and 0 in found
