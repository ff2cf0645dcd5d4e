"""How warm, charged and busy a device is, as its services report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.adb import dumpsys
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

    A device whose thermal status is unknown is not waited for.

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
    thermal = dumpsys.thermal(answers["thermal"])
    battery = dumpsys.battery(answers["battery"])
    load = re.match(r"\s*(\d+(?:\.\d+)?)\s", answers["load"])
    return schema.Conditions(
        time=now,
        thermal_status=thermal.status,
        temperatures_c=thermal.temperatures_c,
        battery_percent=battery.percent,
        battery_temperature_c=battery.temperature_c,
        charging=battery.charging,
        frequencies_mhz=clocks_mhz(answers["clocks"]),
        load_average=float(load[1]) if load else None,
    )


def clocks_mhz(text: str) -> tuple[float, ...]:
    """Reads lines of a core's folder and a clock in kHz.

    Returns:
      The clock of each core, 0 for one that is switched off; empty where none is reported.
    """
    lines = re.findall(r"/cpu(\d+)(?:[ \t]+(\d+))?[ \t]*$", text, flags=re.MULTILINE)
    clocks = {int(core): int(khz or 0) / 1000 for core, khz in lines}
    return tuple(clocks[core] for core in sorted(clocks)) if any(clocks.values()) else ()
