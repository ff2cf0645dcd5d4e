"""Measures in the app on one device: each repetition is a start of the app.

Every repetition of every file is a fresh process of the app, in random order, so that what warms
a device up or slows it down disturbs all files. A start is watched, its result is fetched and
checked, and nothing is left.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from tfdistill import errors, files
from tfdistill.benchmark import measuring, schema
from tfdistill.benchmark.adb import app_protocol, device_backend
from tfdistill.benchmark.adb.app_protocol import State
from tfdistill.benchmark.adb.device_backend import DeviceBackend
from tfdistill.benchmark.adb.phone import Phone, undone
from tfdistill.benchmark.backend import AnswerCheck, CaseGroup, Environment, Findings, name_of
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

FIRST_POLL_S, LONGEST_POLL_S = 0.25, 5.0
MAX_RESULT_BYTES = 64 << 20
_START_S = 60.0
_COMPILE_S = 300.0
_LOG_LINES = 40
_NOTE = (
    "Files took turns repetition by repetition, each in a fresh process of the app; an inference "
    "is what the app's own code sees."
)


def check_installed(phone: Phone, package: str) -> None:
    """Checks that the app is on the device."""
    if "package:" not in phone.shell(["pm", "path", package], check=False).stdout:
        raise errors.BenchmarkError(
            f"app {package} on {phone.serial}",
            "an installed one",
            "none",
            "Install it with `adb install`; android_demo/README.md explains how to build it.",
        )


def check_awake(phone: Phone) -> None:
    """Checks that the device is awake and unlocked: otherwise apps run in the background."""
    printed = phone.ask({"power": "dumpsys power", "window": "dumpsys window policy"})
    awake = device_backend.wakefulness(printed["power"])
    locked = device_backend.keyguard_showing(printed["window"])
    if awake != "Awake" or locked is not False:
        keyguard = {True: "shown", False: "hidden", None: "not reported"}[locked]
        raise errors.BenchmarkError(
            f"screen of {phone.serial}",
            "on and unlocked, or Android measures the app in the background",
            f"wakefulness {awake or 'not reported'}, keyguard {keyguard}",
            "Wake and unlock the device; Developer options > Stay awake keeps it so. Where it does "
            "not report them (`dumpsys power`, `dumpsys window policy`), measure without --app.",
        )


def compile_app(phone: Phone, package: str) -> str:
    """Has Android compile an app, so that its own code does not become faster while it measures.

    Returns a note for the result that says whether it was compiled.
    """
    command = ["cmd", "package", "compile", "-m", "speed", "-f", package]
    try:
        done = phone.shell(command, timeout_s=_COMPILE_S, check=False)
        printed = done.printed.strip()
    except errors.DeviceLostError:
        raise
    except errors.BenchmarkError as error:
        done, printed = None, str(error)
    if done is not None and done.exit_code == 0 and "Success" in done.stdout:
        return f"{package} was compiled ahead of time (`{' '.join(command)}`)."
    return (
        f"{package} was not compiled ahead of time, so that parts of it may have been interpreted: "
        f"`{' '.join(command)}` printed {printed[-300:]!r}."
    )


def start_once(
    phone: Phone,
    package: str,
    command: Callable[[str], Sequence[str]],
    *,
    patience_s: float,
) -> tuple[schema.Result, str]:
    """Starts the app once, waits until it has measured, and fetches its result.

    Returns the app's result, as it wrote it, and what was left on the device; empty for nothing.
    """
    check_awake(phone)
    run_id = f"tfdistill-{secrets.token_hex(6)}"
    path = f"{app_protocol.folder_of(package)}/{run_id}"
    what, finished = f"result of {package} on {phone.serial}", False

    def remove() -> str:
        fault = phone.clean_up(["sh", "-c", 'rm -f "$1".*', "sh", path])
        return fault and f"{path}.* was left on {phone.serial}: {fault}"

    def end() -> str:
        if finished:
            return ""
        phone.clean_up(["am", "force-stop", package])
        return remove()

    with undone(end):
        _start(phone, package, command(run_id))
        _wait(phone, package, f"{path}.state.json", patience_s)
        with files.temporary_folder("result") as folder:
            local = folder / "benchmark.json"
            phone.pull(f"{path}.json", local, max_bytes=MAX_RESULT_BYTES)
            result = app_protocol.read_result(local, what)
        finished = True
    return result, remove()  # what was measured stays all the same


def _start(phone: Phone, package: str, command: Sequence[str]) -> None:
    done = phone.shell(command, timeout_s=_START_S, check=False)
    printed = done.printed
    if done.exit_code == 0 and not re.search(r"^Error|Exception|Permission Denial", printed, re.M):
        return
    what = f"start of {package} on {phone.serial}"
    last = " ".join(line.strip() for line in printed.splitlines() if line.strip())[-600:]
    if "does not exist" in printed or "Error type 3" in printed:
        expected = "an app with a BenchmarkActivity"
        remedy = "Install a newer build of the app."
    elif "Permission Denial" in printed or "SecurityException" in printed:
        expected = "an activity that the shell may start"
        remedy = (
            "It has to be exported and guarded by android.permission.DUMP, which the shell of adb "
            "holds; some makers want `USB debugging (Security settings)` switched on, too."
        )
    else:
        expected, remedy = "a started activity", ""
    raise errors.BenchmarkError(what, expected, repr(last), remedy)


def _wait(phone: Phone, package: str, path: str, patience_s: float) -> None:
    """Waits until the app is done; a wait without any further measurement comes to an end."""
    finished, since, pause = -1, time.monotonic(), FIRST_POLL_S
    while True:
        state, alive = _look(phone, package, path)
        if state is not None and state.state != "running":
            break
        if not alive:
            state, _ = _look(phone, package, path)  # it may have ended well between the two
            if state is not None and state.state != "running":
                break
            raise _crashed(phone, package, state)
        if state is not None and state.finished > finished:
            finished, since = state.finished, time.monotonic()
        if time.monotonic() - since > patience_s:
            done = "nothing" if state is None else f"{state.finished} of {state.of} measurements"
            raise errors.BenchmarkError(
                f"{package} on {phone.serial}",
                f"a further measurement within {patience_s:g} seconds",
                done,
                "Allow more time with --timeout, or ask for fewer runs.",
            )
        phone.rest(pause)
        pause = min(LONGEST_POLL_S, 1.5 * pause)
    if state.state == "failed":
        raise errors.BenchmarkError(
            f"{package} on {phone.serial}", "a measurement", state.error or "failed"
        )


def _look(phone: Phone, package: str, path: str) -> tuple[State | None, bool]:
    """Returns the state, if there is one yet, and whether the app's process lives."""
    size = app_protocol.MAX_STATE_BYTES
    read = f"dd if={path} bs={size} count=1"  # `head` takes no bytes before Android 9
    answers = phone.ask({"process": f"pidof {package}", "state": read})
    text = answers["state"].strip()
    what = f"state of {package} on {phone.serial}"
    state = app_protocol.parse_state(text, what) if text else None
    return state, bool(answers["process"].strip())


def _crashed(phone: Phone, package: str, state: State | None) -> errors.BenchmarkError:
    lines = ["logcat", "-d", "-t", str(_LOG_LINES), "-s", "AndroidRuntime:E", "DEBUG:F", "libc:F"]
    try:
        log = phone.shell(lines, check=False).stdout.strip()[-4000:]
    except errors.BenchmarkError as error:
        log = str(error)
    done = "before it measured" if state is None else f"after {state.finished} of {state.of}"
    message = errors.explain(
        f"{package} on {phone.serial}",
        "an app that measures to the end",
        f"one whose process is gone {done}",
        "It crashed, was closed, or Android needed its memory; its lines in logcat:",
    )
    return errors.BenchmarkError(f"{message}\n{log or '(nothing)'}")


class AppBackend(DeviceBackend):
    """The app on a device; see `backend.Backend`."""

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
    def opened(self, findings: Findings) -> Iterator[None]:
        """Checks that the app is installed and the device awake, and has the app compiled."""
        findings.note(_NOTE)
        with self.prepared(findings):
            check_installed(self.phone, self.package)
            check_awake(self.phone)
            findings.note(compile_app(self.phone, self.package))
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

    def sustain(self, case: schema.BenchmarkCase, findings: Findings) -> Iterator[schema.Window]:
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
        findings.failures += ran.failures
        findings.note(*ran.notes)
        for row in ran.sustained:
            yield from row.windows

    def answers(self) -> Sequence[AnswerCheck]:
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
        ran, left = start_once(
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
        app_protocol.check_file(ran, subject, f"bundle {self._bundles[model]} of {where}")
        app_protocol.check_rows(ran, subject, delegate, settings, f"result of {where}")
        if not self.thermal_status_known:  # an app gets 0 where no sensor is behind it
            ran = app_protocol.without_thermal_status(ran)
        if left:
            ran = ran.model_copy(update={"notes": (*ran.notes, left)})
        self._runtime = self._runtime or ran.runtime
        self.inputs = {**self.inputs, **{file.sha256: file.inputs for file in ran.models}}
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
        identity = {"model": self._model, "repetition": self._repetition}
        rows = [row.model_copy(update=identity) for row in ran.measurements]
        rows[0] = measuring.with_conditions(rows[0], before, None)
        rows[-1] = measuring.with_conditions(rows[-1], None, after)
        findings = Findings(measurements=rows, failures=list(ran.failures), notes=list(ran.notes))
        if self._backend.settings.texts:
            findings.texts = [row.model_copy(update=identity) for row in ran.texts]
        key: tuple[str, schema.Delegate] = (self._model, self._delegate)
        if key not in self._backend.answered:
            findings.answers = [
                row.model_copy(update={"model": self._model}) for row in ran.answers
            ]
            if findings.answers:
                self._backend.answered.add(key)
        return findings

    def close(self) -> None:
        """Does nothing: the app has ended."""
