"""What dumpsys prints, in the forms of several versions of Android."""

from __future__ import annotations

import pytest

from tfdistill.benchmark.adb import device_backend

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
OVERRIDDEN = ANDROID_13.replace("IsStatusOverride: false", "IsStatusOverride: true")


@pytest.mark.parametrize(
    "text, status, temperatures",
    [
        (ANDROID_13, 2, {"AP": 58.3, "SKIN": 40.8}),
        (ANDROID_16, 1, {"BIG": 45.0, "VIRTUAL-SKIN": 35.98, "VIRTUAL-SKIN (2)": 33.5}),
        (NO_HAL, None, {"TYPE_SKIN": 30.5}),
        (OVERRIDDEN, None, {"AP": 58.3, "SKIN": 40.8}),
        ("Can't find service: thermalservice\n", None, {}),  # Android 9
        ("", None, {}),
        ("Thermal Status: -1\n", None, {}),
        ("Thermal Status: 77\n", None, {}),
        ("Thermal Status: 3", 3, {}),
        ("Thermal Status: 0", 0, {}),
    ],
)
def test_the_thermal_service_is_read(text, status, temperatures):
    thermal = device_backend.read_thermal(text)
    assert thermal[:2] == (status, temperatures)
    assert (thermal.unknown == "") == (status is not None)


def test_a_status_that_no_sensor_measured_is_unknown_and_says_why():
    assert device_backend.read_thermal(NO_HAL).unknown == "`HAL Ready: false`"
    assert device_backend.read_thermal(OVERRIDDEN).unknown == "`IsStatusOverride: true`"
    assert "Thermal Status:" in device_backend.read_thermal("").unknown


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
    read = device_backend.read_battery
    assert read(BATTERY_9) == (57.0, 28.2, True)
    assert read(BATTERY_14) == (75.0, -1.5, False)
    dock = BATTERY_14.replace("Dock powered: false", "Dock powered: true")
    assert read(dock)[2] is True
    none = BATTERY_9.replace("present: true", "present: false")
    assert read(none) == (None, None, True)
    assert read("") == (None, None, None)
    assert read("  level: many\n  scale: 0\n") == (None, None, None)
