"""How warm, charged and busy a device is, as its services report."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.settings import Settings

POLL_S = 5.0
_CPU = "/sys/devices/system/cpu"
_QUESTIONS = {
    "thermal": "dumpsys thermalservice",
    "battery": "dumpsys battery",
    "load": "cat /proc/loadavg",
    "clocks": f"for f in {_CPU}/cpu[0-9]*; do echo $f $(cat $f/cpufreq/scaling_cur_freq); done",
}


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


def read(phone: Phone) -> schema.Conditions:
    """Reads the state of a device; what it does not report is None or empty.

    Raises:
      DeviceLostError: If the device went away.
    """
    return parse(phone.ask(_QUESTIONS), environment.now())


def wait_until_cool(
    phone: Phone,
    settings: Settings,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> schema.Conditions:
    """Waits until a device reports that it does not throttle, or `cool_timeout_seconds` are over.

    A device that reports no thermal status (before Android 10) is not waited for.

    Args:
      phone: The device.
      settings: Says how long to wait.
      clock: Seconds.

    Returns:
      Its state at the end: the thermal status is above 0 if it was still warm then.

    Raises:
      DeviceLostError: If the device went away.
      KeyboardInterrupt: If the phone was stopped.
    """
    end = clock() + settings.cool_timeout_seconds
    while True:
        found = read(phone)
        if not found.thermal_status or clock() >= end:
            return found
        phone.rest(min(POLL_S, max(0.0, end - clock())))


def parse(answers: Mapping[str, str], now: str) -> schema.Conditions:
    """Reads what the device answered.

    Args:
      answers: What dumpsys prints for "thermal" and "battery", /proc/loadavg as "load", and as
        "clocks" lines of a core's folder and its clock in kHz.
      now: ISO 8601.

    Returns:
      The state.
    """
    status, temperatures = parse_thermal(answers["thermal"])
    battery = parse_battery(answers["battery"])
    load = re.match(r"\s*(\d+(?:\.\d+)?)\s", answers["load"])
    return schema.Conditions(
        time=now,
        thermal_status=status,
        temperatures_c=temperatures,
        battery_percent=battery.percent,
        battery_temperature_c=battery.temperature_c,
        charging=battery.charging,
        frequencies_mhz=clocks_mhz(answers["clocks"]),
        load_average=float(load[1]) if load else None,
    )


def parse_thermal(text: str) -> tuple[int | None, dict[str, float]]:
    """Reads `dumpsys thermalservice` of Android 10 and newer.

    Takes what the HAL measures now; where that is empty, what the service has cached.

    Args:
      text: The output; an older Android reports that there is no such service.

    Returns:
      The thermal status (0 to 6) or None, and degrees Celsius by name of the sensor; of equal names
      the later ones have " (2)", ... behind. What no sensor measures (exactly 0, or beyond -40 and
      200) is left out.
    """
    found = re.search(r"^\s*Thermal Status:\s*(\d+)\s*$", text, flags=re.MULTILINE)
    status = int(found[1]) if found and int(found[1]) <= 6 else None
    for heading in ("Current temperatures from HAL", "Cached temperatures"):
        block = re.search(rf"^\s*{heading}:\s*\n((?:\s*Temperature\{{.*\n?)*)", text, re.MULTILINE)
        if block and (temperatures := _temperatures(block[1])):
            return status, temperatures
    return status, {}


def parse_battery(text: str) -> Battery:
    """Reads `dumpsys battery`."""
    values: dict[str, str] = {}
    for key, value in re.findall(r"^\s*([A-Za-z ]+?)\s*:\s*(\S+)\s*$", text, flags=re.MULTILINE):
        values.setdefault(key, value)  # makers add lines of their own behind, some with these keys

    def number(key: str) -> float | None:
        value = values.get(key, "")
        return float(value) if re.fullmatch(r"-?\d+", value) else None

    level, scale, temperature = number("level"), number("scale"), number("temperature")
    powered = [value == "true" for key, value in values.items() if key.endswith(" powered")]
    if values.get("present") == "false":
        level = temperature = None
    percent = None
    if level is not None and scale and 0 <= level <= scale:
        percent = 100 * level / scale
    return Battery(
        percent=percent,
        temperature_c=temperature / 10 if temperature is not None else None,
        charging=any(powered) if powered else None,
    )


def clocks_mhz(text: str) -> tuple[float, ...]:
    """Reads lines of a core's folder and a clock in kHz.

    Returns:
      The clock of each core, 0 for one that is switched off; empty where none is reported.
    """
    lines = re.findall(r"/cpu(\d+)(?:[ \t]+(\d+))?[ \t]*$", text, flags=re.MULTILINE)
    clocks = {int(core): int(khz or 0) / 1000 for core, khz in lines}
    return tuple(clocks[core] for core in sorted(clocks)) if any(clocks.values()) else ()


def _temperatures(block: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for item in re.findall(r"Temperature\{([^}]*)\}", block):
        fields = dict(re.findall(r"m(\w+)=([^,]*)", item))
        try:
            value = float(fields.get("Value", "nan"))
        except ValueError:
            continue
        if value == 0 or not -40 < value < 200 or math.isnan(value):
            continue
        name = fields.get("Name", "").strip() or "unnamed"
        same = sum(taken == name or taken.startswith(f"{name} (") for taken in found)
        found[f"{name} ({same + 1})" if same else name] = round(value, 3)
    return found
