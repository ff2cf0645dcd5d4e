"""What is measured file by file, not in turns: coverage, time by operator, runs without pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tfdistill import errors
from tfdistill.benchmark import environment, inputs, schema
from tfdistill.benchmark.host import jobs, session
from tfdistill.benchmark.settings import Settings

_WINDOWS = 60  # of a long run
_SOURCE = "LiteRT's profiler"


def coverage_of(
    subjects: Sequence[inputs.Subject], lengths: Iterable[int], settings: Settings
) -> tuple[dict[tuple[str, int], schema.Coverage], list[schema.Failure]]:
    """Counts how much of each file XNNPACK takes over.

    Args:
      subjects: The files.
      lengths: Which of their lengths to look at.
      settings: How long to wait.

    Returns:
      By name and length; and why some are unknown.
    """
    found: dict[tuple[str, int], schema.Coverage] = {}
    failures = []
    wanted = set(lengths)
    for subject in subjects:
        own = [length for length in subject.entries if length in wanted]
        job = jobs.of_coverage(subject, own, settings)
        try:
            with _start(job, settings) as worker:
                for length, counted in worker.report["coverage"].items():
                    found[subject.name, int(length)] = schema.Coverage(**counted)
        except errors.BenchmarkError as error:
            failures.append(schema.Failure(what=job.what, error=str(error)))
    return found, failures


def operators_of(
    subject: inputs.Subject, place: schema.Place, settings: Settings
) -> schema.Operators:
    """Measures where the time of an inference goes.

    Args:
      subject: The file.
      place: Length, threads, delegate and cores.
      settings: How often; 50 profiled runs at most.

    Raises:
      BenchmarkError: If this LiteRT has no profiler that can be reached, or the worker fails.
    """
    job = jobs.of_ids(subject, place, settings, kind="operators")
    try:
        with _start(job, settings) as worker:
            rows = worker.report["operators"]
    except errors.BenchmarkError as error:
        remedy = "Leave --operators out, or profile it with benchmark_model: --device adb."
        raise errors.BenchmarkError(f"{error} {remedy}") from error
    return schema.Operators(**place.model_dump(), source=_SOURCE, operators=rows)


def sustain(
    subject: inputs.Subject,
    place: schema.Place,
    settings: Settings,
    after_window: Callable[[], object],
) -> schema.Sustained:
    """Runs a file without pauses for `settings.sustained_seconds`.

    Args:
      subject: The file.
      place: Length, threads, delegate and cores.
      settings: How long.
      after_window: Called after each window.

    Raises:
      BenchmarkError: If the worker fails.
    """
    total = settings.sustained_seconds
    window = max(total / _WINDOWS, min(1.0, total / 4))
    windows = []
    with _start(jobs.of_ids(subject, place, settings), settings, longer=window) as worker:
        for row in worker.sustain(total, window):
            windows.append(schema.Window(**row, conditions=environment.conditions()))
            after_window()
    return schema.Sustained(**place.model_dump(), windows=tuple(windows))


def _start(job: jobs.Job, settings: Settings, *, longer: float = 0.0) -> session.Session:
    timeout = settings.timeout_seconds + longer
    return session.Session(job.question, what=job.what, timeout_seconds=timeout)
