"""The stand-in for a phone, as adb itself sees it: the protocol and the faults."""

from __future__ import annotations

import os
import subprocess

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def run(adb, connect):
    """Runs adb with a phone: arguments -> what it did."""
    daemon = connect()

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [adb, "-s", daemon.serial, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    call.daemon = daemon
    return call


def test_the_shell_keeps_both_outputs_and_the_exit_code_apart(run):
    done = run("shell", "echo a; echo b >&2; exit 9")
    assert (done.stdout, done.stderr, done.returncode) == ("a\n", "b\n", 9)


def test_the_folders_of_the_device_are_its_own(run):
    done = run("shell", "cat /proc/loadavg && echo x > /data/local/tmp/y && cat /data/nowhere/z")
    assert done.stdout == "1.25 1.10 1.05 2/3456 12345\n"
    assert run.daemon.path("/data/local/tmp/y").read_text() == "x\n"
    assert done.stderr == "cat: /data/nowhere/z: No such file or directory\n"


def test_only_the_programs_of_the_device_are_there(run):
    assert run("shell", "python3 --version").returncode == 127
    assert run("shell", "getprop ro.product.model").stdout == "Pixel 8\n"


def test_large_files_and_folders_go_there_and_back(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "large").write_bytes(os.urandom(1_300_000))
    (tmp_path / "in" / "empty").touch()
    assert run("push", str(tmp_path / "in"), "/data/local/tmp/in").returncode == 0
    assert run("pull", "/data/local/tmp/in", str(tmp_path / "out")).returncode == 0
    for name in ("large", "empty"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "in" / name).read_bytes()


def test_a_device_that_is_lost_stays_lost(run):
    run.daemon.faults.lost_at = "echo begun"
    assert run("shell", "echo begun; sleep 100").stdout == "begun\n"  # adb may even end with 0
    assert run("shell", "true").returncode == 1


def test_a_shell_is_hung_up_on_when_adb_ends(run, adb):
    command = [adb, "-s", run.daemon.serial, "shell", "echo begun; exec sleep 100"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert process.stdout is not None and process.stdout.readline() == b"begun\n"
    process.kill()
    process.communicate()
    assert run.daemon.processes[-1].wait(30) == -1  # SIGHUP
