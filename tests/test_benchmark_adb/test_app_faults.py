"""What goes wrong in the app or with its device ends in a clear error, and nothing is left."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest
from adb_daemon.bundles import QUICK, bundle_files, left, subject
from adb_daemon.phone import install_app

from tfdistill import errors
from tfdistill.benchmark.adb import app
from tfdistill.benchmark.settings import Settings

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("fails", "received out of memory"),
        ("crashes", r"process is gone after 1 of 4(.|\n)*FATAL EXCEPTION: main"),
        ("no permission", r"the shell may start(.|\n)*android\.permission\.DUMP"),
        ("garbled state", r"a state of format_version 1(.|\n)*different versions"),
        ("foreign keys", r"benchmark\.json of format_version 2, received surprise"),
        ("cut off", r"benchmark\.json of format_version 2, received a fault"),
        ("too large", "expected at most 67108864 bytes, received 1073741824 bytes"),
        ("other places", "received several repetitions"),
        ("foreign answers", r"received answers of .*, 32 tokens, 1 thread\(s\), nnapi"),
        ("leaves places out", r"none at 32 tokens on 2 thread\(s\), 64 tokens on 1 thread"),
        ("no durations", "durations of more than 0 ms"),
    ],
)
def test_an_app_that_goes_wrong_is_a_clear_error_and_leaves_nothing(
    connect, measure_in_app, tmp_path, fault, expected
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), fault=fault)
    crash = "E AndroidRuntime: FATAL EXCEPTION: main\nE AndroidRuntime: java.lang.OutOfMemoryError"
    daemon.path("/says/logcat").write_text(crash)
    with pytest.raises(errors.BenchmarkError, match=expected):
        measure_in_app([file], settings=QUICK)
    assert left(daemon) == []
    assert sum("am start" in c for c in daemon.commands) == 1  # it would fail again


def test_a_gpu_that_answers_differently_is_a_failure_and_the_cpu_is_measured(
    connect, measure_in_app, tmp_path
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), fault="other answers on the GPU")
    settings = dataclasses.replace(QUICK, delegates=("gpu", "xnnpack"))
    (measured,) = measure_in_app([file], settings=settings)
    assert {m.delegate for m in measured.measurements} == {"xnnpack"}
    (failure,) = measured.failures
    assert "gpu, repetition 0" in failure.what and "received 0.7" in failure.error
    assert sum("accelerator gpu" in c for c in daemon.commands) == 1  # it would fail again
    assert left(daemon) == []


def test_figures_of_a_gpu_without_its_answers_are_none(connect, measure_in_app, tmp_path):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), fault="no answers")
    (measured,) = measure_in_app([file], settings=QUICK)
    assert measured.failures == () and measured.answers == ()  # a CPU's need not be compared
    settings = dataclasses.replace(QUICK, delegates=("gpu",))
    with pytest.raises(errors.BenchmarkError, match="fast and wrong is no figure, received none"):
        measure_in_app([file], settings=settings)
    assert left(daemon) == []


def test_an_app_that_hangs_is_ended_when_patience_is(connect, measure_in_app, tmp_path):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), fault="hangs")
    settings = Settings(warmup=0, runs=1, rounds=1, repetitions=1, timeout_seconds=0.5)
    with pytest.raises(
        errors.BenchmarkError,
        match=r"a further measurement within 0\.5 seconds, received 1 of 2 measurements",
    ):
        measure_in_app([file], settings=settings)
    assert left(daemon) == []
    assert not daemon.path("/says/app.pid").exists()  # ended by force-stop


def test_an_app_that_is_not_there_or_lacks_the_activity_is_an_error(
    connect, measure_in_app, tmp_path
):
    daemon = connect()
    file = subject(tmp_path)
    with pytest.raises(errors.BenchmarkError, match=r"an installed one(.|\n)*adb install"):
        measure_in_app([file], settings=QUICK)
    install_app(daemon.root, bundle_files(file), package="com.example.app")
    daemon.path("/system/bin/am").write_text(
        "#!/bin/sh\necho 'Error type 3'\necho 'Error: Activity class {x} does not exist.'\n"
    )
    with pytest.raises(errors.BenchmarkError, match="an app with a BenchmarkActivity"):
        measure_in_app([file], settings=QUICK, package="com.example.app")


@pytest.mark.parametrize(
    ("service", "printed", "received"),
    [
        ("power", "  mWakefulness=Dozing\n", "wakefulness Dozing, keyguard hidden"),
        ("power", "Permission Denial\n", "wakefulness not reported, keyguard hidden"),
        ("window", "  KeyguardServiceDelegate\n    showing=true\n", "Awake, keyguard shown"),
        ("window", "", "Awake, keyguard not reported"),
    ],
)
def test_a_device_that_is_not_known_to_be_awake_and_unlocked_is_not_measured(
    connect, measure_in_app, tmp_path, service, printed, received
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file))
    daemon.path(f"/says/dumpsys/{service}").write_text(printed)
    with pytest.raises(errors.BenchmarkError, match=rf"received .*{received}\. Wake and unlock"):
        measure_in_app([file], settings=QUICK)
    assert not any("am start" in c for c in daemon.commands)


def test_a_screen_that_locks_between_two_starts_is_a_failure(
    connect, measure_in_app, tmp_path, monkeypatch
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file))
    run = app.start_once

    def lock_after(*arguments, **options):
        measured = run(*arguments, **options)
        daemon.path("/says/dumpsys/window").write_text("KeyguardServiceDelegate\n showing=true\n")
        return measured

    monkeypatch.setattr(app, "start_once", lock_after)
    (measured,) = measure_in_app([file], settings=QUICK)
    assert {m.repetition for m in measured.measurements} == {0}
    (failure,) = measured.failures
    assert "keyguard shown" in failure.error
    assert sum("am start" in c for c in daemon.commands) == 1


def test_another_file_in_the_app_is_an_error_and_the_others_are_measured(
    connect, measure_in_app, tmp_path
):
    daemon = connect()
    files = [subject(tmp_path, "good"), subject(tmp_path, "other"), subject(tmp_path, "absent")]
    bundles = bundle_files(*files[:2])
    bundles["other-float32"]["sha256"] = "ab" * 32
    install_app(daemon.root, bundles)
    (measured,) = measure_in_app(files, settings=QUICK)
    assert {m.model for m in measured.measurements} == {"good"}
    assert len(measured.measurements) == 2 * 4
    other, absent = sorted(measured.failures, key=lambda f: f.what, reverse=True)
    assert "other in io.github" in other.what and "build and install it again" in other.error
    assert "expected one of [good-float32, other-float32]" in absent.error
    assert left(daemon) == []


def test_a_device_that_is_lost_keeps_what_was_finished_and_names_what_is_left(
    connect, measure_in_app, tmp_path, monkeypatch
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file))
    run = app.start_once

    def lose_in_the_second(*arguments, **options):
        if any("am start" in command for command in daemon.commands):
            daemon.faults.lost_at = "pidof"
        return run(*arguments, **options)

    monkeypatch.setattr(app, "start_once", lose_in_the_second)
    (measured,) = measure_in_app([file], settings=QUICK)
    assert {m.repetition for m in measured.measurements} == {0}
    (failure,) = measured.failures
    assert failure.what == f"the rest on {measured.device.id}"
    left = rf"benchmark/tfdistill-\w+\.\* was left on {measured.device.id}:"
    assert re.search(left, failure.error)
    assert daemon.serial not in measured.model_dump_json()
    assert measured.after is None


def test_a_throttled_repetition_is_repeated_and_then_given_up(
    connect, measure_in_app, tmp_path, monkeypatch
):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), thermal_status=2)
    settings = Settings(
        warmup=0, runs=2, rounds=1, repetitions=1, lengths=(32,), when_throttled="repeat",
        max_repeats=1,
    )  # fmt: skip
    (measured,) = measure_in_app([file], settings=settings)
    left_out = [m.left_out for m in measured.measurements]
    assert left_out == ["the device throttled (thermal status 2)"] * 2
    assert "stays cool within 2 tries" in measured.failures[0].error
    (flagged,) = measure_in_app(
        [file], settings=Settings(warmup=0, runs=2, rounds=1, repetitions=1)
    )
    assert {m.left_out for m in flagged.measurements} == {""}
    assert all(row.throttled for row in flagged.summary)


def test_two_phones_are_measured_side_by_side(connect, measure_in_app, tmp_path):
    first, second = connect("A"), connect("B", ro__product__model="Other", ro__serialno="S2")
    file = subject(tmp_path)
    for daemon in (first, second):
        install_app(daemon.root, bundle_files(file))
    daemon.faults.lost_at = "am start"
    wanted = [first.serial, second.serial]
    one, other = measure_in_app([file], settings=QUICK, serials=wanted)
    assert one.device.name == "Google Pixel 8" and len(one.measurements) == 8
    assert other.device.name == "Google Other" and other.measurements == ()
    assert "the end of the connection" in other.failures[0].error


INTERRUPTED = """
import pathlib, sys
sys.path.insert(0, {tests!r})
from adb_daemon import bundles
from tfdistill.benchmark import adb, measuring
from tfdistill.benchmark.adb import measuring as on_phones
subject = bundles.subject(pathlib.Path({folder!r}))
on_phones.open_all = lambda *_: [subject]
try:
    adb.measure_in_app(["file"], settings=bundles.QUICK, serials=[{serial!r}])
except measuring.BenchmarkInterrupted as error:
    print(len(error.results), flush=True)
    sys.exit(130)
"""


def test_ctrl_c_ends_the_app_and_leaves_nothing(connect, tmp_path):
    daemon = connect()
    file = subject(tmp_path)
    install_app(daemon.root, bundle_files(file), fault="hangs")
    tests = pathlib.Path(__file__).parents[1]
    program = INTERRUPTED.format(tests=str(tests), folder=str(tmp_path), serial=daemon.serial)
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for _ in range(1200):
        if any(".state.json" in name for name in left(daemon)):
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "0\n")
    assert left(daemon) == []
    assert not daemon.path("/says/app.pid").exists()
