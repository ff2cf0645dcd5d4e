"""Which devices adb reaches, which of them are meant, and what each of them is.

Everything that parses is pure, from the text alone.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence

from tfdistill import errors
from tfdistill.benchmark import cores, environment, schema
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


@dataclasses.dataclass(frozen=True)
class Listed:
    """A line of `adb devices -l`."""

    serial: str  # of the device, or its address
    state: str  # "device" when it is ready; otherwise such as "offline" or "unauthorized"
    model: str = ""  # such as "Pixel_8"; empty where it is unknown


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


@dataclasses.dataclass(frozen=True)
class DeviceEnvironment:
    """What a device is and what it can do."""

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
    """Describes a device that went away before it could be asked."""
    return schema.Device(
        name=phone.model or "unknown device", id=environment.short_hash(phone.serial)
    )


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
    lines = re.findall(r"/cpu(\d+)(?:[ \t]+(\d+))?[ \t]*$", text, flags=re.MULTILINE)
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
