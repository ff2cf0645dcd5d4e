"""Several devices at once: their results, Ctrl-C, and a fault of the program itself."""

import os
import signal
import threading
from typing import Any

import pytest

from tfdistill import errors
from tfdistill.benchmark import interruption, schema
from tfdistill.benchmark.adb import parallel, phone
from tfdistill.benchmark.host import places

ROW = schema.Measurement(model="m", sequence_length=8, threads=1, repetition=0)


@pytest.fixture
def phones():
    return [phone.Phone("/no/adb", serial) for serial in "abc"]


def measured(phones, work):
    """Measures with `work`; a result is told by the serial of its device and its rows."""
    found = [places.Findings() for _ in phones]
    results: list[Any] = parallel.measure_on_each(
        phones,
        found,
        work,
        lambda device, one: (device.serial, len(one.measurements)),  # pyright: ignore[reportArgumentType]
    )
    return results


def wait_for_a_stop(device):
    with pytest.raises(KeyboardInterrupt):
        device.rest(60)


def test_devices_are_measured_at_the_same_time_and_come_in_their_order(phones):
    all_at_once = threading.Barrier(len(phones), timeout=60)

    def work(device, found):
        all_at_once.wait()
        found.measurements += [ROW] * ("abc".index(device.serial) + 1)

    assert measured(phones, work) == [("a", 1), ("b", 2), ("c", 3)]


def test_a_device_on_which_all_failed_has_a_result_beside_the_others(phones):
    def work(device, found):
        if device.serial == "b":
            found.failures.append(schema.Failure(what="all", error="lost"))
        else:
            found.measurements.append(ROW)

    assert measured(phones, work) == [("a", 1), ("b", 0), ("c", 1)]


def test_nothing_at_all_is_an_error_that_says_each_reason_once(phones):
    def work(device, found):
        error = "cold" if device.serial == "c" else "lost"
        found.failures.append(schema.Failure(what=device.serial, error=error))

    with pytest.raises(errors.BenchmarkError, match=r"\Alost\ncold\Z"):
        measured(phones, work)


def test_ctrl_c_stops_every_device_and_keeps_what_was_found(phones):
    started = threading.Barrier(len(phones), timeout=60)

    def work(device, found):
        if device.serial == "a":
            found.measurements.append(ROW)
        started.wait()
        if device.serial == "b":
            os.kill(os.getpid(), signal.SIGINT)
        wait_for_a_stop(device)

    with pytest.raises(interruption.BenchmarkInterrupted) as stopped:
        measured(phones, work)
    assert stopped.value.results == (("a", 1), ("b", 0), ("c", 0))


def test_a_fault_of_the_program_stops_the_other_devices_and_is_not_hidden(phones):
    ended = []

    def work(device, found):
        if device.serial == "b":
            raise ZeroDivisionError("a fault")
        wait_for_a_stop(device)
        ended.append(device.serial)

    with pytest.raises(ZeroDivisionError, match="a fault"):
        measured(phones, work)
    assert sorted(ended) == ["a", "c"]
