"""Reads what Android's services print for `dumpsys`; each pure, from the text alone.

`HEADINGS` are the words that are looked for, by the class of the framework whose code prints them.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from tfdistill.benchmark import environment

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


def thermal(text: str) -> Thermal:
    """Reads `dumpsys thermalservice` of Android 10 and newer.

    A status that does not come from the device's sensors is unknown and not 0: the service starts
    with 0 and keeps it where no thermal HAL answers; and a shell may override it.

    Args:
      text: The output; an older Android reports that there is no such service.

    Returns:
      The status and the temperatures that the HAL measures now; where that is empty, those that the
      service has cached. Of equal names the later ones have " (2)", ... behind. What no sensor
      measures (exactly 0, or beyond -40 and 200) is left out.
    """
    status, unknown = None, f"`{STATUS}` is not among what the service prints"
    found = re.search(rf"^\s*{STATUS}\s*(\d+)\s*$", text, flags=re.MULTILINE)
    if found and int(found[1]) <= 6:
        status, unknown = int(found[1]), ""
    for heading, value in ((OVERRIDDEN, "true"), (READY, "false")):
        if re.search(rf"^\s*{heading}\s*{value}\s*$", text, flags=re.MULTILINE):
            status, unknown = None, f"`{heading} {value}`"
    for heading in (CURRENT, CACHED):
        block = re.search(rf"^\s*{heading}\s*\n((?:\s*Temperature\{{.*\n?)*)", text, re.MULTILINE)
        if block and (temperatures := _temperatures(block[1])):
            return Thermal(status, temperatures, unknown)
    return Thermal(status, {}, unknown)


def battery(text: str) -> Battery:
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
    found = re.search(rf"^\s*{WAKEFULNESS}(\w+)", text, flags=re.MULTILINE)
    return found[1] if found else ""


def keyguard_showing(text: str) -> bool | None:
    """Reads from `dumpsys window policy` whether the keyguard is shown; None if it has it not."""
    _, found, block = text.partition(KEYGUARD)
    showing = re.search(rf"^\s*{SHOWING}(true|false)\s*$", block, flags=re.MULTILINE)
    return showing[1] == "true" if found and showing else None


def _temperatures(block: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for number, rest in re.findall(rf"{re.escape(TEMPERATURE)}([^,}}]*)([^}}]*)", block):
        try:
            value = float(number)
        except ValueError:
            continue
        if value == 0 or not -40 < value < 200 or math.isnan(value):
            continue
        name = rest.partition(NAME)[2].partition(",")[0].strip() or "unnamed"
        found[environment.unique_name(name, found)] = round(value, 3)
    return found
