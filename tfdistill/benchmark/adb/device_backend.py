"""What the two backends on a device share: its state, and what is set there and undone afterwards.

Everything that parses is pure, from the text alone. `HEADINGS` are the words that are looked for in
what Android's services print for `dumpsys`, by the class of the framework whose code prints them.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tfdistill import errors
from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.adb import devices
from tfdistill.benchmark.adb.phone import Phone, with_what_is_left
from tfdistill.benchmark.backend import Environment, Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

OVERRIDDEN, STATUS, READY = "IsStatusOverride:", "Thermal Status:", "HAL Ready:"
CURRENT, CACHED = "Current temperatures from HAL:", "Cached temperatures:"
TEMPERATURE, NAME = "Temperature{mValue=", ", mName="
WAKEFULNESS, KEYGUARD, SHOWING = "mWakefulness=", "KeyguardServiceDelegate", "showing="
PRESENT, LEVEL, SCALE, BATTERY_TEMPERATURE = "present:", "level:", "scale:", "temperature:"
POWERED = " powered:"  # "USB powered:" and others
HEADINGS = {
    "com.android.server.power.ThermalManagerService": (OVERRIDDEN, STATUS, READY, CURRENT, CACHED),
    "android.os.Temperature": (TEMPERATURE, NAME),
    "com.android.server.power.PowerManagerService": (WAKEFULNESS,),
    "com.android.server.policy.keyguard.KeyguardServiceDelegate": (KEYGUARD, SHOWING),
    "com.android.server.BatteryService": (PRESENT, LEVEL, SCALE, BATTERY_TEMPERATURE, POWERED),
}
POLL_S = 5.0
_STATE_QUESTIONS = {
    "thermal": "dumpsys thermalservice",
    "battery": "dumpsys battery",
    "load": "cat /proc/loadavg",
    "clocks": devices.EACH_CORE.format("cpufreq/scaling_cur_freq"),
}
_FIXED_PERFORMANCE = ("cmd", "power", "set-fixed-performance-mode-enabled")


class Thermal(NamedTuple):
    """What the thermal service reports.

    Attributes:
      status: 0 (none) to 6 (shutdown); None where it is unknown.
      temperatures_c: Degrees Celsius by name of the sensor.
      unknown: Why the status is unknown; empty where it is known.
    """

    status: int | None
    temperatures_c: dict[str, float]
    unknown: str = ""


class Battery(NamedTuple):
    """A battery; None for what is not reported, or where there is none.

    Attributes:
      percent: 0 to 100.
      temperature_c: Degrees Celsius.
      charging: Whether power is connected.
    """

    percent: float | None
    temperature_c: float | None
    charging: bool | None


def read_thermal(text: str) -> Thermal:
    """Reads `dumpsys thermalservice` of Android 10 and newer.

    A status that does not come from the device's sensors is unknown and not 0: the service starts
    with 0 and keeps it where no thermal HAL answers; and a shell may override it.

    Returns the status and the temperatures that the HAL measures now; where that is empty, those
    that the service has cached. Of equal names the later ones have " (2)", ... behind. What no
    sensor measures (exactly 0, or beyond -40 and 200) is left out.
    """
    status, unknown = None, f"`{STATUS}` is not among what the service prints"
    match = re.search(rf"^\s*{STATUS}\s*(\d+)\s*$", text, flags=re.MULTILINE)
    if match and int(match[1]) <= 6:
        status, unknown = int(match[1]), ""
    for heading, value in ((OVERRIDDEN, "true"), (READY, "false")):
        if re.search(rf"^\s*{heading}\s*{value}\s*$", text, flags=re.MULTILINE):
            status, unknown = None, f"`{heading} {value}`"
    for heading in (CURRENT, CACHED):
        block = re.search(rf"^\s*{heading}\s*\n((?:\s*Temperature\{{.*\n?)*)", text, re.MULTILINE)
        if block and (temperatures := _temperatures(block[1])):
            return Thermal(status, temperatures, unknown)
    return Thermal(status, {}, unknown)


def read_battery(text: str) -> Battery:
    """Reads `dumpsys battery`."""
    values: dict[str, str] = {}
    for key, value in re.findall(r"^\s*([A-Za-z ]+?:)\s*(\S+)\s*$", text, flags=re.MULTILINE):
        values.setdefault(key, value)  # makers add lines of their own behind, some with these keys

    def number(key: str) -> float | None:
        value = values.get(key, "")
        return float(value) if re.fullmatch(r"-?\d+", value) else None

    level, scale, temperature = number(LEVEL), number(SCALE), number(BATTERY_TEMPERATURE)
    powered = [value == "true" for key, value in values.items() if key.endswith(POWERED)]
    if values.get(PRESENT) == "false":
        level = temperature = None
    percent = None
    if level is not None and scale and 0 <= level <= scale:
        percent = 100 * level / scale
    return Battery(
        percent=percent,
        temperature_c=temperature / 10 if temperature is not None else None,
        charging=any(powered) if powered else None,
    )


def wakefulness(text: str) -> str:
    """Reads from `dumpsys power` "Awake", "Asleep", "Dozing" or "Dreaming"; "" if it has none."""
    match = re.search(rf"^\s*{WAKEFULNESS}(\w+)", text, flags=re.MULTILINE)
    return match[1] if match else ""


def keyguard_showing(text: str) -> bool | None:
    """Reads from `dumpsys window policy` whether the keyguard is shown; None if it has it not."""
    _, heading, block = text.partition(KEYGUARD)
    showing = re.search(rf"^\s*{SHOWING}(true|false)\s*$", block, flags=re.MULTILINE)
    return showing[1] == "true" if heading and showing else None


def _temperatures(block: str) -> dict[str, float]:
    temperatures: dict[str, float] = {}
    for number, rest in re.findall(rf"{re.escape(TEMPERATURE)}([^,}}]*)([^}}]*)", block):
        try:
            value = float(number)
        except ValueError:
            continue
        if value == 0 or not -40 < value < 200 or math.isnan(value):
            continue
        name = rest.partition(NAME)[2].partition(",")[0].strip() or "unnamed"
        temperatures[environment.unique_name(name, temperatures)] = round(value, 3)
    return temperatures


def read_conditions(phone: Phone) -> schema.Conditions:
    """Reads the state of a device; what it does not report is None or empty."""
    return parse_conditions(phone.ask(_STATE_QUESTIONS), environment.now())


def wait_until_cool(
    phone: Phone,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> schema.Conditions:
    """Waits until a device reports that it does not throttle, or `cool_timeout_seconds` are over.

    A device whose thermal status is unknown is not waited for.

    Returns its state at the end: the thermal status is above 0 if it was still warm then.
    """
    end = clock() + settings.cool_timeout_seconds
    while True:
        conditions = read_conditions(phone)
        if not conditions.thermal_status or clock() >= end:
            return conditions
        phone.rest(min(POLL_S, max(0.0, end - clock())))


def parse_conditions(answers: Mapping[str, str], now: str) -> schema.Conditions:
    """Reads what the device answered."""
    thermal = read_thermal(answers["thermal"])
    battery = read_battery(answers["battery"])
    load = re.match(r"\s*(\d+(?:\.\d+)?)\s", answers["load"])
    return schema.Conditions(
        time=now,
        thermal_status=thermal.status,
        temperatures_c=thermal.temperatures_c,
        battery_percent=battery.percent,
        battery_temperature_c=battery.temperature_c,
        charging=battery.charging,
        frequencies_mhz=devices.clocks_mhz(answers["clocks"]),
        load_average=float(load[1]) if load else None,
    )


def thermal_note(phone: Phone) -> str:
    """Says that the thermal status is unknown, if it is; otherwise returns ""."""
    unknown = read_thermal(phone.ask({"thermal": "dumpsys thermalservice"})["thermal"]).unknown
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
    def prepared(self, findings: Findings) -> Iterator[devices.DeviceEnvironment]:
        """Describes the device, and keeps it in fixed performance mode if that was asked for."""
        described = devices.read_environment(self.phone)
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
        device = self.device or devices.unknown_device(self.phone)
        return Environment(self.kind, device, runtime)

    def conditions(self) -> schema.Conditions:
        """Reads the state of the device."""
        return read_conditions(self.phone)

    def wait_until_cool(self) -> schema.Conditions:
        """Waits until the thermal status is 0."""
        return wait_until_cool(self.phone, self.settings)

    def rest(self, seconds: float) -> None:
        """Waits."""
        self.phone.rest(seconds)
