"""What the two backends on a device share: what is checked and set there, and undone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tfdistill import errors
from tfdistill.benchmark import schema
from tfdistill.benchmark.adb import device_state
from tfdistill.benchmark.adb.phone import Phone, with_what_is_left
from tfdistill.benchmark.backend import Environment, Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

_COMPILE_S = 300.0
_FIXED_PERFORMANCE = ("cmd", "power", "set-fixed-performance-mode-enabled")


def check_awake(phone: Phone) -> None:
    """Checks that the device is awake and unlocked: otherwise apps run in the background."""
    printed = phone.ask({"power": "dumpsys power", "window": "dumpsys window policy"})
    awake = device_state.wakefulness(printed["power"])
    locked = device_state.keyguard_showing(printed["window"])
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


def thermal_note(phone: Phone) -> str:
    """Says that the thermal status is unknown, if it is; otherwise returns ""."""
    unknown = device_state.read_thermal(
        phone.ask({"thermal": "dumpsys thermalservice"})["thermal"]
    ).unknown
    return unknown and (
        f"The thermal status is unknown ({unknown}): throttling shows only in the durations."
    )


@contextlib.contextmanager
def fixed_performance(phone: Phone) -> Iterator[None]:
    """Has Android hold clocks that it can sustain; afterwards, also after Ctrl-C, no longer."""
    refused = None
    try:
        done = phone.shell([*_FIXED_PERFORMANCE, "true"], check=False)
        printed = done.printed.strip()
        if done.exit_code != 0 or printed:  # nothing where it worked
            refused = errors.BenchmarkError(
                f"--fixed-performance on {phone.serial}",
                "a device with a fixed performance mode (Android 11 and newer, not all)",
                repr(printed[-300:]) if printed else f"exit code {done.exit_code}",
                "Leave it out.",
            )
            raise refused
        yield
    except BaseException as error:  # Ctrl-C may come while it is being set
        if error is not refused and (left := _end_fixed_performance(phone)):
            raise with_what_is_left(error, left) from error
        raise
    if left := _end_fixed_performance(phone):
        raise errors.DeviceLostError(left)


def _end_fixed_performance(phone: Phone) -> str:
    fault = phone.clean_up([*_FIXED_PERFORMANCE, "false"])
    command = f"adb -s {phone.serial} shell {' '.join(_FIXED_PERFORMANCE)} false"
    return fault and f"{phone.serial} stays in fixed performance mode: {fault} To end it: {command}"


class DeviceBackend:
    """A device that is measured on; see `backend.Backend`."""

    counts_last_try = False

    def __init__(self, phone: Phone, subjects: Sequence[Subject], settings: Settings) -> None:
        self.phone, self.where = phone, phone.serial
        self.subjects, self.settings = subjects, settings
        self.affinity: str | None = None
        self.device: schema.Device | None = None
        self.kind: schema.Kind = "phone"
        self.thermal_status_known = True

    @contextlib.contextmanager
    def prepared(self, findings: Findings) -> Iterator[device_state.DeviceEnvironment]:
        """Describes the device, and keeps it in fixed performance mode if that was asked for."""
        described = device_state.read_environment(self.phone)
        self.device, self.kind = described.device, described.kind
        if note := thermal_note(self.phone):
            self.thermal_status_known = False
            findings.note(note)
        with contextlib.ExitStack() as stack:
            if self.settings.fixed_performance:
                stack.enter_context(fixed_performance(self.phone))
                findings.note("The device was in Android's fixed performance mode.")
            yield described

    def environment_with(self, runtime: schema.Runtime) -> Environment:
        """Describes the device, as far as it is known by now, with a runtime."""
        device = self.device or device_state.unknown_device(self.phone)
        return Environment(self.kind, device, runtime)

    def conditions(self) -> schema.Conditions:
        """Reads the state of the device."""
        return device_state.read_conditions(self.phone)

    def wait_until_cool(self) -> schema.Conditions:
        """Waits until the thermal status is 0."""
        return device_state.wait_until_cool(self.phone, self.settings)

    def rest(self, seconds: float) -> None:
        """Waits."""
        self.phone.rest(seconds)
