"""What dumpsys and the kernel say, in the forms of several versions of Android."""

from __future__ import annotations

import pathlib

import pytest
from adb_daemon import Daemon
from adb_daemon.phone import set_thermal_status

from tfdistill import errors
from tfdistill.benchmark import schema, settings
from tfdistill.benchmark.adb import conditions, devices
from tfdistill.benchmark.adb.phone import Phone

HEAD = """\
IsStatusOverride: false
ThermalEventListeners:
\tcallbacks: 1
\tkilled: false
\tbroadcasts count: -1
ThermalStatusListeners:
\tcallbacks: 3
\tkilled: false
\tbroadcasts count: -1
"""
# Android 10 on a phone with thermal HAL 2.0.
ANDROID_10 = (
    HEAD
    + """\
Thermal Status: 0
Cached temperatures:
\tTemperature{mValue=27.9, mType=2, mName=battery, mStatus=0}
\tTemperature{mValue=44.100002, mType=0, mName=CPU0, mStatus=0}
HAL Ready: true
HAL connection:
\tThermalHAL 2.0 connected: yes
Current temperatures from HAL:
\tTemperature{mValue=38.7, mType=0, mName=CPU0, mStatus=0}
\tTemperature{mValue=39.2, mType=0, mName=CPU1, mStatus=0}
\tTemperature{mValue=28.1, mType=2, mName=battery, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=5, mType=2, mName=cpu-isolate0}
"""
)
# Android 13: what the service remembers of a sensor is older than what the HAL measures.
ANDROID_13 = (
    HEAD
    + """\
Thermal Status: 2
Cached temperatures:
\tTemperature{mValue=41.5, mType=3, mName=SKIN, mStatus=2}
\tTemperature{mValue=0.0, mType=2, mName=SUBBAT, mStatus=0}
HAL Ready: true
HAL connection:
\tThermalHAL 2.0 connected: yes
Current temperatures from HAL:
\tTemperature{mValue=58.3, mType=0, mName=AP, mStatus=0}
\tTemperature{mValue=0.0, mType=2, mName=SUBBAT, mStatus=0}
\tTemperature{mValue=-99.9, mType=5, mName=PA, mStatus=0}
\tTemperature{mValue=40.8, mType=3, mName=SKIN, mStatus=2}
Current cooling devices from HAL:
Temperature static thresholds from HAL:
\tTemperatureThreshold{mType=3, mName=SKIN, mHotThrottlingThresholds=[NaN, 39.0, 41.0, 43.0, 45.0, \
47.0, 60.0], mColdThrottlingThresholds=[NaN, NaN, NaN, NaN, NaN, NaN, NaN], \
mVrThrottlingThreshold=NaN}
"""
)
# Android 16: AIDL, thresholds and headroom behind.
ANDROID_16 = (
    HEAD
    + """\
Thermal Status: 1
Cached temperatures:
\tTemperature{mValue=36.123, mType=3, mName=VIRTUAL-SKIN, mStatus=1}
HAL Ready: true
HAL connection:
\tThermalHAL AIDL 2  connected: yes
Current temperatures from HAL:
\tTemperature{mValue=45.0, mType=0, mName=BIG, mStatus=0}
\tTemperature{mValue=NaN, mType=9, mName=TPU, mStatus=0}
\tTemperature{mValue=35.98, mType=3, mName=VIRTUAL-SKIN, mStatus=1}
\tTemperature{mValue=33.5, mType=3, mName=VIRTUAL-SKIN, mStatus=0}
Current cooling devices from HAL:
\tCoolingDevice{mValue=0, mType=2, mName=thermal-cpufreq-2}
Temperature static thresholds from HAL:
\tTemperatureThreshold{mType=3, mName=VIRTUAL-SKIN, mHotThrottlingThresholds=[NaN, 39.0, 43.0, \
45.0, 46.5, 52.0, 55.0], mColdThrottlingThresholds=[NaN, NaN, NaN, NaN, NaN, NaN, NaN]}
Temperature headroom thresholds:
[NaN, 0.8, 0.93333334, 1.0, 1.05, 1.2333333, 1.3333334]
"""
)
# Before its HAL is there, the service has only what it remembers.
NO_HAL = (
    HEAD
    + """\
Thermal Status: 0
Cached temperatures:
 Temperature{mValue=30.5, mType=3, mName=TYPE_SKIN, mStatus=0}
HAL Ready: false
"""
)


@pytest.mark.parametrize(
    "text, status, temperatures",
    [
        (ANDROID_10, 0, {"CPU0": 38.7, "CPU1": 39.2, "battery": 28.1}),
        (ANDROID_13, 2, {"AP": 58.3, "SKIN": 40.8}),
        (ANDROID_16, 1, {"BIG": 45.0, "VIRTUAL-SKIN": 35.98, "VIRTUAL-SKIN (2)": 33.5}),
        (NO_HAL, 0, {"TYPE_SKIN": 30.5}),
        ("Can't find service: thermalservice\n", None, {}),  # Android 9
        ("", None, {}),
        ("Thermal Status: -1\n", None, {}),
        ("Thermal Status: 77\n", None, {}),
        ("Thermal Status: 3", 3, {}),
    ],
)
def test_the_thermal_service_is_read(text, status, temperatures):
    assert conditions.parse_thermal(text) == (status, temperatures)


# Android 9.
BATTERY_9 = """\
Current Battery Service state:
  AC powered: false
  USB powered: true
  Wireless powered: false
  Max charging current: 500000
  Max charging voltage: 5000000
  Charge counter: 1815000
  status: 2
  health: 2
  present: true
  level: 57
  scale: 100
  voltage: 3925
  temperature: 282
  technology: Li-ion
"""
# Android 14, with lines of a maker behind that repeat keys.
BATTERY_14 = """\
Current Battery Service state:
  AC powered: false
  USB powered: false
  Wireless powered: false
  Dock powered: false
  Max charging current: 0
  status: 3
  health: 2
  present: true
  level: 150
  scale: 200
  voltage: 4112
  temperature: -15
  technology: Li-ion
  Charging state: 0
  batteryMiscEvent: 65536
  current now: -321
BatteryInfoBackUp
  mSavedBatteryMaxTemp: 490
  level: 1
  temperature: 999
"""


def test_the_battery_is_read():
    read = conditions.parse_battery
    assert read(BATTERY_9) == conditions.Battery(57.0, 28.2, True)
    assert read(BATTERY_14) == conditions.Battery(75.0, -1.5, False)
    dock = BATTERY_14.replace("Dock powered: false", "Dock powered: true")
    assert read(dock).charging is True
    none = BATTERY_9.replace("present: true", "present: false")
    assert read(none) == conditions.Battery(None, None, True)
    assert read("") == conditions.Battery(None, None, None)
    assert read("  level: many\n  scale: 0\n") == conditions.Battery(None, None, None)


def test_the_clocks_come_in_the_order_of_the_cores_and_a_core_that_is_off_has_0():
    text = "/sys/x/cpu0 300000\n/sys/x/cpu1\n/sys/x/cpu10 2000000\n/sys/x/cpu2 1500500\n"
    assert conditions.clocks_mhz(text) == (300.0, 0.0, 1500.5, 2000.0)
    assert conditions.clocks_mhz("/sys/x/cpu0\n/sys/x/cpu1\n") == ()
    assert conditions.clocks_mhz("") == ()


def test_what_a_device_does_not_tell_is_none_or_empty():
    nothing = dict.fromkeys(("thermal", "battery", "load", "clocks"), "")
    assert conditions.parse(nothing, "now") == schema.Conditions(time="now")


@pytest.mark.slow
def test_the_state_of_a_device_is_read_in_one_trip(connect):
    daemon = connect()
    (phone,) = devices.choose([daemon.serial])
    found = conditions.read(phone)
    assert found.thermal_status == 0
    assert found.temperatures_c == {"VIRTUAL-SKIN": 32.5, "battery": 29.8}
    assert (found.battery_percent, found.battery_temperature_c) == (87.0, 29.8)
    assert found.charging is True
    assert found.load_average == 1.25
    assert found.frequencies_mhz == (*(852.0,) * 4, *(1183.5,) * 4, 1457.0)
    assert len(daemon.commands) == 1


@pytest.mark.slow
def test_what_the_device_may_not_tell_is_left_out(connect):
    daemon = connect()
    (phone,) = devices.choose([daemon.serial])
    daemon.path("/says/dumpsys/thermalservice").unlink()
    daemon.path("/proc/loadavg").unlink()
    found = conditions.read(phone)
    assert (found.thermal_status, found.temperatures_c, found.load_average) == (None, {}, None)
    assert found.battery_percent == 87.0  # the answers behind a failure are not shifted


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
def test_a_warm_device_is_waited_for_until_it_is_cool(connect):
    daemon = connect()
    (phone,) = devices.choose([daemon.serial])
    set_thermal_status(daemon.root, 2)
    cooling = Cooling(daemon, phone, rests=3)
    wanted = settings.Settings(cool_timeout_seconds=60)
    found = conditions.wait_until_cool(phone, wanted, clock=cooling.clock)
    assert found.thermal_status == 0
    assert cooling.rests == [5.0, 5.0, 5.0]


@pytest.mark.slow
def test_a_device_that_stays_warm_is_not_waited_for_longer_than_was_said(connect):
    daemon = connect()
    (phone,) = devices.choose([daemon.serial])
    set_thermal_status(daemon.root, 3)
    cooling = Cooling(daemon, phone, rests=100)
    wanted = settings.Settings(cool_timeout_seconds=12)
    found = conditions.wait_until_cool(phone, wanted, clock=cooling.clock)
    assert found.thermal_status == 3
    assert cooling.rests == [5.0, 5.0, 2.0]


def test_a_rest_ends_when_the_phone_is_stopped(tmp_path: pathlib.Path):
    phone = Phone(str(tmp_path / "adb"), "x")
    phone.stop()
    with pytest.raises(KeyboardInterrupt):
        phone.rest(1000)


@pytest.mark.slow
def test_a_device_that_is_lost_has_no_conditions(connect):
    daemon = connect()
    (phone,) = devices.choose([daemon.serial])
    daemon.faults.lost_at = "thermalservice"
    with pytest.raises(errors.DeviceLostError):
        conditions.read(phone)
