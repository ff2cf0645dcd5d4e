"""The circumstances of a measurement: processor, memory, clock, kernel, versions, load."""

from __future__ import annotations

import importlib.metadata
import os
import pathlib
import platform
import re
import sys
from typing import Any

# Instruction sets that decide how fast LiteRT's kernels run (x86, then Arm).
FLAGS_OF_INTEREST = (
    *("avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512_vnni", "avx_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16"),
    *("asimd", "asimdhp", "asimddp", "i8mm", "bf16", "sve", "sve2", "sme"),
)
RUNTIME_PACKAGES = ("ai_edge_litert", "numpy", "tokenizers")


def describe() -> dict[str, Any]:
    """Describes this machine and the runtime; what cannot be found out is None.

    Returns:
      The `environment` block of a benchmark result, without the load averages.
    """
    cpu = parse_cpuinfo(_read("/proc/cpuinfo"))
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip()
    khz = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq").strip()
    return {
        "cpu_model": cpu["model"] or platform.processor() or platform.machine() or None,
        "architecture": platform.machine(),
        "cores_logical": os.cpu_count(),
        "cores_physical": cpu["cores_physical"],
        "cpu_flags_of_interest": cpu["flags"],
        "memory_bytes": _memory_bytes(),
        "governor": governor or None,
        "frequency_mhz": int(khz) / 1000 if khz.isdigit() else cpu["frequency_mhz"],
        "kernel": f"{platform.system()} {platform.release()}",
        "os": parse_os_release(_read("/etc/os-release")) or platform.platform(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "runtime": {name: version_of(name) for name in RUNTIME_PACKAGES},
    }


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


def command() -> list[str]:
    """Returns the command line of this process, its program by name and not by place."""
    return [pathlib.PurePath(sys.argv[0]).name, *sys.argv[1:]]


def parse_cpuinfo(text: str) -> dict[str, Any]:
    """Reads Linux's /proc/cpuinfo.

    Args:
      text: Its content, empty where there is none.

    Returns:
      model (str or None), cores_physical (int or None), frequency_mhz (float or None), flags
      (those of `FLAGS_OF_INTEREST`, in their order).
    """

    def values(key: str) -> list[str]:
        return re.findall(rf"^{key}\s*:\s*(.+?)\s*$", text, flags=re.MULTILINE)

    model = values("model name") or values("Model") or values("Hardware")
    flags = set(" ".join(values("flags")[:1] + values("Features")[:1]).split())
    clocks = [float(value) for value in values("cpu MHz")]
    cores = set(zip(values("physical id"), values("core id"), strict=False))
    return {
        "model": model[0] if model else None,
        "cores_physical": len(cores) or None,
        "frequency_mhz": round(sum(clocks) / len(clocks), 1) if clocks else None,
        "flags": [flag for flag in FLAGS_OF_INTEREST if flag in flags],
    }


def parse_os_release(text: str) -> str | None:
    """Returns PRETTY_NAME of an os-release file, or None."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]*)"?', text, flags=re.MULTILINE)
    return found.group(1) if found else None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _read(path: str) -> str:
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
