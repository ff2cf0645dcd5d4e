"""Several devices at once: their results, Ctrl-C, and a fault of the program itself."""

import os
import signal
import threading

import benchmark_results
import fake_backend
import pytest

from tfdistill import errors
from tfdistill.benchmark import measuring
from tfdistill.benchmark.adb import measuring as on_phones
from tfdistill.benchmark.adb import phone


@pytest.fixture
def phones():
    return [phone.Phone("/no/adb", serial) for serial in "abc"]


class OnPhone(fake_backend.Backend):
    """A backend of a phone: `work(device)` is asked before each block."""

    def __init__(self, device, work):
        super().__init__("m", self.ask, repetitions=1, rounds=1)
        self.phone, self.where, self.work = device, device.serial, work
        self.device = benchmark_results.PHONE.model_copy(update={"name": device.serial})

    def ask(self, what, action):
        if action == "block":
            self.work(self.phone)


def measured(phones, work):
    """Measures with `work`; a result is known by its device and its number of measurements."""
    backends = [OnPhone(device, work) for device in phones]
    return counted(on_phones.measure_on_each(backends, baseline="m"))


def counted(results):
    return [(result.device.name, len(result.measurements)) for result in results]


def wait_for_a_stop(device):
    device.rest(60)
    pytest.fail("it was not stopped")


def test_devices_are_measured_at_once_and_those_that_fail_have_results_beside_others(phones):
    all_at_once = threading.Barrier(len(phones), timeout=60)
    assert measured(phones, lambda device: all_at_once.wait()) == [("a", 1), ("b", 1), ("c", 1)]

    def work(device):
        if device.serial == "b":
            raise errors.BenchmarkError("lost")

    assert measured(phones, work) == [("a", 1), ("b", 0), ("c", 1)]

    def work(device):
        raise errors.BenchmarkError("cold" if device.serial == "c" else "lost")

    with pytest.raises(errors.BenchmarkError, match=r"\Alost\ncold\Z"):
        measured(phones, work)


def test_ctrl_c_stops_every_device_and_keeps_what_was_found(phones):
    started = threading.Barrier(len(phones), timeout=60)

    def work(device):
        started.wait()
        if device.serial == "b":
            os.kill(os.getpid(), signal.SIGINT)
        if device.serial != "a":
            wait_for_a_stop(device)

    with pytest.raises(measuring.BenchmarkInterrupted) as stopped:
        measured(phones, work)
    assert counted(stopped.value.results) == [("a", 1), ("b", 0), ("c", 0)]


def test_a_fault_of_the_program_stops_the_other_devices_and_is_not_hidden(phones):
    ended = []

    def work(device):
        if device.serial == "b":
            raise ZeroDivisionError("a fault")
        try:
            wait_for_a_stop(device)
        finally:
            ended.append(device.serial)

    with pytest.raises(ZeroDivisionError, match="a fault"):
        measured(phones, work)
    assert sorted(ended) == ["a", "c"]
