"""Measures files on Android devices with `benchmark_model`: several devices side by side."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

import tqdm

from tfdistill import files
from tfdistill.benchmark import environment, host, inputs, result, schema
from tfdistill.benchmark.adb import answers, campaign, client, parallel
from tfdistill.benchmark.adb import serials as serials_of
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
    shown: MutableMapping[str, str] | None = None,
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
      shown: Is filled with serials by the ids that stand for them in the results, which hold none:
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
    plan = _plan(models, settings, binary, examples, metric)
    compared_with = host.baseline_of(plan.subjects, baseline)
    phones = client.choose(serials)
    found = [Findings() for _ in phones]

    def assemble(phone: Phone, one: Findings) -> schema.Result:
        assembled = _assemble(plan, phone, one, compared_with)
        return serials_of.hide(assembled, phones, [other.device for other in found], shown)

    cells = len(plan.lengths) * len(settings.threads) * len(settings.delegates)
    total = len(phones) * settings.repetitions * cells * settings.rounds
    with tqdm.tqdm(
        total=total, desc="benchmark", unit="round", disable=None if progress else True
    ) as bar:
        return parallel.measure_on_each(
            phones,
            found,
            lambda phone, one: campaign.run(phone, plan, one, bar.update),
            assemble,
        )


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
        device=found.device or serials_of.unknown_device(phone),
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
