"""The cores of this machine: their clocks, which are big and little, and masks of them.

A mask names cores as ``taskset`` does: bit n of a hexadecimal number is core n.
"""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Mapping, Sequence

from tfdistill import errors
from tfdistill.io import files

_ROOT = "/sys/devices/system/cpu"


def resolve(
    affinity: str | None, *, available: Sequence[int] | None = None, root: files.Path = _ROOT
) -> str | None:
    """Turns a hexadecimal mask such as "f0", "big", "little", "all" or None into a mask.

    That is in lower case without 0x; None where all cores may be used. `available` are those that
    this process may use, by default as the system says; `root` is where Linux describes its cores.
    Raises BenchmarkError if it is no mask, names a core that may not be used, or asks for big or
    little cores of a machine whose cores are all alike or of unknown speed; or if this system
    cannot bind a process to cores.
    """
    if affinity is None:
        return None
    usable = allowed() if available is None else sorted(available)
    if affinity == "all":
        return None
    return mask_among(affinity, usable, _speeds(usable, root))


def mask_among(affinity: str, usable: Sequence[int] | None, speeds: Mapping[int, float]) -> str:
    """Returns the mask of some cores, a mask or "big" or "little", of a machine; as `resolve`.

    `usable` are the cores that may be named, None where they are unknown; of `speeds` see
    `cluster`.
    """
    named = affinity not in ("big", "little")
    chosen = cores_of(affinity) if named else cluster(affinity, speeds)
    if usable is not None and (foreign := sorted(set(chosen) - set(usable))):
        expected = f"some of the cores {list(usable)}"
        raise errors.BenchmarkError(f"affinity {affinity}", expected, foreign)
    return mask_of(chosen)


def allowed() -> list[int]:
    """Returns the cores that this process may use, if processes can be bound to cores."""
    if not hasattr(os, "sched_getaffinity"):  # only Linux has it
        raise errors.BenchmarkError(
            "affinity", "Linux", os.name, "Leave it out: the system chooses the cores."
        )
    return sorted(os.sched_getaffinity(0))


def usable() -> list[int]:
    """Returns the cores that this process may use; all where the system binds no process."""
    bound = hasattr(os, "sched_getaffinity")
    return allowed() if bound else list(range(os.cpu_count() or 1))


def cores_of(mask: str) -> list[int]:
    """Returns the cores that a hexadecimal mask names, at least one."""
    if not re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,64}", mask) or int(mask, 16) == 0:
        raise errors.BenchmarkError(
            "affinity",
            'a hexadecimal mask such as f0 (cores 4 to 7), "big", "little" or "all"',
            repr(mask),
        )
    number = int(mask, 16)
    return [core for core in range(number.bit_length()) if number >> core & 1]


def mask_of(cores: Sequence[int]) -> str:
    """Returns the mask that names some cores, in lower case without 0x."""
    return f"{sum(1 << core for core in set(cores)):x}"


def cluster(kind: str, speeds: Mapping[int, float]) -> list[int]:
    """Chooses the "little" cores, which are the slowest kind, or the "big" ones, all others.

    Of the speeds, by number of the core, only the order has a meaning; empty where they are not
    known. Raises BenchmarkError if the cores are all alike, or nothing is known of them.
    """
    slowest = min(speeds.values(), default=0)
    little = [core for core, speed in speeds.items() if speed == slowest]
    big = [core for core in speeds if core not in little]
    if not big:
        raise errors.BenchmarkError(
            f"affinity {kind}",
            "a machine with big and little cores",
            f"{len(speeds)} cores of one kind" if speeds else "cores of unknown speed",
            "Name cores with a mask such as 3 (cores 0 and 1), or leave it out.",
        )
    return big if kind == "big" else little


def frequencies_mhz(root: files.Path = _ROOT) -> tuple[float, ...]:
    """Returns the clock of each core now; empty where Linux does not report it."""
    return _of_each(root, "cpufreq/scaling_cur_freq")


def max_frequencies_mhz(root: files.Path = _ROOT) -> tuple[float, ...]:
    """Returns the highest clock of each core; empty where Linux does not report it."""
    return _of_each(root, "cpufreq/cpuinfo_max_freq")


def _speeds(usable: Sequence[int], root: files.Path) -> dict[int, float]:
    """The capacities of cores, or their highest clocks: only the order has a meaning."""
    speeds: dict[int, float] = {}
    for core in usable:
        names = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
        texts = (read(pathlib.Path(root, f"cpu{core}", name)) for name in names)
        if (speed := next(filter(str.isdigit, texts), None)) is not None:
            speeds[core] = float(speed)
    return speeds if len(speeds) == len(usable) else {}


def _of_each(root: files.Path, name: str) -> tuple[float, ...]:
    folders = sorted(
        (int(path.name[3:]), path)
        for path in pathlib.Path(root).glob("cpu*")
        if path.name[3:].isdigit()
    )
    texts = [read(path / name) for _, path in folders]
    complete = all(text.isdigit() for text in texts)
    return tuple(int(text) / 1000 for text in texts) if complete else ()


def read(path: files.Path) -> str:
    """Reads a file in which Linux describes the machine; empty where there is none."""
    try:
        return pathlib.Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
