"""The runs of the app on one device: their order, and what of their results is taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tfdistill import errors
from tfdistill.benchmark import inputs, interruption, schema
from tfdistill.benchmark.adb import app_protocol, app_session, conditions, probe
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.host import places
from tfdistill.benchmark.settings import Settings


@dataclasses.dataclass(frozen=True)
class Job:
    """What to measure, the same for all devices.

    Attributes:
      package: Of the app.
      bundles: The app's names of the files, by theirs.
      subjects: The files, of unique names.
      settings: How to measure.
    """

    package: str
    bundles: Mapping[str, str]
    subjects: Sequence[inputs.Subject]
    settings: Settings


@dataclasses.dataclass
class Findings(places.Findings):
    """What has been found on a device so far."""

    kind: schema.Kind = "phone"
    device: schema.Device | None = None
    runtime: schema.Runtime | None = None
    models: list[schema.ModelFile] = dataclasses.field(default_factory=list)
    answers: list[schema.Answers] = dataclasses.field(default_factory=list)
    before: schema.Conditions | None = None
    after: schema.Conditions | None = None


def measure_on(phone: Phone, job: Job, found: Findings) -> None:
    """Measures everything on one device; what fails is among the failures, and the rest goes on.

    It never raises: a lost device, or `Phone.stop`, ends it with what is finished.

    Args:
      phone: The device.
      job: What to measure.
      found: Is filled as the work goes on.
    """
    try:
        looked = probe.look(phone)
        found.device, found.kind = looked.device, looked.kind
        app_session.check_ready(phone, job.package)
        found.before = conditions.read(phone)
        _measure(phone, job, found)
        found.after = conditions.read(phone)
    except KeyboardInterrupt as stopped:
        left = [str(argument) for argument in stopped.args if argument]
        found.failures.append(interruption.FAILURE)
        found.failures += [schema.Failure(what="cleaning up", error=text) for text in left]
    except (errors.TfdistillError, OSError) as error:  # such as a full disk here
        what = f"the rest on {phone.serial}"
        found.failures.append(schema.Failure(what=what, error=str(error)))


def _measure(phone: Phone, job: Job, found: Findings) -> None:
    settings = job.settings
    rng = np.random.default_rng(settings.seed)
    cells = [(subject, delegate) for subject in job.subjects for delegate in settings.delegates]
    rounds: list[int | None] = list(range(settings.repetitions))
    if settings.sustained_seconds:
        rounds.append(None)  # last of all: its heat disturbs nothing any more
    failed: set[tuple[str, schema.Delegate]] = set()
    for repetition in rounds:
        for i in rng.permutation(len(cells)):
            subject, delegate = cells[i]
            if (subject.name, delegate) in failed:
                continue  # it would fail again
            try:
                if repetition is None:
                    _sustain(phone, job, found, subject, delegate)
                else:
                    _repeat(phone, job, found, subject, delegate, repetition)
            except errors.DeviceLostError:
                raise
            except errors.BenchmarkError as error:
                failed.add((subject.name, delegate))
                when = "sustained run" if repetition is None else f"repetition {repetition}"
                what = f"{subject.name} in {job.package}, {delegate}, {when}"
                found.failures.append(schema.Failure(what=what, error=str(error)))


def _repeat(
    phone: Phone,
    job: Job,
    found: Findings,
    subject: inputs.Subject,
    delegate: schema.Delegate,
    repetition: int,
) -> None:
    """Measures one repetition, and again where the device throttled and that is wished."""
    settings = job.settings
    tries = 1 + (settings.max_repeats if settings.when_throttled == "repeat" else 0)
    for _ in range(tries):
        if settings.cool_down_seconds:
            phone.rest(settings.cool_down_seconds)
        before = conditions.wait_until_cool(phone, settings)
        ran = _run(phone, job, subject, delegate, settings, repetition=repetition)
        rows = with_conditions(ran.measurements, before, conditions.read(phone))
        status = max(at.thermal_status or 0 for row in rows for at in (row.before, row.after) if at)
        reason = f"the device throttled (thermal status {status})"
        left_out = reason if status and settings.when_throttled == "repeat" else ""
        own = {"model": subject.name, "repetition": repetition}
        found.measurements += [
            row.model_copy(update={**own, "left_out": row.left_out or left_out}) for row in rows
        ]
        found.runtime = found.runtime or ran.runtime
        found.models += ran.models
        found.failures += ran.failures
        found.notes += [note for note in ran.notes if note not in found.notes]
        if not any(row.model == subject.name and row.delegate == delegate for row in found.answers):
            found.answers += [row.model_copy(update={"model": subject.name}) for row in ran.answers]
        if not left_out:
            if settings.texts:
                found.texts += [row.model_copy(update=own) for row in ran.texts]
            return
    raise errors.BenchmarkError(
        errors.explain(
            f"repetition {repetition} of {subject.name}",
            f"a device that stays cool within {tries} tries",
            reason,
            "Rest longer with --cool-down, or count it with --when-throttled flag.",
        )
    )


def _sustain(
    phone: Phone, job: Job, found: Findings, subject: inputs.Subject, delegate: schema.Delegate
) -> None:
    """Runs without pauses at the longest length, in a process that measures next to nothing."""
    settings = job.settings
    if settings.cool_down_seconds:
        phone.rest(settings.cool_down_seconds)
    conditions.wait_until_cool(phone, settings)
    short = dataclasses.replace(
        settings,
        lengths=(max(_lengths(subject, settings)),),
        threads=settings.threads[:1],
        warmup=0,
        runs=1,
        rounds=1,
        min_seconds=0.0,
    )
    seconds = settings.sustained_seconds
    ran = _run(phone, job, subject, delegate, short, repetition=0, sustained_seconds=seconds)
    found.failures += ran.failures
    found.notes += [note for note in ran.notes if note not in found.notes]
    found.sustained += [row.model_copy(update={"model": subject.name}) for row in ran.sustained]
    if not ran.sustained:
        what = f"sustained run of {subject.name} in {job.package}"
        raise errors.BenchmarkError(errors.explain(what, "windows", "none"))


def _lengths(subject: inputs.Subject, settings: Settings) -> list[int]:
    asked = settings.lengths
    return [n for n in sorted(subject.entries) if asked is None or n in asked]


def _run(
    phone: Phone,
    job: Job,
    subject: inputs.Subject,
    delegate: schema.Delegate,
    settings: Settings,
    *,
    repetition: int,
    sustained_seconds: float = 0.0,
) -> schema.Result:
    lengths = _lengths(subject, settings)
    ran = app_session.run(
        phone,
        job.package,
        lambda run_id: app_protocol.start_arguments(
            job.package,
            run_id,
            job.bundles[subject.name],
            settings,
            lengths=lengths,
            delegate=delegate,
            repetition=repetition,
            sustained_seconds=sustained_seconds,
        ),
        patience_s=settings.timeout_seconds + sustained_seconds,
    )
    check_answers(ran, job, subject, delegate, settings, phone.serial)
    return ran


def check_answers(
    ran: schema.Result,
    job: Job,
    subject: inputs.Subject,
    delegate: schema.Delegate,
    settings: Settings,
    serial: str,
) -> None:
    """Checks that a result is about the file, and about all that was asked for and no more.

    Raises:
      BenchmarkError: If it is about another file or other places, lacks one and does not say why,
        holds durations that are none, or is of a GPU whose answers were not compared.
    """
    what = f"result of {job.package} on {serial}"
    (model,) = ran.models
    if model.sha256 != subject.sha256:
        raise errors.BenchmarkError(
            errors.explain(
                f"bundle {job.bundles[subject.name]} of {job.package} on {serial}",
                f"the file {subject.name} with SHA-256 {subject.sha256}",
                model.sha256,
                "Put this file into the app with `tfdistill export --android`, build and install "
                "it again.",
            )
        )
    lengths = _lengths(subject, settings)
    measured = [(row.sequence_length, row.threads) for row in ran.measurements]
    strange = sorted(
        {
            f"{row.model}, {row.sequence_length} tokens, {row.threads} thread(s), {row.delegate}"
            for row in (*ran.measurements, *ran.sustained)
            if row.model != model.name
            or row.sequence_length not in lengths
            or row.threads not in settings.threads
            or row.delegate != delegate
        }
        | {
            f"answers of {row.model}, {row.sequence_length} tokens, {row.delegate}"
            for row in ran.answers
            if row.model != model.name
            or row.sequence_length not in subject.entries
            or row.delegate != delegate
        }
        | {
            f"{row.model} from text, {row.threads} thread(s), {row.delegate}"
            for row in ran.texts
            if row.model != model.name
            or row.threads not in settings.threads
            or row.delegate != delegate
        }
    )
    several = len(set(measured)) < len(measured) or any(row.repetition for row in ran.measurements)
    if strange or several:
        asked = f"one repetition of {model.name} at {lengths} tokens, {delegate}"
        received = "; ".join(strange) or "several repetitions"
        raise errors.BenchmarkError(errors.explain(what, asked, received))
    wanted = {(length, threads) for length in lengths for threads in settings.threads}
    missing = sorted(wanted - set(measured))
    if not measured or (missing and not ran.failures):
        faults = "; ".join(failure.error for failure in ran.failures)
        lacking = ", ".join(f"{n} tokens on {threads} thread(s)" for n, threads in missing)
        raise errors.BenchmarkError(
            errors.explain(what, "measurements", faults or f"none at {lacking}")
        )
    durations = [row.samples_ms for row in (*ran.measurements, *ran.texts)]
    durations += [row.tokenizer_ms for row in ran.texts]
    durations += [tuple(window.p50_ms for window in row.windows) for row in ran.sustained]
    if not all(values and min(values) > 0 for values in durations):
        raise errors.BenchmarkError(errors.explain(what, "durations of more than 0 ms", "others"))
    if delegate == "gpu" and not ran.answers:
        faults = "; ".join(failure.error for failure in ran.failures)
        expected = "the GPU's answers beside its durations: fast and wrong is no figure"
        raise errors.BenchmarkError(errors.explain(what, expected, faults or "none"))


def with_conditions(
    rows: Sequence[schema.Measurement],
    before: schema.Conditions,
    after: schema.Conditions,
) -> list[schema.Measurement]:
    """Adds what Android tells the shell and no app: to the first row before, to the last after.

    Args:
      rows: In the order in which they were measured.
      before: The device just before the first.
      after: The device just after the last.

    Returns:
      The rows; what the app itself said stays.
    """
    found = list(rows)
    found[0] = found[0].model_copy(update={"before": _merged(found[0].before, before)})
    found[-1] = found[-1].model_copy(update={"after": _merged(found[-1].after, after)})
    return found


def _merged(own: schema.Conditions | None, other: schema.Conditions) -> schema.Conditions:
    if own is None:
        return other
    unknown = {name: value for name, value in other if getattr(own, name) in (None, (), {})}
    return own.model_copy(update=unknown)
