"""A device by the real adb client: commands, files, the private folder, and how they end."""

from __future__ import annotations

import pathlib
import re
import signal
import subprocess

import pytest
from adb_daemon import Daemon, processes

from tfdistill import errors
from tfdistill.benchmark.adb import measuring, phone


def the_phone(daemon: Daemon) -> phone.Phone:
    (chosen,) = measuring.choose([daemon.serial])
    return chosen


def left_on(daemon: Daemon) -> list[str]:
    return sorted(path.name for path in daemon.path(phone.TEMPORARY).iterdir())


@pytest.mark.slow
def test_a_file_goes_there_and_back_and_is_checked(connect, tmp_path):
    daemon = connect()
    device = the_phone(daemon)
    (tmp_path / "model.tflite").write_bytes(bytes(range(256)) * 1000)
    with device.folder() as folder:
        assert re.fullmatch(r"/data/local/tmp/tfdistill-[0-9a-f]{12}", folder)
        assert daemon.path(folder).stat().st_mode & 0o777 == 0o700
        device.push(tmp_path / "model.tflite", f"{folder}/m.tflite")
        device.pull(f"{folder}/m.tflite", tmp_path / "back")
        with pytest.raises(errors.BenchmarkError, match="at most 1000 bytes"):
            device.pull(f"{folder}/m.tflite", tmp_path / "large", max_bytes=1000)
        with pytest.raises(errors.BenchmarkError, match="expected a file"):
            device.pull(folder, tmp_path / "folder")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "model.tflite").read_bytes()
    assert not (tmp_path / "large").exists() and not (tmp_path / "folder").exists()
    assert left_on(daemon) == []


@pytest.mark.slow
def test_a_file_whose_name_looks_like_an_option_is_pushed(connect, tmp_path, monkeypatch):
    daemon = connect()
    monkeypatch.chdir(tmp_path)
    pathlib.Path("--sync").write_bytes(b"model")
    the_phone(daemon).push("--sync", "/data/local/tmp/m")
    assert daemon.path("/data/local/tmp/m").read_bytes() == b"model"


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.DeviceLostError("why"), errors.DeviceLostError),
        (errors.ManifestError("why"), errors.BenchmarkError),
        (OSError("why"), errors.BenchmarkError),  # of this machine, such as a full disk
        (ZeroDivisionError("why"), RuntimeError),  # a fault of the program stays one
    ],
)
def test_what_was_left_is_said_beside_what_went_wrong(error, kind):
    raised = phone.with_what_is_left(error, "a folder")
    assert type(raised) is kind and str(raised) == "why\na folder"


@pytest.mark.slow
@pytest.mark.parametrize("with_sha256sum", [True, False])
def test_a_file_that_arrives_damaged_is_an_error(connect, tmp_path, with_sha256sum):
    daemon = connect()
    device = the_phone(daemon)
    (tmp_path / "m").write_bytes(b"0123456789")
    if not with_sha256sum:
        daemon.path("/system/bin/sha256sum").unlink()
        device.push(tmp_path / "m", "/data/local/tmp/whole")  # read back and compared
    daemon.faults.garble = True
    with pytest.raises(errors.BenchmarkError, match=r"expected SHA-256 84d8.*damaged"):
        device.push(tmp_path / "m", "/data/local/tmp/m")


@pytest.mark.slow
def test_a_device_lost_amid_a_command_is_not_taken_for_success(connect):
    # adb itself ends with 0 then, and the output looks whole.
    daemon = connect()
    device = the_phone(daemon)
    daemon.faults.lost_at = "begun"
    with pytest.raises(errors.DeviceLostError, match="the end of the connection"):
        device.shell(["sh", "-c", "echo $$ > /data/local/tmp/pid; echo begun; exec sleep 1000"])
    assert processes.ends(int(daemon.path("/data/local/tmp/pid").read_text()))
    with pytest.raises(errors.DeviceLostError):
        device.shell(["true"])


def test_ctrl_c_kills_a_program_that_is_being_started(monkeypatch):
    real, started = subprocess.Popen, []

    def slow_start(*arguments, **options):
        started.append(real(*arguments, **options))
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", slow_start)
    with pytest.raises(KeyboardInterrupt):
        phone.AdbRunner().run(["sleep", "1000"], timeout_s=100)
    assert started[0].poll() == -signal.SIGKILL
