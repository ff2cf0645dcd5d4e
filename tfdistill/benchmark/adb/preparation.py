"""What is checked and set on a device before it measures, and undone afterwards."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tfdistill import errors
from tfdistill.benchmark.adb import dumpsys
from tfdistill.benchmark.adb.phone import Phone, with_what_is_left

_COMPILE_S = 300.0
_FIXED_PERFORMANCE = ("cmd", "power", "set-fixed-performance-mode-enabled")


def check_awake(phone: Phone) -> None:
    """Checks that the device is awake and shows no keyguard: apps behind it run in the background.

    Raises:
      DeviceLostError: If the device went away.
      BenchmarkError: If it is asleep or locked, or does not say whether it is.
    """
    printed = phone.ask({"power": "dumpsys power", "window": "dumpsys window policy"})
    awake = dumpsys.wakefulness(printed["power"])
    locked = dumpsys.keyguard_showing(printed["window"])
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

    Returns:
      A note for the result: whether it was compiled.

    Raises:
      DeviceLostError: If the device went away.
    """
    command = ["cmd", "package", "compile", "-m", "speed", "-f", package]
    try:
        done = phone.shell(command, timeout_s=_COMPILE_S, check=False)
        printed = f"{done.stdout}\n{done.stderr}".strip()
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
    """Says that the thermal status is unknown, if it is; otherwise returns "".

    Raises:
      DeviceLostError: If the device went away.
    """
    unknown = dumpsys.thermal(phone.ask({"thermal": "dumpsys thermalservice"})["thermal"]).unknown
    return unknown and (
        f"The thermal status is unknown ({unknown}): throttling shows only in the durations."
    )


@contextlib.contextmanager
def fixed_performance(phone: Phone) -> Iterator[None]:
    """Has Android hold clocks that it can sustain; afterwards, also after Ctrl-C, no longer.

    Raises:
      BenchmarkError: If the device does not offer it.
      DeviceLostError: If the device went away; its message says how to undo it.
    """
    refused = None
    try:
        done = phone.shell([*_FIXED_PERFORMANCE, "true"], check=False)
        printed = f"{done.stdout}\n{done.stderr}".strip()
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
