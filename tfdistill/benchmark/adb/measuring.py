"""Measures files on Android devices, several devices at once: each in a thread of its own."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence

from tfdistill import files
from tfdistill.benchmark import inputs, measuring, schema
from tfdistill.benchmark.adb import answers, app_protocol, benchmark_model, devices
from tfdistill.benchmark.adb.app_backend import AppBackend
from tfdistill.benchmark.adb.layout import read_layout
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.serials import hide
from tfdistill.benchmark.adb.tool_backend import BenchmarkModelBackend, Plan
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import baseline_of, open_all

_POLL_S = 1.0
_Models = Sequence[files.Path] | Mapping[str, files.Path]


def measure(
    models: _Models,
    *,
    settings: Settings,
    serials: Sequence[str] = (),
    binary: benchmark_model.Binary | None = None,
    examples: Sequence[inputs.Example] = (),
    metric: answers.Metric | None = None,
    baseline: str | None = None,
    shown: MutableMapping[str, str] | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures files with `benchmark_model` on one device or several, each with its own result.

    On each: how fast every case is, in blocks that take turns; what a delegate took, a silent
    fallback to the CPU being a failure; where the time goes and what heat leaves, if asked for;
    and how far the answers are those of the host. What was pushed is removed again.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      settings: How to measure.
      serials: The devices, or "all"; the only one by default.
      binary: The benchmark_model to push.
      examples: Of a task: they are fed instead of the files' own, and all of them are answered at
        the longest length, one run of the tool each.
      metric: From one answer an example to the task's metrics.
      baseline: Name of the model that the others are compared with; the first by default.
      shown: Is filled with serials by the ids that replace them in the results:
        for a terminal.
      progress: Whether to draw a progress bar on stderr, if that is a terminal.

    Returns:
      One result a device, in the order of the serials. What could not be measured is among its
      `failures`.

    Raises:
      BenchmarkError: If a file is missing or damaged, a setting is wrong, there is no binary or no
        device, or nothing at all could be measured on any of them.
      EnvironmentFault: If adb is missing or does not work.
      ManifestError: If a checksum differs from a manifest's.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    subjects = open_all(models, settings, examples)
    layouts = {
        (subject.name, length): read_layout(subject.file, entry)
        for subject in subjects
        for length, entry in subject.entries.items()
    }
    tool = benchmark_model.find(binary)
    signatures = [layout.signature for layout in layouts.values()]
    tool.check_can_measure(settings, on_task=bool(examples), signatures=signatures)
    plan = Plan(subjects, layouts, settings, tool, tuple(examples), metric)
    baseline = baseline_of(subjects, baseline)
    backends = [BenchmarkModelBackend(phone, plan) for phone in devices.choose(serials)]
    return measure_on_each(backends, baseline=baseline, shown=shown, progress=progress)


def measure_in_app(
    models: _Models,
    *,
    settings: Settings | None = None,
    serials: Sequence[str] = (),
    package: str = app_protocol.PACKAGE,
    baseline: str | None = None,
    shown: MutableMapping[str, str] | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures files in the app, on one device or several, each with its own result.

    The app must be installed with these files among its bundles: each one's checksum is compared.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      settings: How to measure; `Settings()` by default.
      serials: See `measure`.
      package: Of the app.
      baseline: See `measure`.
      shown: See `measure`.
      progress: See `measure`.

    Returns:
      See `measure`.

    Raises:
      BenchmarkError: See `measure`.
      EnvironmentFault: See `measure`.
      ManifestError: See `measure`.
      BenchmarkInterrupted: See `measure`.
    """
    settings = settings or Settings()
    app_protocol.check(settings, package)
    subjects = open_all(models, settings, ())
    bundles = {subject.name: app_protocol.bundle_of(subject) for subject in subjects}
    baseline = baseline_of(subjects, baseline)
    backends = [
        AppBackend(phone, package, bundles, subjects, settings) for phone in devices.choose(serials)
    ]
    return measure_on_each(backends, baseline=baseline, shown=shown, progress=progress)


def measure_on_each(
    backends: Sequence[BenchmarkModelBackend] | Sequence[AppBackend],
    *,
    baseline: str,
    shown: MutableMapping[str, str] | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures on several devices at once, and makes a result for each without serial numbers.

    Raises:
      BenchmarkError: If nothing at all was found on any of them.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    found = [Findings() for _ in backends]
    measured = list(zip(backends, found, strict=True))
    with measuring.progress_bar(backends, shown=progress) as bar:
        work = [lambda b=b, f=f: measuring.measure(b, f, bar) for b, f in measured]
        phones = [backend.phone for backend in backends]
        finished = run_at_once(phones, work)
    results = measuring.results_of(measured, finished=finished, baseline=baseline)
    known = [backend.device for backend in backends]
    results = [hide(result, phones, known, shown) for result in results]
    if not finished:
        raise measuring.BenchmarkInterrupted(results)
    return results


def run_at_once(phones: Sequence[Phone], work: Sequence[Callable[[], object]]) -> bool:
    """Works on several devices at once, and waits for all of them.

    Args:
      phones: The devices.
      work: What to do on each. After Ctrl-C, and after a fault of this program in the work on
        another device, it gets KeyboardInterrupt from its phone, cleans up and returns.

    Returns:
      Whether it came to its end; False after Ctrl-C.
    """
    finished, stopping = True, False
    to_start, futures = list(work), []
    waiting: Collection[object] = phones
    with concurrent.futures.ThreadPoolExecutor(len(phones)) as pool:
        while waiting:
            try:  # around everything: Ctrl-C may come at any time, and again
                if stopping:
                    for phone in phones:
                        phone.stop()
                while to_start:
                    futures.append(pool.submit(to_start.pop(0)))
                done, waiting = concurrent.futures.wait(futures, timeout=_POLL_S)
                stopping |= any(future.exception() is not None for future in done)
            except KeyboardInterrupt:
                finished, stopping = False, True
                to_start.clear()
    for future in futures:
        future.result()  # a fault of this program is not hidden
    return finished
