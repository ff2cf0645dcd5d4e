"""No serial number gets into a result: a hash stands for it wherever texts name one."""

import pathlib

import pytest
from benchmark_results import PHONE, assembled, repetitions

from tfdistill.benchmark import environment, schema
from tfdistill.benchmark.adb import device_backend, measuring
from tfdistill.benchmark.adb.phone import Phone
from tfdistill.commands import benchmarks

USB, NETWORK = Phone("adb", "R5CT1234"), Phone("adb", "192.168.1.5:5555", "Pixel_8")


def result_of(device, *texts, command=()):
    failures = [schema.Failure(what=f"what: {text}", error=f"error: {text}") for text in texts]
    rows = repetitions(2.0)
    value = assembled(rows, device=device, failures=failures, notes=texts)
    return value.model_copy(update={"command": command})


def test_texts_of_every_result_name_every_device_by_its_id():
    other = PHONE.model_copy(update={"id": "ba9876543210"})
    left = "x was left on R5CT1234: error: device 'R5CT1234' not found. adb -s R5CT1234 shell rm x"
    command = ("--serial", "R5CT1234", "--serial=192.168.1.5:5555", "--out", "a.json")
    values = [
        result_of(PHONE, left, command=command),
        result_of(other, "`getprop` on 192.168.1.5:5555: gone", command=command),
    ]
    shown = {}
    described = [PHONE, other]
    one, two = (measuring.hide_serials(value, [USB, NETWORK], described, shown) for value in values)
    hidden = left.replace("R5CT1234", "0123456789ab")
    assert one.failures == (schema.Failure(what=f"what: {hidden}", error=f"error: {hidden}"),)
    assert hidden in one.notes
    assert two.failures[0].error == "error: `getprop` on ba9876543210: gone"
    for value in (one, two):
        assert value.command[1:3] == ("0123456789ab", "--serial=ba9876543210")
        text = value.model_dump_json()
        assert "R5CT1234" not in text and "192.168.1.5" not in text
    assert shown == {"0123456789ab": "R5CT1234", "ba9876543210": "192.168.1.5:5555"}
    assert one.measurements == values[0].measurements


@pytest.mark.parametrize("text", ["breakfast, 8 tokens", "fast2", "run.fast"])
def test_a_serial_inside_of_a_word_is_none(text):
    short = Phone("adb", "fast")
    one = measuring.hide_serials(result_of(PHONE, text), [short], [PHONE])
    assert one.failures[0].error == f"error: {text}"


def test_devices_whose_serials_or_ids_are_alike_are_told_apart():
    one, two = Phone("adb", "emulator"), Phone("adb", "emulator-5554")
    other = PHONE.model_copy(update={"id": "ba9876543210"})
    said = result_of(PHONE, "on emulator-5554", "on emulator")
    hidden = measuring.hide_serials(said, [one, two], [PHONE, other])
    assert [row.error for row in hidden.failures] == [
        "error: on ba9876543210",
        "error: on 0123456789ab",
    ]
    shown = {}
    said = result_of(PHONE, "on R5CT1234", "on 192.168.1.5:5555")
    other = PHONE.model_copy(update={"id": "ba9876543210"})
    third = Phone("adb", "third")
    hidden = measuring.hide_serials(said, [USB, third, NETWORK], [PHONE, other, PHONE], shown)
    names = ["0123456789ab", "0123456789ab-1"]
    assert [row.error for row in hidden.failures] == [f"error: on {name}" for name in names]
    assert [shown[name] for name in names] == [USB.serial, NETWORK.serial]
    # The files are numbered in the same way.
    paths = benchmarks.choose_paths(
        pathlib.Path("a.json"), [PHONE.id, other.id, PHONE.id], several=True, overwrite=True
    )
    assert [path.stem for path in paths] == ["a-0123456789ab", "a-ba9876543210", "a-0123456789ab-1"]


def test_a_device_that_told_nothing_is_known_by_a_hash_and_not_by_its_serial():
    assert device_backend.unknown_device(NETWORK).name == "Pixel_8"
    unknown = device_backend.unknown_device(USB)
    assert unknown.name == "unknown device"
    assert unknown.id == environment.short_hash("R5CT1234")
    hidden = measuring.hide_serials(result_of(unknown, "lost R5CT1234"), [USB], [unknown])
    assert hidden.failures[0].error == f"error: lost {unknown.id}"
