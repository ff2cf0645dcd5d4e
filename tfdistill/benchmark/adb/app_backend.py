"""Measures in the app on one device, and checks what the app returns.

Every repetition of every file is a fresh process of the app, in random order, so that what warms
a device up or slows it down disturbs all files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from tfdistill import errors
from tfdistill.benchmark import measuring, schema
from tfdistill.benchmark.adb import app_protocol, app_session, preparation
from tfdistill.benchmark.adb.device_backend import DeviceBackend
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.backend import AnswerCheck, CaseGroup, Environment, Findings, name_of
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

_NOTE = (
    "Files took turns repetition by repetition, each in a fresh process of the app; an inference "
    "is what the app's own code sees."
)


class AppBackend(DeviceBackend):
    """The app on a device; see `backend.Backend`.

    Args:
      phone: The device.
      package: Of the app.
      bundles: The app's names of the files, by theirs.
      subjects: The files, of unique names.
      settings: How to measure.
    """

    name: schema.BackendName = "app"
    rounds = 1  # the app runs all blocks of a repetition itself

    def __init__(
        self,
        phone: Phone,
        package: str,
        bundles: Mapping[str, str],
        subjects: Sequence[Subject],
        settings: Settings,
    ) -> None:
        super().__init__(phone, subjects, settings)
        self.package = package
        self.answered: set[tuple[str, schema.Delegate]] = set()
        self._bundles = bundles
        self._by_name = {subject.name: subject for subject in subjects}
        self._runtime: schema.Runtime | None = None
        self.inputs: Mapping[str, schema.Inputs] = {}

    @contextlib.contextmanager
    def opened(self, found: Findings) -> Iterator[None]:
        """Checks that the app is installed and the device awake, and has the app compiled."""
        found.note(_NOTE)
        with self.prepared(found):
            app_session.check_installed(self.phone, self.package)
            preparation.check_awake(self.phone)
            found.note(preparation.compile_app(self.phone, self.package))
            yield

    def environment(self) -> Environment:
        """Describes the device and the app."""
        return self.environment_with(self._runtime or schema.Runtime(name=self.package))

    def groups(self) -> Sequence[CaseGroup]:
        """Lists each file with each delegate: a repetition covers all lengths and threads."""
        return [
            CaseGroup((subject.name,), delegate)
            for subject in self.subjects
            for delegate in self.settings.delegates
        ]

    def run_of(self, model: str, group: CaseGroup, repetition: int) -> AppRun:
        """Returns a repetition of a file: a start of the app."""
        return AppRun(self, model, group.delegate, repetition)

    def operators(self, case: schema.BenchmarkCase) -> schema.Operators:
        """Refuses: `app_protocol.check` saw to it that nobody asks."""
        raise errors.BenchmarkError("operators", "none from an app", name_of(case))

    def sustain(self, case: schema.BenchmarkCase, found: Findings) -> Iterator[schema.Window]:
        """Runs without pauses in a process of the app that measures next to nothing else."""
        short = dataclasses.replace(
            self.settings,
            lengths=(case.sequence_length,),
            threads=(case.threads,),
            warmup=0,
            runs=1,
            rounds=1,
            min_seconds=0.0,
        )
        seconds = self.settings.sustained_seconds
        ran = self.run(case.model, case.delegate, short, repetition=0, sustained_seconds=seconds)
        found.failures += ran.failures
        found.note(*ran.notes)
        for row in ran.sustained:
            yield from row.windows

    def answers(
        self,
    ) -> Sequence[AnswerCheck]:
        """Lists nothing: the app compares its answers itself, in its first repetition."""
        return ()

    def run(
        self,
        model: str,
        delegate: schema.Delegate,
        settings: Settings,
        *,
        repetition: int,
        sustained_seconds: float = 0.0,
    ) -> schema.Result:
        """Starts the app once, and checks its result."""
        subject = self._by_name[model]
        ran = app_session.run(
            self.phone,
            self.package,
            lambda run_id: app_protocol.start_arguments(
                self.package,
                run_id,
                self._bundles[model],
                settings,
                lengths=subject.lengths(settings),
                delegate=delegate,
                repetition=repetition,
                sustained_seconds=sustained_seconds,
            ),
            patience_s=settings.timeout_seconds + sustained_seconds,
        )
        where = f"{self.package} on {self.phone.serial}"
        _check_file(ran, subject, f"bundle {self._bundles[model]} of {where}")
        check_rows(ran, subject, delegate, settings, f"result of {where}")
        if not self.thermal_status_known:  # an app gets 0 where no sensor is behind it
            ran = without_thermal_status(ran)
        self._runtime = self._runtime or ran.runtime
        self.inputs = {**self.inputs, **{found.sha256: found.inputs for found in ran.models}}
        return ran


class AppRun:
    """One repetition of a file: a start of the app; see `backend.CaseRun`."""

    def __init__(
        self, backend: AppBackend, model: str, delegate: schema.Delegate, repetition: int
    ) -> None:
        self.what = f"{model} in {backend.package}, {delegate}, repetition {repetition}"
        self._backend, self._model, self._repetition = backend, model, repetition
        self._delegate: schema.Delegate = delegate
        self._ran: schema.Result

    def start(self) -> float:
        """Does nothing: the app estimates for itself how long an inference takes."""
        return 1.0

    def run_block(self, number: int, runs: int) -> None:
        """Lets the app measure all blocks at all lengths and numbers of threads."""
        settings = self._backend.settings
        self._ran = self._backend.run(
            self._model, self._delegate, settings, repetition=self._repetition
        )

    def finish(self, before: schema.Conditions, after: schema.Conditions) -> Findings:
        """Gives what the app measured, under the file's name here.

        What Android reports to the shell and to no app is added to the conditions: before the first
        row and after the last.
        """
        ran = self._ran
        own = {"model": self._model, "repetition": self._repetition}
        rows = [row.model_copy(update=own) for row in ran.measurements]
        rows[0] = measuring.with_conditions(rows[0], before, None)
        rows[-1] = measuring.with_conditions(rows[-1], None, after)
        found = Findings(measurements=rows, failures=list(ran.failures), notes=list(ran.notes))
        if self._backend.settings.texts:
            found.texts = [row.model_copy(update=own) for row in ran.texts]
        key: tuple[str, schema.Delegate] = (self._model, self._delegate)
        if key not in self._backend.answered:
            found.answers = [row.model_copy(update={"model": self._model}) for row in ran.answers]
            if found.answers:
                self._backend.answered.add(key)
        return found

    def close(self) -> None:
        """Does nothing: the app has ended."""


def without_thermal_status(ran: schema.Result) -> schema.Result:
    """Returns a result in which every thermal status is unknown."""
    unknown = re.sub(r'"thermal_status":\d+', '"thermal_status":null', ran.model_dump_json())
    return schema.Result.model_validate_json(unknown)


def _check_file(ran: schema.Result, subject: Subject, what: str) -> None:
    """Checks that the app measured the file that is meant."""
    (model,) = ran.models
    if model.sha256 != subject.sha256:
        raise errors.BenchmarkError(
            what,
            f"the file {subject.name} with SHA-256 {subject.sha256}",
            model.sha256,
            "Put this file into the app with `tfdistill export --android`, build and install "
            "it again.",
        )


def check_rows(
    ran: schema.Result,
    subject: Subject,
    delegate: schema.Delegate,
    settings: Settings,
    what: str,
    *,
    repetitions: int = 1,
) -> None:
    """Checks that a result is about all that was asked for and no more.

    Raises:
      BenchmarkError: If it is about other cases, lacks one without a failure that explains it, has
        durations that are not above 0, or is of a GPU whose answers were not compared.
    """
    (model,) = ran.models
    lengths = subject.lengths(settings)
    asked = {"": {*lengths}, "answers of ": {*subject.entries}}
    strange = {
        f"{prefix}{name_of(row)}"
        for prefix, rows in (
            ("", (*ran.measurements, *ran.sustained)),
            ("answers of ", ran.answers),
        )
        for row in rows
        if (row.model, row.delegate) != (model.name, delegate)
        or row.sequence_length not in asked[prefix]
        or (row.threads not in settings.threads and not prefix)
    } | {
        f"{row.model} from text, {row.threads} thread(s), {row.delegate}"
        for row in ran.texts
        if (row.model, row.delegate) != (model.name, delegate)
        or row.threads not in settings.threads
    }
    measured = [(row.sequence_length, row.threads) for row in ran.measurements]
    cases = [(case, row.repetition) for case, row in zip(measured, ran.measurements, strict=True)]
    several = len(set(cases)) < len(cases) or any(not 0 <= n < repetitions for _, n in cases)
    if strange or several:
        count = "one repetition" if repetitions == 1 else f"{repetitions} repetitions"
        one = f"{count} of {model.name} at {lengths} tokens, {delegate}"
        received = "; ".join(sorted(strange)) or "several repetitions"
        raise errors.BenchmarkError(what, one, received)
    wanted = {(length, threads) for length in lengths for threads in settings.threads}
    missing = sorted(wanted - set(measured))
    faults = "; ".join(failure.error for failure in ran.failures)
    if not measured or (missing and not ran.failures):
        lacking = ", ".join(f"{n} tokens on {threads} thread(s)" for n, threads in missing)
        raise errors.BenchmarkError(what, "measurements", faults or f"none at {lacking}")
    durations = [row.samples_ms for row in (*ran.measurements, *ran.texts)]
    durations += [row.tokenizer_ms for row in ran.texts]
    durations += [tuple(window.p50_ms for window in row.windows) for row in ran.sustained]
    if not all(values and min(values) > 0 for values in durations):
        raise errors.BenchmarkError(what, "durations of more than 0 ms", "others")
    if delegate == "gpu" and not ran.answers:
        expected = "the GPU's answers next to its durations: fast and wrong is no figure"
        raise errors.BenchmarkError(what, expected, faults or "none")
