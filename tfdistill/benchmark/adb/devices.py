"""Which devices adb reaches, and which of them are meant."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Sequence

from tfdistill import errors
from tfdistill.benchmark.adb.phone import AdbRunner, Completed, Phone, find_adb

ALL = "all"
_TIMEOUT_S = 60.0  # adb's own server starts with the first command
_REMEDIES = {
    "unauthorized": "Unlock it and accept the dialog that asks to allow USB debugging.",
    "authorizing": "Unlock it and accept the dialog that asks to allow USB debugging.",
    "offline": "Reconnect the cable, or run `adb reconnect offline`.",
    "connecting": "Try again in a moment.",
    "recovery": "Start Android on it.",
    "sideload": "Start Android on it.",
    "bootloader": "Start Android on it.",
    "no permissions": "Let this user open USB devices (on Debian: the package "
    "android-sdk-platform-tools-common and the group plugdev), then reconnect it.",
}
# What adb prints of a connection (its adb.cpp); a serial number may hold blanks.
_STATES = (
    "device|offline|unauthorized|authorizing|connecting|no permissions.*?|recovery|rescue|sideload"
    "|bootloader|host|detached|unknown"
)
_DEVICE = re.compile(rf"(?!\* )(\S.*?)\s+({_STATES})((?:\s+[a-z_]+:\S+)*)\s*")


@dataclasses.dataclass(frozen=True)
class Listed:
    """A line of `adb devices -l`.

    Attributes:
      serial: Of the device, or its address.
      state: "device" when it is ready; otherwise such as "offline" or "unauthorized".
      model: Such as "Pixel_8"; empty where it is unknown.
    """

    serial: str
    state: str
    model: str = ""


def listed(adb: str) -> list[Listed]:
    """Returns the devices that adb knows, ready or not; starts adb's server if none runs."""
    done = _ask(adb, ["devices", "-l"])
    if done.exit_code != 0 or "List of devices attached" not in done.stdout:
        port = os.environ.get("ANDROID_ADB_SERVER_PORT", "5037")
        raise errors.EnvironmentFault(
            f"`{adb} devices`",
            "a list of devices",
            repr((done.stderr or done.stdout).strip()[-1000:]),
            f"Its server may be hung (`adb kill-server`), or another program may hold its "
            f"port {port} (choose another with ANDROID_ADB_SERVER_PORT).",
        )
    return parse_devices(done.stdout)


def parse_devices(text: str) -> list[Listed]:
    """Reads the output of `adb devices -l`; lines without a state, such as adb's own, are none."""
    devices = []
    for line in text.partition("List of devices attached")[2].splitlines():
        parts = _DEVICE.fullmatch(line)
        if parts is None:
            continue
        model = re.search(r"\smodel:(\S+)", parts[3])
        devices.append(Listed(parts[1], parts[2], model[1] if model else ""))
    return devices


def choose(serials: Sequence[str] = ()) -> list[Phone]:
    """Finds the devices to measure on, and checks that they can be.

    Returns the devices, in the order of `serials`, each once.
    """
    adb = find_adb()
    named = serials or _from_environment()
    source = "--serial" if serials else "ANDROID_SERIAL"
    chosen = select(listed(adb), named, source=source)
    faults = [fault for device in chosen if (fault := _shell_fault(adb, device))]
    if faults:
        raise errors.BenchmarkError("\n".join(faults))
    return [Phone(adb, device.serial, device.model) for device in chosen]


def select(
    devices: Sequence[Listed], serials: Sequence[str], *, source: str = "--serial"
) -> list[Listed]:
    """Selects the devices that are meant among those that adb lists."""
    if not devices:
        raise errors.BenchmarkError(
            "adb",
            "a device",
            "none",
            "Connect one with USB debugging switched on (Settings > System > Developer "
            "options), or start an emulator; `adb devices` must list it.",
        )
    by_serial = {device.serial: device for device in devices}
    if not serials and len(devices) > 1:
        raise errors.BenchmarkError(
            "adb",
            "one device, or a choice among several",
            _names(devices),
            "Choose with --serial SERIAL (once or more), or --serial all.",
        )
    wanted = list(by_serial) if not serials or ALL in serials else list(dict.fromkeys(serials))
    faults = [
        errors.explain(source, f"one of {_names(devices)}", repr(serial))
        for serial in wanted
        if serial not in by_serial
    ]
    chosen = [by_serial[serial] for serial in wanted if serial in by_serial]
    faults += [
        errors.explain(
            f"device {_name(device)}",
            "state 'device'",
            repr(device.state),
            next((r for state, r in _REMEDIES.items() if device.state.startswith(state)), ""),
        )
        for device in chosen
        if device.state != "device"
    ]
    if faults:
        raise errors.BenchmarkError("\n".join(faults))
    return chosen


def _from_environment() -> tuple[str, ...]:
    serial = os.environ.get("ANDROID_SERIAL")
    return (serial,) if serial else ()


def _shell_fault(adb: str, device: Listed) -> str:
    done = _ask(adb, ["-s", device.serial, "features"])
    answer = (done.stderr or done.stdout).strip()[-500:]
    if done.exit_code != 0 and re.search(r"unknown command|usage|help", answer, re.IGNORECASE):
        raise errors.EnvironmentFault(
            adb,
            "an adb that passes exit codes on (shell v2)",
            "an older one",
            "Install Android's SDK Platform-Tools 24 or newer.",
        )
    if done.exit_code != 0:
        return errors.explain(f"device {_name(device)}", "its features", repr(answer))
    if "shell_v2" not in re.split(r"[\s,]+", done.stdout):
        return errors.explain(
            f"device {_name(device)}",
            "Android 7 or newer, whose shell passes exit codes on (shell_v2)",
            "an older one",
        )
    return ""


def _ask(adb: str, arguments: Sequence[str]) -> Completed:
    """Asks adb what it answers at once."""
    try:
        return AdbRunner().run([adb, *arguments], timeout_s=_TIMEOUT_S)
    except (OSError, TimeoutError) as error:
        raise errors.EnvironmentFault(
            f"`{adb} {' '.join(arguments)}`", "an answer", str(error), "Try `adb kill-server`."
        ) from error


def _name(device: Listed) -> str:
    return f"{device.serial} ({device.model})" if device.model else device.serial


def _names(devices: Sequence[Listed]) -> str:
    return ", ".join(
        _name(device) + ("" if device.state == "device" else f" [{device.state}]")
        for device in devices
    )
