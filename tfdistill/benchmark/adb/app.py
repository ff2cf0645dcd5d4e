"""Measures in the demo app on Android devices: what an app's user gets, its process included.

Every repetition of every file is a fresh process of the app, in random order, so that what warms
a device up or slows it down disturbs all files.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence

from tfdistill import files
from tfdistill.benchmark import environment, host, result, schema
from tfdistill.benchmark.adb import app_protocol, client, parallel
from tfdistill.benchmark.adb import serials as serials_of
from tfdistill.benchmark.adb.app_runs import Findings, Job, measure_on
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.settings import Settings

PACKAGE = app_protocol.PACKAGE
_NOTE = (
    "Files took turns repetition by repetition, each in a fresh process of the app; an inference "
    "is what the app's own code sees."
)


def measure(
    models: Sequence[files.Path] | Mapping[str, files.Path],
    *,
    settings: Settings | None = None,
    serials: Sequence[str] = (),
    package: str = PACKAGE,
    baseline: str | None = None,
    shown: MutableMapping[str, str] | None = None,
) -> list[schema.Result]:
    """Measures files in the app, on one device or several, each with its own result.

    The app must be installed with these files among its bundles: each one's checksum is compared.

    Args:
      models: Export folders or files; or a mapping from the names to use to them.
      settings: How to measure; `Settings()` by default.
      serials: The devices, or "all"; the only one by default.
      package: Of the app.
      baseline: Name of the model that the others are compared with; the first by default.
      shown: Is filled with serials by the ids that stand for them in the results, which hold none:
        for a terminal.

    Returns:
      One result a device, in the order of the serials. What could not be measured is among its
      `failures`.

    Raises:
      BenchmarkError: If a file is missing or damaged, a setting is wrong, there is no device, or
        nothing at all could be measured on any of them.
      EnvironmentFault: If adb is missing or does not work.
      ManifestError: If a checksum differs from a manifest's.
      BenchmarkInterrupted: At Ctrl-C, with what was finished.
    """
    settings = settings or Settings()
    app_protocol.check(settings, package)
    subjects = host.open_all(models, settings, ())
    compared_with = host.baseline_of(subjects, baseline)
    job = Job(
        package=package,
        bundles={subject.name: app_protocol.bundle_of(subject) for subject in subjects},
        subjects=subjects,
        settings=settings,
    )
    phones = client.choose(serials)
    found = [Findings() for _ in phones]

    def assemble(phone: Phone, one: Findings) -> schema.Result:
        assembled = _assemble(job, phone, one, compared_with)
        return serials_of.hide(assembled, phones, [other.device for other in found], shown)

    return parallel.measure_on_each(
        phones,
        found,
        lambda phone, one: measure_on(phone, job, one),
        assemble,
    )


def _assemble(job: Job, phone: Phone, found: Findings, baseline: str) -> schema.Result:
    inputs = {model.sha256: model.inputs for model in found.models}
    models = [result.model_file(subject) for subject in job.subjects]
    return result.assemble(
        kind=found.kind,
        backend="app",
        device=found.device or serials_of.unknown_device(phone),
        runtime=found.runtime or schema.Runtime(name=job.package),
        models=[
            model.model_copy(update={"inputs": inputs.get(model.sha256, model.inputs)})
            for model in models
        ],
        measurements=found.measurements,
        texts=found.texts,
        sustained=found.sustained,
        answers=found.answers,
        failures=found.failures,
        settings=job.settings,
        before=found.before,
        after=found.after,
        command=environment.command(),
        created=environment.now(),
        baseline=baseline,
        notes=[_NOTE, *found.notes],
    )
