"""Measures files on Android devices with `benchmark_model`: several devices side by side."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Mapping, Sequence

import tqdm

from tfdistill import errors, files
from tfdistill.benchmark import environment, host, inputs, interruption, result, schema
from tfdistill.benchmark.adb import answers, campaign, client
from tfdistill.benchmark.adb.binary import Binary, find
from tfdistill.benchmark.adb.layout import read_layout
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.adb.stage import Findings, Plan
from tfdistill.benchmark.settings import Settings

_NOTE = (
    "benchmark_model gives statistics of runs, not single durations: medians and tails are over "
    "blocks of inferences, each a process of its own."
)


def measure(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    settings: Settings,
    serials: Sequence[str] = (),
    binary: Binary | None = None,
    examples: Sequence[inputs.Example] = (),
    metric: answers.Metric | None = None,
    baseline: str | None = None,
    progress: bool = False,
) -> list[schema.Result]:
    """Measures files on one device or several, each with its own result.

    On each: how fast every place is, in blocks that take turns; what a delegate took, a silent
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
    plan = _plan(models, settings, binary, examples, metric)
    names = [subject.name for subject in plan.subjects]
    if baseline is not None and baseline not in names:
        raise errors.BenchmarkError(
            errors.explain(
                "baseline", f"one of {names}", repr(baseline), errors.nearest(baseline, names)
            )
        )
    phones = client.choose(serials)
    found = [Findings() for _ in phones]

    def results() -> list[schema.Result]:
        return [
            _assemble(plan, phone, one, baseline or names[0])
            for phone, one in zip(phones, found, strict=True)
        ]

    if not _run_all(plan, phones, found, progress=progress):
        raise interruption.BenchmarkInterrupted(results() if any(found) else [])
    if not any(found):
        faults = [failure.error for one in found for failure in one.failures]
        raise errors.BenchmarkError("\n".join(dict.fromkeys(faults)) or "Nothing was measured.")
    return results()


def _run_all(
    plan: Plan, phones: Sequence[Phone], found: Sequence[Findings], *, progress: bool
) -> bool:
    """Measures on all devices at once; returns whether it came to its end."""
    settings = plan.settings
    cells = len(plan.lengths) * len(settings.threads) * len(settings.delegates)
    total = len(phones) * settings.repetitions * cells * settings.rounds
    finished = True
    with (
        tqdm.tqdm(
            total=total, desc="benchmark", unit="round", disable=None if progress else True
        ) as bar,
        concurrent.futures.ThreadPoolExecutor(len(phones)) as pool,
    ):
        waiting = {
            pool.submit(campaign.run, phone, plan, one, bar.update)
            for phone, one in zip(phones, found, strict=True)
        }
        while waiting:
            try:
                done, waiting = concurrent.futures.wait(waiting, timeout=1.0)
            except KeyboardInterrupt:
                finished = False
                for phone in phones:
                    phone.stop()
                continue
            for future in done:
                future.result()  # a fault of this program is not hidden
    return finished


def _plan(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    settings: Settings,
    binary: Binary | None,
    examples: Sequence[inputs.Example],
    metric: answers.Metric | None,
) -> Plan:
    subjects = host.open_all(models, settings, examples)
    layouts = {
        (subject.name, length): read_layout(subject.file, entry)
        for subject in subjects
        for length, entry in subject.entries.items()
    }
    return Plan(subjects, layouts, settings, find(binary), tuple(examples), metric)


def _assemble(plan: Plan, phone: Phone, found: Findings, baseline: str) -> schema.Result:
    return result.assemble(
        kind=found.kind,
        backend="benchmark_model",
        device=found.device or schema.Device(name=phone.model or phone.serial),
        runtime=schema.Runtime(name="benchmark_model", sha256=plan.program.sha256),
        models=[result.model_file(subject) for subject in plan.subjects],
        measurements=found.measurements,
        sustained=found.sustained,
        operators=found.operators,
        answers=found.answers,
        failures=found.failures,
        settings=plan.settings,
        before=found.before,
        after=found.after,
        command=environment.command(),
        created=environment.now(),
        baseline=baseline,
        notes=[_NOTE],
    )
