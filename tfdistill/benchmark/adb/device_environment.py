"""What is fixed about a device, and what it can do, from its properties and its kernel."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from tfdistill import errors
from tfdistill.benchmark import cores, environment, schema
from tfdistill.benchmark.adb.conditions import clocks_mhz
from tfdistill.benchmark.adb.phone import Phone

_CPU = "/sys/devices/system/cpu"
_EACH = f"for f in {_CPU}/cpu[0-9]*; do echo $f $(cat $f/"
_QUESTIONS = {
    "properties": "getprop",
    "cpuinfo": "cat /proc/cpuinfo",
    "meminfo": "cat /proc/meminfo",
    "kernel": "uname -sr",
    "max_clocks": f"{_EACH}cpufreq/cpuinfo_max_freq); done",
    "capacities": f"{_EACH}cpu_capacity); done",
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


@dataclasses.dataclass(frozen=True)
class DeviceEnvironment:
    """What a device is and what it can do.

    Attributes:
      device: Its description in a result.
      kind: "phone" (any device of metal) or "emulator".
      abis: What programs it runs, the best first, such as "arm64-v8a".
      speeds: How fast each core is, by its number; only their order has a meaning. Empty where the
        kernel does not report it.
      has_taskset: Whether programs can be bound to cores.
    """

    device: schema.Device
    kind: schema.Kind
    abis: tuple[str, ...]
    speeds: dict[int, float]
    has_taskset: bool

    def mask(self, affinity: str | None) -> str | None:
        """Turns what was asked for into a mask for `taskset`.

        Args:
          affinity: A hexadecimal mask such as "f0"; "little" for the slowest kind of cores, "big"
            for all the others, "all", or None to leave it to the system.

        Returns:
          The mask in lower case without 0x; None where all cores may be used.

        Raises:
          BenchmarkError: If it is no mask, names a core that is not there, asks for big or little
            cores of a device whose cores are all alike, or the device has no taskset.
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


def read(phone: Phone) -> DeviceEnvironment:
    """Finds out what a device is and what it can do.

    Raises:
      DeviceLostError: If the device went away.
      BenchmarkError: If it does not report its properties.
    """
    answers = phone.ask(_QUESTIONS)
    if not parse_properties(answers["properties"]):
        raise errors.BenchmarkError(
            f"`getprop` on {phone.serial}", "its properties", repr(answers["properties"][:200])
        )
    return parse(answers, phone.serial)


def unknown_device(phone: Phone) -> schema.Device:
    """Describes a device that went away before it could be asked."""
    return schema.Device(
        name=phone.model or "unknown device", id=environment.short_hash(phone.serial)
    )


def parse(answers: Mapping[str, str], serial: str) -> DeviceEnvironment:
    """Reads what the device answered.

    Args:
      answers: By the names of the questions.
      serial: As adb lists it; the id of a device without a serial number comes from it.

    Returns:
      The environment.
    """
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
        name=_name(properties),
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


def parse_properties(text: str) -> dict[str, str]:
    """Reads the output of `getprop`: "[name]: [value]" a line; empty values are left out."""
    lines = re.findall(r"^\[([^\]\n]+)\]: \[([^\n]*)\]\s*$", text, flags=re.MULTILINE)
    return {name: value.strip() for name, value in lines if value.strip()}


def is_emulator(properties: Mapping[str, str]) -> bool:
    """Returns whether a device is emulated, by `EMULATOR_SIGNS`."""
    return any(
        properties.get(name, "").startswith(starts) for name, starts in EMULATOR_SIGNS.items()
    )


def _name(properties: Mapping[str, str]) -> str:
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
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else None
