"""Measures files on Android devices, several devices at once: each in a thread of its own.

Serial numbers stay on the terminal: a result is shared, and names its device by a hash.
"""

from __future__ import annotations

import concurrent.futures
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence

from tfdistill import files
from tfdistill.benchmark import environment, measuring, schema
from tfdistill.benchmark.adb import app_protocol, devices
from tfdistill.benchmark.adb.app import AppBackend
from tfdistill.benchmark.adb.binary import Binary, find_tool
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.tool import read_layout
from tfdistill.benchmark.adb.tool_backend import BenchmarkModelBackend, Metric, Plan
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import baseline_of, open_all
from tfdistill.tflite.golden import Example

_POLL_S = 1.0


def measure(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    settings: Settings | None = None,
    serials: Sequence[str] = (),
    binary: Binary | None = None,
    examples: Sequence[Example] = (),
    metric: Metric | None = None,
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
      settings: How to measure; `Settings()` by default.
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
    settings = settings or Settings()
    subjects = open_all(models, settings, examples)
    layouts = {
        (subject.name, length): read_layout(subject.file, signature)
        for subject in subjects
        for length, signature in subject.signatures.items()
    }
    tool = find_tool(binary)
    signatures = [layout.key for layout in layouts.values()]
    tool.check_can_measure(settings, on_task=bool(examples), signatures=signatures)
    plan = Plan(subjects, layouts, settings, tool, tuple(examples), metric)
    baseline = baseline_of(subjects, baseline)
    backends = [BenchmarkModelBackend(phone, plan) for phone in devices.choose(serials)]
    return measure_on_each(backends, baseline=baseline, shown=shown, progress=progress)


def measure_in_app(
    models: Sequence[files.Path] | Mapping[str, files.Path],
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
    """Measures on several devices at once, and makes a result for each without serial numbers."""
    findings = [Findings() for _ in backends]
    measured = list(zip(backends, findings, strict=True))
    with measuring.progress_bar(backends, shown=progress) as bar:
        work = [lambda b=b, f=f: measuring.measure(b, f, bar) for b, f in measured]
        phones = [backend.phone for backend in backends]
        finished = run_at_once(phones, work)
    results = measuring.results_of(measured, finished=finished, baseline=baseline)
    described = [backend.device for backend in backends]
    results = [hide_serials(result, phones, described, shown) for result in results]
    if not finished:
        raise measuring.BenchmarkInterrupted(results)
    return results


def run_at_once(phones: Sequence[Phone], work: Sequence[Callable[[], object]]) -> bool:
    """Works on several devices at once, and waits for all of them.

    Returns whether it came to its end; False after Ctrl-C.
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


def hide_serials(
    result: schema.Result,
    phones: Sequence[Phone],
    devices: Sequence[schema.Device | None],
    shown: MutableMapping[str, str] | None = None,
) -> schema.Result:
    """Replaces serial numbers by ids of devices in the texts of a result.

    adb's own messages name serials, too, so that texts are searched as they are: the command line,
    failures and notes, for the serials of all devices, since one command line names them all.
    """
    ids: dict[str, str] = {}
    known_ids: list[str] = []
    for phone, device in zip(phones, devices, strict=True):
        device_id = (device and device.id) or environment.short_hash(phone.serial)
        # Some makers give all their devices one serial number; numbers as files of results have.
        ids[phone.serial] = (
            f"{device_id}-{known_ids.count(device_id)}" if device_id in known_ids else device_id
        )
        known_ids.append(device_id)
    if shown is not None:
        shown.update({device_id: serial for serial, device_id in ids.items()})
    longest_first = sorted(ids, key=len, reverse=True)
    # Not inside of a word: a serial may be as short as one.
    pattern = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, longest_first))})(?!\w)")

    def without(text: str) -> str:
        return pattern.sub(lambda match: ids[match.group()], text)

    failures = [
        schema.Failure(what=without(row.what), error=without(row.error)) for row in result.failures
    ]
    return result.model_copy(
        update={
            "command": tuple(map(without, result.command)),
            "failures": tuple(failures),
            "notes": tuple(map(without, result.notes)),
        }
    )


def show_serials(text: str, shown: Mapping[str, str]) -> str:
    """Puts the serials back into a text for a terminal: commands in it have to work there."""
    for device_id in sorted(shown, key=len, reverse=True):  # an id may begin another one
        text = text.replace(device_id, shown[device_id])
    return text


def show_serials_in_failures(result: schema.Result, shown: Mapping[str, str]) -> schema.Result:
    """Puts the serials back into the failures of a result that is not kept."""
    failures = [
        schema.Failure(what=show_serials(row.what, shown), error=show_serials(row.error, shown))
        for row in result.failures
    ]
    return result.model_copy(update={"failures": tuple(failures)})
