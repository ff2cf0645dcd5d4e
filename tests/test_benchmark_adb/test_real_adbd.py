"""The same harness against Android's own adbd, shell and toybox instead of the tests' daemon."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import threading

import pytest
from adb_daemon import launcher, processes, real

from tfdistill import errors
from tfdistill.benchmark import adb, measuring
from tfdistill.benchmark.adb import measuring as on_phones
from tfdistill.benchmark.adb.device_backend import DeviceBackend
from tfdistill.benchmark.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture
def daemon(tmp_path_factory, monkeypatch):
    """A phone of this machine's processor behind the real adbd, and adb that talks to it."""
    stamps = real.RUNTIME.parent.glob("*/tfdistill-stamp")
    program = shutil.which("adb")
    if program is None or not (real.RUNTIME / "tfdistill-stamp").exists():
        if os.environ.get("CI") or any(stamps):  # scripts/runtimes ran here
            pytest.fail("no adbd on this machine: run scripts/runtimes")
        pytest.skip("no adbd on this machine: scripts/runtimes sets it up")
    abi = {"ro__product__cpu__abi": launcher.ABI, "ro__product__cpu__abilist": launcher.ABI}
    phone = real.RealDaemon(tmp_path_factory.mktemp("real"), program, **abi)
    for name, value in phone.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ANDROID_SERIAL", raising=False)
    yield phone
    phone.close()


def test_shells_exit_codes_and_files_are_those_of_android(daemon, tmp_path):
    (phone,) = on_phones.choose()
    version = phone.shell(["sh", "-c", "echo $KSH_VERSION"]).stdout
    assert "MIRBSD KSH" in version  # as on a phone, and no shell of this machine
    done = phone.shell(["sh", "-c", "echo out; echo err >&2; exit 7"], check=False)
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n", "err\n")
    assert phone.shell(["no-such-program"], check=False).exit_code == 127
    odd = "a'b\"c $HOME \\ \n é"
    assert phone.shell(["echo", "-n", odd]).stdout == odd
    answers = phone.ask({"one": "echo 1", "fails": "cat /no/file", "two": "echo 2"})
    assert answers == {"one": "1\n", "fails": "", "two": "2\n"}
    content = os.urandom(3 << 20)
    (tmp_path / "sent").write_bytes(content)
    with phone.folder() as folder:
        phone.push(tmp_path / "sent", f"{folder}/file")
        phone.pull(f"{folder}/file", tmp_path / "back")
        with pytest.raises(errors.BenchmarkError):
            phone.pull(folder, tmp_path / "folder")
    assert (tmp_path / "back").read_bytes() == content
    assert list(daemon.path("/data/local/tmp").iterdir()) == []


def test_a_file_is_measured_and_answers_as_on_the_host(daemon, binary, fast, short, left_on):
    settings = dataclasses.replace(short, affinity="1")
    (result,) = adb.measure(fast, settings=settings, binary=binary)
    assert result.failures == ()
    (row,) = result.measurements
    assert [block.n for block in row.blocks] == [3, 3] and row.affinity == "1"
    assert row.coverage is not None and row.before.thermal_status == 0
    assert result.device.name == "Google Pixel 8"
    assert all(a.argmax_agreement == 1 and a.max_abs_error < 1e-4 for a in result.answers)
    assert left_on(daemon) == []


def test_ctrl_c_ends_what_runs_on_the_device(daemon, binary, fast, short, strike, left_on):
    strike(daemon, "hang", first=1)  # the first block waits for Ctrl-C
    runs = daemon.path("/says/benchmark_model.runs")

    def interrupt():
        processes.wait_until(lambda: runs.exists() and runs.read_text() == "2")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(measuring.BenchmarkInterrupted):
        adb.measure(fast, settings=short, binary=binary)
    processes.wait_until(lambda: not daemon.running())
    assert left_on(daemon) == []


def test_a_run_that_exceeds_its_time_ends_on_the_device(
    daemon, binary, fast, short, strike, left_on
):
    strike(daemon, "hang")
    with pytest.raises(errors.BenchmarkError):
        adb.measure(fast, settings=dataclasses.replace(short, timeout_seconds=2), binary=binary)
    processes.wait_until(lambda: not daemon.running())
    assert left_on(daemon) == []


def test_a_cable_that_is_pulled_leaves_what_was_finished_and_names_the_rest(
    daemon, binary, fast, short, strike, left_on
):
    strike(daemon, "hang", first=3)  # the second repetition
    runs = daemon.path("/says/benchmark_model.runs")

    running = []

    def pull():
        processes.wait_until(lambda: runs.exists() and runs.read_text() == "4")
        running.extend(daemon.running())
        daemon.disconnect()

    threading.Thread(target=pull, daemon=True).start()
    settings = dataclasses.replace(short, repetitions=2)
    (result,) = adb.measure(fast, settings=settings, binary=binary)
    assert len(result.measurements) == 1
    (failure,) = result.failures
    (folder,) = left_on(daemon)
    assert f"rm -rf /data/local/tmp/{folder}" in failure.error
    assert len(running) >= 2  # a shell and the tool: adbd hangs up on them
    processes.wait_until(lambda: not daemon.running())


def test_the_state_of_the_device_is_read(daemon):
    (phone,) = on_phones.choose()
    conditions = DeviceBackend(phone, [], Settings()).conditions()
    assert (conditions.thermal_status, conditions.battery_percent) == (0, 87.0)
    assert conditions.load_average is not None
