"""The state of a device, and waiting until it is cool."""

from __future__ import annotations

import pathlib

import pytest
from adb_daemon import Daemon
from adb_daemon.phone import set_thermal_status

from tfdistill import errors
from tfdistill.benchmark import schema, settings
from tfdistill.benchmark.adb import device_backend, measuring
from tfdistill.benchmark.adb.phone import Phone


def backend_of(phone, wanted=None):
    return device_backend.DeviceBackend(phone, [], wanted or settings.Settings())


def test_clocks_come_in_the_order_of_the_cores_and_what_a_device_does_not_tell_is_none():
    text = "/sys/x/cpu0 300000\n/sys/x/cpu1\n/sys/x/cpu10 2000000\n/sys/x/cpu2 1500500\n"
    assert device_backend.clocks_mhz(text) == (300.0, 0.0, 1500.5, 2000.0)
    assert device_backend.clocks_mhz("/sys/x/cpu0\n/sys/x/cpu1\n") == ()
    assert device_backend.clocks_mhz("") == ()
    nothing = dict.fromkeys(("thermal", "battery", "load", "clocks"), "")
    assert device_backend.parse_conditions(nothing, "now") == schema.Conditions(time="now")


@pytest.mark.slow
def test_the_state_of_a_device_is_read_in_one_trip_without_what_it_may_not_tell(connect):
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    conditions = backend_of(phone).conditions()
    assert conditions.thermal_status == 0
    assert conditions.temperatures_c == {"VIRTUAL-SKIN": 32.5, "battery": 29.8}
    assert (conditions.battery_percent, conditions.battery_temperature_c) == (87.0, 29.8)
    assert conditions.charging is True
    assert conditions.load_average == 1.25
    assert conditions.frequencies_mhz == (*(852.0,) * 4, *(1183.5,) * 4, 1457.0)
    assert len(daemon.commands) == 1
    daemon.path("/says/dumpsys/thermalservice").unlink()
    daemon.path("/proc/loadavg").unlink()
    conditions = backend_of(phone).conditions()
    assert (conditions.thermal_status, conditions.temperatures_c, conditions.load_average) == (
        None,
        {},
        None,
    )
    assert conditions.battery_percent == 87.0  # the answers behind a failure are not shifted
    daemon.faults.lost_at = "thermalservice"
    with pytest.raises(errors.DeviceLostError):
        backend_of(phone).conditions()


class Cooling:
    """A clock that moves with the rests of a phone, which cools down after some of them."""

    def __init__(self, daemon: Daemon, phone: Phone, rests: int):
        self.now, self.rests, self.left, self.daemon = 0.0, [], rests, daemon
        phone.rest = self.rest  # pyright: ignore[reportAttributeAccessIssue]

    def rest(self, seconds: float) -> None:
        self.now += seconds
        self.rests.append(seconds)
        self.left -= 1
        if self.left == 0:
            set_thermal_status(self.daemon.root, 0)

    def clock(self) -> float:
        return self.now


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "cools_after", "timeout", "left", "rests"),
    [(2, 3, 60, 0, [5.0, 5.0, 5.0]), (3, 100, 12, 3, [5.0, 5.0, 2.0])],
    ids=["cools down", "stays warm"],
)
def test_a_warm_device_is_waited_for_until_it_is_cool_and_no_longer_than_was_said(
    connect, status, cools_after, timeout, left, rests
):
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    set_thermal_status(daemon.root, status)
    cooling = Cooling(daemon, phone, rests=cools_after)
    wanted = settings.Settings(cool_timeout_seconds=timeout)
    conditions = backend_of(phone, wanted).wait_until_cool(clock=cooling.clock)
    assert (conditions.thermal_status, cooling.rests) == (left, rests)


def test_a_rest_ends_when_the_phone_is_stopped(tmp_path: pathlib.Path):
    phone = Phone(str(tmp_path / "adb"), "x")
    phone.stop()
    with pytest.raises(KeyboardInterrupt):
        phone.rest(1000)
