import hashlib
import sys

import pytest

from tfdistill.benchmark import environment

CPUINFO = """
processor\t: 0
model name\t: Example 9000
cpu MHz\t\t: 2000.0
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512_vnni something

processor\t: 1
model name\t: Example 9000
cpu MHz\t\t: 3000.0
physical id\t: 0
core id\t\t: 0
flags\t\t: fpu avx2 avx512_vnni something
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\nHardware\t: Example SoC\n"


def test_cpuinfo_of_x86_and_arm_is_read_and_what_cannot_be_found_out_is_none():
    assert environment.parse_cpuinfo(CPUINFO) == {
        "model": "Example 9000",
        "cores_physical": 1,  # two threads of one core
        "clocks": (2000.0, 3000.0),
        "flags": ["avx2", "avx512_vnni"],
    }
    arm = environment.parse_cpuinfo(ARM)
    assert (arm["model"], arm["flags"]) == ("Example SoC", ["asimd", "asimddp", "i8mm"])
    unknown = environment.parse_cpuinfo("")
    assert unknown == {"model": None, "cores_physical": None, "clocks": (), "flags": []}
    assert environment.parse_os_release("ID=x\n") is None
    assert environment.parse_os_release('A=1\nPRETTY_NAME="Debian 12"\n') == "Debian 12"
    assert environment.version_of("no-such-package-anywhere") is None


def test_the_machine_id_is_told_apart_and_not_told(monkeypatch):
    monkeypatch.setattr(environment.cores, "read", lambda path: "1234abcd")
    assert environment.device().id == hashlib.sha256(b"1234abcd").hexdigest()[:12]
    monkeypatch.setattr(environment.cores, "read", lambda path: "")
    assert environment.device().id is None


@pytest.mark.parametrize("option", ["--serial", "--seria", "--se"])
def test_the_command_line_has_hashes_in_the_case_of_serial_numbers(monkeypatch, option):
    digest = hashlib.sha256(b"R5CT1234").hexdigest()[:12]
    arguments = [
        option,
        "R5CT1234",
        f"{option}=R5CT1234",
        "--serial",
        "all",
        "--seed",
        "7",
        "--s=7",
    ]
    monkeypatch.setattr(sys, "argv", ["/home/someone/bin/tfdistill", "benchmark", *arguments])
    assert environment.command() == (
        *("tfdistill", "benchmark", option, digest, f"{option}={digest}", "--serial", "all"),
        *("--seed", "7", "--s=7"),
    )


def test_temperatures_are_read_from_zones_and_monitors(tmp_path):
    for name, content in {
        "thermal/thermal_zone0/type": "x86_pkg_temp\n",
        "thermal/thermal_zone0/temp": "47000\n",
        "thermal/thermal_zone1/type": "acpitz\n",
        "thermal/thermal_zone1/temp": "",  # Linux gives an error for some sensors
        "hwmon/hwmon0/name": "coretemp\n",
        "hwmon/hwmon0/temp1_input": "48500\n",
        "hwmon/hwmon0/temp1_label": "Core 0\n",
        "hwmon/hwmon1/name": "nvme\n",
        "hwmon/hwmon1/temp1_input": "-1000\n",
        "hwmon/hwmon2/name": "nvme\n",
        "hwmon/hwmon2/temp1_input": "39000\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert environment.temperatures_c(tmp_path) == {
        "x86_pkg_temp": 47.0,
        "coretemp Core 0": 48.5,
        "nvme": -1.0,
        "nvme (2)": 39.0,
    }
    assert environment.temperatures_c(tmp_path / "none") == {}


def test_throttling_is_counted_over_all_cores_and_unknown_where_none_tells(tmp_path):
    assert environment.throttle_count(tmp_path) is None
    for core, count in enumerate((3, 4)):
        place = tmp_path / f"cpu{core}" / "thermal_throttle"
        place.mkdir(parents=True)
        (place / "core_throttle_count").write_text(f"{count}\n")
        (place / "core_power_limit_count").write_text("100\n")  # another reason
    assert environment.throttle_count(tmp_path) == 7
