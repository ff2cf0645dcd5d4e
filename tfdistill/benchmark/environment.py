"""Environment and conditions of this machine: processor, memory, versions; clocks, heat, load."""

from __future__ import annotations

import datetime
import hashlib
import importlib.metadata
import itertools
import os
import pathlib
import platform
import re
import sys
from collections.abc import Collection
from typing import Any

from tfdistill.benchmark import cores, schema
from tfdistill.io import files, safe_paths

# Instruction sets that decide how fast LiteRT's kernels run (x86, then Arm).
FLAGS_OF_INTEREST = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
RUNTIME_PACKAGES = ("ai_edge_litert", "numpy", "tokenizers")


def device() -> schema.Device:
    """Describes this machine; what cannot be found out is None or empty."""
    cpu, machine_id = parse_cpuinfo(cores.read("/proc/cpuinfo")), cores.read("/etc/machine-id")
    return schema.Device(
        name=cpu["model"] or platform.processor() or platform.machine() or "unknown processor",
        id=short_hash(machine_id) if machine_id else None,
        abi=platform.machine() or None,
        os=parse_os_release(cores.read("/etc/os-release")) or platform.platform(),
        kernel=f"{platform.system()} {platform.release()}",
        cores_logical=os.cpu_count(),
        cores_physical=cpu["cores_physical"],
        max_frequencies_mhz=cores.max_frequencies_mhz(),
        cpu_flags=tuple(cpu["flags"]),
        governor=cores.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or None,
        memory_bytes=_memory_bytes(),
    )


def runtime() -> schema.Runtime:
    """Describes LiteRT as it is installed here, and what else takes part."""
    others = {name: version_of(name) for name in RUNTIME_PACKAGES[1:]}
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return schema.Runtime(
        name=RUNTIME_PACKAGES[0],
        version=version_of(RUNTIME_PACKAGES[0]),
        packages={"python": python, **others},
    )


def conditions() -> schema.Conditions:
    """Reads the state of this machine: load, clocks, heat, as far as it reports them."""
    return schema.Conditions(
        time=now(),
        temperatures_c=temperatures_c(),
        frequencies_mhz=cores.frequencies_mhz()
        or parse_cpuinfo(cores.read("/proc/cpuinfo"))["clocks"],
        load_average=load_average(),
        throttle_count=throttle_count(),
    )


def now() -> str:
    """Returns the time, ISO 8601, UTC."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def temperatures_c(root: files.Path = "/sys/class") -> dict[str, float]:
    """Reads Linux's thermal zones and hardware monitors: degrees Celsius by name of the sensor.

    Of equal names the later ones have " (2)", ... behind. Empty where there are none, as in most
    virtual machines.
    """
    temperatures: dict[str, float] = {}

    def take(name: str, millidegrees: str) -> None:
        if name and re.fullmatch(r"-?\d+", millidegrees):
            temperatures[unique_name(name, temperatures)] = int(millidegrees) / 1000

    for zone in sorted(pathlib.Path(root, "thermal").glob("thermal_zone*")):
        take(cores.read(zone / "type"), cores.read(zone / "temp"))
    for sensor in sorted(pathlib.Path(root, "hwmon").glob("hwmon*/temp*_input")):
        label = cores.read(sensor.with_name(sensor.name.replace("_input", "_label")))
        chip = cores.read(sensor.parent / "name")
        take(f"{chip} {label}".strip(), cores.read(sensor))
    return temperatures


def unique_name(name: str, taken: Collection[str]) -> str:
    """Returns a name that is not taken: with " (2)", " (3)", ... behind where it is."""
    same = sum(other == name or other.startswith(f"{name} (") for other in taken)
    return f"{name} ({same + 1})" if same else name


def throttle_count(root: files.Path = "/sys/devices/system/cpu") -> int | None:
    """Returns how often cores slowed down for heat since the start; None where it is unknown."""
    texts = [
        cores.read(p) for p in pathlib.Path(root).glob("cpu*/thermal_throttle/core_throttle_count")
    ]
    counts = [int(text) for text in texts if text.isdigit()]
    return sum(counts) if counts else None


def load_average() -> float | None:
    """Returns the number of busy processes over the last minute, or None where it is unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except (AttributeError, OSError):  # not on Windows
        return None


def version_of(package: str) -> str | None:
    """Returns the installed version of a package, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def command() -> tuple[str, ...]:
    """Returns the command line of this process as others may read it.

    The program is there by name and not by path, and serial numbers are hashed: what `--serial` was
    given is replaced (see `short_hash`), except "all".
    """
    words = [pathlib.PurePath(sys.argv[0]).name]
    for before, word in itertools.pairwise(sys.argv):
        option, equals, value = word.partition("=")
        if _means_serial(before):
            words.append(_without_serial(word))
        elif equals and _means_serial(option):
            words.append(f"{option}={_without_serial(value)}")
        else:
            words.append(safe_paths.without_folders(word))
    return tuple(words)


def short_hash(text: str) -> str:
    """Returns 12 hexadecimal digits in place of what must not be read, such as a serial number."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """Reads the content of Linux's /proc/cpuinfo, empty where there is none.

    Returns model (str or None), cores_physical (int or None), clocks (MHz of each core, or none),
    flags (those of `FLAGS_OF_INTEREST`, in their order).
    """

    def values(key: str) -> list[str]:
        return re.findall(rf"^{key}\s*:\s*(.+?)\s*$", text, flags=re.MULTILINE)

    model = values("model name") or values("Model") or values("Hardware")
    flags = set(" ".join(values("flags")[:1] + values("Features")[:1]).split())
    physical = set(zip(values("physical id"), values("core id"), strict=False))
    return {
        "model": model[0] if model else None,
        "cores_physical": len(physical) or None,
        "clocks": tuple(round(float(value), 1) for value in values("cpu MHz")),
        "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags],
    }


def parse_os_release(text: str) -> str | None:
    """Returns PRETTY_NAME of an os-release file, or None."""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)"?', text, flags=re.MULTILINE)
    return match.group(1) if match else None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _means_serial(option: str) -> bool:
    """Whether argparse takes an option for --serial, which may be cut short."""
    return len(option) > len("--s") and "--serial".startswith(option)


def _without_serial(value: str) -> str:
    return value if value == "all" else short_hash(value)
