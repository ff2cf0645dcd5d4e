"""The adb program, the devices that it lists, and which of them are meant."""

from __future__ import annotations

import os
import pathlib

import pytest
from adb_daemon import processes

from tfdistill import errors
from tfdistill.benchmark.adb import measuring, phone

DEVICES = """\
* daemon not running; starting now at tcp:5037
* daemon started successfully
List of devices attached
8A2X0ABCDE             device usb:1-1 product:shiba model:Pixel_8 device:shiba transport_id:1
emulator-5554          offline transport_id:2
R58N12ABCDE            unauthorized usb:1-2 transport_id:3
0123456789             no permissions (user in plugdev group; are your udev rules wrong?); see \
[http://developer.android.com/tools/device.html] usb:1-3 transport_id:4
192.168.1.20:5555      device product:a54x model:SM_A546B device:a54x transport_id:5

"""
PIXEL = measuring.Listed("8A2X0ABCDE", "device", "Pixel_8")
GALAXY = measuring.Listed("192.168.1.20:5555", "device", "SM_A546B")


@pytest.mark.parametrize(
    ("line", "serials"),
    [
        ("my phone  2              device product:x model:Pixel_8 transport_id:1", ["my phone  2"]),
        ("device                 device usb:1-1 model:Pixel_8", ["device"]),
        ("two words\tdevice model:Pixel_8", ["two words"]),
        ("a-Qw (2)._adb-tls-connect._tcp device model:Pixel_8", ["a-Qw (2)._adb-tls-connect._tcp"]),
        # What adb says of its server.
        ("* daemon not running. starting it now on port 5037 *", []),
        ("* daemon is offline", []),
        ("adb server version (41) doesn't match this client (39); killing...", []),
        ("adb server is out of date.  killing...", []),
    ],
)
def test_a_serial_may_hold_blanks_and_a_remark_of_adb_is_none(line, serials):
    listed = measuring.parse_devices(f"List of devices attached\n{line}\n")
    assert listed == [measuring.Listed(serial, "device", "Pixel_8") for serial in serials]


def test_devices_come_in_the_order_of_the_serials_each_once():
    chosen = measuring.select([PIXEL, GALAXY], [GALAXY.serial, PIXEL.serial, GALAXY.serial])
    assert chosen == [GALAXY, PIXEL]
    assert measuring.select([PIXEL, GALAXY], ["all"]) == [PIXEL, GALAXY]


def test_without_a_choice_several_devices_are_listed_and_none_says_how_to_connect_one():
    with pytest.raises(errors.BenchmarkError, match="USB debugging switched on"):
        measuring.select([], ())
    with pytest.raises(errors.BenchmarkError) as caught:
        measuring.select([PIXEL, GALAXY], ())
    assert "8A2X0ABCDE (Pixel_8), 192.168.1.20:5555 (SM_A546B)" in str(caught.value)
    assert "--serial all" in str(caught.value)


def test_every_device_that_is_not_ready_or_not_there_is_named_with_its_remedy():
    listed = measuring.parse_devices(DEVICES)
    assert (listed[0], listed[4], len(listed)) == (PIXEL, GALAXY, 5)
    assert listed[1] == measuring.Listed("emulator-5554", "offline", "")
    with pytest.raises(errors.BenchmarkError) as caught:
        measuring.select(listed, ["all"])
    lines = str(caught.value).splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "device emulator-5554",
        "device R58N12ABCDE",
        "device 0123456789",
    ]
    assert "adb reconnect offline" in lines[0]
    assert "accept the dialog" in lines[1]
    assert "plugdev" in lines[2]
    with pytest.raises(errors.BenchmarkError, match=r"expected one of .*, received 'nobody'"):
        measuring.select(listed, ["nobody", PIXEL.serial])


def test_a_device_of_the_environment_alone_and_an_adb_too_old_are_told(monkeypatch, tmp_path):
    _program(tmp_path / "adb", "echo 'List of devices attached'; echo 'A1 device model:Old'")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ANDROID_SERIAL", "gone")
    with pytest.raises(errors.BenchmarkError, match=r"^ANDROID_SERIAL: .*A1 \(Old\).*'gone'"):
        measuring.choose()
    with pytest.raises(errors.BenchmarkError, match=r"^--serial: "):
        measuring.choose(["gone"])
    listing = "echo 'List of devices attached'; echo 'A1 device model:Old'"
    usage = "echo 'Android Debug Bridge version 1.0.31: usage' >&2; exit 1"
    _program(tmp_path / "adb", f"if [ $1 = devices ]; then {listing}; else {usage}; fi")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    with pytest.raises(errors.EnvironmentFault, match="Platform-Tools 24 or newer"):
        measuring.choose()


def test_adb_of_the_sdk_is_found_and_a_missing_one_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANDROID_HOME", raising=False)
    monkeypatch.delenv("ANDROID_SDK_ROOT", raising=False)
    with pytest.raises(errors.EnvironmentFault, match="apt-get install adb"):
        phone.find_adb()
    adb = _program(tmp_path / "platform-tools" / "adb", "true")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("ANDROID_HOME", str(tmp_path))
    assert phone.find_adb() == str(adb)


def _program(path: pathlib.Path, script: str) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_an_adb_that_cannot_run_and_a_server_that_does_not_start_are_errors(tmp_path, monkeypatch):
    with pytest.raises(errors.EnvironmentFault, match="expected an answer"):
        measuring.listed(str(tmp_path / "adb"))
    adb = _program(tmp_path / "adb", "echo 'cannot bind tcp:5999' >&2; exit 1")
    monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", "5999")
    with pytest.raises(errors.EnvironmentFault, match=r"cannot bind(.|\n)*port 5999"):
        measuring.listed(str(adb))


def test_endless_output_is_cut_off_and_a_program_that_takes_too_long_killed(monkeypatch, tmp_path):
    monkeypatch.setattr(phone, "MAX_OUTPUT_BYTES", 1 << 20)
    endless = _program(tmp_path / "endless", "while true; do echo yyyyyyyyyyyyyyyyyyyyyyyy; done")
    with pytest.raises(errors.BenchmarkError, match="at most 1 MiB of output"):
        phone.AdbRunner().run([str(endless)], timeout_s=60)
    slow = _program(tmp_path / "slow", f"echo $$ > {tmp_path}/pid; exec sleep 1000")
    with pytest.raises(TimeoutError, match=r"within 0\.5 seconds"):
        phone.AdbRunner().run([str(slow)], timeout_s=0.5)
    if (tmp_path / "pid").exists():  # or it was killed before it wrote that
        assert not processes.alive(int((tmp_path / "pid").read_text()))


def test_ctrl_c_does_not_reach_programs_by_itself_and_none_runs_after_a_stop(tmp_path):
    # A terminal sends it to the whole session: adb would end first, and look like a lost device.
    done = phone.AdbRunner().run(["cat", "/proc/self/stat"], timeout_s=60)
    assert int(done.stdout.rpartition(")")[2].split()[3]) != os.getsid(0)
    device = phone.Phone(str(_program(tmp_path / "adb", f"touch {tmp_path}/ran")), "x")
    device.stop()
    with pytest.raises(KeyboardInterrupt):
        device.shell(["true"])
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_device_without_exit_codes_is_too_old(connect):
    daemon = connect(old=True)
    with pytest.raises(errors.BenchmarkError, match="Android 7 or newer"):
        measuring.choose([daemon.serial])


@pytest.mark.slow
def test_two_devices_are_told_apart(connect, monkeypatch):
    first, second = connect("Pixel_8"), connect("SM_A546B", ro__product__model="SM-A546B")
    with pytest.raises(errors.BenchmarkError, match="--serial all") as caught:
        measuring.choose()
    for daemon in (first, second):
        assert f"{daemon.serial} ({daemon.model})" in str(caught.value)
    monkeypatch.setenv("ANDROID_SERIAL", second.serial)
    (chosen,) = measuring.choose()
    assert (chosen.serial, chosen.model) == (second.serial, "SM_A546B")
    chosen_all = measuring.choose(["all"])
    assert {device.serial for device in chosen_all} == {first.serial, second.serial}
    names = {d.serial: d.shell(["getprop", "ro.product.model"]).stdout for d in chosen_all}
    assert names == {first.serial: "Pixel 8\n", second.serial: "SM-A546B\n"}
