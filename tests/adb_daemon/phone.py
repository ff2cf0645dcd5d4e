"""The file system of a phone: what its programs and the kernel say, and the programs themselves."""

from __future__ import annotations

import pathlib
import shutil
import sys

DEVICE_BIN = pathlib.Path(__file__).parent / "device_bin"
# What toybox offers on Android, taken from this machine.
BORROWED = (
    *("cat", "chmod", "env", "echo", "kill", "ls", "mkdir", "mv", "rm", "sh", "sleep", "stat"),
    *("sha256sum", "taskset", "wc", "test", "tail", "touch", "true", "false", "cp", "nice"),
    *("dd", "grep"),
)
MAX_KHZ = (*(1_704_000,) * 4, *(2_367_000,) * 4, 2_914_000)  # of each core
PROPERTIES = {
    "ro.build.fingerprint": "google/shiba/shiba:14/AP2A.240805.005/12025142:user/release-keys",
    "ro.build.version.release": "14",
    "ro.build.version.sdk": "34",
    "ro.product.brand": "google",
    "ro.product.cpu.abi": "arm64-v8a",
    "ro.product.cpu.abilist": "arm64-v8a",
    "ro.product.manufacturer": "Google",
    "ro.product.model": "Pixel 8",
    "ro.serialno": "0123456789ABCD",
    "ro.soc.manufacturer": "Google",
    "ro.soc.model": "Tensor G3",
}
THERMAL = """\
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 1
\tkilled: false
\tbroadcasts count: -1
ThermalStatusListeners:
\tcallbacks: 2
\tkilled: false
\tbroadcasts count: -1
Thermal Status: {status}
Cached temperatures:
\tTemperature{{mValue=31.0, mType=3, mName=VIRTUAL-SKIN, mStatus={status}}}
HAL Ready: true
HAL connection:
\tThermalHAL AIDL 1  connected: yes
Current temperatures from HAL:
\tTemperature{{mValue=32.5, mType=3, mName=VIRTUAL-SKIN, mStatus={status}}}
\tTemperature{{mValue=29.8, mType=2, mName=battery, mStatus=0}}
Current cooling devices from HAL:
\tCoolingDevice{{mValue=0, mType=2, mName=thermal-cpufreq-0}}
"""
BATTERY = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  status: 2
  health: 2
  present: true
  level: 87
  scale: 100
  voltage: 4201
  temperature: 298
  technology: Li-ion
"""


def make_phone(root: pathlib.Path, **properties: str) -> pathlib.Path:
    """Makes the file system of a phone with four little, four middle and one big core.

    Args:
      root: The folder to fill.
      **properties: System properties to change, with "__" for each "."; an empty one is left out.

    Returns:
      `root`.
    """
    for folder in ("data/local/tmp", "sdcard/Android/data", "system/bin", "says/dumpsys", "proc"):
        (root / folder).mkdir(parents=True)
    values = {**PROPERTIES, **{k.replace("__", "."): v for k, v in properties.items()}}
    says = {
        "getprop": "".join(f"[{k}]: [{v}]\n" for k, v in sorted(values.items()) if v),
        "uname": "Linux 5.15.137-android14-11\n",
        "dumpsys/battery": BATTERY,
        "dumpsys/thermalservice": THERMAL.format(status=0),
    }
    for name, text in says.items():
        (root / "says" / name).write_text(text)
    (root / "proc/cpuinfo").write_text(
        "".join(
            f"processor\t: {core}\nBogoMIPS\t: 49.15\n"
            "Features\t: fp asimd evtstrm aes asimdhp asimddp i8mm bf16\n"
            "CPU implementer\t: 0x41\n\n"
            for core in range(len(MAX_KHZ))
        )
    )
    (root / "proc/meminfo").write_text("MemTotal:        7781548 kB\nMemFree:          512000 kB\n")
    (root / "proc/loadavg").write_text("1.25 1.10 1.05 2/3456 12345\n")
    for core, khz in enumerate(MAX_KHZ):
        folder = root / f"sys/devices/system/cpu/cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "cpuinfo_max_freq").write_text(f"{khz}\n")
        (folder / "scaling_cur_freq").write_text(f"{khz // 2}\n")
        (folder / "scaling_governor").write_text("sched_pixel\n")
    for name in BORROWED:
        (root / "system/bin" / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    for program in DEVICE_BIN.iterdir():
        install(root, program)
    return root


def install(root: pathlib.Path, program: pathlib.Path) -> None:
    """Puts a program on the phone's PATH, one in Python so that this Python runs it."""
    installed = root / "system/bin" / program.stem
    if program.suffix == ".py":
        installed.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I "{program}" "$@"\n')
    else:
        shutil.copy(program, installed)
    installed.chmod(0o755)


def set_thermal_status(root: pathlib.Path, status: int) -> None:
    """Makes the phone warm, or cool again."""
    (root / "says/dumpsys/thermalservice").write_text(THERMAL.format(status=status))
