"""A device that is measured on: what it is, the state it is in, what is set there and undone.

Everything that parses is pure, from the text alone. `HEADINGS` are the words that are looked for in
what Android's services print for `dumpsys`, by the class of the framework whose code prints them.
"""

from __future__ import annotations

import dataclasses
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tfdistill import errors
from tfdistill.benchmark import cores, environment, schema
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.benchmark.backend import Findings
from tfdistill.benchmark.settings import Settings
from tfdistill.benchmark.subjects import Subject

OVERRIDDEN, STATUS, READY = "IsStatusOverride:", "Thermal Status:", "HAL Ready:"
CURRENT, CACHED = "Current temperatures from HAL:", "Cached temperatures:"
TEMPERATURE, NAME = "Temperature{mValue=", ", mName="
PRESENT, LEVEL, SCALE, BATTERY_TEMPERATURE = "present:", "level:", "scale:", "temperature:"
POWERED = " powered:"  # "USB powered:" and others
HEADINGS = {
    "com.android.server.power.ThermalManagerService": (OVERRIDDEN, STATUS, READY, CURRENT, CACHED),
    "android.os.Temperature": (TEMPERATURE, NAME),
    "com.android.server.BatteryService": (PRESENT, LEVEL, SCALE, BATTERY_TEMPERATURE, POWERED),
}
POLL_S = 5.0
_CPU = "/sys/devices/system/cpu"
EACH_CORE = f"for f in {_CPU}/cpu[0-9]*; do echo $f $(cat $f/{{}}); done"
_PROPERTY_QUESTIONS = {
    "properties": "getprop",
    "cpuinfo": "cat /proc/cpuinfo",
    "meminfo": "cat /proc/meminfo",
    "kernel": "uname -sr",
    "max_clocks": EACH_CORE.format("cpufreq/cpuinfo_max_freq"),
    "capacities": EACH_CORE.format("cpu_capacity"),
    "governor": f"cat {_CPU}/cpu0/cpufreq/scaling_governor",
    "programs": "command -v taskset",
}
_HARDWARE = ("goldfish", "ranchu", "cutf", "vsoc", "vbox86")
# Properties of Android's emulator, Cuttlefish and Genymotion, and how their values begin;
# DeviceInfo.kt of the app has the same list.
EMULATOR_SIGNS = {
    "ro.kernel.qemu": ("1",),  # to Android 11
    "ro.boot.qemu": ("1",),  # from Android 12
    "ro.hardware": _HARDWARE,
    "ro.boot.hardware": _HARDWARE,
    "ro.product.device": (*_HARDWARE, "emu64"),
    "ro.product.name": ("sdk_", "aosp_cf_", "cf_", "vbox86"),
    "ro.build.fingerprint": ("generic",),
}
_STATE_QUESTIONS = {
    "thermal": "dumpsys thermalservice",
    "battery": "dumpsys battery",
    "load": "cat /proc/loadavg",
    "clocks": EACH_CORE.format("cpufreq/scaling_cur_freq"),
}


@dataclasses.dataclass(frozen=True)
class DeviceEnvironment:
    """A device and its abilities."""

    device: schema.Device  # its description in a result
    kind: schema.Kind  # "phone" (any device of metal) or "emulator"
    abis: tuple[str, ...]  # what programs it runs, the best first, such as "arm64-v8a"
    # how fast each core is, by its number; only their order has a meaning. Empty where the kernel
    # does not report it
    speeds: dict[int, float]
    has_taskset: bool  # whether programs can be bound to cores

    def mask(self, affinity: str | None) -> str | None:
        """Turns what was asked for into a mask for `taskset`.

        Returns the mask in lower case without 0x; None where all cores may be used.
        """
        if affinity is None or affinity == "all":
            return None
        if not self.has_taskset:
            raise errors.BenchmarkError(
                f"affinity {affinity}",
                "a device with `taskset`",
                f"{self.device.name} without it",
                "Leave it out: the system chooses the cores.",
            )
        number = self.device.cores_logical
        return cores.mask_among(affinity, range(number) if number else None, self.speeds)


def read_environment(phone: Phone) -> DeviceEnvironment:
    """Finds out what a device is and what it can do."""
    answers = phone.ask(_PROPERTY_QUESTIONS)
    if not parse_properties(answers["properties"]):
        raise errors.BenchmarkError(
            f"`getprop` on {phone.serial}", "its properties", repr(answers["properties"][:200])
        )
    return parse_environment(answers, phone.serial)


def unknown_device(phone: Phone) -> schema.Device:
    """Describes a device that was not asked yet."""
    device_id = environment.short_hash(phone.serial)
    return schema.Device(name=phone.model or "unknown device", id=device_id)


def parse_environment(answers: Mapping[str, str], serial: str) -> DeviceEnvironment:
    """Reads what the device answered."""
    properties = parse_properties(answers["properties"])
    cpu = environment.parse_cpuinfo(answers["cpuinfo"])
    clocks = clocks_mhz(answers["max_clocks"])
    numbers = sorted({int(n) for n in re.findall(r"/cpu(\d+)\b", answers["max_clocks"])})
    capacities = clocks_mhz(answers["capacities"])
    speeds = clocks if not capacities or 0 in capacities else capacities
    abis = properties.get("ro.product.cpu.abilist") or properties.get("ro.product.cpu.abi", "")
    arm = abis.startswith("arm")
    emulated = is_emulator(properties)
    identity = properties.get("ro.serialno") or serial
    if emulated:  # emulators of one release all have the same serial number
        identity += f" {serial}"
    device = schema.Device(
        name=_product_name(properties),
        id=environment.short_hash(identity),
        fingerprint=properties.get("ro.build.fingerprint"),
        soc=_soc(properties),
        abi=properties.get("ro.product.cpu.abi"),
        os=_os(properties),
        kernel=answers["kernel"].strip() or None,
        cores_logical=len(numbers) or None,
        cores_physical=(len(numbers) or None) if arm else cpu["cores_physical"],
        max_frequencies_mhz=clocks,
        cpu_flags=tuple(cpu["flags"]),
        governor=answers["governor"].strip() or None,
        memory_bytes=_memory_bytes(answers["meminfo"]),
    )
    return DeviceEnvironment(
        device=device,
        kind="emulator" if emulated else "phone",
        abis=tuple(abi for abi in abis.split(",") if abi),
        speeds={} if 0 in speeds else dict(zip(numbers, speeds, strict=False)),
        has_taskset="taskset" in answers["programs"],
    )


def clocks_mhz(text: str) -> tuple[float, ...]:
    """Reads lines of a core's folder and a clock in kHz.

    Returns the clock of each core, 0 for one that is switched off; empty where none is reported.
    """
    lines = re.findall(r"/cpu(\d{1,9})(?:[ \t]+(\d{1,12}))?[ \t]*$", text, flags=re.MULTILINE)
    clocks = {int(core): int(khz or 0) / 1000 for core, khz in lines}
    return tuple(clocks[core] for core in sorted(clocks)) if any(clocks.values()) else ()


def parse_properties(text: str) -> dict[str, str]:
    """Reads the output of `getprop`: "[name]: [value]" a line; empty values are left out."""
    lines = re.findall(r"^\[([^\]\n]+)\]: \[([^\n]*)\]\s*$", text, flags=re.MULTILINE)
    return {name: value.strip() for name, value in lines if value.strip()}


def is_emulator(properties: Mapping[str, str]) -> bool:
    """Returns whether a device is emulated, by `EMULATOR_SIGNS`."""
    return any(
        properties.get(name, "").startswith(starts) for name, starts in EMULATOR_SIGNS.items()
    )


def _product_name(properties: Mapping[str, str]) -> str:
    model = properties.get("ro.product.model", "")
    maker = properties.get("ro.product.manufacturer", "")
    if model.lower().startswith(maker.lower()):
        return model or "unknown device"
    return f"{maker[:1].upper()}{maker[1:]} {model}".strip()


def _soc(properties: Mapping[str, str]) -> str | None:
    parts = (properties.get("ro.soc.manufacturer"), properties.get("ro.soc.model"))
    if parts[1]:
        return " ".join(part for part in parts if part)
    return properties.get("ro.board.platform") or properties.get("ro.hardware")


def _os(properties: Mapping[str, str]) -> str | None:
    release, sdk = (properties.get(f"ro.build.version.{k}") for k in ("release", "sdk"))
    if release is None:
        return None
    return f"Android {release} (API {sdk})" if sdk else f"Android {release}"


def _memory_bytes(meminfo: str) -> int | None:
    match = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, flags=re.MULTILINE)
    return int(match[1]) * 1024 if match else None


class Thermal(NamedTuple):
    """The report of the thermal service."""

    status: int | None  # 0 (none) to 6 (shutdown); None where it is unknown
    temperatures_c: dict[str, float]  # degrees Celsius by name of the sensor
    unknown: str = ""  # why the status is unknown; empty where it is known


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


def read_battery(text: str) -> tuple[float | None, float | None, bool | None]:
    """Reads `dumpsys battery`.

    Returns percent, degrees Celsius, and whether power is connected; None for what is not reported,
    or where there is no battery.
    """
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
    temperature_c = temperature / 10 if temperature is not None else None
    return percent, temperature_c, any(powered) if powered else None


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


def parse_conditions(answers: Mapping[str, str], now: str) -> schema.Conditions:
    """Reads what the device answered."""
    thermal = read_thermal(answers["thermal"])
    percent, battery_c, charging = read_battery(answers["battery"])
    load = re.match(r"\s*(\d+(?:\.\d+)?)\s", answers["load"])
    return schema.Conditions(
        time=now,
        thermal_status=thermal.status,
        temperatures_c=thermal.temperatures_c,
        battery_percent=percent,
        battery_temperature_c=battery_c,
        charging=charging,
        frequencies_mhz=clocks_mhz(answers["clocks"]),
        load_average=float(load[1]) if load else None,
    )


class DeviceBackend:
    """A backend's knowledge of its device; see `backend.Backend`."""

    kind: schema.Kind

    def __init__(self, phone: Phone, subjects: Sequence[Subject], settings: Settings) -> None:
        self.phone, self.where = phone, phone.serial
        self.subjects, self.settings = subjects, settings
        self.affinity: str | None = None
        self.device, self.kind = unknown_device(phone), "phone"

    def prepared(self, findings: Findings) -> DeviceEnvironment:
        """Describes the device."""
        described = read_environment(self.phone)
        self.device, self.kind = described.device, described.kind
        question = {"thermal": _STATE_QUESTIONS["thermal"]}
        if unknown := read_thermal(self.phone.ask(question)["thermal"]).unknown:
            note = f"The thermal status is unknown ({unknown})"
            findings.note(f"{note}: throttling shows only in the durations.")
        return described

    def conditions(self) -> schema.Conditions:
        """Reads the state of the device; what it does not report is None or empty."""
        return parse_conditions(self.phone.ask(_STATE_QUESTIONS), environment.now())

    def wait_until_cool(self, *, clock: Callable[[], float] = time.monotonic) -> schema.Conditions:
        """Waits until the device reports that it does not throttle, or `cool_timeout_seconds`.

        A device whose thermal status is unknown is not waited for.

        Returns its state at the end: the thermal status is above 0 if it was still warm then.
        """
        end = clock() + self.settings.cool_timeout_seconds
        while True:
            conditions = self.conditions()
            if not conditions.thermal_status or clock() >= end:
                return conditions
            self.rest(min(POLL_S, max(0.0, end - clock())))

    def rest(self, seconds: float) -> None:
        """Waits."""
        self.phone.rest(seconds)
