"""What a device says of itself, and the cores that "big" and "little" mean."""

from __future__ import annotations

import hashlib

import pytest

from tfdistill import errors
from tfdistill.benchmark.adb import device_backend, measuring
from tfdistill.benchmark.adb.device_backend import parse_environment

NAMES = (
    *("properties", "cpuinfo", "meminfo", "kernel", "max_clocks", "capacities", "governor"),
    "programs",
)


def answers(**printed: str) -> dict[str, str]:
    return {**dict.fromkeys(NAMES, ""), **printed}


def properties(**values: str) -> str:
    return "".join(f"[{name.replace('__', '.')}]: [{value}]\n" for name, value in values.items())


def clocks(*khz: int) -> str:
    return "".join(f"/sys/devices/system/cpu/cpu{n} {value}\n" for n, value in enumerate(khz))


def test_properties_are_read_and_empty_ones_left_out():
    text = "[ro.product.model]: [Pixel 8]\n[ro.x]: []\n[a.b]: [with [brackets]: and more]\nno\n"
    expected = {"ro.product.model": "Pixel 8", "a.b": "with [brackets]: and more"}
    assert device_backend.parse_properties(text) == expected


def described(serial="x", **values: str) -> device_backend.DeviceEnvironment:
    return parse_environment(answers(properties=properties(**values)), serial)


@pytest.mark.parametrize(
    "values, kind",
    [
        ({"ro__product__model": "Pixel 8", "ro__hardware": "shiba"}, "phone"),
        ({"ro__kernel__qemu": "1"}, "emulator"),  # to Android 11
        ({"ro__boot__qemu": "1"}, "emulator"),  # from Android 12
        ({"ro__kernel__qemu": "0", "ro__hardware": "qcom"}, "phone"),
        ({"ro__hardware": "ranchu"}, "emulator"),
        ({"ro__hardware": "goldfish"}, "emulator"),
        ({"ro__hardware": "cutf_cvm"}, "emulator"),
        ({"ro__product__device": "vsoc_x86_64"}, "emulator"),
        ({"ro__product__name": "sdk_gphone64_x86_64"}, "emulator"),
        ({"ro__build__fingerprint": "generic/sdk:15"}, "emulator"),
    ],
)
def test_an_emulator_is_no_phone(values, kind):
    assert described(**values).kind == kind


def test_a_device_and_its_system_on_a_chip_are_named_as_android_allows():
    def name(maker: str, model: str) -> str:
        values = {"ro__product__manufacturer": maker, "ro__product__model": model}
        return described(**values).device.name

    assert name("Google", "Pixel 8") == "Google Pixel 8"
    assert name("samsung", "SM-A546B") == "Samsung SM-A546B"
    assert name("HUAWEI", "HUAWEI P30") == "HUAWEI P30"
    assert name("", "") == "unknown device"
    new = described(ro__soc__manufacturer="QTI", ro__soc__model="SM8550")
    old = described(ro__board__platform="msm8998", ro__hardware="qcom")  # to Android 11
    others = described(ro__hardware="exynos9820"), described()
    chips = [environment.device.soc for environment in (new, old, *others)]
    assert chips == ["QTI SM8550", "msm8998", "exynos9820", None]


def test_phones_are_told_apart_by_their_own_serial_number_and_emulators_by_adbs():
    def device_id(serial: str, **values: str) -> str | None:
        return described(serial, **values).device.id

    phone = {"ro__serialno": "0123456789ABCD"}
    assert device_id("192.168.1.20:5555", **phone) == device_id("0123456789ABCD", **phone)
    emulator = {"ro__serialno": "EMULATOR34X2X19X0", "ro__boot__qemu": "1"}  # on all of them
    assert device_id("emulator-5554", **emulator) != device_id("emulator-5556", **emulator)
    assert device_id("emulator-5554", **emulator) == device_id("emulator-5554", **emulator)


def probe_with(
    *khz: int, programs: str = "/system/bin/taskset", **more: str
) -> device_backend.DeviceEnvironment:
    return parse_environment(answers(max_clocks=clocks(*khz), programs=programs, **more), "x")


def test_capacity_tells_cores_of_one_clock_apart_and_taskset_binds_to_them():
    told = clocks(512, 512, 1024, 1024)
    assert probe_with(*(2000000,) * 4, capacities=told).mask("big") == "c"
    without = "".join(f"/sys/devices/system/cpu/cpu{n}\n" for n in range(4))
    assert probe_with(1000000, 2000000, 2000000, 2000000, capacities=without).mask("big") == "e"
    with pytest.raises(errors.BenchmarkError, match="a device with `taskset`"):
        probe_with(1, 2, programs="").mask("3")


@pytest.mark.slow
def test_a_phone_is_described_in_one_trip(connect):
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    described = device_backend.read_environment(phone)
    assert described.device.model_dump() == {
        "name": "Google Pixel 8",
        "id": hashlib.sha256(b"0123456789ABCD").hexdigest()[:12],
        "fingerprint": "google/shiba/shiba:14/AP2A.240805.005/12025142:user/release-keys",
        "soc": "Google Tensor G3",
        "abi": "arm64-v8a",
        "os": "Android 14 (API 34)",
        "kernel": "Linux 5.15.137-android14-11",
        "cores_logical": 9,
        "cores_physical": 9,
        "max_frequencies_mhz": (*(1704.0,) * 4, *(2367.0,) * 4, 2914.0),
        "cpu_flags": ("asimd", "asimdhp", "asimddp", "i8mm", "bf16"),
        "governor": "sched_pixel",
        "memory_bytes": 7781548 * 1024,
    }
    assert (described.kind, described.abis) == ("phone", ("arm64-v8a",))
    assert described.has_taskset
    assert described.mask("big") == "1f0"
    assert len(daemon.commands) == 1


@pytest.mark.slow
def test_a_missing_program_is_noticed_and_a_device_that_tells_nothing_an_error(connect):
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    daemon.path("/system/bin/taskset").unlink()
    assert not device_backend.read_environment(phone).has_taskset
    daemon = connect()
    (phone,) = measuring.choose([daemon.serial])
    daemon.path("/says/getprop").write_text("")
    with pytest.raises(errors.BenchmarkError, match="expected its properties"):
        device_backend.read_environment(phone)
