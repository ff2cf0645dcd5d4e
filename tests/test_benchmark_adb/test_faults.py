"""What goes wrong on a device ends in a clear error, cleaned up, with what was finished kept."""

import dataclasses
import os
import signal
import threading

import pytest
from adb_daemon import launcher, processes

from tfdistill import errors
from tfdistill.benchmark import adb, measuring

pytestmark = pytest.mark.slow


def still_running(daemon):
    """What the device's shells started and did not end, they themselves included."""
    return processes.of_groups(process.pid for process in daemon.processes)


@pytest.mark.parametrize(
    ("fault", "more", "expected"),
    [
        ("garbage", {}, "output without them"),
        ("truncated", {}, "output without them"),
        ("killed", {"signal": "SIGKILL"}, "end by signal SIGKILL"),
        ("unknown options", {"unknown": ["signature_to_run_for"]}, "does not know signature_to_"),
    ],
)
def test_a_run_that_fails_is_a_failure_and_earlier_ones_are_kept(
    phone, binary, fast, short, strike, left_on, fault, more, expected
):
    daemon = phone()
    strike(daemon, fault, first=3, **more)  # after a first run and two blocks
    (result,) = adb.measure(fast, settings=dataclasses.replace(short, repetitions=2), binary=binary)
    assert [m.repetition for m in result.measurements] == [0]
    assert len(result.failures) == 1 and expected in result.failures[0].error
    assert result.failures[0].what.startswith("fast, 8 tokens, 1 thread(s), xnnpack")
    assert left_on(daemon) == []


def test_a_hang_ends_at_the_timeout_and_nothing_goes_on_running(
    phone, binary, fast, short, strike, left_on
):
    daemon = phone()
    strike(daemon, "hang")
    with pytest.raises(errors.BenchmarkError, match="an end within 2 seconds"):
        adb.measure(fast, settings=dataclasses.replace(short, timeout_seconds=2), binary=binary)
    processes.wait_until(lambda: not still_running(daemon))
    assert left_on(daemon) == []


def test_a_device_that_is_lost_in_a_run_leaves_what_was_finished(
    phone, binary, fast, short, strike
):
    daemon, other = phone("Pixel_8"), phone("Pixel_9")
    daemon.faults.lost_at = "report_peak_memory"  # lost in the first run of the tool
    shown: dict[str, str] = {}
    results = adb.measure(
        fast,
        settings=short,
        serials=[daemon.serial, other.serial],
        binary=binary,
        shown=shown,
    )
    assert [len(result.measurements) for result in results] == [0, 1]
    (failure,) = results[0].failures
    device_id = results[0].device.id
    assert (
        f"was left on {device_id}" in failure.error and f"adb -s {device_id} shell" in failure.error
    )
    assert shown[device_id] == daemon.serial
    assert all(daemon.serial not in result.model_dump_json() for result in results)
    assert "rm -rf /data/local/tmp/tfdistill-" in failure.error
    assert results[1].failures == ()


def test_a_lost_device_keeps_the_repetitions_that_were_finished(phone, binary, fast, short):
    daemon = phone()
    daemon.faults.lost_at = "--output_filepath"  # the answers come behind the measurements
    (result,) = adb.measure(fast, settings=short, binary=binary)
    assert len(result.measurements) == 1 and len(result.failures) == 1
    assert result.summary[0].n == 6


@pytest.mark.parametrize(
    ("fault", "value", "expected"),
    [
        ("full_after", 20_000, "room for it"),
        ("garble", True, "damaged in transit"),
        ("cut_after", 1000, "was left on"),
    ],
)
def test_a_push_that_fails_is_an_error(
    phone, binary, tflite_files, short, left_on, fault, value, expected
):
    daemon = phone()
    setattr(daemon.faults, fault, value)
    with pytest.raises(errors.BenchmarkError, match=expected):
        adb.measure([tflite_files / "slow.tflite"], settings=short, binary=binary)
    if fault != "cut_after":  # that device is gone
        assert left_on(daemon) == []


def test_without_a_binary_or_unauthorized_no_device_is_asked(phone, fast, short, binary):
    daemon = phone()
    with pytest.raises(errors.BenchmarkError):
        adb.measure(fast, settings=short)
    assert daemon.commands == []
    daemon = phone(unauthorized=True)
    with pytest.raises(errors.BenchmarkError, match="accept the dialog"):
        adb.measure(fast, settings=short, serials=[daemon.serial], binary=binary)
    assert daemon.commands == []


def test_a_binary_for_another_processor_is_found_before_it_is_pushed(
    phone, tmp_path, fast, short, left_on
):
    daemon = phone()
    other = launcher.make_binary(tmp_path, launcher.ELSEWHERE)
    with pytest.raises(errors.BenchmarkError, match=f"device's {launcher.ABI}, received one for"):
        adb.measure(fast, settings=short, binary=other)
    assert not any("chmod" in command for command in daemon.commands)
    assert left_on(daemon) == []


def test_a_binary_that_the_device_cannot_run_is_told_by_the_device(connect, tmp_path, fast, short):
    elsewhere = launcher.ELSEWHERE[1]  # it claims to be of the binary's processor
    daemon = connect(ro__product__cpu__abi=elsewhere, ro__product__cpu__abilist=elsewhere)
    other = launcher.make_binary(tmp_path, launcher.ELSEWHERE)
    with pytest.raises(errors.BenchmarkError, match="cannot run the binary"):
        adb.measure(fast, settings=short, binary=other)
    assert not list(daemon.path("/data/local/tmp").iterdir())


def test_half_an_answer_is_no_answer(phone, binary, fast, short, strike, left_on):
    daemon = phone()
    strike(daemon, "half the answers")
    (result,) = adb.measure(fast, settings=short, binary=binary)
    assert len(result.measurements) == 1 and result.answers == ()
    assert "outputs of fast" in result.failures[0].error
    assert left_on(daemon) == []


@pytest.mark.parametrize("repetitions", [1, 2])
def test_ctrl_c_keeps_what_is_finished_and_cleans_up(
    phone, binary, fast, short, strike, left_on, repetitions
):
    daemon = phone()
    strike(daemon, "hang", first=3)  # the second repetition, or the answers, wait for Ctrl-C
    runs = daemon.path("/says/benchmark_model.runs")

    def interrupt():
        processes.wait_until(lambda: runs.exists() and runs.read_text() == "4")
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    settings = dataclasses.replace(short, repetitions=repetitions)
    with pytest.raises(measuring.BenchmarkInterrupted) as stopped:
        adb.measure(fast, settings=settings, binary=binary)
    (result,) = stopped.value.results
    assert len(result.measurements) == 1
    assert measuring.INTERRUPTED in result.failures
    assert ("answer.sh" in "".join(daemon.commands[-2:])) == (repetitions == 1)
    processes.wait_until(lambda: not still_running(daemon))
    assert left_on(daemon) == []


def test_a_full_disk_of_this_machine_keeps_what_was_finished(
    phone, binary, fast, short, left_on, monkeypatch
):
    daemon = phone()

    def fetch(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tfdistill.benchmark.adb.phone.Phone.read", fetch)
    (result,) = adb.measure(fast, settings=short, binary=binary)
    assert len(result.measurements) == 1
    assert "No space left" in result.failures[0].error
    assert left_on(daemon) == []
